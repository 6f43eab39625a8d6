/// Loading, away from the calling isolate.
///
/// Loading reads files, checks them and prepares weights, which may take long. It runs in a helper isolate rather than on
/// a thread of the library, for two reasons: every way to load is open to it (options, candidates), and nothing calls back
/// into an isolate that may have been killed meanwhile, which would end the process.
///
/// The helper gives back the address of the module; whoever gets it owns it.
library;

import 'dart:ffi';
import 'dart:isolate';
import 'dart:typed_data';

import 'bindings.dart';
import 'library.dart';
import 'load_options.dart';
import 'native_memory.dart';

/// A module that [loadBest] chose.
typedef BestModule = ({int module, int index, String report});

/// The address of a module of the program in the file at [path].
Future<int> loadFile(String? libraryPath, String path, LoadOptions options) => Isolate.run(() {
  return _load(libraryPath, options, (bindings, scope, nativeOptions, out) {
    return bindings.moduleLoadFileWith(scope.string(path), nativeOptions, out);
  });
});

/// The address of a module of the program in these [bytes].
Future<int> loadBytes(String? libraryPath, Uint8List bytes, LoadOptions options) async {
  final scope = NativeScope();
  try {
    // Addresses go to the helper without a copy of what is there.
    return await _loadMemory(libraryPath, scope.copy(bytes).address, bytes.length, options);
  } finally {
    scope.free();
  }
}

Future<int> _loadMemory(String? libraryPath, int address, int length, LoadOptions options) => Isolate.run(() {
  return _load(libraryPath, options, (bindings, scope, nativeOptions, out) {
    return bindings.moduleLoadWith(Pointer.fromAddress(address), length, nativeOptions, out);
  });
});

/// The first of the [candidates] that loads.
Future<BestModule> loadBest(String? libraryPath, List<ModelCandidate> candidates) =>
    Isolate.run(() => _loadBest(libraryPath, candidates));

int _load(
  String? libraryPath,
  LoadOptions options,
  Pointer<ETStatus> Function(Bindings, NativeScope, Pointer<ETLoadOptions>, Pointer<Pointer<ETModule>>) load,
) => NativeScope.during((scope) {
  final library = NativeLibrary.open(libraryPath);
  final out = scope.allocate(sizeOf<Pointer<ETModule>>()).cast<Pointer<ETModule>>();
  library.check(load(library.bindings, scope, options.toNative(library.bindings, scope), out));
  return out.value.address;
});

BestModule _loadBest(String? libraryPath, List<ModelCandidate> candidates) => NativeScope.during((scope) {
  final library = NativeLibrary.open(libraryPath);
  final bindings = library.bindings;
  final array = scope.allocate(candidates.length * sizeOf<ETCandidate>()).cast<ETCandidate>();
  for (var i = 0; i < candidates.length; i++) {
    array[i]
      ..path = scope.string(candidates[i].path)
      ..options = candidates[i].options.toNative(bindings, scope);
  }
  final module = scope.allocate(sizeOf<Pointer<ETModule>>()).cast<Pointer<ETModule>>();
  final index = scope.allocate(sizeOf<Int32>()).cast<Int32>();
  final report = scope.allocate(sizeOf<Pointer<Utf8String>>()).cast<Pointer<Utf8String>>();
  library.check(bindings.moduleLoadBest(array, candidates.length, module, index, report));
  scope.atEnd(() => bindings.stringFree(report.value));
  return (module: module.value.address, index: index.value, report: report.value.text ?? '');
});
