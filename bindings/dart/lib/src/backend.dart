/// What the library can do: backends and versions.
library;

import 'library.dart';
import 'native_memory.dart';

/// The backends that a program may be exported for, as far as they have a number in the C interface.
enum Backend {
  /// CPU.
  xnnpack('XNNPACK', 0),

  /// Apple's Core ML.
  coreml('CoreML', 1),

  /// Apple's Metal Performance Shaders, which Apple replaced by [metal].
  @Deprecated('Use metal')
  mps('Metal Performance Shaders', 2),

  /// Apple's Metal.
  metal('Metal', 5),

  /// GPUs through Vulkan.
  vulkan('Vulkan', 3),

  /// Qualcomm's neural processors.
  qnn('Qualcomm QNN', 4),

  /// ggml.
  ggml('ggml', 6),

  /// Apple's MLX.
  mlx('MLX', 7);

  const Backend(this.displayName, this._number);

  /// The name for people.
  final String displayName;

  final int _number;
}

/// Which backends' programs the library can run.
abstract final class BackendQuery {
  /// Whether programs exported for [backend] run.
  static bool isAvailable(Backend backend) => nativeLibrary.bindings.backendAvailable(backend._number) == 1;

  /// All backends whose programs run.
  static List<Backend> get available => [
    for (final backend in Backend.values)
      if (isAvailable(backend)) backend,
  ];

  /// The names of all registered backends as programs spell them, such as `XnnpackBackend`.
  static List<String> get registeredNames {
    final bindings = nativeLibrary.bindings;
    return [for (var i = 0; i < bindings.backendRegisteredCount(); i++) bindings.backendRegisteredName(i).text ?? ''];
  }
}

/// The versions of what runs the programs.
abstract final class ExecuTorchVersion {
  /// Of the library.
  static String get version => nativeLibrary.bindings.version().text!;

  /// Of the ExecuTorch whose programs it runs.
  static String get executorchVersion => nativeLibrary.bindings.executorchVersion().text!;
}
