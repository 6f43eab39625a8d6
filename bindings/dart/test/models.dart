/// Whole programs, against the values that PyTorch computes for them.
library;

import 'dart:io';

import 'package:sconce/sconce.dart';

import '../example/gray_png.dart';
import 'check.dart';
import 'npz.dart';

/// A file of the repository.
String repository(String path) => Platform.script.resolve('../../../$path').toFilePath();

/// A golden program.
String golden(String name) => repository('tests/golden/$name');

/// The model of handwritten digits.
final String digits = repository('examples/digits/digits.pte');

/// A picture of a digit as the model of digits takes it.
TensorData digit(String name) {
  final pixels = readGrayPng(File(repository('examples/digits/samples/$name.png')).readAsBytesSync());
  return TensorData.fromList([for (final grey in pixels) grey / 255], shape: [1, 1, 8, 8]);
}

void modelTests() {
  test('versions and backends', () {
    expect(RegExp(r'^\d+\.\d+\.\d+').hasMatch(ExecuTorchVersion.version), true, ExecuTorchVersion.version);
    expect(RegExp(r'^\d+\.\d+').hasMatch(ExecuTorchVersion.executorchVersion), true);
    expect(BackendQuery.isAvailable(Backend.xnnpack), true);
    expect(BackendQuery.isAvailable(Backend.coreml), false);
    expect(BackendQuery.available.contains(Backend.xnnpack), true);
    expect(BackendQuery.registeredNames.contains('XnnpackBackend'), true, BackendQuery.registeredNames);
  });
  test('digits: what the model says about itself', () async {
    final model = await ExecuTorchModel.load(digits);
    expect(model.methods, ['forward']);
    final [input] = model.inputs;
    expect([input.kind, input.dataType, input.shape, input.isDynamic, input.name], [
      ValueKind.tensor,
      TensorType.float32,
      [1, 1, 8, 8],
      false,
      null,
    ]);
    final [output] = model.outputs;
    expect([output.dataType, output.shape, output.minimumShape], [TensorType.float32, [1, 10], [1, 10]]);
    expect(output.toString(), 'float32 [1, 10]');
    await model.dispose();
  });
  test('digits: all samples are recognised, from a file and from bytes', () async {
    for (final model in [
      await ExecuTorchModel.load(digits),
      await ExecuTorchModel.loadFromBytes(File(digits).readAsBytesSync()),
      await ExecuTorchModel.load(digits, options: const LoadOptions(threads: 1, engine: Engine.reference, copy: true)),
    ]) {
      for (var label = 0; label < 10; label++) {
        for (final letter in ['a', 'b']) {
          final [logits] = await model.forward([digit('digit_${label}_$letter')]);
          expect([logits.dataType, logits.shape], [TensorType.float32, [1, 10]]);
          expect(logits.argmax(), label, '$model ${logits.toList()}');
        }
      }
      await model.dispose();
    }
  });
  test('digits: the logits of PyTorch', () => _agree(digits, repository('examples/digits/digits.npz')));
  for (final name in ['int64', 'int32', 'int16', 'int8', 'uint8', 'bool', 'float64', 'float16', 'bfloat16']) {
    test('$name through a model', () => _agree(golden('dtype_$name.pte'), golden('dtype_$name.npz')));
  }
  for (final name in ['empty', 'zero_dim.a', 'channels_last', 'containers', 'argument_kinds', 'xnnpack/xnnpack_conv']) {
    test('$name through a model', () => _agree(golden('${name.split('.').first}.pte'), golden('$name.npz')));
  }
  test('a dynamic batch', () async {
    final model = await ExecuTorchModel.load(golden('dynamic_batch.pte'));
    final [input] = model.inputs;
    expect([input.isDynamic, input.shape], [true, [8, 16]]);
    await model.dispose();
    for (final run in ['b1', 'b3', 'b8']) {
      await _agree(golden('dynamic_batch.pte'), golden('dynamic_batch.$run.npz'));
    }
  });
  test('weights in a file of their own', () async {
    final options = LoadOptions(dataPaths: [golden('external_constants.ptd')]);
    await _agree(golden('external_constants.pte'), golden('external_constants.npz'), options: options);
  });
  test('methods by name, with values that are not tensors', () async {
    final model = await ExecuTorchModel.load(golden('methods.pte'));
    expect(model.methods.toSet().containsAll({'encode', 'decode', 'get_vocab_size', 'get_name'}), true, model.methods);
    expect(await model.run('get_vocab_size', []), [10]);
    expect(await model.run('get_scale', []), [0.25]);
    expect(await model.run('use_cache', []), [true]);
    expect(await model.run('get_name', []), ['sconce']);
    expect(await model.run('get_shape', []), [2, 3.5, false]);
    final [table] = await model.run('get_table', []);
    expect((table! as TensorData).toList(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    expect(model.inputsOf('encode').single.dataType, TensorType.int64);
    expect(model.outputsOf('get_name').single.kind, ValueKind.string);
    final values = readNpz(golden('methods.encode.npz'));
    final [code] = await model.run('encode', [values['in0']]);
    expectClose((code! as TensorData).toList(), values['out0']!.toList());
    await model.dispose();
  });
  test('numbers, truth and nothing as inputs', () async {
    final model = await ExecuTorchModel.load(golden('scalar_inputs.pte'));
    final values = readNpz(golden('scalar_inputs.npz'));
    expect(
      [for (final input in model.inputs) input.kind],
      [
        ValueKind.tensor,
        ValueKind.integer,
        ValueKind.number,
        ValueKind.boolean,
        ValueKind.none,
        ValueKind.tensor,
      ],
    );
    final [output] = await model.run('forward', [values['in0'], 3, 0.5, true, null, values['in5']]);
    expectClose((output! as TensorData).toList(), values['out0']!.toList());
    await model.dispose();
  });
  test('numbers, truth and nothing as outputs', () async {
    final model = await ExecuTorchModel.load(golden('scalar_outputs.pte'));
    final input = TensorData.fromList([1, 2, 3, 4, 5, 6, 7, 8], shape: [4, 2]);
    final [rows, tensor, ...others] = await model.run('forward', [input]);
    expect(rows, 4);
    expect((tensor! as TensorData).toList(), [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    expect(others, [7, 9, 2.5, true, null]);
    await expectFailure(ExecuTorchErrorKind.unsupported, () => model.forward([input]), words: ['Output 6', 'run(']);
    await model.dispose();
  });
  test('numbers from forward are tensors without sizes', () async {
    final model = await ExecuTorchModel.load(golden('calls/aten__local_scalar_dense_int64.pte'));
    final values = readNpz(golden('calls/aten__local_scalar_dense_int64.npz'));
    final [number] = await model.forward([values['in0']!]);
    expect([number.dataType, number.shape, number.toList()], [TensorType.int64, <int>[], values['out0']!.toList()]);
    await model.dispose();
  });
  test('element types without a number', () async {
    final model = await ExecuTorchModel.load(golden('calls/aten__fft_r2c_out.pte'));
    expect(model.outputs.first.dataType, null);
    final values = readNpz(golden('calls/aten__fft_r2c_out.npz'), skip: {'out0'});
    await expectFailure(ExecuTorchErrorKind.unsupported, () => model.forward([values['in0']!]), words: ['TensorType']);
    await model.dispose();
  });
  test('the best of several candidates', () async {
    final best = await ExecuTorchModel.loadBest([
      ModelCandidate(repository('examples/digits/none.pte')),
      ModelCandidate(repository('examples/digits/labels.txt')),
      ModelCandidate(digits, options: const LoadOptions(threads: 1)),
      ModelCandidate(golden('mlp.pte')),
    ]);
    expect([best.index, best.candidate.path], [2, digits]);
    final reasons = best.report.trim().split('\n');
    expect(reasons.length, 2, best.report);
    expect([reasons[0].contains('none.pte'), reasons[1].contains('labels.txt')], [true, true], best.report);
    final [logits] = await best.model.forward([digit('digit_7_a')]);
    expect(logits.argmax(), 7);
    await best.model.dispose();
  });
}

/// Runs a program once with the inputs of [values] and compares with the outputs there.
Future<void> _agree(String program, String values, {LoadOptions options = const LoadOptions()}) async {
  final model = await ExecuTorchModel.load(program, options: options);
  final arrays = readNpz(values);
  // The program's type says how to read the bits where NumPy has no such type.
  TensorData array(String name, ValueInfo info) {
    final stored = arrays[name]!;
    return TensorData(shape: stored.shape, dataType: info.dataType!, data: stored.data);
  }

  final outputs = await model.forward([for (final (i, info) in model.inputs.indexed) array('in$i', info)]);
  expect(outputs.length, model.outputs.length);
  for (final (i, output) in outputs.indexed) {
    final expected = array('out$i', model.outputs[i]);
    expect([output.dataType, output.shape], [expected.dataType, expected.shape], 'output $i');
    switch (output.dataType) {
      case TensorType.float32 || TensorType.float64:
        expectClose(output.toList(), expected.toList());
      case TensorType.float16 || TensorType.bfloat16:
        expectClose(output.toList(), expected.toList(), relative: 2e-2, absolute: 1e-2);
      default:
        expect(output.toList(), expected.toList(), 'output $i');
    }
  }
  await model.dispose();
}
