#!/usr/bin/env python3
"""Classifies a photo with a trained MobileNetV2, in PyTorch and here, as float32 and as int8.

    photo.py SCONCE WEIGHTS.safetensors PHOTO.jpg

The weights have torchvision's names. Both models are exported for XNNPACK, and as float32 also without a delegate, and
run with and without methods that round more than sums of products. Ends with code 1 if the five most likely classes are
not those of eager PyTorch, in their order.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sconce", help="path of the sconce command")
    parser.add_argument("weights", type=pathlib.Path)
    parser.add_argument("photo", type=pathlib.Path)
    options = parser.parse_args()
    image, model = load_photo(options.photo), load_model(options.weights)
    agree = True
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        folder = pathlib.Path(folder)
        for name, module in [("float32", model), ("int8", quantized(model, image))]:
            expected = top5(module(image).numpy())
            print(f"{name}, PyTorch: {expected}")
            for delegate in ["XNNPACK"] + ["none"] * (name == "float32"):
                file = export(module, image, delegate, folder / f"{name}_{delegate}.pte")
                for flags in [[], ["--exact"]]:
                    found = top5(run(options.sconce, file, image, flags))
                    print(f"{name}, delegate {delegate} {' '.join(flags)}: {found}")
                    agree &= found == expected
    sys.exit(0 if agree else 1)


def load_photo(path):
    """RGB of 224 x 224, from -1 to 1."""
    from PIL import Image

    pixels = np.asarray(Image.open(path).convert("RGB").resize((224, 224), Image.BILINEAR), dtype=np.float32)
    return torch.from_numpy(pixels / 255.0).permute(2, 0, 1)[None].sub(0.5).div(0.5).contiguous()


def load_model(path):
    from safetensors.torch import load_file
    from torchvision.models import mobilenet_v2

    model = mobilenet_v2(weights=None).eval()
    model.load_state_dict(load_file(path))
    return model


def quantized(model, image):
    """Calibrated on the photo, mirrored and cut."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(model, (image,), strict=False).module(), quantizer)
    for view in [image, image.flip(3), torch.nn.functional.interpolate(image[:, :, 20:200, 20:200], (224, 224))]:
        prepared(view)
    return convert_pt2e(prepared)


def export(model, image, delegate, path):
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    program = torch.export.export(model, (image,), strict=False)
    partitioner = [XnnpackPartitioner()] if delegate == "XNNPACK" else []
    path.write_bytes(to_edge_transform_and_lower(program, partitioner=partitioner).to_executorch().buffer)
    return path


def run(sconce, file, image, flags):
    given, output = file.with_suffix(".npy"), file.with_suffix(".out.npz")
    np.save(given, image.numpy())
    command = [sconce, "run", str(file), "--input", str(given), "--output", str(output), *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with np.load(output) as outputs:
        return outputs["out0"]


def top5(scores):
    return np.argsort(-scores[0], kind="stable")[:5].tolist()


if __name__ == "__main__":
    main()
