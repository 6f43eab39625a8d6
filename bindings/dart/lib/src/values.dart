/// Values on their way: from the caller's isolate to that of the model, into native memory, and back.
///
/// Between isolates the bytes of tensors travel as [TransferableTypedData], which is copied when it is made and then
/// moved. Native inputs live in a [NativeScope] for the length of a run; native outputs are freed once they are read.
library;

import 'dart:ffi';
import 'dart:isolate';

import 'bindings.dart';
import 'exceptions.dart';
import 'library.dart';
import 'native_memory.dart';
import 'tensor.dart';
import 'value_info.dart';

/// A tensor between isolates.
final class TravellingTensor {
  TravellingTensor._(this._shape, this._type, this._bytes);

  final List<int> _shape;
  final TensorType _type;
  final TransferableTypedData _bytes;

  /// The tensor, where it arrived.
  TensorData arrive() => TensorData(shape: _shape, dataType: _type, data: _bytes.materialize().asUint8List());
}

/// The [values] of a caller, ready to travel. They may be [TensorData], int, double, bool, String and null.
List<Object?> departing(List<Object?> values) => [
  for (final value in values)
    switch (value) {
      TensorData(:final shape, :final dataType, :final data) => TravellingTensor._(
        List.of(shape),
        dataType,
        TransferableTypedData.fromList([data]),
      ),
      null || int() || double() || bool() || String() => value,
      _ =>
        throw invalidArgument(
          'A ${value.runtimeType} cannot be passed to a method; TensorData, int, double, bool, String and null can.',
        ),
    },
];

/// What [departing] gave, in the other isolate.
List<Object?> arriving(List<Object?> values) => [
  for (final value in values) value is TravellingTensor ? value.arrive() : value,
];

/// The [values] as an array in [scope].
Pointer<ETValue> writeValues(NativeLibrary library, NativeScope scope, List<Object?> values) {
  final array = scope.allocate(values.length * sizeOf<ETValue>()).cast<ETValue>();
  for (final (i, value) in values.indexed) {
    array[i].kind = _writeContent(library, scope, array[i].content, value).index;
  }
  return array;
}

ValueKind _writeContent(NativeLibrary library, NativeScope scope, ETValueContent content, Object? value) {
  switch (value) {
    case final TensorData tensor:
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

Pointer<ETTensor> _writeTensor(NativeLibrary library, NativeScope scope, TensorData tensor) {
  final rank = tensor.shape.length;
  final shape = scope.allocate(rank * sizeOf<Int64>()).cast<Int64>();
  for (final (i, size) in tensor.shape.indexed) {
    shape[i] = size;
  }
  final out = scope.allocate(sizeOf<Pointer<ETTensor>>()).cast<Pointer<ETTensor>>();
  final bytes = scope.copy(tensor.data).cast<Void>();
  final type = tensor.dataType.executorchValue;
  library.check(library.bindings.tensorBorrow(bytes, tensor.data.length, shape, rank, type, out));
  final native = out.value;
  scope.atEnd(() => library.bindings.tensorFree(native));
  return native;
}

/// The [count] values of an [array] that a run returned, ready to travel. The array is freed.
List<Object?> takeValues(NativeLibrary library, Pointer<ETValue> array, int count) {
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

TravellingTensor _readTensor(Bindings bindings, Pointer<ETTensor> tensor) {
  final rank = bindings.tensorRank(tensor);
  final shape = bindings.tensorShape(tensor);
  final size = bindings.tensorDataSize(tensor);
  final data = bindings.tensorData(tensor).cast<Uint8>();
  return TravellingTensor._(
    [for (var i = 0; i < rank; i++) shape[i]],
    TensorType.fromExecuTorchValue(bindings.tensorDtype(tensor)),
    TransferableTypedData.fromList([if (size > 0) data.asTypedList(size)]),
  );
}
