/// The isolate that a model lives in.
///
/// Loading and running block a thread, and must not block the caller's. So each model has an isolate of its own, which
/// loads the module, owns it, runs the calls that arrive in the order they arrive, and frees it.
///
/// The library's queue, which calls back from its own threads, is not used: such callbacks may hang the virtual machine
/// when listeners are made or closed meanwhile (seen with Dart 3.7) or when an isolate shuts down, and end the process
/// when the isolate is gone.
///
/// The isolate ends when it is told to, or when the isolate that asked for the model ends, however that happens. The
/// finalizer is for the case that all isolates end at once.
library;

import 'dart:async';
import 'dart:ffi';
import 'dart:isolate';

import 'bindings.dart';
import 'exceptions.dart';
import 'library.dart';
import 'loading.dart';
import 'native_memory.dart';
import 'tensor.dart';
import 'value_info.dart';
import 'values.dart';

/// What a method takes and gives.
typedef Signature = ({List<ValueInfo> inputs, List<ValueInfo> outputs});

/// A model in an isolate of its own, as its owner sees it.
final class ModelIsolate {
  ModelIsolate._(this._requests, this.signatures, this.index, this.report);

  /// Loads a model in a new isolate.
  static Future<ModelIsolate> start(Loader loader) {
    final owner = Isolate.current;
    final libraryPath = nativeLibrary.path;
    return _answer((reply) => Isolate.spawn(_main, (reply, owner, libraryPath, loader), debugName: 'ExecuTorch model'));
  }

  final SendPort _requests;

  /// The methods by name.
  final Map<String, Signature> signatures;

  /// Which of several candidates this is.
  final int index;

  /// Why those before it were passed over.
  final String report;

  /// Runs [method] when the calls before it are done.
  Future<List<Object?>> run(String method, List<Object?> values) async {
    final inputs = departingInputs(values);
    return arrivedOutputs(await _answer((reply) => _requests.send((reply, method, inputs))));
  }

  /// Ends the isolate when the calls before this one are done.
  Future<void> end() => _answer((reply) => _requests.send(reply));

  /// Ends the isolate when the calls before this one are done, and does not wait for it.
  void endUnattended() => _requests.send(null);
}

/// What is answered to a request, which gets a port for that. The port keeps the caller's isolate alive until then.
Future<T> _answer<T>(FutureOr<void> Function(SendPort reply) request) async {
  final port = ReceivePort();
  try {
    await request(port.sendPort);
    switch (await port.first) {
      case final ExecuTorchException failure:
        throw failure;
      case final answer:
        return answer as T;
    }
  } finally {
    port.close();
  }
}

/// Life of the isolate.
void _main((SendPort, Isolate, String?, Loader) message) {
  final (reply, owner, libraryPath, loader) = message;
  final requests = RawReceivePort();
  _reply(reply, () {
    final library = NativeLibrary.open(libraryPath);
    final loaded = loader(library);
    final module = _OwnedModule(library, loaded.module);
    requests.handler = (Object? request) => _serve(requests, module, request);
    owner.addOnExitListener(requests.sendPort);
    return ModelIsolate._(requests.sendPort, module.signatures, loaded.index, loaded.report);
  }, orElse: requests.close);
}

void _serve(RawReceivePort requests, _OwnedModule module, Object? request) {
  switch (request) {
    case (final SendPort reply, final String method, final List<Object?> inputs):
      _reply(reply, () => module.run(method, inputs));
    default:
      module.free();
      requests.close();
      if (request is SendPort) request.send(null);
  }
}

/// Sends what [work] gives, or why it fails.
void _reply(SendPort reply, Object? Function() work, {void Function()? orElse}) {
  Object? answer;
  try {
    answer = work();
  } on ExecuTorchException catch (failure) {
    answer = failure;
    orElse?.call();
  } on Object catch (error, trace) {
    answer = ExecuTorchException(ExecuTorchErrorKind.internal, '$error\n$trace');
    orElse?.call();
  }
  reply.send(answer);
}

/// The module, in its isolate.
final class _OwnedModule implements Finalizable {
  _OwnedModule(this._library, this._module)
    : _finalizer = NativeFinalizer(_library.bindings.moduleFreePointer.cast()) {
    _finalizer.attach(this, _module.cast(), detach: this);
  }

  final NativeLibrary _library;
  final Pointer<ETModule> _module;
  final NativeFinalizer _finalizer;

  List<Object?> run(String method, List<Object?> inputs) => NativeScope.during((scope) {
    final array = writeInputs(_library, scope, inputs);
    final outputs = scope.allocate(sizeOf<Pointer<ETValue>>()).cast<Pointer<ETValue>>();
    final count = scope.allocate(sizeOf<Int32>()).cast<Int32>();
    final name = scope.string(method);
    _library.check(_library.bindings.moduleRun(_module, name, array, inputs.length, outputs, count));
    return takeOutputs(_library, outputs.value, count.value);
  });

  void free() {
    _finalizer.detach(this);
    _library.bindings.moduleFree(_module);
  }

  Map<String, Signature> get signatures {
    final bindings = _library.bindings;
    return NativeScope.during((scope) {
      final counts = scope.allocate(2 * sizeOf<Int32>()).cast<Int32>();
      final info = scope.allocate(sizeOf<ETValueInfo>()).cast<ETValueInfo>();
      List<ValueInfo> describe(int count, Pointer<ETStatus> Function(int) ask) => List.generate(count, (index) {
        info.ref.size = sizeOf<ETValueInfo>();
        _library.check(ask(index));
        return _readInfo(info.ref);
      }, growable: false);

      final signatures = <String, Signature>{};
      for (var i = 0; i < bindings.moduleMethodCount(_module); i++) {
        final name = bindings.moduleMethodName(_module, i);
        _library.check(bindings.moduleMethodCounts(_module, name, counts, counts + 1));
        signatures[name.text!] = (
          inputs: describe(counts[0], (index) => bindings.moduleInputInfo(_module, name, index, info)),
          outputs: describe(counts[1], (index) => bindings.moduleOutputInfo(_module, name, index, info)),
        );
      }
      return signatures;
    });
  }
}

/// What the library says about a value, with its borrowed parts copied.
ValueInfo _readInfo(ETValueInfo info) {
  final kind = ValueKind.values[info.kind];
  if (kind != ValueKind.tensor) return ValueInfo(kind: kind, name: info.name.text);
  List<int> sizes(Pointer<Int64> from) => List.unmodifiable([for (var i = 0; i < info.rank; i++) from[i]]);
  return ValueInfo(
    kind: kind,
    dataType: info.dtype < 0 ? null : TensorType.fromExecuTorchValue(info.dtype),
    shape: sizes(info.maximum),
    minimumShape: sizes(info.minimum),
    isDynamic: info.dynamic_ != 0,
    name: info.name.text,
  );
}
