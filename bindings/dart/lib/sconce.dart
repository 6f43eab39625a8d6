/// Runs ExecuTorch programs (`.pte`) from Dart.
///
/// ```dart
/// final model = await ExecuTorchModel.load('model.pte');
/// final outputs = await model.forward([TensorData.fromList(pixels, shape: [1, 3, 224, 224])]);
/// await model.dispose();
/// ```
///
/// Loading happens in a helper isolate and running on threads of the library, so the calling isolate is never blocked.
/// Every failure is an [ExecuTorchException].
library;

export 'src/backend.dart';
export 'src/exceptions.dart' show
    ExecuTorchErrorKind,
    ExecuTorchException,
    ExecuTorchInferenceException,
    ExecuTorchIOException,
    ExecuTorchMemoryException,
    ExecuTorchModelException,
    ExecuTorchPlatformException,
    ExecuTorchStateException,
    ExecuTorchValidationException;
export 'src/float16.dart';
export 'src/library.dart' show ExecuTorch;
export 'src/load_options.dart' show Engine, LoadOptions, ModelCandidate;
export 'src/model.dart' show BestModel, ExecuTorchModel;
export 'src/tensor.dart';
export 'src/value_info.dart' show ValueInfo, ValueKind;
