#!/usr/bin/env python3
"""Trains a small convolutional network on real handwritten digits and exports it as `examples/digits/digits.pte`.

    train_digits.py [--out DIR]

The data are the 1,797 8x8 images that scikit-learn carries; a quarter of them, stratified by class, is held out for the
test. Input: 1x1x8x8 float32, pixels scaled to 0..1. Output: ten logits. The network keeps to operators every build has
(convolution, ReLU, max pooling, addmm) and to activations small enough for a microcontroller.

Beside the program: `digits.npz` (one golden run), `labels.txt`, and `samples/digit_LABEL_{a,b}.png`, test images the
network recognises, as 8-bit grey where 0..255 stands for the data's 0..16. Seeded: the same packages write the same
files.
"""

import argparse
import logging
import os
import pathlib
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy as np
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings import portable_lib
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

DEFAULT_OUT = pathlib.Path(__file__).resolve().parent.parent / "examples" / "digits"
EPOCHS = 60
BATCH = 32
SAMPLES_PER_CLASS = 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=DEFAULT_OUT)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    torch.manual_seed(0)

    digits = load_digits()
    train_images, test_images, train_labels, test_labels = train_test_split(
        digits.images, digits.target, test_size=0.25, random_state=0, stratify=digits.target
    )
    model = network()
    train(model, pixels(train_images), torch.from_numpy(train_labels))
    with torch.no_grad():
        answers = model(pixels(test_images)).argmax(1).numpy()
    print(f"test accuracy {100 * (answers == test_labels).mean():.2f} % of {len(test_labels)} images")

    (out / "samples").mkdir(parents=True, exist_ok=True)
    recognised = answers == test_labels
    write_samples(out / "samples", test_images[recognised], test_labels[recognised])
    (out / "labels.txt").write_text("".join(f"{name}\n" for name in digits.target_names))
    export(model, pixels(test_images[:1]), out)


def network():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )


def pixels(images):
    """Images of 0..16 as a batch of one-channel tensors of 0..1."""
    return torch.from_numpy(images.astype(np.float32) / 16).unsqueeze(1)


def train(model, images, labels):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    model.eval().requires_grad_(False)


def write_samples(folder, images, labels):
    for label in range(10):
        for letter, image in zip("ab"[:SAMPLES_PER_CLASS], images[labels == label]):
            grey = np.round(image * 255 / 16).astype(np.uint8)
            Image.fromarray(grey).save(folder / f"digit_{label}_{letter}.png")


def export(model, example, out):
    exported = torch.export.export(model, (example,))
    program = to_edge_transform_and_lower(exported).to_executorch()
    expected = model(example)
    (out / "digits.pte").write_bytes(program.buffer)
    np.savez_compressed(out / "digits.npz", in0=example.numpy(), out0=expected.numpy())

    plan = program.executorch_program.execution_plan[0]
    [actual] = portable_lib._load_for_executorch_from_buffer(bytes(program.buffer)).forward([example])
    print(f"digits.pte {len(program.buffer)} bytes, arena {sum(plan.non_const_buffer_sizes)} bytes")
    print("operators:", ", ".join(f"{operator.name}.{operator.overload}" for operator in plan.operators))
    print(f"official runtime: largest difference {(actual - expected).abs().max().item():.3g}")


if __name__ == "__main__":
    main()
