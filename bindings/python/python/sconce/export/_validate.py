"""Programs over folders of images: what each answers, and how long it takes.

What a program is follows from what it gives: a row of scores is a classifier's, a table of boxes a detector's.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy

from .._error import Error
from .._model import Model, TensorInfo, load
from . import _images, _labels, _results


def validate(models: Path, images: Path, output: Path) -> int:
    """Runs all programs under a folder over all images under another, and writes the answers. Gives an exit status."""
    programs = sorted(models.rglob("*.pte"))
    pictures = sorted(path for path in images.rglob("*") if path.suffix.lower() in _images.SUFFIXES)
    for what, found, folder in [("programs (.pte)", programs, models), ("images", pictures, images)]:
        if not found:
            print(f"there are no {what} under {folder}")
            return 1
    results = [_program(program, models, pictures) for program in programs]
    output.write_text(json.dumps({"results": results}, indent=2) + "\n", encoding="utf-8")
    failed = [result["model"] for result in results if not result["success"]]
    for result in results:
        print(f"{'✅' if result['success'] else '❌'} {result['model']}: {result.get('error') or result['summary']}")
    print(f"{len(results) - len(failed)} of {len(results)} programs ran over {len(pictures)} images; see {output}")
    return 1 if failed else 0


def _program(path: Path, root: Path, pictures: list[Path]) -> dict[str, Any]:
    answer: dict[str, Any] = {"model": str(path.relative_to(root)), "success": False, "images": []}
    try:
        model = load(path)
        folders = [path.parent, root]
        for picture in pictures:
            answer["images"].append({"image": picture.name, **_answer(model, _images.read(picture), folders)})
    except (Error, RuntimeError, ValueError, OSError) as error:
        answer["error"] = str(error)
        return answer
    times = [image["milliseconds"] for image in answer["images"]]
    answer["success"] = True
    answer["summary"] = f"{numpy.median(times):.1f} ms per image"
    return answer


def _answer(model: Model, image: numpy.ndarray, folders: list[Path]) -> dict[str, Any]:
    """What a program says about an image."""
    [taken, *more] = model.method_meta().inputs
    if more or not isinstance(taken, TensorInfo) or len(taken.shape) != 4 or taken.shape[:2] != (1, 3):
        raise ValueError("it takes something else than one image of three colours")
    gives = model.method_meta().outputs[0]
    size = taken.shape[2]
    if isinstance(gives, TensorInfo) and len(gives.shape) == 2:
        scores, milliseconds = _timed(model, _images.for_classes(image, size))
        labels = _first_labels(folders, scores.shape[-1])
        return {"milliseconds": milliseconds, "classes": _results.classes(scores, labels)}
    if isinstance(gives, TensorInfo) and len(gives.shape) == 3:
        square, scale, corner = _images.for_boxes(image, size)
        output, milliseconds = _timed(model, square)
        labels = _first_labels(folders, output.shape[1] - 4)
        return {"milliseconds": milliseconds, "boxes": _results.boxes(output, labels, scale, corner)}
    raise ValueError("it gives neither a row of scores nor a table of boxes")


def _timed(model: Model, image: numpy.ndarray) -> tuple[numpy.ndarray, float]:
    begin = time.perf_counter()
    outputs = model(image)
    milliseconds = (time.perf_counter() - begin) * 1000
    first = next(iter(outputs.values())) if isinstance(outputs, dict) else outputs
    first = first[0] if isinstance(first, (tuple, list)) else first
    if not numpy.isfinite(first).all():
        raise ValueError("its output has values that are not finite")
    return first, round(milliseconds, 3)


def _first_labels(folders: list[Path], count: int) -> list[str] | None:
    found = (_labels.read(folder, count) for folder in folders)
    return next((labels for labels in found if labels is not None), None)
