#!/usr/bin/env python3
"""Exports a program with an operator of our own: `audio::soft_clip`, which bends a signal towards a limit.

    python export.py        writes soft_clip.pte

An exported program calls the out variant of an operator, so both forms are declared; `main.rs` implements that one.
"""

import pathlib

import torch
from executorch.exir import EdgeCompileConfig, to_edge
from torch.library import Library, impl

HERE = pathlib.Path(__file__).resolve().parent

audio = Library("audio", "DEF")
audio.define("soft_clip(Tensor x, float limit) -> Tensor")
audio.define("soft_clip.out(Tensor x, float limit, *, Tensor(a!) out) -> Tensor(a!)")


@impl(audio, "soft_clip", "CompositeExplicitAutograd")
def soft_clip(x, limit):
    return limit * torch.tanh(x / limit)


@impl(audio, "soft_clip.out", "CompositeExplicitAutograd")
def soft_clip_out(x, limit, *, out):
    return out.copy_(soft_clip(x, limit))


class Amplifier(torch.nn.Module):
    def forward(self, signal):
        return torch.ops.audio.soft_clip(signal * 4, 0.9) + 0.05


signal = torch.sin(torch.linspace(0, 12, 64)).reshape(2, 32)
program = to_edge(
    torch.export.export(Amplifier(), (signal,)), compile_config=EdgeCompileConfig(_check_ir_validity=False)
).to_executorch()
(HERE / "soft_clip.pte").write_bytes(program.buffer)
