/// The C interface as Dart functions: `executorch_ffi.h`, as far as this package uses it.
///
/// Structs and signatures follow the header line by line. Functions are looked up when they are first used.
library;

import 'dart:ffi';

import 'native_memory.dart';

/// The version of the interface that this package was written for: the upper 16 bits must agree, and the lower ones of
/// the library must not be less.
const int requiredAbiVersion = 0x00020001;

final class ETModule extends Opaque {}

final class ETTensor extends Opaque {}

final class ETStatus extends Struct {
  @Int32()
  external int code;
  external Pointer<Utf8String> message;
  external Pointer<Utf8String> location;
}

final class ETValueContent extends Union {
  external Pointer<ETTensor> tensor;
  @Int64()
  external int integer;
  @Double()
  external double number;
  @Int32()
  external int boolean;
  external Pointer<Utf8String> string;
}

final class ETValue extends Struct {
  @Int32()
  external int kind;
  external ETValueContent content;
}

final class ETValueInfo extends Struct {
  @Size()
  external int size;
  @Int32()
  external int kind;
  @Int32()
  external int dtype;
  @Int32()
  external int rank;
  @Int32()
  external int dynamic_;
  external Pointer<Int64> minimum;
  external Pointer<Int64> maximum;
  external Pointer<Utf8String> name;
}

final class ETLoadOptions extends Struct {
  @Size()
  external int size;
  @Int32()
  external int threads;
  @Int32()
  external int engine;
  @Int32()
  external int exact;
  @Int32()
  external int copy;
  @Uint64()
  external int memoryLimit;
  @Uint64()
  external int instructionLimit;
  external Pointer<Pointer<Utf8String>> dataPaths;
  @Int32()
  external int dataPathCount;
  @Int32()
  external int rounding;
}

final class ETCandidate extends Struct {
  external Pointer<Utf8String> path;
  external Pointer<ETLoadOptions> options;
}

typedef Status = Pointer<ETStatus>;
typedef Text = Pointer<Utf8String>;
typedef Module = Pointer<ETModule>;
typedef Tensor = Pointer<ETTensor>;

/// The functions of one opened library.
final class Bindings {
  Bindings(this._library);

  final DynamicLibrary _library;

  /// Whether the library has a function of this name.
  bool has(String name) => _library.providesSymbol(name);

  late final abiVersion = _library.lookupFunction<Uint32 Function(), int Function()>('et_abi_version');
  late final version = _library.lookupFunction<Text Function(), Text Function()>('et_version');
  late final executorchVersion = _library.lookupFunction<Text Function(), Text Function()>('et_executorch_version');
  late final setDebugEnabled = _library.lookupFunction<Void Function(Int32), void Function(int)>(
    'et_set_debug_enabled',
  );
  late final statusFree = _library.lookupFunction<Void Function(Status), void Function(Status)>('et_status_free');
  late final stringFree = _library.lookupFunction<Void Function(Text), void Function(Text)>('et_string_free');

  late final backendAvailable = _library.lookupFunction<Int32 Function(Int32), int Function(int)>(
    'et_backend_available',
  );
  late final backendRegisteredCount = _library.lookupFunction<Int32 Function(), int Function()>(
    'et_backend_registered_count',
  );
  late final backendRegisteredName = _library.lookupFunction<Text Function(Int32), Text Function(int)>(
    'et_backend_registered_name',
  );

  late final tensorBorrow = _library.lookupFunction<
    Status Function(Pointer<Void>, Size, Pointer<Int64>, Int32, Int32, Pointer<Tensor>),
    Status Function(Pointer<Void>, int, Pointer<Int64>, int, int, Pointer<Tensor>)
  >('et_tensor_borrow');
  late final tensorDtype = _library.lookupFunction<Int32 Function(Tensor), int Function(Tensor)>('et_tensor_dtype');
  late final tensorRank = _library.lookupFunction<Int32 Function(Tensor), int Function(Tensor)>('et_tensor_rank');
  late final tensorShape = _library.lookupFunction<Pointer<Int64> Function(Tensor), Pointer<Int64> Function(Tensor)>(
    'et_tensor_shape',
  );
  late final tensorData = _library.lookupFunction<Pointer<Void> Function(Tensor), Pointer<Void> Function(Tensor)>(
    'et_tensor_data',
  );
  late final tensorDataSize = _library.lookupFunction<Size Function(Tensor), int Function(Tensor)>(
    'et_tensor_data_size',
  );
  late final tensorFree = _library.lookupFunction<Void Function(Tensor), void Function(Tensor)>('et_tensor_free');
  late final valueArrayFree = _library
      .lookupFunction<Void Function(Pointer<ETValue>, Int32), void Function(Pointer<ETValue>, int)>(
        'et_value_array_free',
      );

  late final loadOptionsInit = _library
      .lookupFunction<Void Function(Pointer<ETLoadOptions>), void Function(Pointer<ETLoadOptions>)>(
        'et_load_options_init',
      );
  late final moduleLoadWith = _library.lookupFunction<
    Status Function(Pointer<Uint8>, Size, Pointer<ETLoadOptions>, Pointer<Module>),
    Status Function(Pointer<Uint8>, int, Pointer<ETLoadOptions>, Pointer<Module>)
  >('et_module_load_with');
  late final moduleLoadFileWith = _library.lookupFunction<
    Status Function(Text, Pointer<ETLoadOptions>, Pointer<Module>),
    Status Function(Text, Pointer<ETLoadOptions>, Pointer<Module>)
  >('et_module_load_file_with');
  late final moduleLoadBest = _library.lookupFunction<
    Status Function(Pointer<ETCandidate>, Int32, Pointer<Module>, Pointer<Int32>, Pointer<Text>),
    Status Function(Pointer<ETCandidate>, int, Pointer<Module>, Pointer<Int32>, Pointer<Text>)
  >('et_module_load_best');

  /// The address, for the finalizer.
  late final moduleFreePointer = _library.lookup<NativeFunction<Void Function(Module)>>('et_module_free');
  late final moduleFree = moduleFreePointer.asFunction<void Function(Module)>();

  late final moduleMethodCount = _library.lookupFunction<Int32 Function(Module), int Function(Module)>(
    'et_module_method_count',
  );
  late final moduleMethodName = _library.lookupFunction<Text Function(Module, Int32), Text Function(Module, int)>(
    'et_module_method_name',
  );
  late final moduleMethodCounts = _library.lookupFunction<
    Status Function(Module, Text, Pointer<Int32>, Pointer<Int32>),
    Status Function(Module, Text, Pointer<Int32>, Pointer<Int32>)
  >('et_module_method_counts');
  late final moduleInputInfo = _library.lookupFunction<
    Status Function(Module, Text, Int32, Pointer<ETValueInfo>),
    Status Function(Module, Text, int, Pointer<ETValueInfo>)
  >('et_module_input_info');
  late final moduleOutputInfo = _library.lookupFunction<
    Status Function(Module, Text, Int32, Pointer<ETValueInfo>),
    Status Function(Module, Text, int, Pointer<ETValueInfo>)
  >('et_module_output_info');

  late final moduleRun = _library.lookupFunction<
    Status Function(Module, Text, Pointer<ETValue>, Int32, Pointer<Pointer<ETValue>>, Pointer<Int32>),
    Status Function(Module, Text, Pointer<ETValue>, int, Pointer<Pointer<ETValue>>, Pointer<Int32>)
  >('et_module_run');
}
