/// Values on their way: from the caller's isolate to that of the model, into native memory, and back.
///
/// The bytes of inputs are copied once, into native memory, which belongs to the isolate of the model as soon as the
/// message is sent; it frees them after the run. The bytes of outputs are copied once, out of the library's memory, and
/// then moved between the isolates.
library;

import 'dart:ffi';
import 'dart:isolate';

import 'bindings.dart';
import 'exceptions.dart';
import 'library.dart';
import 'native_memory.dart';
import 'tensor.dart';
import 'value_info.dart';

/// An input on its way to the model. Whoever receives it owns its memory.
final class InputTensor {
  InputTensor._(TensorData tensor)
    : _shape = List.of(tensor.shape),
      _type = tensor.dataType,
      _size = tensor.data.length,
      _address = nativeCopy(tensor.data).address;

  final List<int> _shape;
  final TensorType _type;
  final int _size;
  final int _address;
}

/// An output on its way to the caller.
final class OutputTensor {
  OutputTensor._(this._shape, this._type, this._bytes);

  final List<int> _shape;
  final TensorType _type;
  final TransferableTypedData _bytes;

  TensorData _arrive() => TensorData(shape: _shape, dataType: _type, data: _bytes.materialize().asUint8List());
}

/// The [values] of a caller, ready to be sent. They may be [TensorData], int, double, bool, String and null.
List<Object?> departingInputs(List<Object?> values) {
  for (final value in values) {
    if (value is TensorData || value is num || value is bool || value is String || value == null) continue;
    throw invalidArgument(
      'A ${value.runtimeType} cannot be passed to a method; TensorData, int, double, bool, String and null can.',
    );
  }
  return [for (final value in values) value is TensorData ? InputTensor._(value) : value];
}

/// The [outputs] that the isolate of the model sent.
List<Object?> arrivedOutputs(List<Object?> outputs) => [
  for (final output in outputs) output is OutputTensor ? output._arrive() : output,
];

/// The [inputs] that a caller sent, as an array in [scope], which now owns them.
Pointer<ETValue> writeInputs(NativeLibrary library, NativeScope scope, List<Object?> inputs) {
  for (final input in inputs) {
    if (input is InputTensor) scope.adopt(Pointer.fromAddress(input._address));
  }
  final array = scope.allocate(inputs.length * sizeOf<ETValue>()).cast<ETValue>();
  for (final (i, input) in inputs.indexed) {
    array[i].kind = _writeContent(library, scope, array[i].content, input).index;
  }
  return array;
}

ValueKind _writeContent(NativeLibrary library, NativeScope scope, ETValueContent content, Object? input) {
  switch (input) {
    case final InputTensor tensor:
      content.tensor = _writeTensor(library, scope, tensor);
      return ValueKind.tensor;
    case final int integer:
      content.integer = integer;
      return ValueKind.integer;
    case final double number:
      content.number = number;
      return ValueKind.number;
    case final bool boolean:
      content.boolean = boolean ? 1 : 0;
      return ValueKind.boolean;
    case final String text:
      content.string = scope.string(text);
      return ValueKind.string;
    default:
      return ValueKind.none;
  }
}

Pointer<ETTensor> _writeTensor(NativeLibrary library, NativeScope scope, InputTensor tensor) {
  final rank = tensor._shape.length;
  final shape = scope.allocate(rank * sizeOf<Int64>()).cast<Int64>();
  for (final (i, size) in tensor._shape.indexed) {
    shape[i] = size;
  }
  final out = scope.allocate(sizeOf<Pointer<ETTensor>>()).cast<Pointer<ETTensor>>();
  final bytes = Pointer<Void>.fromAddress(tensor._address);
  library.check(
    library.bindings.tensorBorrow(bytes, tensor._size, shape, rank, tensor._type.executorchValue, out),
  );
  final native = out.value;
  scope.atEnd(() => library.bindings.tensorFree(native));
  return native;
}

/// The [count] values of an [array] that a run returned, ready to be sent. The array is freed.
List<Object?> takeOutputs(NativeLibrary library, Pointer<ETValue> array, int count) {
  try {
    return [for (var i = 0; i < count; i++) _readValue(library.bindings, array[i])];
  } finally {
    library.bindings.valueArrayFree(array, count);
  }
}

Object? _readValue(Bindings bindings, ETValue value) => switch (ValueKind.values[value.kind]) {
  ValueKind.none => null,
  ValueKind.tensor => _readTensor(bindings, value.content.tensor),
  ValueKind.integer => value.content.integer,
  ValueKind.number => value.content.number,
  ValueKind.boolean => value.content.boolean != 0,
  ValueKind.string => value.content.string.text,
  ValueKind.list => throw ExecuTorchException(ExecuTorchErrorKind.internal, 'A run returned a list as one value.'),
};

OutputTensor _readTensor(Bindings bindings, Pointer<ETTensor> tensor) {
  final type = bindings.tensorDtype(tensor);
  if (type < 0) {
    throw ExecuTorchException(
      ExecuTorchErrorKind.unsupported,
      'An output has elements of a type that TensorType lacks, such as complex numbers; let the program return their '
      'real and imaginary parts.',
    );
  }
  final rank = bindings.tensorRank(tensor);
  final shape = bindings.tensorShape(tensor);
  final size = bindings.tensorDataSize(tensor);
  final data = bindings.tensorData(tensor).cast<Uint8>();
  return OutputTensor._(
    [for (var i = 0; i < rank; i++) shape[i]],
    TensorType.fromExecuTorchValue(type),
    TransferableTypedData.fromList([if (size > 0) data.asTypedList(size)]),
  );
}
