"""The rows of `golden_calls.py`: calls of single operators, family by family.

A row is `row(operator, *arguments)`: the arguments in the order of the operator's signature, without the outs. What the
call answers is what PyTorch's own form of the operator does; `eager` is given where PyTorch has none to call.
"""

import math
from dataclasses import dataclass
from typing import Any, Callable

import executorch.exir.passes._quant_patterns_and_replacements  # registers operators of quantized_decomposed
import torch
from executorch.extension.llm.custom_ops import custom_ops  # registers those of llama

import golden_call_references as reference

ROWS = []


@dataclass
class State:
    """A tensor argument that the call writes: it begins with these values and is an output."""

    initial: torch.Tensor


@dataclass
class Row:
    operator: str
    args: tuple
    tag: str = ""  # tells the rows of one operator apart
    eager: Callable = None
    bound: Any = None  # the sizes that are planned for a result whose sizes depend on values
    returns_nothing: bool = False  # the returned value is left undefined; only state counts
    official: str = None  # how the official runtime departs, if it does

    @property
    def name(self):
        stem = self.operator.replace("::", "_").replace(".", "_")
        return f"{stem}_{self.tag}" if self.tag else stem


def row(operator, *args, **options):
    ROWS.append(Row(operator, args, **options))


def some(*sizes, dtype=torch.float32):
    """A few values without order or repetition, around zero where the type has a sign."""
    i = torch.arange(math.prod(sizes)).reshape(sizes)
    if dtype == torch.bool:
        return i * 7 % 5 < 2
    if not dtype.is_floating_point and not dtype.is_complex:
        return (i * 7 % 11 - (0 if dtype == torch.uint8 else 5)).to(dtype)
    values = (i * 37 % 101 - 50) / 20
    return torch.complex(values, values.flip(0) * 0.5 + 0.1) if dtype.is_complex else values.to(dtype)


F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
I64, I32, I8, U8, BOOL, C64 = torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool, torch.complex64


# ---- Copies ----

for name in ["aten::detach_copy.out", "aten::lift_fresh_copy.out"]:
    row(name, some(2, 3))
    row(name, some(4, dtype=BOOL), tag="bool")
    row(name, some(), tag="zero_dim")
for name in ["et_copy::_d2h_copy.out", "et_copy::_h2d_copy.out"]:
    refused = "refuses to copy where there is no second device"
    row(name, some(2, 3), eager=torch.clone, official=refused)
    row(name, some(0, 3, dtype=I64), eager=torch.clone, tag="empty", official=refused)
row("aten::clone.out", some(2, 3), None)
row("aten::clone.out", some(4, dtype=BF16), None, tag="bfloat16")
row("aten::clone.out", some(0, 2, dtype=I64), None, tag="empty")
for to, x in [(I64, some(2, 3)), (F32, some(5, dtype=I32)), (BOOL, some(5, dtype=F16)), (BF16, some())]:
    eager = lambda x, non_blocking, memory_format, to=to: x.to(to)
    row("aten::_to_copy.out", x, False, None, eager=eager, tag=str(to).removeprefix("torch."))
row("aten::_conj_physical.out", some(2, 3, dtype=C64))
row("aten::_conj_physical.out", some(dtype=C64), tag="zero_dim")
row("aten::view_as_real_copy.out", some(2, 3, dtype=C64))
row("aten::view_as_real_copy.out", some(0, dtype=C64), tag="empty")
refuses = "does not compute with complex numbers"
for name in ["exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sigmoid"]:
    row(f"aten::{name}.out", some(2, 3, dtype=C64), tag="complex64", official=refuses)
