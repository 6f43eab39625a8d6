/// Loads and runs a model and leaves it to the end of the program, which must come.
library;

import 'dart:async';

import 'package:sconce/sconce.dart';

Future<void> main(List<String> arguments) async {
  final model = await ExecuTorchModel.load(arguments.single);
  final input = TensorData.fromList(List.filled(64, 0), shape: model.inputs.single.shape);
  await model.forward([input]);
  // Nobody waits for this one.
  unawaited(model.forward([input]));
}
