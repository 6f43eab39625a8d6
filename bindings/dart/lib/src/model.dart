/// A loaded program and its calls.
///
/// A call copies its inputs into native memory at once, waits until the calls before it on this model are done, is queued
/// in the library, and completes when a thread of the library calls the call's own [NativeCallable] back. That callable
/// exists only while its call is under way: it keeps the isolate alive as long as there is something to wait for, and no
/// longer.
///
/// A module is freed by [ExecuTorchModel.dispose], by the garbage collector, or when its isolate ends, whichever comes
/// first. Freeing a module waits until its callbacks were called, and finalizers run before the isolate's callables are
/// taken down: so an isolate that is killed during a run ends cleanly, too (the buffers of that run stay behind).
library;

import 'dart:async';
import 'dart:ffi';
import 'dart:typed_data';

import 'bindings.dart';
import 'exceptions.dart';
import 'library.dart';
import 'load_options.dart';
import 'loading.dart' as loading;
import 'native_memory.dart';
import 'tensor.dart';
import 'value_info.dart';
import 'values.dart';

/// A model that is ready to run.
///
/// Calls of one model run one after another, in the order they were made; different models run side by side.
final class ExecuTorchModel implements Finalizable {
  ExecuTorchModel._(this._library, int address, String source, {int? externalSize})
    : _module = Pointer.fromAddress(address),
      modelId = '$source#${++_loaded}' {
    _finalizer.attach(this, _module.cast(), detach: this, externalSize: externalSize);
  }

  /// Loads the program in the file at [path], which is mapped into memory and must not change while the model lives.
  static Future<ExecuTorchModel> load(String path, {LoadOptions options = const LoadOptions()}) async {
    final library = nativeLibrary;
    return ExecuTorchModel._(library, await loading.loadFile(library.path, path, options), path);
  }

  /// Loads the program in these [bytes], which are copied.
  static Future<ExecuTorchModel> loadFromBytes(Uint8List bytes, {LoadOptions options = const LoadOptions()}) async {
    final library = nativeLibrary;
    final address = await loading.loadBytes(library.path, bytes, options);
    return ExecuTorchModel._(library, address, 'bytes', externalSize: bytes.length);
  }

  /// Loads the first of the [candidates] that loads, and says why those before it do not. If none does, the exception has
  /// all the reasons.
  static Future<BestModel> loadBest(List<ModelCandidate> candidates) async {
    final library = nativeLibrary;
    final best = await loading.loadBest(library.path, candidates);
    final chosen = candidates[best.index];
    return BestModel._(ExecuTorchModel._(library, best.module, chosen.path), chosen, best.index, best.report);
  }

  static int _loaded = 0;
  static final NativeFinalizer _finalizer = NativeFinalizer(nativeLibrary.bindings.moduleFreePointer.cast());

  final NativeLibrary _library;
  final Pointer<ETModule> _module;
  Future<void> _callsBefore = Future.value();
  Future<void>? _disposal;
  bool _dropsWaitingCalls = false;

  /// What tells this model from all others of this isolate.
  final String modelId;

  /// Whether the model was disposed, or is about to be: no further call is taken.
  bool get isDisposed => _disposal != null;

  /// The names of the methods.
  List<String> get methods {
    _requireUsable();
    final bindings = _library.bindings;
    return [
      for (var i = 0; i < bindings.moduleMethodCount(_module); i++) bindings.moduleMethodName(_module, i).text ?? '',
    ];
  }

  /// What `forward` takes.
  List<ValueInfo> get inputs => inputsOf('forward');

  /// What `forward` gives.
  List<ValueInfo> get outputs => outputsOf('forward');

  /// What [method] takes.
  List<ValueInfo> inputsOf(String method) => _valuesOf(method, (counts) => counts.$1, _library.bindings.moduleInputInfo);

  /// What [method] gives.
  List<ValueInfo> outputsOf(String method) =>
      _valuesOf(method, (counts) => counts.$2, _library.bindings.moduleOutputInfo);

  /// Runs the method `forward`, whose outputs must all be tensors.
  Future<List<TensorData>> forward(List<TensorData> inputs) async {
    final outputs = await run('forward', inputs);
    return [
      for (final (i, output) in outputs.indexed)
        output is TensorData
            ? output
            : throw ExecuTorchException(
              ExecuTorchErrorKind.unsupported,
              "Output $i of 'forward' is $output, not a tensor; run('forward', inputs) gives outputs of every kind.",
            ),
    ];
  }

