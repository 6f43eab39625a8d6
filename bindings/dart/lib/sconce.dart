/// Runs ExecuTorch programs (`.pte`) from Dart.
///
/// ```dart
/// final model = await ExecuTorchModel.load('model.pte');
/// final outputs = await model.forward([TensorData.fromList(pixels, shape: [1, 3, 224, 224])]);
/// await model.dispose();
/// ```
///
/// Each model lives in an isolate of its own, so the calling isolate is never blocked. Every failure is an
/// [ExecuTorchException].
library;

export 'src/backend.dart';
export 'src/exceptions.dart' hide invalidArgument;
export 'src/float16.dart';
export 'src/library.dart' show ExecuTorch;
export 'src/load_options.dart';
export 'src/model.dart';
export 'src/tensor.dart';
export 'src/value_info.dart';
