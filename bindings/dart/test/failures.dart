/// What goes wrong, and what is said then.
library;

import 'dart:io';
import 'dart:isolate';
import 'dart:typed_data';

import 'package:sconce/sconce.dart';

import 'check.dart';
import 'models.dart';

void failureTests() {
  test('a missing file', () async {
    final error = await expectFailure(
      ExecuTorchErrorKind.ioError,
      () => ExecuTorchModel.load('/no/such/model.pte'),
      words: ['/no/such/model.pte'],
    );
    expect(error is ExecuTorchIOException, true);
    expect(error.location!.split(':').length >= 3, true, error.location);
  });
  test('a file that is not a program', () async {
    final error = await expectFailure(
      ExecuTorchErrorKind.modelLoadFailed,
      () => ExecuTorchModel.load(repository('examples/digits/labels.txt')),
    );
    expect(error is ExecuTorchModelException, true);
  });
  test('corrupt bytes', () async {
    final program = File(digits).readAsBytesSync();
    for (final bytes in [
      Uint8List(0),
      Uint8List.fromList('not a program, whatever it is'.codeUnits),
      Uint8List.sublistView(program, 0, program.length ~/ 2),
      Uint8List.fromList(program)..fillRange(64, 512, 0xff),
    ]) {
      Future<void> load() => ExecuTorchModel.loadFromBytes(bytes);
      final error = await expectFailure(ExecuTorchErrorKind.modelLoadFailed, load);
      expect(error.message.length > 10, true, error);
    }
  });
  test('a limit of memory', () async {
    await expectFailure(ExecuTorchErrorKind.outOfMemory, () async {
      final model = await ExecuTorchModel.load(digits, options: const LoadOptions(memoryLimit: 7));
      await model.forward([digit('digit_0_a')]);
    });
  });
  test('no candidate loads', () async {
    await expectFailure(
      ExecuTorchErrorKind.ioError,
      () => ExecuTorchModel.loadBest([const ModelCandidate('/no/a.pte'), const ModelCandidate('/no/b.pte')]),
      words: ['/no/a.pte', '/no/b.pte'],
    );
  });
  test('wrong inputs', () async {
    final model = await ExecuTorchModel.load(digits);
    final image = digit('digit_0_a');
    Future<void> refused(List<Object?> inputs, List<String> words) async {
      final error = await expectFailure(
        ExecuTorchErrorKind.invalidArgument,
        () => model.run('forward', inputs),
        words: words,
      );
      expect(error is ExecuTorchValidationException, true);
    }

    await refused([], ['0', '1']);
    await refused([image, image], ['2', '1']);
    await refused([TensorData(shape: [1, 64], dataType: TensorType.float32, data: image.data)], ['64']);
    await refused([TensorData(shape: [1, 1, 8, 9], dataType: TensorType.float32, data: image.data)], ['288', '256']);
    await refused([TensorData(shape: [-1, 1, 8, 8], dataType: TensorType.float32, data: image.data)], ['-1']);
    await refused([TensorData(shape: [1, 1, 8, 8], dataType: TensorType.int32, data: image.data)], ['int32']);
    await refused([3], []);
    await refused([Object()], ['Object']);
    // The model is none the worse for it.
    expect((await model.forward([image])).single.argmax(), 0);
    await model.dispose();
  });
  test('a method that is not there', () async {
    final model = await ExecuTorchModel.load(digits);
    await expectFailure(ExecuTorchErrorKind.invalidArgument, () => model.run('backward', []), words: ['backward']);
    await expectFailure(ExecuTorchErrorKind.invalidArgument, () => model.run('for\u0000ward', []));
    await expectFailure(ExecuTorchErrorKind.invalidArgument, () => model.inputsOf('backward'), words: ['backward']);
    await model.dispose();
  });
  test('a program without forward', () async {
    final model = await ExecuTorchModel.load(golden('methods.pte'));
    await expectFailure(ExecuTorchErrorKind.invalidArgument, () => model.forward([]), words: ['forward']);
    await expectFailure(ExecuTorchErrorKind.invalidArgument, () => model.inputs, words: ['forward', 'encode']);
    await model.dispose();
  });
  // A new isolate has opened no library yet.
  test('a library that is not there', () async {
    await expectFailure(
      ExecuTorchErrorKind.ioError,
      () => Isolate.run(() => ExecuTorch.open('/no/such/library.so')),
      words: ['/no/such/library.so'],
    );
  });
  test('a library of something else, and of another version', () async {
    final other = Platform.environment['OTHER_VERSION_LIBRARY'];
    await expectFailure(ExecuTorchErrorKind.unsupported, () => Isolate.run(() => ExecuTorch.open('libc.so.6')));
    if (other == null) return;
    await expectFailure(
      ExecuTorchErrorKind.unsupported,
      () => Isolate.run(() => ExecuTorch.open(other)),
      words: ['version 1.9'],
    );
  });
  test('another library after the first', () async {
    expect(ExecuTorchVersion.version.isNotEmpty, true);
    await expectFailure(ExecuTorchErrorKind.invalidState, () => ExecuTorch.open('libc.so.6'));
  });
}