  /// Runs [method]. Inputs and outputs may be [TensorData], int, double, bool, String and null.
  Future<List<Object?>> run(String method, List<Object?> values) async {
    _requireUsable();
    final scope = NativeScope();
    try {
      final name = scope.string(method);
      final inputs = writeValues(_library, scope, values);
      return await _inTurn(() => _start(scope, name, inputs, values.length));
    } finally {
      scope.free();
    }
  }

  /// Frees the model when the call that runs is done; calls that wait for their turn fail. No further call is taken.
  /// Completes when the model is freed.
  Future<void> dispose() {
    _dropsWaitingCalls = true;
    return disposeAsync();
  }

  /// Frees the model when all calls made so far are done. No further call is taken. Completes when the model is freed.
  Future<void> disposeAsync() =>
      _disposal ??= _callsBefore.then((_) {
        _finalizer.detach(this);
        _library.bindings.moduleFree(_module);
      });

  @override
  String toString() => 'ExecuTorchModel($modelId${isDisposed ? ', disposed' : ''})';

  void _requireUsable() {
    if (isDisposed) throw _disposed('it takes no further calls; load it again');
  }

  ExecuTorchException _disposed(String consequence) =>
      ExecuTorchException(ExecuTorchErrorKind.invalidState, 'The model $modelId was disposed: $consequence.');

  List<ValueInfo> _valuesOf(
    String method,
    int Function((int inputs, int outputs)) which,
    Pointer<ETStatus> Function(Pointer<ETModule>, Pointer<Utf8String>, int, Pointer<ETValueInfo>) ask,
  ) {
    _requireUsable();
    return NativeScope.during((scope) {
      final name = scope.string(method);
      final counts = scope.allocate(2 * sizeOf<Int32>()).cast<Int32>();
      _library.check(_library.bindings.moduleMethodCounts(_module, name, counts, counts + 1));
      final info = scope.allocate(sizeOf<ETValueInfo>()).cast<ETValueInfo>();
      ValueInfo describe(int index) {
        info.ref.size = sizeOf<ETValueInfo>();
        _library.check(ask(_module, name, index, info));
        return ValueInfo.fromNative(info.ref);
      }

      return List.generate(which((counts[0], counts[1])), describe, growable: false);
    });
  }

  /// What [call] gives when the calls before it are done.
  Future<T> _inTurn<T>(Future<T> Function() call) {
    final result = _callsBefore.then((_) {
      if (_dropsWaitingCalls) throw _disposed('this call was still waiting for its turn and is dropped');
      return call();
    });
    _callsBefore = result.then((_) {}, onError: (_) {});
    return result;
  }

  /// Queues a call in the library. What it reads and writes is in [scope], which outlives it.
  Future<List<Object?>> _start(NativeScope scope, Pointer<Utf8String> method, Pointer<ETValue> inputs, int count) {
    final outputs = scope.allocate(sizeOf<Pointer<ETValue>>()).cast<Pointer<ETValue>>();
    final outputCount = scope.allocate(sizeOf<Int32>()).cast<Int32>();
    final completer = Completer<List<Object?>>();
    late final NativeCallable<TaskCallback> callback;
    callback = NativeCallable.listener((Pointer<Void> _, Pointer<ETStatus> status) {
      callback.close();
      completer.complete(
        Future.sync(() {
          _library.check(status);
          return takeValues(_library, outputs.value, outputCount.value);
        }),
      );
    });
    try {
      _library.check(
        _library.bindings.moduleRunAsync(
          _module,
          method,
          inputs,
          count,
          outputs,
          outputCount,
          nullptr,
          callback.nativeFunction,
          nullptr,
          nullptr,
        ),
      );
    } on ExecuTorchException {
      callback.close();
      rethrow;
    }
    return completer.future;
  }
}

/// What [ExecuTorchModel.loadBest] chose.
final class BestModel {
  BestModel._(this.model, this.candidate, this.index, this.report);

  /// The model.
  final ExecuTorchModel model;

  /// Which candidate it is.
  final ModelCandidate candidate;

  /// Its position among the candidates.
  final int index;

  /// A line for every candidate before it: why it was passed over.
  final String report;
}
