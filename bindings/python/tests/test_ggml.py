"""ggml as a backend of the official exporter; its programs run where this package was built with ggml."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sconce
from sconce._sconce import backend_names

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("executorch.exir", reason="executorch is not installed")

from executorch.exir import to_edge_transform_and_lower  # noqa: E402
from executorch_ggml import GgmlPartitioner, GgmlQuantConfig  # noqa: E402
from executorch_ggml.dump_ir import dump, main  # noqa: E402
from torch import nn  # noqa: E402

RUNS = "GgmlBackend" in backend_names()


def lower(module, inputs, dynamic_shapes=None, **options):
    """A program, and the partitioner that made it."""
    partitioner = GgmlPartitioner(**options)
    with torch.no_grad():
        exported = torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes)
        lowered = to_edge_transform_and_lower(exported, partitioner=[partitioner])
        return bytes(lowered.to_executorch().buffer), partitioner


def same(program, module, *inputs, rtol=1e-4, atol=1e-5):
    """Whether a program gives what its module gives; nothing is asked where it cannot run."""
    if RUNS:
        with torch.no_grad():
            wanted = module(*inputs)
        torch.testing.assert_close(sconce.load(program)(*inputs), wanted, rtol=rtol, atol=atol)


def parts(program):
    """The payloads of a program, as text."""
    return [text for _, _, text in sconce._sconce.payloads_of_ggml(program)]


class QuickStart(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.activation = nn.LeakyReLU(0.1)

    def forward(self, x):
        return self.activation(self.linear(x))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.Conv2d(8, 8, 3, padding=1, stride=2, groups=8),
            nn.Hardswish(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 1),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.features(x).flatten(1)).softmax(-1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(32), nn.RMSNorm(32)
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        batch, length, width = x.shape
        normal = self.before(x)
        heads = [
            layer(normal).view(batch, length, 4, width // 4).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        ]
        mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


class Interrupted(nn.Module):
    """Between two layers there is what ggml does not compute; both read the same weight."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, positions):
        first = torch.relu(self.layer(x))
        ordered, places = torch.sort(first, dim=-1)
        return self.layer(ordered) * 2, places + positions


class Pieces(nn.Module):
    """Results that are inputs, the same as each other, or nothing but copies; an operator of several results."""

    def forward(self, x, unused):
        left, right = torch.split(x, [2, 6], dim=1)
        return torch.exp(left), torch.exp(left).clone(), right.reshape(3, 2).clone(), x.view(8)


class Branches(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda a: torch.tanh(a) * 2, lambda a: torch.exp(a) + 1, (x.relu(),)) + 1


class Mask(nn.Module):
    """What is known beforehand is made of integers, which ggml does not have."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(6, 8)
        self.register_buffer("places", torch.arange(6))

    def forward(self, x):
        places = torch.arange(6)
        mask = torch.where(places[:, None] >= places, 0.0, -10.0)
        return torch.softmax(x @ x.transpose(1, 2) + mask, -1) @ (x + self.table(self.places))


class Counted(nn.Module):
    """Keeps the sum of what it was given."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(torch.tanh(x))
        return self.total * 2


def test_the_quick_start():
    torch.manual_seed(0)
    module, x = QuickStart(), torch.randn(2, 8)
    program, partitioner = lower(module, (x,))
    assert partitioner.refused == {}
    assert set(sconce.load(program, lazy=True).method_meta().backends) == {"GgmlBackend"}
    [text] = parts(program)
    assert "Linear of" in text and "LeakyRelu" in text
    same(program, module, x)


@pytest.mark.parametrize(
    "module, sizes, operations",
    [(Images, (2, 3, 16, 16), ["Conv2d", "HardSwish", "MaxPool2d", "Softmax"]),
     (Block, (2, 6, 32), ["LayerNorm", "RmsNorm", "Attention", "Gelu"])],
)  # fmt: skip
def test_models_are_one_part(module, sizes, operations):
    torch.manual_seed(0)
    module, x = module(), torch.randn(sizes)
    program, partitioner = lower(module, (x,))
    assert partitioner.refused == {}
    [text] = parts(program)
    assert [name for name in operations if name not in text] == []
    same(program, module, x)


