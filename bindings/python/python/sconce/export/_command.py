"""The command: what to export, for which backends, and what came of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from .. import _sconce
from .._error import Error
from .._model import load
from . import _backends, _images, _labels, _models
from ._validate import validate

#: How far an output may be from eager's: relative to each value, and to the largest of its row. (The rows of a detector
#: are pixels and probabilities.)
RELATIVE, OF_LARGEST = 1e-3, 1e-4

RULE = "=" * 60


@dataclass
class Report:
    """What came of one model."""

    model: str
    #: Lines about files, by backend.
    written: dict[str, str] = field(default_factory=dict)
    #: Why not, by backend.
    failed: dict[str, str] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and gives its exit status: 0 only if everything that was asked for succeeded."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given:
        there = [name for name in _backends.DEFAULT if _backends.missing(name) is None]
        given = ["export", "--all", "--labels", "--backends", *(there or ["portable"])]
    options = _parser().parse_args(given)
    if options.command == "validate":
        return validate(options.models_dir, options.images_dir, options.output_file)
    return _export(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sconce.export", description="Export well-known models to .pte programs"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="export models and compare them with eager PyTorch")
    export.add_argument("--mobilenet", action="store_true", help="torchvision's mobilenet_v3_small, 1x3x224x224")
    export.add_argument(
        "--yolo", nargs="+", metavar="M", default=[], help="ultralytics' detectors by name, 1x3x640x640"
    )
    export.add_argument("--yolo-pose", nargs="+", metavar="M", default=[], help="ultralytics' pose models by name")
    export.add_argument("--yolo-face", nargs="+", metavar="M", default=[], help="face detectors")
    export.add_argument("--movenet", nargs="?", const="lightning", choices=["lightning", "thunder"])
    export.add_argument("--blazeface", action="store_true")
    export.add_argument("--gemma", action="store_true")
    export.add_argument("--all", action="store_true", help=f"mobilenet, {', '.join(_models.ALL_YOLO)} and the labels")
    export.add_argument("--labels", action="store_true", help="the names of ImageNet's and COCO's classes")
    export.add_argument(
        "--backends",
        nargs="+",
        choices=_backends.NAMES,
        default=["xnnpack"],
        metavar="B",
        help=", ".join(_backends.NAMES),
    )
    export.add_argument("--output-dir", type=Path, default=Path("."), metavar="D")
    export.add_argument("--image", type=Path, help="what the comparison looks at [default: a drawn picture]")
    export.add_argument("--random-weights", action="store_true", help="do not fetch weights")
    check = commands.add_parser("validate", help="run programs over images and write what they answer as JSON")
    check.add_argument("--models-dir", type=Path, required=True)
    check.add_argument("--images-dir", type=Path, required=True)
    check.add_argument("--output-file", type=Path, default=Path("validation_results.json"))
    return parser


def _asked_models(options: argparse.Namespace) -> list[_models.Model]:
    random = options.random_weights
    names = list(dict.fromkeys([*options.yolo, *(_models.ALL_YOLO if options.all else ()), *options.yolo_pose]))
    models = [_models.mobilenet(random)] if options.mobilenet or options.all else []
    models += [_models.yolo(name, random) for name in names]
    refused = {
        "yolo-face": options.yolo_face,
        "movenet": options.movenet,
        "blazeface": options.blazeface,
        "gemma": options.gemma,
    }
    return models + [_models.refused(name) for name, asked in refused.items() if asked]


def _export(options: argparse.Namespace) -> int:
    models = _asked_models(options)
    if not models and not (options.labels or options.all):
        print("nothing to export: name a model, --all or --labels")
        return 1
    try:
        _models.need("torch", "pip install torch torchvision")
        _models.need("torchvision", "pip install torchvision")
    except _models.Missing as missing:
        print(missing)
        return 1
    options.output_dir.mkdir(parents=True, exist_ok=True)
    if options.labels or options.all:
        for path in _labels.write(options.output_dir):
            print(f"🏷️  {path}")
    image = _images.drawn() if options.image is None else _images.read(options.image)
    reports = [_export_model(model, options.backends, options.output_dir, image) for model in models]
    if reports:
        _summary(reports)
    return 1 if any(report.failed for report in reports) else 0


def _export_model(model: _models.Model, backends: Sequence[str], folder: Path, image: numpy.ndarray) -> Report:
    print(f"\n{RULE}\n{model.name}\n{RULE}")
    report = Report(model.name)
    missing = {name: remedy for name in backends if (remedy := _backends.missing(name)) is not None}
    report.failed.update({name: f"not available: {remedy}" for name, remedy in missing.items()})
    there = [name for name in backends if name not in missing]
    if not there:
        print(f"No available backends from requested {', '.join(backends)}")
    else:
        print(f"📦 Exporting to backends: {', '.join(there)}")
        _lower(model, there, folder, image, report)
        if report.written:
            print(f"✅ Successfully exported {len(report.written)}/{len(backends)} backends")
        for name, line in report.written.items():
            print(f"  • {name}: {line}")
    for name, reason in report.failed.items():
        print(f"⚠️  Failed {name}: {reason}")
    return report


def _lower(model: _models.Model, backends: Sequence[str], folder: Path, image: numpy.ndarray, report: Report) -> None:
    """Exports once, lowers for each backend, and compares each program with eager."""
    import torch

    try:
        module = model.build()
        example = torch.from_numpy(model.prepare(image))
        with torch.no_grad():
            eager = module(example)
            exported = torch.export.export(module, (example,))
    except Exception as error:  # Whatever the model's own code raises is the reason.
        report.failed.update(dict.fromkeys(backends, _sentence(error)))
        return
    for backend in backends:
        try:
            program = _backends.lower(exported, backend)
            verdict = _compare(program, example, eager)
            path = folder / f"{model.name}_{backend}.pte"
            path.write_bytes(program)
        except Exception as error:  # Each backend's compiler raises errors of its own.
            report.failed[backend] = _sentence(error)
        else:
            report.written[backend] = f"{path.name} ({len(program) / 1e6:.1f} MB), {verdict}"


def _sentence(error: Exception) -> str:
    """The first line of an error, and its kind unless it is one of this package's, which say all themselves."""
    first = next(iter(str(error).strip().splitlines()), "")
    return first if isinstance(error, (Error, _models.Missing)) else f"{type(error).__name__}: {first}"


