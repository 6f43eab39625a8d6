/// Which library is used, and whether it fits.
///
/// Each isolate opens the library for itself (the operating system loads it once). The isolate of a model is told where
/// the one that asked for the model found it.
library;

import 'dart:ffi';
import 'dart:io';

import 'bindings.dart';
import 'exceptions.dart';
import 'native_memory.dart';

/// The native library, `libexecutorch_ffi`.
///
/// It is looked for when it is first needed: at the path given to [open], else at the path in the environment variable
/// `EXECUTORCH_FFI_LIBRARY`, else under its usual name beside the executable, else in the process itself and wherever
/// the system looks for libraries.
abstract final class ExecuTorch {
  /// The environment variable that says where the library is.
  static const libraryVariable = 'EXECUTORCH_FFI_LIBRARY';

  static NativeLibrary? _library;

  /// Uses the library at [path], in this isolate. Before anything else is done with this package.
  static void open(String path) {
    final already = _library;
    if (already != null && already.path != path) {
      throw ExecuTorchException(
        ExecuTorchErrorKind.invalidState,
        'The library is already open (${already.path ?? 'in this process'}): call ExecuTorch.open first of all.',
      );
    }
    _library ??= NativeLibrary.open(path);
  }

  /// Whether the library writes a line to stderr for each load, run and error.
  static set debugLogging(bool enabled) => nativeLibrary.bindings.setDebugEnabled(enabled ? 1 : 0);
}

/// The library of this isolate, opened now if it was not.
NativeLibrary get nativeLibrary => ExecuTorch._library ??= NativeLibrary._find();

/// An opened library whose version was checked.
final class NativeLibrary {
  NativeLibrary._(this.path, DynamicLibrary library) : bindings = Bindings(library) {
    _requireVersion();
  }

  /// Opens the library at [path]; null: in this process.
  factory NativeLibrary.open(String? path) {
    try {
      return NativeLibrary._(path, path == null ? DynamicLibrary.process() : DynamicLibrary.open(path));
    } on ArgumentError catch (error) {
      throw ExecuTorchException(ExecuTorchErrorKind.ioError, 'The library $path cannot be opened: ${error.message}');
    }
  }

  factory NativeLibrary._find() {
    final named = Platform.environment[ExecuTorch.libraryVariable];
    if (named != null && named.isNotEmpty) return NativeLibrary.open(named);
    final folder = File(Platform.resolvedExecutable).parent.path;
    final beside = [for (final place in _placesBesideExecutable) '$folder$place/$_usualName'];
    for (final path in beside) {
      if (File(path).existsSync()) return NativeLibrary.open(path);
    }
    if (!Platform.isWindows && DynamicLibrary.process().providesSymbol('et_abi_version')) {
      return NativeLibrary.open(null);
    }
    try {
      return NativeLibrary.open(_usualName);
    } on ExecuTorchIOException catch (error) {
      throw ExecuTorchException(
        ExecuTorchErrorKind.ioError,
        '$_usualName was not found: there is no ${beside.join(' and no ')}, and the system does not find it '
        '(${error.message}). Put it there, set ${ExecuTorch.libraryVariable} to its path, or call '
        'ExecuTorch.open(path).',
      );
    }
  }

  /// Where it is; null: in this process.
  final String? path;

  /// Its functions.
  final Bindings bindings;

  /// Throws what [status] says unless it says that all is well; frees it in any case.
  void check(Pointer<ETStatus> status) {
    final failure = takeFailure(status);
    if (failure != null) throw failure;
  }

  /// What [status] says, as an exception; null if all is well. Frees it.
  ExecuTorchException? takeFailure(Pointer<ETStatus> status) {
    try {
      final outcome = status.ref;
      if (outcome.code == 0) return null;
      final message = outcome.message.text ?? 'The library gives no reason.';
      return ExecuTorchException(ExecuTorchErrorKind.fromCode(outcome.code), message, location: outcome.location.text);
    } finally {
      bindings.statusFree(status);
    }
  }

  void _requireVersion() {
    String dotted(int version) => '${version >> 16}.${version & 0xffff}';
    final found = bindings.has('et_abi_version') ? bindings.abiVersion() : null;
    if (found != null && found >> 16 == requiredAbiVersion >> 16 && found >= requiredAbiVersion) return;
    throw ExecuTorchException(
      ExecuTorchErrorKind.unsupported,
      'The library ${path ?? 'in this process'} has '
      '${found == null ? 'no interface version' : 'version ${dotted(found)} of the interface'}, but this package needs '
      '${dotted(requiredAbiVersion)} or a later ${requiredAbiVersion >> 16}.x: use library and package of one release.',
    );
  }

  static String get _usualName =>
      Platform.isWindows
          ? 'executorch_ffi.dll'
          : Platform.isMacOS || Platform.isIOS
          ? 'libexecutorch_ffi.dylib'
          : 'libexecutorch_ffi.so';

  /// Where applications keep libraries: with the executable, in `lib` of a Linux bundle, in an application of macOS.
  static const _placesBesideExecutable = ['', '/lib', '/../Frameworks'];
}