row("aten::pow.Tensor_Tensor_out", some(2, 3, dtype=C64), some(3, dtype=C64), tag="complex64", official=refuses)
row("aten::eq.Tensor_out", some(2, 3, dtype=C64), some(3, dtype=C64), tag="complex64", official=refuses)
row("aten::t_copy.out", some(2, 3))
row("aten::t_copy.out", some(4, dtype=I64), tag="vector")
row("aten::transpose_copy.int_out", some(2, 3, 4), 0, -1)
row("aten::transpose_copy.int_out", some(2, 3, dtype=BOOL), 1, 0, tag="bool")
row("aten::transpose_copy.int_out", some(), 0, -1, tag="zero_dim")
row("aten::squeeze_copy.dim_out", some(2, 1, 3), -2)
row("aten::squeeze_copy.dim_out", some(2, 3, dtype=I64), 0, tag="kept")
row("aten::squeeze_copy.dim_out", some(), 0, tag="zero_dim")
row("aten::split_copy.Tensor_out", some(5, 2), 2, 0)
row("aten::split_copy.Tensor_out", some(2, 4, dtype=I64), 2, -1, tag="int64")
row("aten::stack.out", [some(2, 3), some(2, 3) + 1], -1)
row("aten::stack.out", [some(dtype=I64), some(dtype=I64)], 0, tag="zero_dim")
row("aten::stack.out", [some(2, dtype=BOOL), some(2, dtype=BOOL), some(2, dtype=BOOL)], 1, tag="bool")
row("aten::roll.out", some(2, 5), [1, -2], [0, 1])
row("aten::roll.out", some(2, 3, dtype=I64), [2], [], tag="flat", official="needs a dim for every shift")
row("aten::roll.out", some(0, 3), [1], [-1], tag="empty")
row("aten::pixel_shuffle.out", some(1, 8, 2, 3), 2)
row("aten::pixel_shuffle.out", some(4, 1, 1, dtype=I64), 2, tag="int64")
row("aten::pixel_unshuffle.out", some(1, 2, 4, 6), 2)
row("aten::pixel_unshuffle.out", some(1, 2, 2, dtype=U8), 2, tag="uint8")
row("aten::tril.out", some(2, 3, 4), -1)
row("aten::tril.out", some(3, 3, dtype=BOOL), 0, tag="bool")
row("aten::tril.out", some(3, 2, dtype=I64), 5, tag="all")
row("aten::select_scatter.out", some(2, 3), some(2) + 10, -1, 1)
row("aten::select_scatter.out", some(3, 2, dtype=I64), some(2, dtype=I64) + 10, 0, -3, tag="int64")
row("preprocess::tile_crop.out", some(2, 4, 6), 2, eager=reference.tile_crop)
row("llama::fallback.out", some(2, 3), eager=torch.clone)
row("llama::fallback.out", some(4, dtype=I64), eager=torch.clone, tag="int64")

for dims, sizes, padding in [
    ("1d", (2, 4), [1, 2]),
    ("2d", (1, 3, 4), [1, 2, 0, 2]),
    ("3d", (1, 2, 3, 3), [1, 2, 0, 1, 1, 0]),
]:
    for kind in ["reflection", "replication"]:
        row(f"aten::{kind}_pad{dims}.out", some(*sizes), padding)
        row(f"aten::{kind}_pad{dims}.out", some(2, *sizes, dtype=F64), padding, tag="batch")
        row(f"aten::{kind}_pad{dims}.out", some(*sizes, dtype=I64), padding, tag="int64")

# ---- Made from sizes ----

row("aten::arange.out", 5, eager=lambda end: torch.arange(end))
row("aten::arange.out", 3.5, eager=lambda end: torch.arange(end, dtype=F32), tag="float32")
row("aten::arange.out", 0, eager=lambda end: torch.arange(end), tag="empty")
for name, make in {"ones": torch.ones, "zeros": torch.zeros}.items():
    row(f"aten::{name}.out", [2, 3], eager=lambda size, make=make: make(size))
    row(f"aten::{name}.out", [4], eager=lambda size, make=make: make(size, dtype=BOOL), tag="bool")
    row(f"aten::{name}.out", [], eager=lambda size, make=make: make(size, dtype=I64), tag="zero_dim")
