#!/usr/bin/env python3
"""Writes programs of single quantised operators for XNNPACK, with what the official runtime makes of them.

    golden_int8.py OUT [NAME...]    (tests/golden/int8 has what the tests read)

NAME.pte has one operator several times, between int8 values of other scales, zeros and sizes each time. Half of the grids
are such that results lie between two bytes, where rounding decides. The values in NAME.npz are those of the official
runtime, not of PyTorch, because XNNPACK rounds otherwise in places: `sconce check --rtol 0 --atol 0` must pass.
"""

import pathlib
import random
import sys

import numpy as np
import torch
import torch.nn.functional as F
from executorch.extension.pybindings import portable_lib
from golden_export import Case, Model, Run, array, build

q = torch.ops.quantized_decomposed


def through_bytes(x, scale, zero):
    """Numbers as int8 and back."""
    whole = q.quantize_per_tensor.default(x, scale, zero, -128, 127, torch.int8)
    return q.dequantize_per_tensor.default(whole, scale, zero, -128, 127, torch.int8)


class Sample:
    """An operator with its operands: sizes and grids, which are drawn."""

    def __init__(self, draw, function, shapes, weights=None):
        self.function, self.shapes, self.weights = function, shapes, weights or {}
        self.grids = [self.grid(draw) for _ in shapes]
        first = self.grids[0][0]
        # Every other result is on the grid of an operand or twice as coarse, so that it often lies between two bytes.
        scale = draw.choice([first, 2 * first, *(self.grid(draw)[0] for _ in range(2))])
        self.result = (scale, draw.randint(-128, 127))

    @staticmethod
    def grid(draw):
        return float(np.float32(2 ** draw.uniform(-8, -3))), draw.randint(-128, 127)

    def inputs(self):
        """Numbers a little beyond the grid at both ends."""
        for shape, (scale, zero) in zip(self.shapes, self.grids):
            yield torch.empty(shape).uniform_((-130 - zero) * scale, (129 - zero) * scale)

    def __call__(self, inputs):
        operands = [through_bytes(x, *grid) for x, grid in zip(inputs, self.grids)]
        return through_bytes(self.function(*operands, **self.weights), *self.result)


class Shared(Sample):
    """An operator that only moves elements: the result's grid is the operands'."""

    def __init__(self, draw, function, shapes):
        super().__init__(draw, function, shapes)
        self.grids = [self.grids[0]] * len(shapes)
        self.result = self.grids[0]


class Chain(Sample):
    """Operators one after the other, each on bytes; those that only move or limit elements keep their grid."""

    def __init__(self, draw, steps, shape):
        super().__init__(draw, None, [shape])
        self.steps, grid = [], self.grids[0]
        for function, keeps in steps:
            scale, zero = grid
            grid = grid if keeps else (float(np.float32(scale * 2 ** draw.uniform(-1, 1))), draw.randint(-128, 127))
            self.steps.append((function, grid))

    def __call__(self, inputs):
        [value] = [through_bytes(x, *grid) for x, grid in zip(inputs, self.grids)]
        for function, grid in self.steps:
            value = through_bytes(function(value), *grid)
        return value


def program(samples):
    """A case that computes all samples."""
    inputs, parts = [list(sample.inputs()) for sample in samples], {}
    for number, sample in enumerate(samples):
        parts |= {f"{name}{number}": value for name, value in sample.weights.items()}

    def body(self, *given):
        given, results = list(given), []
        for number, sample in enumerate(samples):
            sample.weights = {name: getattr(self, f"{name}{number}") for name in sample.weights}
            results.append(sample([given.pop(0) for _ in sample.shapes]))
        return tuple(results)

    return Case(Model(body, **parts), [Run(tuple(x for own in inputs for x in own))], xnnpack=True)