def _compare(program: bytes, example: Any, eager: Any) -> str:
    """How far a program's outputs are from eager's; raises if that is too far."""
    import torch

    model = load(program, lazy=True)
    foreign = sorted(set(model.method_meta().backends) - set(_sconce.backend_names()))
    if foreign:
        return f"not compared: only its device runs {', '.join(foreign)}"
    wanted = [value for value in torch.utils._pytree.tree_leaves(eager) if isinstance(value, torch.Tensor)]
    given = [value for value in model.session().run_flat([example]) if isinstance(value, torch.Tensor)]
    if [value.shape for value in given] != [value.shape for value in wanted]:
        raise Error(
            f"it gives {[tuple(value.shape) for value in given]}, eager {[tuple(value.shape) for value in wanted]}"
        )
    worst, largest = 0.0, 0.0
    for have, want in zip(given, wanted):
        difference, size = (have.double() - want.double()).abs(), want.double().abs()
        worst, largest = max(worst, float(difference.max())), max(largest, float(size.max()))
        if not bool((difference <= RELATIVE * size + OF_LARGEST * size.amax(-1, keepdim=True)).all()):
            raise Error(
                f"its output is {float(difference.max()):.3g} from eager's, whose largest value is {largest:.3g}"
            )
    return f"at most {worst:.2g} from eager, whose largest value is {largest:.3g}"


def _summary(reports: Sequence[Report]) -> None:
    print(f"\n{RULE}\nExport Summary\n{RULE}")
    for report in reports:
        total = len(report.written) + len(report.failed)
        mark = "✅" if not report.failed else "⚠️ " if report.written else "❌"
        lost = f"; failed: {', '.join(report.failed)}" if report.failed else ""
        print(f"{mark} {report.model}: {len(report.written)}/{total} backends{lost}")
