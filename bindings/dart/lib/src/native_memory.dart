/// Memory outside Dart's heap, with an owner.
///
/// A [NativeScope] frees everything that was made in it at once, so that no path through a call has to remember what it
/// allocated. It is freed by hand, never by the garbage collector: while a call is under way, the library reads and
/// writes this memory from its own threads.
library;

import 'dart:convert';
import 'dart:ffi';
import 'dart:io';
import 'dart:typed_data';

import 'exceptions.dart';

/// The allocator of the process. Windows has no `malloc` that every process exports, but one for its components.
final DynamicLibrary _process = Platform.isWindows ? DynamicLibrary.open('ole32.dll') : DynamicLibrary.process();

final _malloc = _process.lookupFunction<Pointer<Void> Function(Size), Pointer<Void> Function(int)>(
  Platform.isWindows ? 'CoTaskMemAlloc' : 'malloc',
);

final _free = _process.lookupFunction<Void Function(Pointer<Void>), void Function(Pointer<Void>)>(
  Platform.isWindows ? 'CoTaskMemFree' : 'free',
);

Pointer<Uint8> _allocate(int byteCount) {
  final memory = _malloc(byteCount == 0 ? 1 : byteCount).cast<Uint8>();
  if (memory == nullptr) {
    throw ExecuTorchException(ExecuTorchErrorKind.outOfMemory, 'There are no $byteCount bytes of memory left.');
  }
  return memory;
}

/// A copy of [bytes] in native memory, aligned for every element type, for a scope to adopt.
Pointer<Uint8> nativeCopy(Uint8List bytes) => _allocate(bytes.length)..asTypedList(bytes.length).setAll(0, bytes);

/// Things of the native side that live and die together.
final class NativeScope {
  final List<void Function()> _releases = [];

  /// Takes over memory of [nativeCopy].
  Pointer<Uint8> adopt(Pointer<Uint8> memory) {
    atEnd(() => _free(memory.cast()));
    return memory;
  }

  /// Zeroed memory.
  Pointer<Uint8> allocate(int byteCount) =>
      adopt(_allocate(byteCount))..asTypedList(byteCount).fillRange(0, byteCount, 0);

  /// [text] as the C interface takes it: UTF-8 that a zero byte ends.
  Pointer<Utf8String> string(String text) {
    final encoded = utf8.encode(text);
    if (encoded.contains(0)) throw invalidArgument('"$text" has a zero character in it, which ends a string in C.');
    final memory = allocate(encoded.length + 1);
    memory.asTypedList(encoded.length).setAll(0, encoded);
    return memory.cast();
  }

  /// Adds something to do when the scope is freed; the last added comes first.
  void atEnd(void Function() release) => _releases.add(release);

  /// Frees everything. Nothing of the scope may be used afterwards.
  void free() {
    while (_releases.isNotEmpty) {
      _releases.removeLast()();
    }
  }

  /// What [body] gives, with a scope that ends with it.
  static T during<T>(T Function(NativeScope scope) body) {
    final scope = NativeScope();
    try {
      return body(scope);
    } finally {
      scope.free();
    }
  }
}

/// A string of the C interface.
final class Utf8String extends Opaque {}

/// Reading strings.
extension ReadUtf8 on Pointer<Utf8String> {
  /// A copy of the string; null for a null pointer.
  String? get text {
    if (this == nullptr) return null;
    final bytes = cast<Uint8>();
    var length = 0;
    while (bytes[length] != 0) {
      length++;
    }
    return utf8.decode(bytes.asTypedList(length), allowMalformed: true);
  }
}
