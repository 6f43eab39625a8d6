/// All tests, with the plain virtual machine: `dart test/all.dart`. The exit code is not 0 if one fails.
library;

import 'check.dart';
import 'failures.dart';
import 'lifetime.dart';
import 'models.dart';
import 'numbers.dart';

Future<void> main() async {
  numberTests();
  modelTests();
  failureTests();
  lifetimeTests();
  await runTests();
}