FLAT, IMAGES = [(3, 17), (2, 5, 33), (1, 8, 6, 5)], [(1, 8, 6, 5), (2, 3, 9, 11), (1, 16, 7, 7), (1, 5, 13, 4)]
PAIRS = [((3, 700), (3, 700)), ((1, 5, 17, 19), (1, 5, 17, 19)), ((1, 8, 6, 6), (1, 8, 1, 1)), ((4, 33), (33,))]


def unary(function, shapes=FLAT, kind=Sample, count=6):
    return lambda draw: [kind(draw, function, [shapes[place % len(shapes)]]) for place in range(count)]


def binary(function, pairs=PAIRS, kind=Sample):
    return lambda draw: [kind(draw, function, list(pair)[:: draw.choice([1, -1])]) for pair in pairs * 2]


def weighted(draw, function, shape, weight, axis, fan_in, limited):
    """A convolution or linear layer with weights of one scale for each channel, in every third sample one for all."""
    channels = weight[axis]
    scales = torch.tensor([2 ** draw.uniform(-9, -6) for _ in range(channels)])
    whole = torch.randint(-127, 128, weight, dtype=torch.int8)
    single = draw.random() < 0.3

    def body(x, whole, scales, zeros, bias=None):
        if single:
            numbers = q.dequantize_per_tensor.default(whole, 0.0078125, 0, -127, 127, torch.int8)
        else:
            numbers = q.dequantize_per_channel.default(whole, scales, zeros, axis, -127, 127, torch.int8)
        y = function(x, numbers, bias)
        return F.relu(y) if limited else y

    weights = {"whole": whole, "scales": scales, "zeros": torch.zeros(channels, dtype=torch.int64)}
    if draw.random() < 0.7:
        weights["bias"] = torch.randn(channels)
    sample = Sample(draw, body, [shape], weights)
    size = sample.grids[0][0] * 74 * float(scales.mean()) * 74 * fan_in**0.5
    sample.result = (float(np.float32(size / 40)), sample.result[1])
    return sample


