/// How a model is loaded: options, and candidates to choose from.
library;

/// What runs the operators.
enum Engine {
  /// What is fastest.
  auto,

  /// Each operator by itself, to compare with.
  reference,
}

/// How sums, products and means of bytes are rounded in what was delegated to XNNPACK.
enum Rounding {
  /// As the official runtime rounds them.
  xnnpack,

  /// As the quantised program in Python rounds them.
  pytorch,
}

/// How to load and run a model. The defaults are right for most.
final class LoadOptions {
  /// Options; what is not given stays at the library's default.
  const LoadOptions({
    this.threads = 0,
    this.engine = Engine.auto,
    this.exact = false,
    this.rounding = Rounding.xnnpack,
    this.copy = false,
    this.memoryLimit = 0,
    this.instructionLimit = 0,
    this.dataPaths = const [],
  });

  /// How many threads work on one run; 0: one per physical core. Of very many, the library uses a few per processor.
  final int threads;

  /// What runs the operators.
  final Engine engine;

  /// Whether to leave out methods that round more than plain sums of products do.
  final bool exact;

  /// How sums, products and means of bytes are rounded.
  final Rounding rounding;

  /// Whether to read files into memory instead of mapping them; for files that may change while the model lives.
  final bool copy;

  /// Most bytes that running may take; 0: the library's limit.
  final int memoryLimit;

  /// Most instructions of one run; 0: the library's limit.
  final int instructionLimit;

  /// Files of external weights (`.ptd`).
  final List<String> dataPaths;
}

/// One way to have a model, such as one export of it.
final class ModelCandidate {
  /// The program at [path], loaded with [options].
  const ModelCandidate(this.path, {this.options = const LoadOptions()});

  /// The `.pte` file.
  final String path;

  /// How to load it.
  final LoadOptions options;
}
