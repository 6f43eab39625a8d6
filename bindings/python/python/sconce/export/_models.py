"""The models that the command exports."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from . import _images

#: The models of ``--all``.
ALL_YOLO = ("yolo11n", "yolov8n", "yolov5n")


class Missing(Exception):
    """What a model needs and is not here, in a sentence."""


@dataclass(frozen=True)
class Model:
    """A model to export."""

    #: The name its files start with.
    name: str
    #: Makes the module, ready to be exported.
    build: Callable[[], Any]
    #: An image as its input.
    prepare: Callable[[numpy.ndarray], numpy.ndarray]


def mobilenet(random_weights: bool) -> Model:
    """torchvision's small MobileNet V3."""

    def build() -> Any:
        from torchvision.models import MobileNet_V3_Small_Weights, mobilenet_v3_small

        def untrained() -> Any:
            return _settled(_seeded(lambda: mobilenet_v3_small(weights=None)), 224)

        if random_weights:
            return untrained()
        try:
            return mobilenet_v3_small(weights=MobileNet_V3_Small_Weights.DEFAULT).eval()
        except OSError as error:
            _warn_random("mobilenet_v3_small", error)
            return untrained()

    return Model("mobilenet_v3_small", build, lambda image: _images.for_classes(image, 224))


def yolo(name: str, random_weights: bool) -> Model:
    """A detector or pose model by the name that ultralytics has for it."""
    name = name.removesuffix(".pt")

    def build() -> Any:
        need("ultralytics", "pip install ultralytics")
        from ultralytics import YOLO

        def untrained() -> Any:
            return _seeded(lambda: YOLO(f"{name}.yaml"))

        try:
            wrapped = untrained() if random_weights else YOLO(f"{name}.pt")
        except (OSError, ConnectionError) as error:
            _warn_random(name, error)
            wrapped = untrained()
        module = wrapped.model.float().eval().fuse()
        head = module.model[-1]
        # The decoded boxes alone, with nothing that only Python's post-processing uses.
        head.export, head.format, head.dynamic = True, "executorch", False
        return module

    return Model(name, build, lambda image: _images.for_boxes(image, 640)[0])


#: Models that the command knows by name and cannot make, and what each needs.
_REFUSED = {
    "yolo-face": "face detectors are not among ultralytics' own models: train one for sconce.compile",
    "movenet": "MoveNet is published for TensorFlow alone: convert it and give its module to sconce.compile",
    "blazeface": "no package carries a PyTorch module of BlazeFace and its weights: give yours to sconce.compile",
    "gemma": "Gemma needs transformers, weights behind a licence, and a runner for text, which this package lacks",
}


def refused(name: str) -> Model:
    """A model that cannot be made: building it tells why."""

    def build() -> Any:
        raise Missing(_REFUSED[name])

    return Model(name, build, lambda image: image)


def need(package: str, remedy: str) -> None:
    """Raises if a package is not installed."""
    if importlib.util.find_spec(package) is None:
        raise Missing(f"{package} is not installed: {remedy}")


def _seeded(make: Callable[[], Any]) -> Any:
    import torch

    torch.manual_seed(0)
    return make()


def _settled(module: Any, size: int) -> Any:
    """An untrained module whose normalisations fit its weights; otherwise each layer shrinks what the last one gave."""
    import torch

    layers = [layer for layer in module.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    momentum = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 1.0
    with torch.no_grad():
        module.train()(torch.rand(4, 3, size, size) * 4 - 2)
    for layer, own in zip(layers, momentum):
        layer.momentum = own
    return module.eval()


def _warn_random(name: str, error: Exception) -> None:
    warnings.warn(f"the weights of {name} cannot be had ({error}): the program gets random ones", stacklevel=3)