def convolutions(kind):
    def samples(draw):
        for place in range(8):
            wide, deep, groups = [(3, 8, 1), (8, 16, 1), (16, 7, 1), (8, 8, 2)][place % 4]
            if kind == "depthwise":
                wide = deep = groups = [8, 16, 5, 33][place % 4]
            size, step = draw.choice([1, 3, 5]), draw.choice([1, 2])
            edge = draw.choice([0, size // 2])
            shape = (1, wide, draw.randint(5, 10), draw.randint(5, 10))
            if kind == "transposed":
                function = lambda x, w, b, step=step, edge=edge: F.conv_transpose2d(x, w, b, step, edge)
                yield weighted(draw, function, shape, (wide, deep, size, size), 1, wide * size * size, place % 2)
            else:
                function = lambda x, w, b, s=step, e=edge, g=groups: F.conv2d(x, w, b, s, e, 1, g)
                weight = (deep, wide // groups, size, size)
                yield weighted(draw, function, shape, weight, 0, wide // groups * size * size, place % 2)

    return lambda draw: list(samples(draw))


def linears(draw):
    sizes = [(1, 16, 8), (3, 33, 17), (5, 64, 64), (1, 128, 10)] * 2
    return [weighted(draw, F.linear, (m, k), (n, k), 0, k, place % 2) for place, (m, k, n) in enumerate(sizes)]


# Operators of one image, and whether the result has the grid of the operand.
STEPS = {
    "relu": (F.relu, True),
    "hardtanh": (lambda x: F.hardtanh(x, -0.3, 0.7), True),
    "max_pool": (lambda x: F.max_pool2d(x, 2, 1), True),
    "pad": (lambda x: F.pad(x, [1, 0, 0, 2]), True),
    "slice": (lambda x: x[:, :, 1:], True),
    "turn": (lambda x: x.transpose(2, 3).contiguous(), True),
    "twice": (lambda x: torch.cat([x, x], 1), True),
    "sigmoid": (torch.sigmoid, False),
    "hardswish": (F.hardswish, False),
    "add": (lambda x: x + x, False),
    "gate": (lambda x: x * x.mean((2, 3), keepdim=True), False),
    "average": (lambda x: F.avg_pool2d(x, 2, count_include_pad=False), False),
    "requantize": (lambda x: x, False),
}


def chains(first):
    """Each operator before, or after, one that limits or moves: kernels take these over where they can."""
    others = [name for name in STEPS if name not in first]
    pairs = [(one, other) for one in others for other in first]
    return lambda draw: [Chain(draw, [STEPS[name] for name in pair], (1, 8, 6, 7)) for pair in pairs]


OPERATORS = {
    "add": binary(torch.add),
    "add_relu": binary(lambda a, b: F.relu(a + b)),
    "sub": binary(torch.sub),
    "mul": binary(torch.mul),
    "cat": binary(lambda a, b: torch.cat([a, b], 1), [((1, 3, 5, 6), (1, 4, 5, 6)), ((2, 7), (2, 9))], Shared),
    "mean": unary(lambda x: x.mean((-2, -1), keepdim=True), [(2, 64, 4, 4), (1, 96, 7, 7), (1, 64, 1, 8), (1, 80, 5, 6)], count=16),
    "pool": unary(lambda x: F.adaptive_avg_pool2d(x, 1), [(2, 64, 4, 4), (1, 96, 7, 7), (1, 64, 3, 4)], count=9),
    "max_pool": unary(lambda x: F.max_pool2d(x, 3, 2, 1), IMAGES, Shared),
    "relu": unary(F.relu),
    "hardtanh": unary(lambda x: F.hardtanh(x, -0.3, 0.7)),
    "relu6": unary(lambda x: F.hardtanh(x, 0.0, 6.0)),
    "clamp": unary(lambda x: torch.clamp(x, -0.3, 0.7)),
    "elu": unary(lambda x: F.elu(x, 0.7)),
    "leaky_relu": unary(lambda x: F.leaky_relu(x, 0.2)),
    "sigmoid": unary(torch.sigmoid),
    "tanh": unary(torch.tanh),
    "gelu": unary(F.gelu),
    "hardswish": unary(F.hardswish),
    "silu": unary(F.silu),
    "softmax": unary(lambda x: F.softmax(x, -1)),
    "average": unary(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), IMAGES),
    "requantize": unary(lambda x: x),
    "permute": unary(lambda x: x.permute(0, 2, 3, 1).contiguous(), IMAGES, Shared),
    "pad": unary(lambda x: F.pad(x, [1, 2, 0, 3]), IMAGES, Shared),
    "slice": unary(lambda x: x[:, 1:4], IMAGES, Shared),
    "convolution": convolutions("plain"),
    "depthwise": convolutions("depthwise"),
    "transposed": convolutions("transposed"),
    "linear": linears,
    "then_limits": chains(["relu", "hardtanh"]),
    "then_moved": chains(["max_pool", "slice", "twice"]),
    "then_function": chains(["sigmoid", "add"]),
}


def main():
    out, names = pathlib.Path(sys.argv[1]), sys.argv[2:] or OPERATORS
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        torch.manual_seed(0)
        case = program(OPERATORS[name](random.Random(name)))
        (out / f"{name}.pte").write_bytes(build(case, None)["pte"])
        inputs = list(case.runs[0].args)
        outputs = portable_lib._load_for_executorch(str(out / f"{name}.pte")).forward(inputs)
        arrays = {f"in{i}": array(x) for i, x in enumerate(inputs)} | {f"out{i}": array(y) for i, y in enumerate(outputs)}
        np.savez_compressed(out / f"{name}.npz", **arrays)
        print(name, (out / f"{name}.pte").stat().st_size, (out / f"{name}.npz").stat().st_size, flush=True)


if __name__ == "__main__":
    main()
