"""Tensors of torch in and out, and compiling modules."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import namedtuple

import numpy
import pytest
from conftest import GOLDEN, golden

import sconce
from sconce._sconce import compiler_backends

torch = pytest.importorskip("torch", reason="torch is not installed")


def test_importing_the_package_does_not_import_torch():
    code = "import sys, sconce, sconce.runtime, sconce.exir; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tensors_come_out_where_tensors_go_in():
    inputs, outputs = golden("mlp")
    model = sconce.load(GOLDEN / "mlp.pte")
    given = model(*map(torch.from_numpy, inputs))
    assert isinstance(given, torch.Tensor)
    torch.testing.assert_close(given, torch.from_numpy(outputs[0]), rtol=1e-4, atol=1e-5)
    parameter = torch.nn.Parameter(torch.from_numpy(inputs[0]))
    torch.testing.assert_close(model(parameter), given)


def test_memory_of_tensors_is_not_copied():
    inputs, _ = golden("mlp")
    given = sconce.load(GOLDEN / "mlp.pte")(torch.from_numpy(inputs[0]))
    assert given.data_ptr() == given.numpy().__array_interface__["data"][0]
    given += 1
    from sconce._arrays import lend

    tensor = torch.zeros(2, 3)
    assert lend(tensor).__array_interface__["data"][0] == tensor.data_ptr()
    half = torch.zeros(2, 3, dtype=torch.bfloat16)
    assert lend(half).__array_interface__["data"][0] == half.data_ptr()


def test_bfloat16_is_that_of_torch():
    inputs, outputs = golden("dtype_bfloat16")
    session = sconce.load(GOLDEN / "dtype_bfloat16.pte").session()
    wide = [info.dtype == "bfloat16" for info in session.meta.inputs]
    tensors = [
        torch.from_numpy(one).view(torch.bfloat16) if is_wide else torch.from_numpy(one)
        for one, is_wide in zip(inputs, wide)
    ]
    given = session.run_flat(tensors)
    for have, want, info in zip(given, outputs, session.meta.outputs):
        assert str(have.dtype) == f"torch.{info.dtype}"
        if info.dtype == "bfloat16":
            torch.testing.assert_close(have, torch.from_numpy(want).view(torch.bfloat16), rtol=2e-2, atol=1e-2)


def test_layouts_of_tensors_do_not_matter():
    inputs, outputs = golden("channels_last")
    session = sconce.load(GOLDEN / "channels_last.pte").session()
    plain = [torch.from_numpy(one).contiguous() for one in inputs]
    last = [one.to(memory_format=torch.channels_last) for one in plain]
    wide = [torch.cat([one, one], dim=-1)[..., : one.shape[-1]] for one in plain]
    for layout in [plain, last, wide]:
        for have, want in zip(session.run_flat(layout), outputs):
            torch.testing.assert_close(have, torch.from_numpy(want), rtol=1e-4, atol=1e-5)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.second = torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


def same(program, module, *inputs, **options):
    """Whether a program gives what its module gives."""
    torch.testing.assert_close(sconce.load(program, **options)(*inputs), module(*inputs), rtol=1e-4, atol=1e-5)


def test_a_module_an_export_and_an_archive_are_compiled(net, tmp_path):
    x = torch.randn(3, 8)
    exported = torch.export.export(net, (x,))
    torch.export.save(exported, tmp_path / "net.pt2")
    for module in [net, exported, tmp_path / "net.pt2", str(tmp_path / "net.pt2"), (tmp_path / "net.pt2").read_bytes()]:
        same(sconce.compile(module, (x,)), net, x)
    same(sconce.compile(net, x, backends=()), net, x)


@pytest.mark.skipif("xnnpack" not in compiler_backends(), reason="the compiler has no backend xnnpack")
def test_parts_are_delegated_where_asked(net):
    x = torch.randn(3, 8)
    for backends, wanted in [(None, {"XnnpackBackend"}), (["xnnpack"], {"XnnpackBackend"}), ([], set())]:
        program = sconce.compile(net, (x,), backends=backends)
        assert set(sconce.load(program).method_meta().backends) == wanted
        same(program, net, x)


def test_dynamic_shapes_stay_dynamic(net):
    batch = torch.export.Dim("batch", min=1, max=16)
    program = sconce.compile(net, (torch.randn(3, 8),), dynamic_shapes={"x": {0: batch}})
    for size in [1, 5, 16]:
        same(program, net, torch.randn(size, 8))


def test_misuse_of_compile_is_told(net):
    x = torch.randn(3, 8)
    with pytest.raises(sconce.Error, match='no backend "abacus"; it has'):
        sconce.compile(net, (x,), backends=["abacus"])
    with pytest.raises(sconce.Error, match='quantisation "roman"'):
        sconce.compile(net, (x,), quantize="roman")
    with pytest.raises(TypeError, match="pass example_inputs"):
        sconce.compile(net)
    with pytest.raises(TypeError, match="not int"):
        sconce.compile(3)
    with pytest.raises(sconce.Error):
        sconce.compile(b"no archive")
    with pytest.raises(sconce.Error, match="mapping is empty"):
        sconce.compile({})
    with pytest.warns(UserWarning, match="training mode"):
        sconce.compile(Net(), (x,))


def test_arguments_go_by_name(net):
    class Named(torch.nn.Module):
        def forward(self, left, right, *, scale):
            return left - right * scale

    left, right, scale = torch.randn(3), torch.randn(3), torch.randn(3)
    exported = torch.export.export(Named(), (left, right), {"scale": scale})
    model = sconce.load(sconce.compile(exported))
    assert [info.name for info in model.method_meta().inputs] == ["left", "right", "scale"]
    wanted = left - right * scale
    for args, kwargs in [
        ((left, right), {"scale": scale}),
        ((left,), {"right": right, "scale": scale}),
        ((), {"scale": scale, "right": right, "left": left}),
        ((left, right, scale), {}),
    ]:
        torch.testing.assert_close(model(*args, **kwargs), wanted)
    with pytest.raises(TypeError, match="takes no keyword middle: its inputs are left, right, scale"):
        model(left, right, scale=scale, middle=left)
    with pytest.raises(TypeError, match="left twice"):
        model(left, left=left, right=right, scale=scale)
    with pytest.raises(TypeError, match="lacks its input right"):
        model(left=left, scale=scale)


def test_quantisation_is_calibrated_with_calls(net):
    calls = [torch.randn(3, 8) for _ in range(16)]
    x = torch.randn(3, 8)
    net = net.eval()
    program = sconce.compile(net, (torch.zeros(3, 8),), quantize="int8", calibrate=[(call,) for call in calls])
    error = (sconce.load(program)(x) - net(x)).abs().max()
    with pytest.warns(UserWarning, match="pass real ones as calibrate"):
        blind = sconce.compile(net, (torch.zeros(3, 8),), quantize="int8")
    # Zeros say nothing about what the layers will see.
    assert error < 0.1 and error * 4 < (sconce.load(blind)(x) - net(x)).abs().max()
    same_calls = sconce.compile(net, (torch.zeros(3, 8),), quantize="int8", calibrate=[call.numpy() for call in calls])
    assert same_calls == program
    with pytest.raises(sconce.Error, match="groups of 7 weights"):
        sconce.compile(net, (x,), quantize="int4", group_size=7)
    with pytest.raises(sconce.Error, match="only int4 has groups"):
        sconce.compile(net, (x,), quantize="int8-dynamic", group_size=32)
    with pytest.raises(sconce.Error, match="no calls"):
        sconce.compile(net, (x,), quantize="int8", calibrate=[])
    with pytest.raises(sconce.Error, match="are for quantize"):
        sconce.compile(net, (x,), calibrate=[(x,)])
    with pytest.raises(sconce.Error, match="a call of calibrate"):
        sconce.compile(net, (x,), quantize="int8", calibrate=[(x, x)])


Pair = namedtuple("Pair", ["left", "right"])
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name=f"{__name__}.Pair")


class Nested(torch.nn.Module):
    def forward(self, pair, scale=None, *, extra):
        total = pair.left + pair.right * extra["a"][0]
        return Pair(total, [total * 2, {"scale": total - 1}])


def test_containers_are_those_of_the_module():
    pair, extra = Pair(torch.ones(2), torch.full((2,), 3.0)), {"a": [torch.tensor([2.0, 4.0])]}
    module = Nested()
    exported = torch.export.export(module, (pair,), {"extra": extra})
    model = sconce.load(sconce.compile(exported))
    given = model(pair, extra=extra)
    assert type(given) is Pair and isinstance(given.right, list)
    torch.testing.assert_close(given.left, torch.tensor([7.0, 13.0]))
    torch.testing.assert_close(given.right[1]["scale"], torch.tensor([6.0, 12.0]))


def test_the_official_flow_with_these_names(net, tmp_path):
    x = torch.randn(3, 8)
    exported = torch.export.export(net, (x,))
    partitioner = sconce.XnnpackPartitioner(config_precisions=None, per_op_mode=True, verbose=False)
    edge = sconce.to_edge_transform_and_lower(exported, partitioner=[partitioner])
    assert edge.methods == {"forward"}
    program = edge.to_executorch()
    same(program.buffer, net, x)
    with open(tmp_path / "a.pte", "wb") as file:
        program.write_to_file(file)
    program.save(str(tmp_path / "b.pte"))
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "b.pte").read_bytes() == program.buffer
    with pytest.raises(ValueError, match="ends in .pte"):
        program.save(tmp_path / "c.bin")
    again = sconce.to_edge(exported).to_backend(sconce.XnnpackPartitioner()).to_executorch()
    assert again.buffer == program.buffer


def test_several_methods_and_constants_in_one_program(net):
    x = torch.randn(3, 8)
    programs = {"encode": torch.export.export(net, (x,)), "twice": torch.export.export(Double(), (x,))}
    table = torch.arange(6.0).reshape(2, 3)
    constants = {"get_size": 7, "get_scale": 0.5, "use_cache": True, "get_table": table, "get_shape": (1, 2, 3)}
    edge = sconce.to_edge_transform_and_lower(programs, constant_methods=constants)
    model = sconce.load(edge.to_executorch().buffer)
    assert set(model.methods) == {*programs, *constants}
    torch.testing.assert_close(model.run("encode", [x]), net(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.run("twice", [x]), x * 2)
    assert model.run("get_size") == 7 and model.run("get_scale") == 0.5 and model.run("use_cache") is True
    assert model.run("get_shape") == (1, 2, 3)
    assert numpy.array_equal(model.run("get_table"), table.numpy())
    with pytest.raises(sconce.Error, match="one method of a name"):
        sconce.to_edge(programs, constant_methods={"twice": 1})


class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2


def test_what_the_official_flow_has_more_is_refused(net):
    exported = torch.export.export(net, (torch.randn(3, 8),))
    with pytest.raises(sconce.Error, match="no passes"):
        sconce.to_edge_transform_and_lower(exported, transform_passes=[print])
    with pytest.raises(sconce.Error, match="ETRecord"):
        sconce.to_edge_transform_and_lower(exported, generate_etrecord=True)
    with pytest.raises(sconce.Error, match="object partitions for"):
        sconce.to_edge_transform_and_lower(exported, partitioner=[object()])
    from sconce.exir import EdgeCompileConfig, ExecutorchBackendConfig

    EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    with pytest.warns(UserWarning, match="external_constants"):
        ExecutorchBackendConfig(external_constants=True)


def test_compiled_programs_run_on_the_official_runtime(net):
    pytest.importorskip("executorch", reason="executorch is not installed")
    from executorch.runtime import Runtime

    x = torch.randn(3, 8)
    program = Runtime.get().load_program(io.BytesIO(sconce.compile(net, (x,), backends=())))
    [given] = program.load_method("forward").execute([x])
    torch.testing.assert_close(given, net(x), rtol=1e-4, atol=1e-5)
