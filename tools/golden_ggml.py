"""A golden program for each operator that ggml computes: NAME.pt2 with NAME.npz (inputs and eager PyTorch's outputs).

usage: golden_ggml.py OUT_DIR

Sizes are small, and chosen so that every dimension differs; ranks above four are among them.
"""

import os
import sys

import numpy
import torch
from torch.nn import functional as f

torch.manual_seed(0)


def x(*sizes):
    return torch.randn(*sizes)


def positive(*sizes):
    return torch.rand(*sizes) + 0.5


def index(most, *sizes):
    return torch.randint(0, most, sizes)


class Cache(torch.nn.Module):
    """Keeps rows from call to call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.arange(24.0).view(2, 4, 3))

    def forward(self, new, place):
        self.rows[:, place] = new
        return self.rows * 2


class Layers(torch.nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = torch.nn.Sequential(*layers)

    def forward(self, *inputs):
        return self.layers(*inputs)


BOTH = torch.randn(8, 8) > 0
BOTH[:, 0] = True

ATEN = torch.ops.aten

CASES = {
    "abs": (torch.abs, [x(2, 3)]),
    "add": (torch.add, [x(2, 3, 4), x(3, 1)]),
    "add_alpha": (lambda a, b: torch.add(a, b, alpha=-0.5), [x(2, 3), x(2, 3)]),
    "add_first_broadcast": (torch.add, [x(3, 1), x(2, 3, 4)]),
    "add_number": (lambda a: a + 1.5, [x(5)]),
    "add_rank_6": (torch.add, [x(2, 1, 3, 2, 2, 2), x(2, 2, 2)]),
    "addmm": (torch.addmm, [x(5), x(3, 4), x(4, 5)]),
    "addmm_matrix": (torch.addmm, [x(3, 1), x(3, 4), x(4, 5)]),
    "avg_pool": (lambda a: f.avg_pool2d(a, (2, 3), (1, 2)), [x(1, 2, 5, 7)]),
    "bmm": (torch.bmm, [x(2, 3, 4), x(2, 4, 5)]),
    "cat": (lambda a, b: torch.cat([a, b, a], 1), [x(2, 3, 4), x(2, 1, 4)]),
    "cat_rank_5": (lambda a, b: torch.cat([a, b], 2), [x(2, 1, 3, 2, 4), x(2, 1, 1, 2, 4)]),
    "ceil": (torch.ceil, [x(7)]),
    "clamp": (lambda a: a.clamp(-0.5, 0.25), [x(2, 9)]),
    "clamp_max": (lambda a: a.clamp(max=0.25), [x(2, 9)]),
    "clone": (lambda a: a.clone() + 0, [x(2, 2)]),
    "conv1d": (Layers(torch.nn.Conv1d(4, 6, 3, 2, 1)), [x(2, 4, 9)]),
    "conv2d": (Layers(torch.nn.Conv2d(3, 5, (3, 2), (2, 1), (1, 0), (1, 2))), [x(2, 3, 9, 8)]),
    "conv2d_depthwise": (Layers(torch.nn.Conv2d(4, 4, 3, 1, 1, groups=4)), [x(1, 4, 6, 5)]),
    "conv2d_groups": (Layers(torch.nn.Conv2d(4, 6, 3, 1, 1, groups=2, bias=False)), [x(2, 4, 6, 5)]),
    "cos": (torch.cos, [x(7)]),
    "cumsum": (lambda a: a.cumsum(1), [x(2, 5, 3)]),
    "div": (torch.div, [x(2, 3), positive(3)]),
    "div_number": (lambda a: a / 3, [x(2, 3)]),
    "elu": (f.elu, [x(9)]),
    "embedding": (Layers(torch.nn.Embedding(9, 4)), [index(9, 2, 3)]),
    "exp": (torch.exp, [x(7)]),
    "expand": (lambda a: a.expand(5, 2, 3, 4) * 1, [x(2, 1, 4)]),
    "expm1": (torch.expm1, [x(7)]),
    "floor": (torch.floor, [x(7)]),
    "gelu": (f.gelu, [x(9)]),
    "gelu_tanh": (lambda a: f.gelu(a, approximate="tanh"), [x(9)]),
    "group_norm": (Layers(torch.nn.GroupNorm(2, 4)), [x(2, 4, 3, 5)]),
    "hardsigmoid": (f.hardsigmoid, [x(9) * 4]),
    "hardswish": (f.hardswish, [x(9) * 4]),
    "hardtanh": (lambda a: f.hardtanh(a, -0.3, 0.4), [x(9)]),
    "index_copy": (lambda a, i, b: a.index_copy(1, i, b), [x(2, 5, 3), torch.tensor([3, 0]), x(2, 2, 3)]),
    "index_put_and_read": (lambda a, i, b: (a.index_put([i], b), a * 2), [x(5, 3), torch.tensor([-1, 0]), x(2, 3)]),
    "index_put": (lambda a, i, b: a.index_put([i], b), [x(5, 3), torch.tensor([-1, 0]), x(2, 3)]),
    "index_twice": (lambda a, b, i: (a[i], b[i]), [x(5, 3), x(4, 2), torch.tensor([-1, 0])]),
    "index_select": (lambda a, i: a[i], [x(5, 3, 2), torch.tensor([[3, 0], [1, -1]])]),
    "kv_cache": (Cache(), [x(2, 1, 3), torch.tensor([2])]),
    "layer_norm": (Layers(torch.nn.LayerNorm((3, 4))), [x(2, 3, 4)]),
    "leaky_relu": (lambda a: f.leaky_relu(a, 0.3), [x(9)]),
    "linear": (Layers(torch.nn.Linear(6, 5)), [x(2, 3, 6)]),
    "linear_without_bias": (Layers(torch.nn.Linear(6, 5, bias=False)), [x(6)]),
    "log": (torch.log, [positive(7)]),
    "matmul": (torch.matmul, [x(2, 3, 4, 5), x(3, 5, 2)]),
    "max_pool": (lambda a: f.max_pool2d(a, 3, 2, 1), [x(1, 2, 7, 6)]),
    "mean": (lambda a: a.mean((0, 2)), [x(2, 3, 4)]),
    "mean_all": (lambda a: a.mean(), [x(2, 3, 4)]),
    "mean_image": (lambda a: a.mean((2, 3), keepdim=True), [x(2, 3, 4, 5)]),
    "mm": (torch.mm, [x(3, 4), x(4, 5)]),
    "mul": (torch.mul, [x(2, 1, 4), x(3, 1)]),
    "mul_number": (lambda a: a * -2.5, [x(5)]),
    "neg": (torch.neg, [x(7)]),
    "pad": (lambda a: f.pad(a, (1, 2, 0, 3)), [x(2, 3, 4)]),
    "permute": (lambda a: a.permute(2, 0, 3, 1) * 1, [x(2, 3, 4, 5)]),
    "permute_rank_5": (lambda a: a.permute(0, 3, 4, 1, 2) * 1, [x(2, 3, 4, 5, 2)]),
    "pow_2": (lambda a: a.pow(2), [x(7)]),
    "pow_half": (lambda a: a.pow(0.5), [positive(7)]),
    "relu": (torch.relu, [x(7)]),
    "relu6": (f.relu6, [x(7) * 8]),
    "repeat": (lambda a: a.repeat(2, 1, 3), [x(2, 3, 2)]),
    "repeat_interleave": (lambda a: a.repeat_interleave(3, 1), [x(2, 3, 2)]),
    "rms_norm": (Layers(torch.nn.RMSNorm(6)), [x(2, 3, 6)]),
    "rsqrt": (torch.rsqrt, [positive(7)]),
    "rsub": (lambda a: 2 - a, [x(5)]),
    "sdpa": (f.scaled_dot_product_attention, [x(2, 3, 5, 8), x(2, 3, 7, 8), x(2, 3, 7, 8)]),
    "sdpa_bool_mask": (
        lambda q, k, v, mask: f.scaled_dot_product_attention(q, k, v, mask),
        [x(1, 2, 8, 4), x(1, 2, 8, 4), x(1, 2, 8, 4), BOTH],
    ),
    "sdpa_causal": (
        lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
        [x(1, 2, 6, 4), x(1, 2, 6, 4), x(1, 2, 6, 4)],
    ),
    "sdpa_float_mask": (
        lambda q, k, v, mask: f.scaled_dot_product_attention(q, k, v, mask, scale=0.3),
        [x(1, 2, 5, 4), x(1, 2, 7, 4), x(1, 2, 7, 4), x(1, 1, 5, 7)],
    ),
    "sdpa_grouped": (
        lambda q, k, v: f.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        [x(1, 4, 5, 8), x(1, 2, 7, 8), x(1, 2, 7, 8)],
    ),
    "select": (lambda a: a[:, -2] * 1, [x(2, 3, 4)]),
    "sigmoid": (torch.sigmoid, [x(7)]),
    "silu": (f.silu, [x(7)]),
    "sin": (torch.sin, [x(7)]),
    "slice": (lambda a: a[:, 1:6:2] * 1, [x(2, 7, 3)]),
    "slice_end": (lambda a: a[..., -2:] * 1, [x(2, 7, 3)]),
    "softmax": (lambda a: a.softmax(-1), [x(2, 3, 4)]),
    "softmax_first": (lambda a: a.softmax(0), [x(2, 3, 4)]),
    "split": (lambda a: [part * 1 for part in a.split([1, 3, 2], 1)], [x(2, 6, 3)]),
    "sqrt": (torch.sqrt, [positive(7)]),
    "squeeze": (lambda a: a.squeeze(1) * 1, [x(2, 1, 3)]),
    "stack": (lambda a, b: torch.stack([a, b], 1), [x(2, 3), x(2, 3)]),
    "sub": (lambda a, b: torch.sub(a, b, alpha=2), [x(3), x(2, 3)]),
    "sum": (lambda a: a.sum((1, 3)), [x(2, 3, 4, 5)]),
    "t": (lambda a: a.t() * 1, [x(2, 3)]),
    "tanh": (torch.tanh, [x(7)]),
    "transpose": (lambda a: a.transpose(-1, 0) * 1, [x(2, 3, 4)]),
    "trunc": (torch.trunc, [x(7)]),
    "unsqueeze": (lambda a: a.unsqueeze(1) * 1, [x(2, 3)]),
    "view": (lambda a: a.view(3, 8) * 1, [x(2, 3, 4)]),
    # As graphs have them after `run_decompositions`.
    "aten_add_scalar": (lambda a: ATEN.add.Scalar(a, 2, 0.5), [x(5)]),
    "aten_clamp_max": (lambda a: ATEN.clamp_max(a, 0.5), [x(9)]),
    "aten_clamp_min": (lambda a: ATEN.clamp_min(a, -0.5), [x(9)]),
    "aten_div_scalar": (lambda a: ATEN.div.Scalar(a, 3), [x(5)]),
    "aten_mul_scalar": (lambda a: ATEN.mul.Scalar(a, 3), [x(5)]),
    "aten_native_layer_norm": (
        lambda a, w, b: ATEN.native_layer_norm(a, [4], w, b, 1e-5)[0],
        [x(2, 3, 4), x(4), x(4)],
    ),
    "aten_softmax": (lambda a: ATEN._softmax(a, 1, False), [x(2, 3, 4)]),
    "aten_square": (ATEN.square, [x(5)]),
    "aten_sub_scalar": (lambda a: ATEN.sub.Scalar(a, 2, 0.5), [x(5)]),
    "aten_sum": (lambda a: ATEN.sum(a), [x(2, 5)]),
    "aten_to_copy": (lambda a: ATEN._to_copy(a) * 1, [x(2, 5)]),
}


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, (function, inputs) in CASES.items():
        module = function if isinstance(function, torch.nn.Module) else Function(function)
        with torch.no_grad():
            program = torch.export.export(module.eval(), tuple(inputs))
            for node in program.graph.nodes:
                # Says where this script is.
                node.meta.pop("stack_trace", None)
            torch.export.save(program, os.path.join(folder, f"{name}.pt2"))
            outputs = program.module()(*inputs)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        golden = {f"in{place}": value.numpy() for place, value in enumerate(inputs)}
        golden |= {f"out{place}": value.numpy() for place, value in enumerate(outputs)}
        numpy.savez_compressed(os.path.join(folder, f"{name}.npz"), **golden)


if __name__ == "__main__":
    main()
