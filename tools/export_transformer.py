#!/usr/bin/env python3
"""Exports a small language model of Llama's kind with four-bit weights for XNNPACK.

    export_transformer.py DIR

Four layers of width 256 (hidden 768, 8 heads, 4 of them for keys and values, 512 tokens) with seeded weights; linear
layers have 8-bit activations, quantised per token at run time, and 4-bit weights in groups of 32. Writes
`transformer_8da4w.pte` and beside it the golden `.npz` with eager PyTorch's outputs of the quantised model.
"""

import argparse
import pathlib

import numpy as np
import torch
from torch import nn

WIDTH, HIDDEN, LAYERS, HEADS, KEY_HEADS, TOKENS, LENGTH = 256, 768, 4, 8, 4, 512, 32


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        size = WIDTH // HEADS
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, KEY_HEADS * size, bias=False)
        self.value = nn.Linear(WIDTH, KEY_HEADS * size, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, cosine, sine, mask):
        batch, length, _ = x.shape
        size = WIDTH // HEADS
        query = rotate(self.query(x).view(batch, length, HEADS, size), cosine, sine).transpose(1, 2)
        key = rotate(self.key(x).view(batch, length, KEY_HEADS, size), cosine, sine).transpose(1, 2)
        value = self.value(x).view(batch, length, KEY_HEADS, size).transpose(1, 2)
        key, value = (t.repeat_interleave(HEADS // KEY_HEADS, 1) for t in (key, value))
        scores = query @ key.transpose(2, 3) / size**0.5 + mask
        return self.out((torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(batch, length, WIDTH))


def rotate(x, cosine, sine):
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.before, self.after = Attention(), Norm(), Norm()
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x, *position):
        x = x + self.attention(self.before(x), *position)
        y = self.after(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = Norm(), nn.Linear(WIDTH, TOKENS, bias=False)
        size = WIDTH // HEADS // 2
        angles = torch.outer(torch.arange(LENGTH), 10000 ** (-torch.arange(size) / size))[None, :, None]
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), -1e9).triu(1))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine, self.mask)
        return self.head(self.norm(x))


def quantized(model):
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, PerGroup, quantize_

    quantize_(model, Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)))
    return model


def main():
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
        XnnpackDynamicallyQuantizedPartitioner,
        XnnpackPartitioner,
    )
    from executorch.exir import to_edge_transform_and_lower

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = quantized(Transformer().eval())
    tokens = torch.randint(0, TOKENS, (1, LENGTH))
    with torch.no_grad():
        expected = model(tokens)
        program = torch.export.export(model, (tokens,), strict=False)
    lowered = to_edge_transform_and_lower(
        program, partitioner=[XnnpackDynamicallyQuantizedPartitioner(), XnnpackPartitioner()]
    )
    finished = lowered.to_executorch()
    (folder / "transformer_8da4w.pte").write_bytes(finished.buffer)
    np.savez(folder / "transformer_8da4w.npz", in0=tokens.numpy(), out0=expected.numpy())
    delegates = sum(len(plan.delegates) for plan in finished.executorch_program.execution_plan)
    print(f"{folder / 'transformer_8da4w.pte'}: {len(finished.buffer)} bytes, {delegates} delegate(s)")


if __name__ == "__main__":
    main()
