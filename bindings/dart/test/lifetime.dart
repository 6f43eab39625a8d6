/// Many calls at once, and the ends of models and isolates.
library;

import 'dart:async';
import 'dart:io';
import 'dart:isolate';
import 'dart:typed_data';

import 'package:sconce/sconce.dart';

import 'check.dart';
import 'models.dart';

void lifetimeTests() {
  test('many calls at once end in order, each with its own answer', () async {
    final model = await ExecuTorchModel.load(digits);
    final images = [for (var label = 0; label < 10; label++) digit('digit_${label}_a')];
    final ended = <int>[];
    final answers = await Future.wait([
      for (var i = 0; i < 2000; i++)
        model.forward([images[i % 10]]).then((outputs) {
          ended.add(i);
          return outputs.single.argmax();
        }),
    ]);
    expect(answers, [for (var i = 0; i < 2000; i++) i % 10]);
    expect(ended, [for (var i = 0; i < 2000; i++) i]);
    await model.dispose();
  });
  test('several models side by side', () async {
    final models = await Future.wait([for (var i = 0; i < 8; i++) ExecuTorchModel.load(digits)]);
    expect(models.map((model) => model.modelId).toSet().length, 8);
    final answers = await Future.wait([
      for (final (i, model) in models.indexed)
        for (var label = 0; label < 10; label++)
          model.forward([digit('digit_${label}_${'ab'[i % 2]}')]).then((outputs) => outputs.single.argmax()),
    ]);
    expect(answers, [for (var i = 0; i < 80; i++) i % 10]);
    await Future.wait(models.map((model) => model.dispose()));
  });
  test('inputs are taken when the call is made', () async {
    final model = await ExecuTorchModel.load(digits);
    final image = digit('digit_3_a');
    final answer = model.forward([image]);
    image.data.fillRange(0, image.data.length, 0);
    expect((await answer).single.argmax(), 3);
    await model.dispose();
  });
  test('the isolate goes on while a model loads and runs', () async {
    var turns = 0;
    final timer = Timer.periodic(Duration.zero, (_) => turns++);
    final model = await ExecuTorchModel.load(digits);
    for (var i = 0; i < 50; i++) {
      await model.forward([digit('digit_3_a')]);
    }
    timer.cancel();
    expect(turns > 0, true);
    await model.dispose();
  });
  test('after dispose, calls throw', () async {
    final model = await ExecuTorchModel.load(digits);
    expect(model.isDisposed, false);
    final disposal = model.dispose();
    expect(model.isDisposed, true);
    await disposal;
    await model.dispose();
    await model.disposeAsync();
    for (final use in <FutureOr<Object?> Function()>[
      () => model.forward([digit('digit_0_a')]),
      () => model.run('forward', []),
    ]) {
      final error = await expectFailure(ExecuTorchErrorKind.invalidState, use, words: ['disposed', model.modelId]);
      expect(error is ExecuTorchStateException, true);
    }
  });
  test('dispose and disposeAsync wait for the calls made before them', () async {
    for (final end in <Future<void> Function(ExecuTorchModel)>[
      (model) => model.dispose(),
      (model) => model.disposeAsync(),
    ]) {
      final model = await ExecuTorchModel.load(digits);
      var done = 0;
      for (var i = 0; i < 100; i++) {
        unawaited(model.forward([digit('digit_5_b')]).then((outputs) => done += outputs.single.argmax() == 5 ? 1 : 0));
      }
      final disposal = end(model);
      await expectFailure(ExecuTorchErrorKind.invalidState, () => model.forward([digit('digit_5_b')]));
      await disposal;
      expect(done, 100);
    }
  });
  test('dispose frees the model', () async {
    final mapped = _ownCopy();
    final model = await ExecuTorchModel.load(mapped);
    expect(_isMapped(mapped), Platform.isLinux);
    await model.dispose();
    expect(_isMapped(mapped), false);
    await _expectFreed(mapped);
  });
  test('failed calls leave no memory behind', () async {
    final model = await ExecuTorchModel.load(digits);
    final large = TensorData(shape: [4 << 20], dataType: TensorType.uint8, data: Uint8List(4 << 20));
    Future<void> refuse() => expectFailure(ExecuTorchErrorKind.invalidArgument, () => model.forward([large]));
    await refuse();
    final before = ProcessInfo.currentRss;
    for (var i = 0; i < 100; i++) {
      await refuse();
    }
    final grown = (ProcessInfo.currentRss - before) >> 20;
    expect(grown < 100, true, '$grown MiB more after 100 calls of 4 MiB each');
    await model.dispose();
  });
  test('models come and go', () async {
    for (var i = 0; i < 200; i++) {
      final model = await ExecuTorchModel.loadFromBytes(File(digits).readAsBytesSync());
      expect((await model.forward([digit('digit_2_a')])).single.argmax(), 2);
      if (i.isEven) await model.dispose(); // the others are left to the garbage collector
    }
  });
  test('an isolate that ends takes its models along', () async {
    final mapped = _ownCopy();
    for (var i = 0; i < 20; i++) {
      expect(await Isolate.run(() => _classify(mapped, digit('digit_4_a'))), 4);
    }
    await _expectFreed(mapped);
  });
  test('an isolate that is killed during its calls frees its models', () async {
    final mapped = _ownCopy();
    for (var i = 0; i < 5; i++) {
      final ready = ReceivePort(), ended = ReceivePort();
      final message = (mapped, digit('digit_4_a'), ready.sendPort);
      final isolate = await Isolate.spawn(_runForever, message, onExit: ended.sendPort);
      await ready.first;
      isolate.kill(priority: Isolate.immediate);
      await ended.first;
    }
    await _expectFreed(mapped);
  });
  test('a program that disposes of nothing ends by itself', () async {
    final program = Platform.script.resolve('ends_by_itself.dart').toFilePath();
    final process = await Process.start(Platform.resolvedExecutable, [program, digits]);
    final code = await process.exitCode.timeout(
      const Duration(seconds: 60),
      onTimeout: () {
        process.kill();
        return -1;
      },
    );
    expect(code, 0);
  });
}

Future<int> _classify(String path, TensorData image) async {
  final model = await ExecuTorchModel.load(path);
  return (await model.forward([image])).single.argmax();
}

Future<void> _runForever((String, TensorData, SendPort) message) async {
  final (path, image, ready) = message;
  final model = await ExecuTorchModel.load(path);
  for (var calls = 0; ; calls++) {
    final running = [for (var i = 0; i < 10; i++) model.forward([image])];
    if (calls == 3) ready.send(null);
    await Future.wait(running);
  }
}

/// A copy of the model of digits that no other test loads.
String _ownCopy() =>
    File(digits).copySync('${Directory.systemTemp.createTempSync('sconce').path}/digits.pte').path;

/// Whether a model of this file is in memory, where the system tells.
bool _isMapped(String path) => Platform.isLinux && File('/proc/self/maps').readAsStringSync().contains(path);

/// Fails unless all models of this file are freed soon.
Future<void> _expectFreed(String path) async {
  for (var wait = 0; _isMapped(path) && wait < 100; wait++) {
    await Future<void>.delayed(const Duration(milliseconds: 20));
  }
  expect(_isMapped(path), false, '$path is still mapped');
  File(path).parent.deleteSync(recursive: true);
}
