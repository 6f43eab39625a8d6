/// The ways to load a module. They take their time, and are called in the isolate of the model.
library;

import 'dart:ffi';
import 'dart:typed_data';

import 'bindings.dart';
import 'library.dart';
import 'load_options.dart';
import 'native_memory.dart';

/// A loaded module, and which of several candidates it is.
typedef LoadedModule = ({Pointer<ETModule> module, int index, String report});

/// A way to load a module.
typedef Loader = LoadedModule Function(NativeLibrary library);

/// Loads the program in the file at [path].
Loader fileLoader(String path, LoadOptions options) =>
    (library) => _load(library, (scope, out) {
      final native = _writeOptions(library.bindings, scope, options);
      return library.bindings.moduleLoadFileWith(scope.string(path), native, out);
    });

/// Loads the program in these [bytes]. They are copied now; the copy belongs to the isolate that calls the loader.
Loader bytesLoader(Uint8List bytes, LoadOptions options) =>
    _memoryLoader(nativeCopy(bytes).address, bytes.length, options);

/// Apart, so that what is sent does not refer to the caller's bytes.
Loader _memoryLoader(int address, int size, LoadOptions options) =>
    (library) => _load(library, (scope, out) {
      final program = scope.adopt(Pointer.fromAddress(address));
      final native = _writeOptions(library.bindings, scope, options);
      return library.bindings.moduleLoadWith(program, size, native, out);
    });

LoadedModule _load(
  NativeLibrary library,
  Pointer<ETStatus> Function(NativeScope scope, Pointer<Pointer<ETModule>> out) load,
) => NativeScope.during((scope) {
  final out = scope.allocate(sizeOf<Pointer<ETModule>>()).cast<Pointer<ETModule>>();
  library.check(load(scope, out));
  return (module: out.value, index: 0, report: '');
});

/// Loads the first of the [candidates] that loads.
Loader bestLoader(List<ModelCandidate> candidates) =>
    (library) => NativeScope.during((scope) {
      final bindings = library.bindings;
      final array = scope.allocate(candidates.length * sizeOf<ETCandidate>()).cast<ETCandidate>();
      for (final (i, candidate) in candidates.indexed) {
        array[i]
          ..path = scope.string(candidate.path)
          ..options = _writeOptions(bindings, scope, candidate.options);
      }
      final module = scope.allocate(sizeOf<Pointer<ETModule>>()).cast<Pointer<ETModule>>();
      final index = scope.allocate(sizeOf<Int32>()).cast<Int32>();
      final report = scope.allocate(sizeOf<Pointer<Utf8String>>()).cast<Pointer<Utf8String>>();
      library.check(bindings.moduleLoadBest(array, candidates.length, module, index, report));
      scope.atEnd(() => bindings.stringFree(report.value));
      return (module: module.value, index: index.value, report: report.value.text ?? '');
    });

Pointer<ETLoadOptions> _writeOptions(Bindings bindings, NativeScope scope, LoadOptions options) {
  final native = scope.allocate(sizeOf<ETLoadOptions>()).cast<ETLoadOptions>();
  bindings.loadOptionsInit(native);
  final count = options.dataPaths.length;
  final paths = scope.allocate(count * sizeOf<Pointer<Utf8String>>()).cast<Pointer<Utf8String>>();
  for (final (i, path) in options.dataPaths.indexed) {
    paths[i] = scope.string(path);
  }
  native.ref
    // A number that C cannot hold stays as far out of range as it is.
    ..threads = options.threads.clamp(-1, 0x7fffffff)
    ..engine = options.engine.index
    ..exact = options.exact ? 1 : 0
    ..rounding = options.rounding.index
    ..copy = options.copy ? 1 : 0
    ..memoryLimit = options.memoryLimit
    ..instructionLimit = options.instructionLimit
    ..dataPaths = paths
    ..dataPathCount = count;
  return native;
}
