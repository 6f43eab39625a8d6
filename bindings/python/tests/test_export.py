"""The exporter."""

from __future__ import annotations

import json

import numpy
import pytest
from conftest import DIGITS

import sconce
from sconce.export import _backends, _command, _images, _models, _results, main


def test_boxes_are_told_once_and_in_pixels_of_the_image():
    output = numpy.zeros((1, 4 + 3, 5))
    # The middle, width and height of a box, and its class with the confidence.
    candidates = [
        ((50, 60, 20, 40), 1, 0.9),
        ((51, 60, 20, 40), 1, 0.8),  # The same thing again.
        ((51, 60, 20, 40), 2, 0.7),  # Something else at that place.
        ((10, 10, 4, 4), 0, 0.2),  # Too unsure.
        ((90, 90, 10, 10), 0, 0.6),
    ]
    for column, (box, kind, confidence) in enumerate(candidates):
        output[0, :4, column] = box
        output[0, 4 + kind, column] = confidence
    found = _results.boxes(output, ["a", "b", "c"], scale=0.5, corner=(0, 10))
    assert [(one["label"], one["confidence"]) for one in found] == [("b", 0.9), ("c", 0.7), ("a", 0.6)]
    assert found[0]["box"] == [80.0, 60.0, 120.0, 140.0]
    assert _results.boxes(numpy.zeros((1, 7, 0)), None) == []
    pose = numpy.full((1, _results.POSE_ROWS, 1), 99.0)
    pose[0, :5, 0] = (50, 60, 20, 40, 0.5)
    assert [(one["label"], one["box"]) for one in _results.boxes(pose, None)] == [("person", [40.0, 40.0, 60.0, 80.0])]


def test_scores_become_probabilities():
    [first, second] = _results.classes(numpy.log(numpy.array([[1.0, 3.0, 6.0]])), None, most=2)
    assert first["label"] == "class 2" and first["probability"] == pytest.approx(0.6)
    assert second["class"] == 1 and second["probability"] == pytest.approx(0.3)


def test_images_fit_what_models_take():
    pytest.importorskip("PIL", reason="Pillow is not installed")
    image = _images.drawn(300, 600)
    classes = _images.for_classes(image, 224)
    assert classes.shape == (1, 3, 224, 224) and classes.dtype == numpy.float32
    square, scale, corner = _images.for_boxes(image, 640)
    assert square.shape == (1, 3, 640, 640) and scale == pytest.approx(640 / 600) and corner == (0, 160)
    assert (square[:, :, :160] == numpy.float32(_images.GREY / 255)).all()
    assert square[0, :, 160:480].min() >= 0 and square.max() <= 1


def test_a_backend_that_is_not_there_fails_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_backends, "missing", lambda name: "pip install something")
    monkeypatch.setattr(_models, "need", lambda package, remedy: None)
    arguments = ["export", "--gemma", "--backends", "vulkan", "qnn", "--output-dir", str(tmp_path)]
    assert main(arguments) == 1
    said = capsys.readouterr().out
    assert "No available backends from requested vulkan, qnn" in said
    assert "Failed vulkan: not available: pip install something" in said and "gemma: 0/2 backends" in said


def test_torch_is_asked_for(tmp_path, capsys, monkeypatch):
    def need(package, remedy):
        raise _models.Missing(f"{package} is not installed: {remedy}")

    monkeypatch.setattr(_models, "need", need)
    assert main(["export", "--mobilenet", "--output-dir", str(tmp_path)]) == 1
    assert "torch is not installed: pip install torch torchvision" in capsys.readouterr().out


def test_what_cannot_be_made_says_why(tmp_path, capsys):
    for package in ["torch", "torchvision"]:
        pytest.importorskip(package, reason=f"{package} is not installed")
    arguments = ["--movenet", "--blazeface", "--gemma", "--yolo-face", "any", "--output-dir", str(tmp_path)]
    assert main(["export", "--backends", "portable", *arguments]) == 1
    said = capsys.readouterr().out
    for reason in ["TensorFlow", "BlazeFace", "licence", "face detectors"]:
        assert reason in said
    assert not list(tmp_path.glob("*.pte"))


def test_nothing_asked_for_is_an_error(capsys):
    assert main(["export"]) == 1
    assert "nothing to export" in capsys.readouterr().out


def test_folders_without_programs_are_told(tmp_path, capsys):
    assert main(["validate", "--models-dir", str(tmp_path), "--images-dir", str(tmp_path)]) == 1
    assert "no programs" in capsys.readouterr().out


def test_other_programs_are_named_as_such(tmp_path, capsys):
    pytest.importorskip("PIL", reason="Pillow is not installed")
    answers = tmp_path / "answers.json"
    arguments = ["--models-dir", str(DIGITS), "--images-dir", str(DIGITS / "samples"), "--output-file", str(answers)]
    assert main(["validate", *arguments]) == 1
    [result] = json.loads(answers.read_text())["results"]
    assert not result["success"] and "one image of three colours" in result["error"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with MobileNet's program and the labels."""
    for package in ["torch", "torchvision", "PIL"]:
        pytest.importorskip(package, reason=f"{package} is not installed")
    folder = tmp_path_factory.mktemp("models")
    arguments = ["--mobilenet", "--labels", "--random-weights", "--backends", "portable", "--output-dir", str(folder)]
    assert main(["export", *arguments]) == 0
    return folder


def test_mobilenet_is_exported_and_answers(exported, tmp_path):
    assert len((exported / "imagenet_classes.txt").read_text().splitlines()) == 1000
    assert len((exported / "coco_labels.txt").read_text().splitlines()) == 80
    answers = tmp_path / "answers.json"
    arguments = ["--models-dir", str(exported), "--images-dir", str(DIGITS / "samples"), "--output-file", str(answers)]
    assert main(["validate", *arguments]) == 0
    [result] = json.loads(answers.read_text())["results"]
    assert result["model"] == "mobilenet_v3_small_portable.pte" and result["success"]
    [first, *_] = result["images"][0]["classes"]
    assert 0 < first["probability"] <= 1 and not first["label"].startswith("class ")


def test_numbers_other_than_eagers_are_a_failure(exported):
    import torch

    program = (exported / "mobilenet_v3_small_portable.pte").read_bytes()
    example = torch.from_numpy(_images.for_classes(_images.drawn(), 224))
    given = sconce.load(program)(example)
    assert "from eager" in _command._compare(program, example, given)
    with pytest.raises(sconce.Error, match="from eager's"):
        _command._compare(program, example, given + 0.1 * given.abs().max())
    with pytest.raises(sconce.Error, match="it gives"):
        _command._compare(program, example, given[:, :10])
