"""Images as inputs of models: read, resized, cropped or boxed, and scaled.

An image is an array of height, width and three colours from 0 to 255. Files are read and resized with Pillow; without
it, the image that this module draws itself is resized with torch.
"""

from __future__ import annotations

from pathlib import Path

import numpy

#: What ImageNet's images have on average, and their spread, for colours from 0 to 1.
MEAN = numpy.array([0.485, 0.456, 0.406], numpy.float32)
SPREAD = numpy.array([0.229, 0.224, 0.225], numpy.float32)

#: The colour around an image that does not fill its box.
GREY = 114

#: Kinds of files that are taken for images.
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".pgm"}


def drawn(height: int = 360, width: int = 480) -> numpy.ndarray:
    """A picture with gradients, an edge and a disc: something of each kind that a model looks for."""
    rows, columns = numpy.mgrid[0:height, 0:width].astype(numpy.float32)
    red, green = 255 * columns / width, 255 * rows / height
    blue = 127 + 127 * numpy.sin(columns / 17) * numpy.cos(rows / 23)
    picture = numpy.stack([red, green, blue], axis=-1)
    inside = (rows - height / 2) ** 2 + (columns - width / 3) ** 2 < (height / 4) ** 2
    picture[inside] = (240, 200, 40)
    picture[:, width * 3 // 4 :] *= 0.5
    return picture.astype(numpy.uint8)


def read(path: Path) -> numpy.ndarray:
    """An image from a file."""
    try:
        from PIL import Image
    except ImportError as missing:
        raise RuntimeError(f"{path} cannot be read without Pillow: pip install pillow") from missing
    with Image.open(path) as image:
        return numpy.asarray(image.convert("RGB"))


def resize(image: numpy.ndarray, height: int, width: int) -> numpy.ndarray:
    """The image in another size."""
    try:
        from PIL import Image
    except ImportError:
        import torch

        planes = torch.from_numpy(image.astype(numpy.float32)).permute(2, 0, 1)[None]
        sized = torch.nn.functional.interpolate(planes, (height, width), mode="bilinear", antialias=True)
        return sized[0].permute(1, 2, 0).round().clamp(0, 255).numpy().astype(numpy.uint8)
    return numpy.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))


def for_classes(image: numpy.ndarray, size: int) -> numpy.ndarray:
    """The middle of an image, scaled as ImageNet's classifiers are trained."""
    height, width = image.shape[:2]
    short = round(size * 256 / 224)
    scale = short / min(height, width)
    sized = resize(image, max(short, round(height * scale)), max(short, round(width * scale)))
    top, left = (sized.shape[0] - size) // 2, (sized.shape[1] - size) // 2
    middle = sized[top : top + size, left : left + size].astype(numpy.float32) / 255
    return _planes((middle - MEAN) / SPREAD)


def for_boxes(image: numpy.ndarray, size: int) -> tuple[numpy.ndarray, float, tuple[int, int]]:
    """A whole image in a grey square, with the scale it was drawn at and the place of its corner."""
    height, width = image.shape[:2]
    scale = size / max(height, width)
    sized = resize(image, max(1, round(height * scale)), max(1, round(width * scale)))
    top, left = (size - sized.shape[0]) // 2, (size - sized.shape[1]) // 2
    square = numpy.full((size, size, 3), GREY, numpy.uint8)
    square[top : top + sized.shape[0], left : left + sized.shape[1]] = sized
    return _planes(square.astype(numpy.float32) / 255), scale, (left, top)


def _planes(image: numpy.ndarray) -> numpy.ndarray:
    return numpy.ascontiguousarray(image.transpose(2, 0, 1)[None])