# The values of these are chance; that there are none is not.
row("aten::empty.out", [0, 3], None, eager=lambda size, memory_format: torch.zeros(size))
row("aten::rand.out", [0, 3], eager=torch.zeros)
row("aten::randn.out", [2, 0], eager=torch.zeros)
row("aten::native_dropout.out", some(2, 3), 0.5, False)
row("aten::native_dropout.out", some(4, dtype=F16), 0.5, False, tag="float16")

# ---- Element by element ----

for name in ["and", "or", "xor"]:
    row(f"aten::bitwise_{name}.Scalar_out", some(2, 3, dtype=I64), 6)
    row(f"aten::bitwise_{name}.Scalar_out", some(4, dtype=BOOL), True, tag="bool")
row("aten::bitwise_xor.Tensor_out", some(2, 3, dtype=I32), some(3, dtype=I32) + 2)
row("aten::bitwise_xor.Tensor_out", some(4, dtype=BOOL), some(1, dtype=BOOL), tag="bool")
for name in ["left", "right"]:
    row(f"aten::bitwise_{name}_shift.Tensor_out", some(2, 3, dtype=I64), torch.tensor([0, 1, 3]))
    row(f"aten::bitwise_{name}_shift.Tensor_out", some(3, dtype=U8), some(1, dtype=U8) + 2, tag="uint8")
    row(f"aten::bitwise_{name}_shift.Tensor_Scalar_out", some(2, 3, dtype=I32), 2)
    row(f"aten::bitwise_{name}_shift.Tensor_Scalar_out", some(3, dtype=U8), 1, tag="uint8")
row("aten::div.Scalar_out", some(2, 3), 3)
row("aten::div.Scalar_out", some(4, dtype=I64), 2.5, tag="int64")
row("aten::div.Scalar_out", some(4, dtype=F16), 0, tag="float16_by_zero")
row("aten::div.Scalar_mode_out", some(2, 3), 0.7, "floor")
row("aten::div.Scalar_mode_out", some(5, dtype=I64), 3, "trunc", tag="int64")
row("aten::div.Scalar_mode_out", some(5, dtype=I64), 3, None, tag="true")
row("aten::floor_divide.out", some(2, 3), some(3) + 3)
row("aten::floor_divide.out", some(6, dtype=I64), torch.tensor([2, -2, 3, -3, 4, 5]), tag="int64")
row("aten::fmod.Scalar_out", some(2, 3), 0.7)
row("aten::fmod.Scalar_out", some(6, dtype=I64), 3, tag="int64")
row("aten::rsub.Scalar_out", some(2, 3), 1.5, 2)
row("aten::rsub.Scalar_out", some(4, dtype=I64), 10, 1, tag="int64")
row("aten::fill.Scalar_out", some(2, 3), 2.5)
row("aten::fill.Scalar_out", some(0, 3, dtype=I64), 2, tag="empty")
row("aten::fill.Tensor_out", some(2, 3), torch.tensor(2.5))
row("aten::fill.Tensor_out", some(3, dtype=BOOL), torch.tensor(1), tag="bool")
row("aten::masked_fill.Scalar_out", some(2, 3), some(3, dtype=BOOL), -math.inf)
row("aten::masked_fill.Scalar_out", some(4, dtype=I64), some(4, dtype=BOOL), 7, tag="int64")
row("aten::logit.out", some(2, 3) / 6 + 0.5, None)
row("aten::logit.out", some(5), 0.1, tag="eps")
row("aten::logit.out", some(3, dtype=U8) > 5, 0.25, tag="bool")
row("aten::logit.out", torch.tensor([0.0, 0.3, 0.59, 0.6, 0.7, 1.0, float("nan")]), 0.6, tag="crossed")
row("aten::glu.out", some(2, 6), -1)
row("aten::glu.out", some(4, 3, dtype=BF16), 0, tag="bfloat16")

# ---- Chosen elements ----

