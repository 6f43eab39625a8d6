/// Reads the golden values of PyTorch: `.npz` files, which are zip archives of `.npy` arrays.
library;

import 'dart:convert';
import 'dart:io';
import 'dart:typed_data';

import 'package:sconce/sconce.dart';

/// The arrays of the file at [path] by name, but for those to [skip]. Where NumPy lacks a type (bfloat16), the caller
/// says what the bits are.
Map<String, TensorData> readNpz(String path, {Set<String> skip = const {}}) {
  final file = File(path).readAsBytesSync();
  final bytes = ByteData.sublistView(file);
  int short(int at) => bytes.getUint16(at, Endian.little);
  int word(int at) => bytes.getUint32(at, Endian.little);
  // The archive ends with 22 bytes that tell where the directory is; an entry tells where its data are.
  final end = file.length - 22;
  final arrays = <String, TensorData>{};
  var entry = word(end + 16);
  for (var left = short(end + 10); left > 0; left--) {
    final nameLength = short(entry + 28);
    final name = utf8.decode(file.sublist(entry + 46, entry + 46 + nameLength));
    final header = word(entry + 42);
    final start = header + 30 + short(header + 26) + short(header + 28);
    final stored = file.sublist(start, start + word(entry + 20));
    final npy = short(entry + 10) == 0 ? stored : ZLibDecoder(raw: true).convert(stored);
    final array = name.replaceFirst('.npy', '');
    if (!skip.contains(array)) arrays[array] = _readNpy(Uint8List.fromList(npy));
    entry += 46 + nameLength + short(entry + 30) + short(entry + 32);
  }
  return arrays;
}

const _types = {
  '<f4': TensorType.float32,
  '<f8': TensorType.float64,
  '<f2': TensorType.float16,
  '<i8': TensorType.int64,
  '<i4': TensorType.int32,
  '<i2': TensorType.int16,
  '|i1': TensorType.int8,
  '|u1': TensorType.uint8,
  '<u2': TensorType.uint16,
  '|b1': TensorType.bool_,
};

TensorData _readNpy(Uint8List file) {
  final start = 10 + ByteData.sublistView(file).getUint16(8, Endian.little);
  final header = latin1.decode(file.sublist(10, start));
  final type = RegExp("'descr': '([^']*)'").firstMatch(header)![1];
  final shape = RegExp(r"'shape': \(([^)]*)\)").firstMatch(header)![1]!;
  return TensorData(
    shape: [for (final size in shape.split(',')) if (size.trim().isNotEmpty) int.parse(size)],
    dataType: _types[type]!,
    data: file.sublist(start),
  );
}
