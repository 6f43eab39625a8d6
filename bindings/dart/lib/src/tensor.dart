/// Tensors as Dart sees them: a shape, an element type and bytes.
///
/// The bytes are row-major and in the byte order of the machine, exactly as the library takes and gives them; numbers
/// are converted only where a caller asks for them.
library;

import 'dart:typed_data';

import 'exceptions.dart';
import 'float16.dart';

/// The element types, with the numbers that the C interface gives them.
enum TensorType {
  /// IEEE single precision.
  float32('Float32', 0, 4),

  /// IEEE double precision.
  float64('Float64', 1, 8),

  /// Signed, 64 bits.
  int64('Int64', 2, 8),

  /// Signed, 32 bits.
  int32('Int32', 3, 4),

  /// Signed, 16 bits.
  int16('Int16', 4, 2),

  /// Signed, 8 bits.
  int8('Int8', 5, 1),

  /// Unsigned, 8 bits.
  uint8('UInt8', 6, 1),

  /// One byte, 0 or 1.
  bool_('Bool', 7, 1),

  /// Unsigned, 16 bits.
  uint16('UInt16', 8, 2),

  /// Unsigned, 32 bits.
  uint32('UInt32', 9, 4),

  /// Unsigned, 64 bits. Dart's integers are signed: values from 2^63 on appear as negative numbers with the same bits.
  uint64('UInt64', 10, 8),

  /// IEEE half precision.
  float16('Float16', 11, 2),

  /// The upper half of a float32.
  bfloat16('BFloat16', 12, 2);

  const TensorType(this.displayName, this.executorchValue, this.sizeInBytes);

  /// The name for people.
  final String displayName;

  /// The number in the C interface.
  final int executorchValue;

  /// Bytes of one element.
  final int sizeInBytes;

  /// The type with this number in the C interface.
  static TensorType fromExecuTorchValue(int value) => values.firstWhere(
    (type) => type.executorchValue == value,
    orElse: () => throw invalidArgument('There is no element type with the number $value; they go from 0 to 12.'),
  );

  /// Whether the elements are integers.
  bool get isInteger => switch (this) {
    float32 || float64 || float16 || bfloat16 || bool_ => false,
    _ => true,
  };

  num _read(ByteData bytes, int offset) => switch (this) {
    float32 => bytes.getFloat32(offset, Endian.host),
    float64 => bytes.getFloat64(offset, Endian.host),
    int64 => bytes.getInt64(offset, Endian.host),
    int32 => bytes.getInt32(offset, Endian.host),
    int16 => bytes.getInt16(offset, Endian.host),
    int8 => bytes.getInt8(offset),
    uint8 || bool_ => bytes.getUint8(offset),
    uint16 => bytes.getUint16(offset, Endian.host),
    uint32 => bytes.getUint32(offset, Endian.host),
    uint64 => bytes.getUint64(offset, Endian.host),
    float16 => float16Value(bytes.getUint16(offset, Endian.host)),
    bfloat16 => bfloat16Value(bytes.getUint16(offset, Endian.host)),
  };

  void _write(ByteData bytes, int offset, num value) => switch (this) {
    float32 => bytes.setFloat32(offset, value.toDouble(), Endian.host),
    float64 => bytes.setFloat64(offset, value.toDouble(), Endian.host),
    int64 => bytes.setInt64(offset, _integer(value), Endian.host),
    int32 => bytes.setInt32(offset, _integer(value), Endian.host),
    int16 => bytes.setInt16(offset, _integer(value), Endian.host),
    int8 => bytes.setInt8(offset, _integer(value)),
    uint8 => bytes.setUint8(offset, _integer(value)),
    bool_ => bytes.setUint8(offset, value == 0 ? 0 : 1),
    uint16 => bytes.setUint16(offset, _integer(value), Endian.host),
    uint32 => bytes.setUint32(offset, _integer(value), Endian.host),
    uint64 => bytes.setUint64(offset, _integer(value), Endian.host),
    float16 => bytes.setUint16(offset, float16Bits(value.toDouble()), Endian.host),
    bfloat16 => bytes.setUint16(offset, bfloat16Bits(value.toDouble()), Endian.host),
  };

  int _integer(num value) {
    if (value is! int) throw invalidArgument('$value is not an integer, and $name takes integers only.');
    if (sizeInBytes < 8) {
      final bits = 8 * sizeInBytes;
      final signed = this == int8 || this == int16 || this == int32;
      final (least, most) = signed ? (-1 << (bits - 1), (1 << (bits - 1)) - 1) : (0, (1 << bits) - 1);
      if (value < least || value > most) {
        throw invalidArgument('$value does not fit $name, which goes from $least to $most.');
      }
    }
    return value;
  }
}

/// Elements with a shape.
final class TensorData {
  /// A tensor over [data], which is not copied. The library checks that shape and bytes agree when it gets the tensor.
  TensorData({required this.shape, required this.dataType, required this.data, this.name});

  /// A tensor with these numbers, row-major, rounded to [dataType] where it is a float type. A number that an integer
  /// type cannot hold is an error; for [TensorType.bool_], all but 0 is true.
  factory TensorData.fromList(
    List<num> values, {
    required List<int> shape,
    TensorType dataType = TensorType.float32,
    String? name,
  }) {
    final bytes = ByteData(values.length * dataType.sizeInBytes);
    for (var i = 0; i < values.length; i++) {
      dataType._write(bytes, i * dataType.sizeInBytes, values[i]);
    }
    return TensorData(shape: shape, dataType: dataType, data: bytes.buffer.asUint8List(), name: name);
  }

  /// The sizes; none for a single number.
  final List<int> shape;

  /// What the elements are.
  final TensorType dataType;

  /// The elements, row-major, in the byte order of the machine.
  final Uint8List data;

  /// What the caller calls it; the library takes inputs by position.
  final String? name;

  /// How many elements [data] holds.
  int get elementCount => data.length ~/ dataType.sizeInBytes;

  /// The elements as numbers; a bool is 0 or 1.
  List<num> toList() {
    final bytes = ByteData.sublistView(data);
    return List.generate(elementCount, (i) => dataType._read(bytes, i * dataType.sizeInBytes), growable: false);
  }

  /// The elements of a float32 tensor, without a copy where [data] is aligned.
  Float32List toFloat32List() {
    if (dataType != TensorType.float32) {
      throw invalidArgument('The tensor is ${dataType.name}, not float32; toList() converts any type.');
    }
    final aligned = data.offsetInBytes % 4 == 0 ? data : Uint8List.fromList(data);
    return aligned.buffer.asFloat32List(aligned.offsetInBytes, elementCount);
  }

  /// The position of the largest element, which is what a classifier answers.
  int argmax() {
    final values = toList();
    var best = 0;
    for (var i = 1; i < values.length; i++) {
      if (values[i] > values[best]) best = i;
    }
    return best;
  }

  @override
  bool operator ==(Object other) =>
      other is TensorData &&
      dataType == other.dataType &&
      name == other.name &&
      _equal(shape, other.shape) &&
      _equal(data, other.data);

  @override
  int get hashCode => Object.hash(dataType, name, Object.hashAll(shape), Object.hashAll(data));

  @override
  String toString() => 'TensorData(${name == null ? '' : '$name: '}${dataType.name} $shape, ${data.length} bytes)';

  static bool _equal(List<int> left, List<int> right) {
    if (left.length != right.length) return false;
    for (var i = 0; i < left.length; i++) {
      if (left[i] != right[i]) return false;
    }
    return true;
  }
}
