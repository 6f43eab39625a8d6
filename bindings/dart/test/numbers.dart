/// Tensors and 16-bit floats, without the library.
library;

import 'dart:typed_data';

import 'package:sconce/sconce.dart';

import 'check.dart';

void numberTests() {
  test('float16: values of the IEEE format', () {
    for (final (value, bits) in [
      (0.0, 0x0000),
      (-0.0, 0x8000),
      (1.0, 0x3c00),
      (-2.0, 0xc000),
      (65504.0, 0x7bff), // the largest
      (6.103515625e-05, 0x0400), // 2^-14, the least normal one
      (5.960464477539063e-08, 0x0001), // 2^-24, the least of all
      (double.infinity, 0x7c00),
      (double.negativeInfinity, 0xfc00),
    ]) {
      expect(float16Bits(value), bits, value);
      expect(float16Value(bits), value, bits);
    }
  });
  test('float16: rounding at the edges', () {
    expect(float16Bits(65519.99), 0x7bff, 'below the middle between the largest and the next');
    expect(float16Bits(65520), 0x7c00, 'the middle goes to even, which is infinity');
    expect(float16Bits(1e300), 0x7c00);
    expect(float16Bits(2.98023223876953125e-08), 0x0000, '2^-25, the middle between 0 and the least');
    expect(float16Bits(2.9802322387695316e-08), 0x0001, 'just above it');
    expect(float16Bits(5e-324), 0x0000, 'the least double');
    expect(float16Bits(1 + 1 / 2048 + 1 / (1 << 40)), 0x3c01, 'through float32 this would be a tie, and 1');
    expect(float16Value(float16Bits(double.nan)), double.nan);
  });
  test('bfloat16: values and rounding', () {
    for (final (value, bits) in [
      (1.0, 0x3f80),
      (-0.0, 0x8000),
      (3.3895313892515355e38, 0x7f7f), // (2 - 2^-7) * 2^127, the largest
      (double.infinity, 0x7f80),
      (double.negativeInfinity, 0xff80),
    ]) {
      expect(bfloat16Bits(value), bits, value);
      expect(bfloat16Value(bits), value, bits);
    }
    expect(bfloat16Bits(1 + 1 / 256), 0x3f80, 'a tie goes to even, down');
    expect(bfloat16Bits(1 + 3 / 256), 0x3f82, 'a tie goes to even, up');
    expect(bfloat16Bits(1 + 1 / 256 + 1 / (1 << 40)), 0x3f81, 'through float32 this would be a tie');
    expect(bfloat16Bits(3.3961775292304957e38), 0x7f80, '(2 - 2^-8) * 2^127, the middle before infinity');
    expect(bfloat16Value(bfloat16Bits(double.nan)), double.nan);
  });
  for (final (name, encode, decode, infinity) in [
    ('float16', float16Bits, float16Value, 0x7c00),
    ('bfloat16', bfloat16Bits, bfloat16Value, 0x7f80),
  ]) {
    test('$name: every number comes back, and every middle goes to the even neighbour', () {
      for (var bits = 0; bits < infinity; bits++) {
        expect(encode(decode(bits)), bits);
        expect(encode(-decode(bits)), bits | 0x8000);
        if (bits + 1 == infinity) continue;
        final middle = (decode(bits) + decode(bits + 1)) / 2;
        expect(encode(middle), bits.isEven ? bits : bits + 1, middle);
      }
    });
  }
  test('all element types come back from TensorData', () {
    for (final (type, values) in [
      (TensorType.float32, [0.0, -1.5, 3.4028234663852886e38, double.infinity]),
      (TensorType.float64, [0.1, -1e300, 5e-324, double.negativeInfinity]),
      (TensorType.int64, [0, -1, 0x7fffffffffffffff, -0x8000000000000000]),
      (TensorType.int32, [0, -1, 0x7fffffff, -0x80000000]),
      (TensorType.int16, [0, -1, 32767, -32768]),
      (TensorType.int8, [0, -1, 127, -128]),
      (TensorType.uint8, [0, 1, 128, 255]),
      (TensorType.bool_, [0, 1, 1, 0]),
      (TensorType.uint16, [0, 1, 32768, 65535]),
      (TensorType.uint32, [0, 1, 0x80000000, 0xffffffff]),
      (TensorType.uint64, [0, 1, 0x7fffffffffffffff, -1]), // -1 has the bits of 2^64 - 1
      (TensorType.float16, [0.0, -1.5, 65504.0, double.infinity]),
      (TensorType.bfloat16, [0.0, -1.5, 256.0, double.infinity]),
    ]) {
      final tensor = TensorData.fromList(values, shape: [2, 2], dataType: type);
      expect(tensor.data.length, 4 * type.sizeInBytes, type);
      expect(tensor.toList(), values, type);
      expect(TensorType.fromExecuTorchValue(type.executorchValue), type);
    }
    expect(TensorType.values.length, 13);
  });
  test('numbers that a type cannot hold are refused', () async {
    for (final (type, value) in [
      (TensorType.int8, 128),
      (TensorType.int8, -129),
      (TensorType.uint8, -1),
      (TensorType.uint8, 256),
      (TensorType.int32, 0x80000000),
      (TensorType.uint32, 0x100000000),
      (TensorType.int64, 1.5),
    ]) {
      await expectFailure(
        ExecuTorchErrorKind.invalidArgument,
        () => TensorData.fromList([value], shape: [], dataType: type),
        words: ['$value', type.name],
      );
    }
    await expectFailure(ExecuTorchErrorKind.invalidArgument, () => TensorType.fromExecuTorchValue(13), words: ['13']);
  });
  test('float32 elements are read where they lie, aligned or not', () {
    final bytes = Uint8List(9)..setAll(1, TensorData.fromList([1.5, -2.0], shape: [2]).data);
    final shifted = TensorData(shape: [2], dataType: TensorType.float32, data: Uint8List.sublistView(bytes, 1));
    expect(shifted.toFloat32List(), [1.5, -2.0]);
    expect(shifted.toList(), [1.5, -2.0]);
    final plain = TensorData.fromList([1.5, -2.0], shape: [2]);
    plain.toFloat32List()[0] = 7;
    expect(plain.toList(), [7.0, -2.0], 'a view, not a copy');
  });
  test('tensors are equal when type, shape, bytes and name are', () {
    TensorData make({List<int> shape = const [2], String? name}) =>
        TensorData.fromList([1, 2], shape: shape, name: name);
    expect(make() == make(), true);
    expect(make().hashCode, make().hashCode);
    expect(make() == make(shape: [1, 2]), false);
    expect(make() == make(name: 'x'), false);
    expect(make().argmax(), 1);
  });
}
