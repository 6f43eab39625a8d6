/// A test runner of one page, so that the plain virtual machine runs the tests without any package.
library;

import 'dart:async';
import 'dart:io';

import 'package:sconce/sconce.dart';

final List<(String, FutureOr<void> Function())> _tests = [];

/// Adds a test.
void test(String name, FutureOr<void> Function() body) => _tests.add((name, body));

/// Runs the tests, says which fail, and sets the exit code.
Future<void> runTests() async {
  var failed = 0;
  for (final (name, body) in _tests) {
    final time = Stopwatch()..start();
    try {
      await Future.sync(body).timeout(const Duration(seconds: 60));
      stdout.writeln('ok      $name (${time.elapsedMilliseconds} ms)');
    } on Object catch (error, trace) {
      failed++;
      stdout.writeln('FAILED  $name\n$error\n$trace');
    }
  }
  stdout.writeln('${_tests.length - failed} passed, $failed failed');
  exitCode = failed == 0 ? 0 : 1;
}

/// Fails unless the two are equal; lists are compared element by element.
void expect(Object? actual, Object? expected, [Object? context]) {
  if (_equal(actual, expected)) return;
  fail('expected $expected\n but got $actual${context == null ? '' : '\n   for $context'}');
}

/// Fails unless |actual - expected| <= absolute + relative * |expected|, everywhere.
void expectClose(List<num> actual, List<num> expected, {double relative = 1e-4, double absolute = 1e-5}) {
  expect(actual.length, expected.length, 'the number of elements');
  for (var i = 0; i < actual.length; i++) {
    final distance = (actual[i] - expected[i]).abs();
    final near = distance <= absolute + relative * expected[i].abs();
    if (!near && !(actual[i].isNaN && expected[i].isNaN)) fail('element $i is ${actual[i]}, not ${expected[i]}');
  }
}

/// Fails unless [body] throws an exception of [kind] whose message has all of [words].
Future<ExecuTorchException> expectFailure(
  ExecuTorchErrorKind kind,
  FutureOr<Object?> Function() body, {
  List<String> words = const [],
}) async {
  try {
    await body();
  } on ExecuTorchException catch (error) {
    expect(error.kind, kind, error);
    for (final word in words) {
      if (!error.message.contains(word)) fail('"${error.message}" does not mention "$word"');
    }
    return error;
  }
  fail('nothing was thrown, but a failure of kind ${kind.name} was expected');
}

/// Ends a test.
Never fail(String reason) => throw StateError(reason);

bool _equal(Object? left, Object? right) {
  if (left is List && right is List) {
    return left.length == right.length && left.indexed.every((entry) => _equal(entry.$2, right[entry.$1]));
  }
  return left == right || (left is double && right is double && left.isNaN && right.isNaN);
}
