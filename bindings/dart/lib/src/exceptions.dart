/// What can go wrong, as exceptions: one class for each kind of reaction, one kind for each code of the C interface.
library;

/// Which code of the C interface a failure has.
enum ExecuTorchErrorKind {
  /// The call itself is wrong: count, shape, dtype, method.
  invalidArgument(1),

  /// Memory could not be had, or is more than the limits allow.
  outOfMemory(2),

  /// The file is not a program, or damaged.
  modelLoadFailed(3),

  /// An operator or backend failed during a run.
  inferenceFailed(4),

  /// Not now: the model is disposed, the call was dropped, the queue is full.
  invalidState(5),

  /// Operators, backends or features that the library lacks, or a library that does not fit this package.
  unsupported(6),

  /// A file cannot be opened or read.
  ioError(7),

  /// A mistake of the library; please report it.
  internal(99);

  const ExecuTorchErrorKind(this.code);

  /// The number in the C interface.
  final int code;

  /// The kind with this [code]; [internal] for a number that has none.
  static ExecuTorchErrorKind fromCode(int code) =>
      values.firstWhere((kind) => kind.code == code, orElse: () => internal);
}

/// Any failure. [kind] tells programs what happened, [message] tells people.
sealed class ExecuTorchException implements Exception {
  ExecuTorchException._(this.kind, this.message, this.location);

  /// The exception class that belongs to [kind].
  factory ExecuTorchException(ExecuTorchErrorKind kind, String message, {String? location}) => switch (kind) {
    ExecuTorchErrorKind.invalidArgument => ExecuTorchValidationException._(kind, message, location),
    ExecuTorchErrorKind.outOfMemory => ExecuTorchMemoryException._(kind, message, location),
    ExecuTorchErrorKind.modelLoadFailed => ExecuTorchModelException._(kind, message, location),
    ExecuTorchErrorKind.inferenceFailed => ExecuTorchInferenceException._(kind, message, location),
    ExecuTorchErrorKind.invalidState => ExecuTorchStateException._(kind, message, location),
    ExecuTorchErrorKind.ioError => ExecuTorchIOException._(kind, message, location),
    ExecuTorchErrorKind.unsupported ||
    ExecuTorchErrorKind.internal => ExecuTorchPlatformException._(kind, message, location),
  };

  /// What kind of failure this is.
  final ExecuTorchErrorKind kind;

  /// A sentence that says what is wrong and what to do.
  final String message;

  /// `file:line:function` of the library, where the failure is the library's.
  final String? location;

  @override
  String toString() => '$runtimeType (${kind.name}): $message${location == null ? '' : ' [$location]'}';
}

/// The call is wrong: count, shape, dtype, method.
final class ExecuTorchValidationException extends ExecuTorchException {
  ExecuTorchValidationException._(super.kind, super.message, super.location) : super._();
}

/// Memory is short.
final class ExecuTorchMemoryException extends ExecuTorchException {
  ExecuTorchMemoryException._(super.kind, super.message, super.location) : super._();
}

/// The file is not a program, or damaged.
final class ExecuTorchModelException extends ExecuTorchException {
  ExecuTorchModelException._(super.kind, super.message, super.location) : super._();
}

/// A run failed.
final class ExecuTorchInferenceException extends ExecuTorchException {
  ExecuTorchInferenceException._(super.kind, super.message, super.location) : super._();
}

/// The model is disposed, or the call was dropped.
final class ExecuTorchStateException extends ExecuTorchException {
  ExecuTorchStateException._(super.kind, super.message, super.location) : super._();
}

/// A file cannot be opened or read.
final class ExecuTorchIOException extends ExecuTorchException {
  ExecuTorchIOException._(super.kind, super.message, super.location) : super._();
}

/// The library cannot do it, or is itself at fault.
final class ExecuTorchPlatformException extends ExecuTorchException {
  ExecuTorchPlatformException._(super.kind, super.message, super.location) : super._();
}

/// The failure of a call with wrong arguments.
ExecuTorchException invalidArgument(String message) =>
    ExecuTorchException(ExecuTorchErrorKind.invalidArgument, message);