row("aten::masked_scatter.out", some(2, 3), some(3, dtype=BOOL), some(4) + 10)
row("aten::masked_scatter.out", some(4, dtype=I64), some(4, dtype=BOOL), some(5, dtype=I64) + 10, tag="int64")
row("aten::masked_select.out", some(2, 3), some(2, 3, dtype=BOOL), bound=[6])
row("aten::masked_select.out", some(2, 1, dtype=I64), some(3, dtype=BOOL), bound=[6], tag="broadcast")
row("aten::masked_select.out", some(3), torch.zeros(3, dtype=BOOL), bound=[3], tag="none")
row("aten::repeat_interleave.Tensor_out", torch.tensor([2, 0, 3]), None, bound=[8])
row("aten::repeat_interleave.Tensor_out", torch.tensor([1, 2], dtype=I32), 3, tag="int32")
row("aten::scatter.value_out", some(3, 4), 1, torch.tensor([[0, 2], [1, 1], [3, 0]]), 9.5)
row("aten::scatter.value_out", some(3, 2, dtype=I64), -2, torch.tensor([[2, 0]]), 9, tag="int64")

# ---- Sums, products, norms ----

row("aten::argmin.out", some(3, 4), -1, False)
row("aten::argmin.out", some(3, 4, dtype=I64), None, False, tag="flat")
row("aten::argmin.out", torch.tensor([[1.0, math.nan, -3.0]]), 1, True, tag="nan")
row("aten::prod.out", some(2, 3), None)
row("aten::prod.out", some(4, dtype=I32) + 7, None, tag="int32")
row("aten::prod.out", some(0, 3), None, tag="empty")
product = lambda x, dim, keep, dtype: torch.prod(x, dim, keep, dtype=dtype)
row("aten::prod.int_out", some(2, 3), -1, True, None, eager=product)
row("aten::prod.int_out", some(2, 3, dtype=I64), 0, False, F32, eager=product, tag="dtype")
row("aten::prod.int_out", some(2, 0), 1, False, None, eager=product, tag="empty")
variance = lambda x, dim, unbiased, keep: torch.var(x, dim, unbiased=unbiased, keepdim=keep)
row("aten::var.out", some(3, 4), [1], True, False, eager=variance)
row("aten::var.out", some(3, 4, dtype=F64), [0, -1], False, True, eager=variance, tag="float64")
row("aten::var.correction_out", some(3, 4), [-1], 0, True)
row("aten::var.correction_out", some(2, 5, dtype=F16), None, None, False, tag="float16")
row("aten::_pdist_forward.out", some(4, 3), 2.0)
row("aten::_pdist_forward.out", some(3, 2), math.inf, tag="infinity")
row("aten::_pdist_forward.out", some(1, 2), 1.0, tag="single")
row("aten::linear.out", some(2, 3), some(4, 3), some(4))
row("aten::linear.out", some(2, 2, 3, dtype=BF16), some(4, 3, dtype=BF16), None, tag="bfloat16")
row("aten::linear.out", some(3), some(2, 3), None, tag="vector", official="needs two dims")
norm = [some(3) + 2, some(3)]
row("aten::_native_batch_norm_legit.no_stats_out", some(2, 3, 4), *norm, True, 0.1, 1e-5)
row("aten::_native_batch_norm_legit.no_stats_out", some(4, 3, dtype=F64), None, None, True, 0.1, 1e-3, tag="float64")
statistics = [State(torch.tensor([0.1, -0.2, 0.3])), State(torch.tensor([1.0, 0.5, 2.0]))]
row("aten::_native_batch_norm_legit.out", some(2, 3, 2), *norm, *statistics, False, 0.1, 1e-5)
row(
    "aten::_native_batch_norm_legit.out", some(2, 3, 2), *norm, *statistics, True, 0.1, 1e-5, tag="training",
    official="does not train",
)

# ---- Transforms and gradients ----

