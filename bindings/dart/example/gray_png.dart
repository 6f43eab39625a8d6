/// Just enough of PNG for small pictures in 8-bit grey, so that the example needs no package. Applications use one.
library;

import 'dart:io';
import 'dart:typed_data';

/// The pixels of a PNG in 8-bit grey that is not interlaced, row by row.
Uint8List readGrayPng(Uint8List file) {
  final bytes = ByteData.sublistView(file);
  final width = bytes.getUint32(16), height = bytes.getUint32(20);
  if (file[24] != 8 || file[25] != 0 || file[28] != 0) throw const FormatException('not a plain PNG in 8-bit grey');
  final compressed = BytesBuilder();
  // Chunks: length, name, data, checksum.
  for (var at = 8; at < file.length; at += 12 + bytes.getUint32(at)) {
    final start = at + 8;
    if (String.fromCharCodes(file, at + 4, start) == 'IDAT') {
      compressed.add(file.sublist(start, start + bytes.getUint32(at)));
    }
  }
  return _unfilter(zlib.decode(compressed.takeBytes()), width, height);
}

/// Each row starts with the number of the neighbour it was subtracted from: none, left, above, their mean, Paeth's.
Uint8List _unfilter(List<int> rows, int width, int height) {
  final pixels = Uint8List(width * height);
  for (var y = 0; y < height; y++) {
    final filter = rows[y * (width + 1)];
    for (var x = 0; x < width; x++) {
      final left = x == 0 ? 0 : pixels[y * width + x - 1];
      final above = y == 0 ? 0 : pixels[(y - 1) * width + x];
      final corner = x == 0 || y == 0 ? 0 : pixels[(y - 1) * width + x - 1];
      final neighbour = [0, left, above, (left + above) >> 1, _paeth(left, above, corner)][filter];
      pixels[y * width + x] = rows[y * (width + 1) + 1 + x] + neighbour;
    }
  }
  return pixels;
}

/// Whichever neighbour is nearest to left + above - corner.
int _paeth(int left, int above, int corner) {
  final toLeft = (above - corner).abs(), toAbove = (left - corner).abs(), toCorner = (left + above - 2 * corner).abs();
  if (toLeft <= toAbove && toLeft <= toCorner) return left;
  return toAbove <= toCorner ? above : corner;
}
