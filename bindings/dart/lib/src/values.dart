/// Dart values as values of the C interface, and back.
///
/// Inputs live in a [NativeScope]: tensors lie over a copy of their bytes in it, so that each byte is copied once.
/// Outputs are copied out and freed at once.
library;

import 'dart:ffi';
import 'dart:typed_data';

import 'bindings.dart';
import 'exceptions.dart';
import 'library.dart';
import 'native_memory.dart';
import 'tensor.dart';
import 'value_info.dart';

/// The [values] as an array in [scope]. They may be [TensorData], int, double, bool, String and null.
Pointer<ETValue> writeValues(NativeLibrary library, NativeScope scope, List<Object?> values) {
  final array = scope.allocate(values.length * sizeOf<ETValue>()).cast<ETValue>();
  for (var i = 0; i < values.length; i++) {
    _writeValue(library, scope, array[i], values[i]);
  }
  return array;
}

void _writeValue(NativeLibrary library, NativeScope scope, ETValue target, Object? value) {
  final content = target.content;
  final ValueKind kind;
  switch (value) {
    case null:
      kind = ValueKind.none;
    case final TensorData tensor:
      kind = ValueKind.tensor;
      content.tensor = _writeTensor(library, scope, tensor);
    case final int integer:
      kind = ValueKind.integer;
      content.integer = integer;
    case final double number:
      kind = ValueKind.number;
      content.number = number;
    case final bool boolean:
      kind = ValueKind.boolean;
      content.boolean = boolean ? 1 : 0;
    case final String text:
      kind = ValueKind.string;
      content.string = scope.string(text);
    default:
      throw invalidArgument(
        'A ${value.runtimeType} cannot be passed to a method; TensorData, int, double, bool, String and null can.',
      );
  }
  target.kind = kind.index;
}

Pointer<ETTensor> _writeTensor(NativeLibrary library, NativeScope scope, TensorData tensor) {
  final shape = scope.allocate(tensor.shape.length * sizeOf<Int64>()).cast<Int64>();
  for (var i = 0; i < tensor.shape.length; i++) {
    shape[i] = tensor.shape[i];
  }
  final out = scope.allocate(sizeOf<Pointer<ETTensor>>()).cast<Pointer<ETTensor>>();
  final bytes = scope.copy(tensor.data);
  library.check(
    library.bindings.tensorBorrow(
      bytes.cast(),
      tensor.data.length,
      shape,
      tensor.shape.length,
      tensor.dataType.executorchValue,
      out,
    ),
  );
  final native = out.value;
  scope.atEnd(() => library.bindings.tensorFree(native));
  return native;
}

/// The [count] values of an [array] that a run returned, which is freed.
List<Object?> takeValues(NativeLibrary library, Pointer<ETValue> array, int count) {
  try {
    return [for (var i = 0; i < count; i++) _readValue(library, array[i])];
  } finally {
    library.bindings.valueArrayFree(array, count);
  }
}

Object? _readValue(NativeLibrary library, ETValue value) => switch (ValueKind.values[value.kind]) {
  ValueKind.none => null,
  ValueKind.tensor => _readTensor(library.bindings, value.content.tensor),
  ValueKind.integer => value.content.integer,
  ValueKind.number => value.content.number,
  ValueKind.boolean => value.content.boolean != 0,
  ValueKind.string => value.content.string.text,
  ValueKind.list => throw ExecuTorchException(ExecuTorchErrorKind.internal, 'A run returned a list as one value.'),
};

TensorData _readTensor(Bindings bindings, Pointer<ETTensor> tensor) {
  final rank = bindings.tensorRank(tensor);
  final shape = bindings.tensorShape(tensor);
  final size = bindings.tensorDataSize(tensor);
  final data = Uint8List(size);
  if (size > 0) data.setAll(0, bindings.tensorData(tensor).cast<Uint8>().asTypedList(size));
  return TensorData(
    shape: [for (var i = 0; i < rank; i++) shape[i]],
    dataType: TensorType.fromExecuTorchValue(bindings.tensorDtype(tensor)),
    data: data,
  );
}