row("aten::_fft_r2c.out", some(2, 6), [1], 0, True)
row("aten::_fft_r2c.out", some(4, 3, dtype=F64), [0, 1], 1, True, tag="float64")
row("aten::_fft_r2c.out", some(2, 5), [1], 0, False, tag="both_sides", official="has one side only")
row("aten::_fft_c2r.out", torch.fft.rfft(some(2, 6)), [1], 2, 6)
row("aten::_fft_c2r.out", torch.fft.rfft2(some(3, 5)), [0, 1], 1, 5, tag="two_dims")
for tag, (x, w, out, stride, padding, transposed), official in [
    ("", ((1, 2, 4, 4), (3, 2, 3, 3), (1, 3, 2, 2), [2, 2], [1, 1], False), None),
    ("vector", ((2, 2, 5), (3, 2, 2), (2, 3, 4), [1], [0], False), "has two dims only"),
    ("transposed", ((1, 2, 3, 3), (2, 3, 2, 2), (1, 3, 6, 6), [2, 2], [0, 0], True), "does not transpose"),
]:
    n = len(stride)
    row(
        "aten::convolution_backward.out", some(*out), some(*x), some(*w), [3], stride, padding, [1] * n, transposed,
        [0] * n, 1, [True, True, True], tag=tag, official=official,
    )

# ---- Numbers ----

row("aten::_local_scalar_dense", torch.tensor([2.5]), eager=torch.Tensor.item)
row("aten::_local_scalar_dense", torch.tensor(-7), eager=torch.Tensor.item, tag="int64")
row("aten::_local_scalar_dense", torch.tensor(True), eager=torch.Tensor.item, tag="bool")
row("aten::sym_numel", some(2, 3), eager=torch.Tensor.numel)
row("aten::sym_numel", some(0, 3, dtype=I64), eager=torch.Tensor.numel, tag="empty")
whole = "takes integers only"
departures = {"mod.Scalar": {1: "truncates"}, "sym_max.Scalar": {1: whole}, "sym_min.Scalar": {1: whole}}
for name, compute, cases in [
    ("ceil.Scalar", math.ceil, [(2.25,), (-2.25,)]),
    ("trunc.Scalar", math.trunc, [(2.75,), (-2.75,)]),
    ("round.Scalar", round, [(2.5,), (3.5,), (-1.75,)]),
    ("neg.Scalar", lambda a: -a, [(3,), (-2.5,)]),
    ("sym_float.Scalar", float, [(3,), (-2.5,)]),
    ("sym_int.Scalar", int, [(-2.75,), (4,)]),
    ("sym_not.Scalar", lambda a: not a, [(True,), (False,)]),
    # Python has no integer forms; the runtime's are C's.
    ("floordiv.int", lambda a, b: math.trunc(a / b), [(7, 2), (-7, 2)]),
    ("mod.int", lambda a, b: int(math.fmod(a, b)), [(7, 3), (-7, 3)]),
    ("mod.Scalar", lambda a, b: a % b, [(7, 3), (-7, 3)]),
    ("truediv.Scalar", lambda a, b: a / b, [(7, 2), (-1.5, 2)]),
    ("ge.Scalar", lambda a, b: a >= b, [(2, 2), (1.5, 2), (2.0, 2.0)]),
    ("gt.Scalar", lambda a, b: a > b, [(2, 2), (2.5, 2), (3, 2)]),
    ("le.Scalar", lambda a, b: a <= b, [(2, 2), (2.5, 2), (3, 2)]),
    ("lt.Scalar", lambda a, b: a < b, [(2, 2), (1.5, 2), (1, 2)]),
    ("sym_max.Scalar", max, [(2, 5), (2.5, -1.0)]),
    ("sym_min.Scalar", min, [(2, 5), (2.5, -1.0)]),
    ("sym_ite.Scalar", lambda c, a, b: a if c else b, [(True, 2, 5), (False, 2.5, -1.0)]),
]:
    for i, numbers in enumerate(cases):
        official = departures.get(name, {}).get(i)
        row(f"executorch_prim::{name}", *numbers, eager=compute, tag=f"{i}" if i else "", official=official)

# ---- Language models ----

