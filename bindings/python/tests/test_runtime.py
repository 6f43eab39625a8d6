"""The official package's names for running."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys

import numpy
import pytest
from conftest import GOLDEN, golden

import sconce
from sconce.runtime import Runtime, Verification

#: What a user of the official package may have written; only the package's name differs.
SCRIPT = """
import io, sys
from pathlib import Path
import numpy, torch
from {package}.runtime import Method, Program, Runtime, Verification

golden = Path(sys.argv[1])
runtime = Runtime.get()
assert runtime is Runtime.get()
print(runtime.backend_registry.is_available("XnnpackBackend"), runtime.backend_registry.is_available("NoBackend"))
print("XnnpackBackend" in runtime.backend_registry.registered_backend_names)
print({{"aten::add.out", "aten::mm.out"}} <= runtime.operator_registry.operator_names)

path = golden / "mlp.pte"
for data in [path, str(path), path.read_bytes(), bytearray(path.read_bytes()), io.BytesIO(path.read_bytes())]:
    program: Program = runtime.load_program(data, verification=Verification.Minimal)
    print(sorted(program.method_names))
    method: Method = program.load_method("forward")
    assert method is program.load_method("forward")
    with numpy.load(golden / "mlp.npz") as arrays:
        image = torch.from_numpy(arrays["in0"])
    outputs = method.execute([image])
    print(type(outputs).__name__, type(outputs[0]).__name__, outputs[0].dtype)
    print(numpy.round(outputs[0].numpy(), 4).tolist())

for meta in [method.metadata, program.metadata("forward")]:
    print(meta.name(), meta.num_inputs(), meta.num_outputs())
    for info in [meta.input_tensor_meta(0), meta.output_tensor_meta(0)]:
        print(info.sizes(), info.dtype(), info.nbytes(), info.is_memory_planned())
    try:
        meta.input_tensor_meta(5)
    except IndexError:
        print("IndexError")

several = runtime.load_program(golden / "methods.pte")
print(sorted(several.method_names), several.load_method("get_vocab_size").execute([]))
print(several.load_method("get_table").execute([])[0].sum())
try:
    several.load_method("nothing")
except KeyError:
    print("KeyError")
try:
    method.execute([])
except RuntimeError:
    print("RuntimeError")
try:
    runtime.load_program(7)
except TypeError:
    print("TypeError")
"""


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ["torch", "executorch"]),
    reason="torch and executorch are not both installed",
)
def test_one_script_says_the_same_over_both_packages():
    def said(package):
        command = [sys.executable, "-c", SCRIPT.format(package=package), str(GOLDEN)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert said("sconce") == said("executorch")


def test_methods_run_without_torch():
    program = Runtime.get().load_program(GOLDEN / "mlp.pte", verification=Verification.InternalConsistency)
    inputs, outputs = golden("mlp")
    method = program.load_method("forward")
    given = method.execute(inputs)
    assert isinstance(given, list) and numpy.allclose(given[0], outputs[0], rtol=1e-4, atol=1e-5)
    assert "MethodMeta(name='forward', num_inputs=1" in repr(method.metadata)


def test_what_is_not_there_says_so():
    runtime = sconce.Runtime.get()
    with pytest.raises(sconce.Error, match="ETDump"):
        runtime.load_program(io.BytesIO((GOLDEN / "mlp.pte").read_bytes()), enable_etdump=True)
    program = runtime.load_program(GOLDEN / "methods.pte")
    with pytest.raises(KeyError, match="no method `nothing`"):
        program.load_method("nothing")
    with pytest.raises(sconce.Error, match="output 0 of `get_vocab_size` is no tensor"):
        program.metadata("get_vocab_size").output_tensor_meta(0)
