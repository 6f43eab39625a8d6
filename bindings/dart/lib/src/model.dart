/// A loaded program and its calls, for applications.
library;

import 'dart:typed_data';

import 'exceptions.dart';
import 'load_options.dart';
import 'loading.dart';
import 'model_isolate.dart';
import 'tensor.dart';
import 'value_info.dart';

/// A model that is ready to run.
///
/// Calls of one model run one after another, in the order they were made; different models run side by side. A model
/// that is not disposed is freed when it is garbage, and at the latest when the isolate that loaded it ends.
final class ExecuTorchModel {
  ExecuTorchModel._(this._isolate, String source) : modelId = '$source#${++_loaded}' {
    _garbage.attach(this, _isolate, detach: this);
  }

  /// Loads the program in the file at [path], which is mapped into memory and must not change while the model lives.
  static Future<ExecuTorchModel> load(String path, {LoadOptions options = const LoadOptions()}) async =>
      ExecuTorchModel._(await ModelIsolate.start(fileLoader(path, options)), path);

  /// Loads the program in these [bytes], which are copied.
  static Future<ExecuTorchModel> loadFromBytes(Uint8List bytes, {LoadOptions options = const LoadOptions()}) async =>
      ExecuTorchModel._(await ModelIsolate.start(bytesLoader(bytes, options)), 'bytes');

  /// Loads the first of the [candidates] that loads, and says why those before it do not. If none does, the exception
  /// has all the reasons.
  static Future<BestModel> loadBest(List<ModelCandidate> candidates) async {
    final isolate = await ModelIsolate.start(bestLoader(candidates));
    final chosen = candidates[isolate.index];
    return BestModel._(ExecuTorchModel._(isolate, chosen.path), chosen, isolate.index, isolate.report);
  }

  static int _loaded = 0;
  static final Finalizer<ModelIsolate> _garbage = Finalizer((isolate) => isolate.endUnattended());

  final ModelIsolate _isolate;
  Future<void>? _disposal;

  /// What tells this model from all others of this isolate.
  final String modelId;

  /// Whether the model was disposed, or is about to be: no further call is taken.
  bool get isDisposed => _disposal != null;

  /// The names of the methods.
  List<String> get methods => List.of(_isolate.signatures.keys);

  /// What `forward` takes.
  List<ValueInfo> get inputs => inputsOf('forward');

  /// What `forward` gives.
  List<ValueInfo> get outputs => outputsOf('forward');

  /// What [method] takes.
  List<ValueInfo> inputsOf(String method) => _signature(method).inputs;

  /// What [method] gives.
  List<ValueInfo> outputsOf(String method) => _signature(method).outputs;

  /// Runs the method `forward`. An output that is a number comes as a tensor without sizes (int64, float64 or bool);
  /// for outputs of other kinds there is [run].
  Future<List<TensorData>> forward(List<TensorData> inputs) async {
    final outputs = await run('forward', inputs);
    return [
      for (final (i, output) in outputs.indexed)
        switch (output) {
          TensorData() => output,
          int() => TensorData.fromList([output], shape: [], dataType: TensorType.int64),
          double() => TensorData.fromList([output], shape: [], dataType: TensorType.float64),
          bool() => TensorData.fromList([output ? 1 : 0], shape: [], dataType: TensorType.bool_),
          _ =>
            throw ExecuTorchException(
              ExecuTorchErrorKind.unsupported,
              "Output $i of 'forward' is $output, not a tensor; run('forward', inputs) gives outputs of every kind.",
            ),
        },
    ];
  }

  /// Runs [method]. Inputs, which are copied before this returns, and outputs may be [TensorData], int, double, bool,
  /// String and null.
  Future<List<Object?>> run(String method, List<Object?> values) async {
    if (isDisposed) {
      throw ExecuTorchException(
        ExecuTorchErrorKind.invalidState,
        'The model $modelId was disposed and takes no further calls; load it again.',
      );
    }
    return _isolate.run(method, values);
  }

  /// Frees the model when all calls made so far are done. No further call is taken. Completes when the model is freed.
  Future<void> dispose() {
    _garbage.detach(this);
    return _disposal ??= _isolate.end();
  }

  /// The same as [dispose].
  Future<void> disposeAsync() => dispose();

  @override
  String toString() => 'ExecuTorchModel($modelId${isDisposed ? ', disposed' : ''})';

  Signature _signature(String method) =>
      _isolate.signatures[method] ??
      (throw invalidArgument('There is no method "$method" in $modelId, but ${methods.join(', ')}.'));
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