query, key, value = some(1, 2, 2, 4), some(1, 4, 1, 4), some(1, 4, 1, 4).flip(1)
row("llama::custom_sdpa.out", query, key, value, 1, None, 0.0, True, None, eager=reference.attention)
row("llama::custom_sdpa.out", query, key, value, 2, None, 0.0, False, 0.25, eager=reference.attention, tag="scaled")
row("llama::custom_sdpa.out", query, key, value, 0, some(2, 4), 0.0, False, None, eager=reference.attention, tag="mask")
halves = [x.to(F16) for x in (query, key, value)]
row("llama::custom_sdpa.out", *halves, 1, None, 0.0, True, None, eager=reference.attention, tag="float16")
missing = "knows the name when it exports, but runs the out variant only"
for name in ["llama::sdpa_with_kv_cache", "llama::sdpa_with_kv_cache.out"]:
    caches = [State(some(1, 5, 1, 4) + 0.25), State(some(1, 5, 1, 4) - 0.5)]
    row(
        name, query, key[:, :2], value[:, :2], *caches, 1, 2, None, 0.0, True, None,
        eager=reference.cached_attention, official=None if name.endswith(".out") else missing,
    )
for suffix, official in [("", missing), (".out", None)]:
    row(
        f"llama::update_cache{suffix}", some(2, 2, 1, 3), State(some(2, 4, 1, 3) + 9), 1,
        eager=reference.update_cache, returns_nothing=True, official=official,
    )
    row(
        f"llama::update_cache_with_indices{suffix}", some(2, 2, 1, 3), State(some(2, 4, 1, 3) + 9), 0,
        torch.tensor([[3, 0], [1, 2]]), eager=reference.update_cache_at, returns_nothing=True,
        official=official,
    )
row(
    "llama::update_cache.out", some(1, 2, 1, 3, dtype=I8), State(some(1, 3, 1, 3, dtype=I8)), 0,
    eager=reference.update_cache, returns_nothing=True, tag="int8",
)


def eight_bits(positions, heads):
    """Integers with a zero point and a scale for each position and head."""
    n = positions * heads
    integers = (torch.arange(n * 8) * 37 % 101 - 50).to(I8).reshape(1, positions, heads, 8)
    zero_points = (torch.arange(n) % 3 - 1).to(I8).reshape(1, positions, heads, 1)
    return integers, zero_points, (torch.arange(n) * 0.01 + 0.02).reshape(1, positions, heads, 1)


(q, qz, qs), (k, kz, ks) = eight_bits(2, 2), eight_bits(3, 1)
for tag, order in {"": lambda x: x, "heads_first": lambda x: x.transpose(1, 2).contiguous()}.items():
    tensors, parameters = [order(x) for x in (q, k, k.flip(1))], [order(x) for x in (qz, qs, kz, ks, kz, ks)]
    row(
        "llama::custom_quantized_sdpa.out", *tensors, 1, None, 0.0, True, None, *parameters, tag == "heads_first",
        eager=reference.quantized_attention, tag=tag,
    )
row("llama::fast_hadamard_transform.out", some(2, 8), eager=reference.hadamard)
row("llama::fast_hadamard_transform.out", some(4, dtype=F16), eager=reference.hadamard, tag="float16")
row("llama::fast_hadamard_transform.out", some(56), eager=torch.ops.llama.fast_hadamard_transform.default, tag="56")
for name, decays in [
    ("llama::gated_delta_rule.out", {"": (1, 2, 3), "features": (1, 2, 3, 4)}),
    ("llama::channelwise_gated_delta_rule.out", {"": (1, 2, 3, 4)}),
]:
    for tag, sizes in decays.items():
        row(
            name, some(1, 4, 3, 4), some(1, 2, 3, 4) / 2, some(1, 2, 3, 5), some(*sizes).sigmoid(),
            some(1, 2, 3).sigmoid(), some(1, 2, 4, 5), eager=reference.delta_rule, tag=tag,
        )
