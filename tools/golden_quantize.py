#!/usr/bin/env python3
"""Writes the small network that tests quantise: NAME.pt2 and NAME.npz with inputs and outputs of eager PyTorch.

    golden_quantize.py FOLDER

Has what quantisation distinguishes: batch norms, limits, a depthwise convolution, a sum, windows, padding, a mean and
linear layers. Beside the golden call, `calibration.npz` has sixteen others.
"""

import pathlib
import sys

import numpy as np
import torch
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU6())
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.project = nn.Conv2d(16, 16, 1)
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Conv2d(32, 32, 3)
        self.linear = nn.Sequential(nn.Linear(32, 32), nn.Hardswish(), nn.Linear(32, 10))

    def forward(self, x):
        x = self.stem(x)
        x = self.pool(x + self.project(self.depthwise(x)))
        x = torch.cat([x, nn.functional.relu(x)], 1)
        x = nn.functional.pad(x, (0, 1, 0, 1))
        x = nn.functional.relu(self.last(x)).mean((2, 3))
        return self.linear(x)


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(7)
    model, inputs = Network(), torch.randn(32, 3, 12, 12)
    model.train()
    with torch.no_grad():
        for _ in range(20):
            model(inputs)
        model.eval()
        x = inputs[:1]
        torch.export.save(torch.export.export(model, (x,), strict=False), folder / "convolutions.pt2")
        np.savez(folder / "convolutions.npz", in0=x.numpy(), out0=model(x).numpy())
    np.savez_compressed(folder / "calibration.npz", in0=inputs[1:17, None].numpy())


if __name__ == "__main__":
    main()