def test_what_ggml_refuses_stays():
    torch.manual_seed(0)
    module, inputs = Interrupted(), (torch.randn(3, 8), torch.arange(8))
    program, partitioner = lower(module, inputs)
    assert any("sort" in name for name in partitioner.refused)
    first, second = parts(program)
    # Both read the same data.
    keys = [{line.split()[-1] for line in text.splitlines() if " constant " in line} for text in (first, second)]
    assert len(keys[0]) == 2 and keys[0] <= keys[1]
    same(program, module, *inputs)


def test_results_are_tensors_of_their_own():
    inputs = torch.randn(1, 8), torch.randn(3)
    program, _ = lower(Pieces(), inputs)
    [text] = parts(program)
    assert text.count("-> output") == 4
    same(program, Pieces(), *inputs)


def test_sizes_can_stay_open():
    torch.manual_seed(0)
    module, batch = Block(), torch.export.Dim("batch", min=1, max=8)
    program, _ = lower(module, (torch.randn(3, 6, 32),), dynamic_shapes=({0: batch},))
    assert len(parts(program)) == 1
    for size in (1, 5, 8):
        same(program, module, torch.randn(size, 6, 32))


@pytest.mark.parametrize("module, sizes, count", [(Branches, (4,), 2), (Mask, (2, 6, 8), 1)])
def test_only_tensors_that_ggml_has_cross_borders(module, sizes, count):
    torch.manual_seed(0)
    module, x = module(), torch.randn(sizes)
    program, _ = lower(module, (x,))
    assert len(parts(program)) == count
    same(program, module, x)


def test_other_orders_of_dimensions_stay():
    torch.manual_seed(0)
    module, x = Images(), torch.randn(2, 3, 16, 16).to(memory_format=torch.channels_last)
    program, partitioner = lower(module, (x,))
    assert "a tensor does not lie row by row" in partitioner.refused.values()
    same(program, module, x)


def test_buffers_are_kept_outside():
    program, _ = lower(Counted(), (torch.randn(4),))
    assert "Tanh" in "".join(parts(program))
    if RUNS:
        model, module = sconce.load(program), Counted()
        for _ in range(3):
            x = torch.randn(4)
            torch.testing.assert_close(model(x), module(x), rtol=1e-4, atol=1e-5)


def test_weights_in_blocks():
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)), torch.randn(2, 64)
    if not RUNS:
        with pytest.raises(sconce.Error, match="build it with the feature `ggml`"):
            lower(module, (x,), quant_config=GgmlQuantConfig("q8_0"))
        return
    program, _ = lower(module, (x,), quant_config=GgmlQuantConfig("q8_0"))
    assert "q8_0[64, 64]" in parts(program)[0]
    same(program, module, x, rtol=0.05, atol=0.05)
    with pytest.raises(sconce.Error, match='no blocks "roman"'):
        lower(module, (x,), quant_config=GgmlQuantConfig("roman"))


def test_payloads_are_shown(tmp_path, capsys):
    program, _ = lower(QuickStart(), (torch.randn(2, 8),))
    (tmp_path / "m.pte").write_bytes(program)
    command = [sys.executable, "-m", "executorch_ggml.dump_ir", str(tmp_path / "m.pte")]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert text == dump(program)
    assert text.startswith("forward, delegate 0\n%0 = f32[2, 8] input 0\n") and text.endswith("-> output 0\n")
    (tmp_path / "n.pte").write_bytes(b"no program")
    assert main([str(tmp_path / "n.pte")]) == 1
    assert str(tmp_path / "n.pte") in capsys.readouterr().err