for tag, (function, bias, bits) in {"": ("sigmoid", 3, 4), "softmax": ("softmax", 0, 8)}.items():
    experts, hidden, dim = 3, 32, 32
    first = [some(2 * hidden, dim, dtype=I8).roll(e, 1) for e in range(experts)]
    second = [some(dim, hidden, dtype=I8).roll(e, 0) for e in range(experts)]
    row(
        "llama::quantized_moe_ffn.out", some(4, dim), some(experts, dim) / 8, some(bias),
        reference.pack_experts(first, bits), reference.pack_experts(second, bits), 2, experts, hidden, dim, 32, bits,
        function, 2.5, eager=reference.mixture(first, second), tag=tag,
    )

# ---- Quantized weights and activations ----

row(
    "quantized_decomposed::add.out", some(2, 3, dtype=U8), 0.5, 3, 0, 255, some(2, 3, dtype=U8).flip(0), 0.25, 1, 0,
    255, 0.75, 2, 0, 255, eager=reference.quantized_add,
)
row("quantized_decomposed::choose_qparams_per_token_asymmetric.out", some(2, 3, 4), I8)
row(
    "quantized_decomposed::choose_qparams_per_token_asymmetric.out", torch.zeros(2, 4), I8, tag="zeros",
    official="has another least scale",
)
scales, zero_points = torch.tensor([[0.05], [0.1]], dtype=F64), torch.tensor([[3], [-4]])
# Away from the middle between two integers, where single and double precision part.
row("quantized_decomposed::quantize_per_token.out", some(2, 6) + 0.01, scales, zero_points, -128, 127, I8)
ties = [torch.tensor([[0.25, 0.75, 1.25, -0.25]]), scales[:1] * 10, zero_points[:1], -128, 127, I8]
row("quantized_decomposed::quantize_per_token.out", *ties, tag="ties", official="rounds before it adds the zero point")
row("quantized_decomposed::dequantize_per_token.out", some(2, 6, dtype=I8), scales, zero_points, -128, 127, I8, F32)
channels = [torch.tensor([0.05, 0.1, 0.2], dtype=F64), torch.tensor([3, -4, 0])]
row("quantized_decomposed::quantize_per_channel.out", some(2, 3, 4) + 0.01, *channels, 1, -128, 127, I8)
row("quantized_decomposed::quantize_per_channel.out", some(2, 3) + 0.01, *channels, -1, 0, 255, U8, tag="uint8")
row(
    "quantized_decomposed::quantize_per_channel.out", some(2, 3, 4), *channels, 1, -128, 127, I8,
    tag="double_precision", official="divides in single precision",
)
tokens = torch.tensor([[2, 0], [1, 2]])
for bits, low, high, weight in [(2, -2, 1, (3, 2)), (4, -8, 7, (3, 4)), ("byte", -128, 127, (3, 8))]:
    name = f"quantized_decomposed::embedding_{bits}{'' if bits == 'byte' else 'bit'}"
    weight = (torch.arange(math.prod(weight)) * 89 % 251).to(U8).reshape(weight)
    weight = weight.view(I8) if bits == "byte" else weight
    grouped = [some(3, 2).abs() + 0.1, some(3, 2).round()]
    row(f"{name}.out", weight, some(3).abs() + 0.1, None, low, high, tokens)
    row(f"{name}.out", weight, *grouped, low, high, tokens, tag="groups")
    row(
        f"{name}.dtype_out", weight, grouped[0].to(F16), None, low, high, tokens, F32,
        official=None if bits == 2 else "multiplies in the type of the result",
    )
    row(
        f"{name}.dtype_out", weight, *[x.to(F16) for x in grouped], low, high, tokens, F32, tag="zero_points",
        official="needs zero points of the type of the result",
    )
row("quantized_decomposed::mixed_mm.out", some(2, 3), some(3, 4, dtype=I8), some(3), None, eager=reference.mixed_mm)
row(
    "quantized_decomposed::mixed_linear.out", some(2, 4), some(3, 4, dtype=I8), some(3), None, None,
    eager=reference.mixed_linear,
)
row(
    "quantized_decomposed::mixed_linear.out", some(2, 4), some(3, 4, dtype=I8), some(3, 2), None, None,
    eager=reference.mixed_linear, tag="groups",
)
