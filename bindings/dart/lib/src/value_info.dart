/// What goes into a method and what comes out of it.
library;

import 'tensor.dart';

/// What a value is. The numbers are those of the C interface.
enum ValueKind {
  /// Nothing.
  none,

  /// A tensor.
  tensor,

  /// An integer.
  integer,

  /// A floating-point number.
  number,

  /// True or false.
  boolean,

  /// Text.
  string,

  /// A list, which cannot be passed.
  list,
}

/// An input or output of a method.
final class ValueInfo {
  /// A description.
  const ValueInfo({
    required this.kind,
    this.dataType,
    this.shape = const [],
    this.minimumShape = const [],
    this.isDynamic = false,
    this.name,
  });

  /// What it is.
  final ValueKind kind;

  /// Of a tensor: its element type; null for one that [TensorType] lacks.
  final TensorType? dataType;

  /// Of a tensor: its sizes, the largest ones if they may differ from run to run.
  final List<int> shape;

  /// Of a tensor: the least sizes; equal to [shape] unless [isDynamic].
  final List<int> minimumShape;

  /// Whether the sizes may differ from run to run.
  final bool isDynamic;

  /// Its name, where the program records one.
  final String? name;

  @override
  String toString() {
    if (kind != ValueKind.tensor) return kind.name;
    return '${dataType?.name ?? 'tensor'} ${isDynamic ? '$minimumShape to $shape' : '$shape'}';
  }
}
