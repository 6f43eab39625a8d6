/// Recognises a handwritten digit.
///
///     dart run example/classify.dart [model.pte image.png]
library;

import 'dart:io';
import 'dart:math';

import 'package:sconce/sconce.dart';

import 'gray_png.dart';

Future<void> main(List<String> arguments) async {
  final digits = Platform.script.resolve('../../../examples/digits/');
  final model = await ExecuTorchModel.load(
    arguments.isNotEmpty ? arguments[0] : digits.resolve('digits.pte').toFilePath(),
  );
  final image = arguments.length > 1 ? arguments[1] : digits.resolve('samples/digit_3_a.png').toFilePath();

  // The model wants pixels from 0 to 1 in the shape that it tells.
  final pixels = [for (final grey in readGrayPng(File(image).readAsBytesSync())) grey / 255];
  final input = TensorData.fromList(pixels, shape: model.inputs.first.shape);
  final [logits] = await model.forward([input]);

  final weights = [for (final logit in logits.toFloat32List()) exp(logit)];
  final total = weights.reduce((sum, weight) => sum + weight);
  final answer = logits.argmax();
  stdout.writeln('$image is a $answer (${(100 * weights[answer] / total).toStringAsFixed(1)} %)');

  await model.dispose();
}
