/// The two 16-bit float formats, as bit patterns.
///
/// Both are a sign, an exponent and a fraction, so one pair of functions serves both. Rounding is to nearest, ties to
/// even, straight from the double: going through float32 first would round twice.
library;

import 'dart:typed_data';

/// The bits of the IEEE half-precision number nearest to [value].
int float16Bits(double value) => _encode(value, fractionBits: 10, exponentBias: 15);

/// The number that these IEEE half-precision [bits] stand for.
double float16Value(int bits) => _decode(bits, fractionBits: 10, exponentBias: 15);

/// The bits of the bfloat16 number nearest to [value].
int bfloat16Bits(double value) => _encode(value, fractionBits: 7, exponentBias: 127);

/// The number that these bfloat16 [bits] stand for.
double bfloat16Value(int bits) => _decode(bits, fractionBits: 7, exponentBias: 127);

int _encode(double value, {required int fractionBits, required int exponentBias}) {
  final sign = value.isNegative ? 0x8000 : 0;
  final infinity = (2 * exponentBias + 1) << fractionBits;
  if (value.isNaN) return infinity | 1 << (fractionBits - 1);
  final magnitude = value.abs();
  if (magnitude >= _powerOfTwo(exponentBias + 1)) return sign | infinity;
  final least = 1 - exponentBias;
  final exponent = _exponent(magnitude) < least ? least : _exponent(magnitude);
  // In units of the last place: exact, because it only shifts the exponent. The leading one of a normal number and a
  // carry of the rounding both add one to the stored exponent, which is what the sum below needs.
  final units = _roundToEven(magnitude * _powerOfTwo(fractionBits - exponent));
  return sign | (((exponent - least) << fractionBits) + units);
}

double _decode(int bits, {required int fractionBits, required int exponentBias}) {
  final sign = bits & 0x8000 == 0 ? 1.0 : -1.0;
  final stored = (bits & 0x7fff) >> fractionBits;
  final fraction = bits & ((1 << fractionBits) - 1);
  if (stored == 2 * exponentBias + 1) return fraction == 0 ? sign * double.infinity : double.nan;
  final units = stored == 0 ? fraction : fraction + (1 << fractionBits);
  final exponent = (stored == 0 ? 1 : stored) - exponentBias;
  return sign * units * _powerOfTwo(exponent - fractionBits);
}

/// Of a number that is not negative and below 2^53, so that its integer neighbours are exact.
int _roundToEven(double number) {
  final below = number.floor();
  final rest = number - below;
  final up = rest > 0.5 || (rest == 0.5 && below.isOdd);
  return up ? below + 1 : below;
}

/// The stored exponent of a double, unbiased; that of zero and the subnormal doubles is below all of interest here.
int _exponent(double magnitude) => ((ByteData(8)..setFloat64(0, magnitude)).getUint16(0) >> 4) - 1023;

/// For exponents of normal doubles.
double _powerOfTwo(int exponent) => (ByteData(8)..setUint16(0, (exponent + 1023) << 4)).getFloat64(0);
