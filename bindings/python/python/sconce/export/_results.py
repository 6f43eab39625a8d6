"""Scores and boxes as answers."""

from __future__ import annotations

from typing import Any

import numpy

#: Boxes below this are not told; boxes that share more than that of their area are one; and how many are told.
CONFIDENCE, OVERLAP, MOST = 0.25, 0.45, 300

#: Rows of a pose model's output: a box, the confidence that it is a person, and 17 joints with place and visibility.
POSE_ROWS = 4 + 1 + 17 * 3


def name(labels: list[str] | None, number: int) -> str:
    """The name of a class."""
    return labels[number] if labels and number < len(labels) else f"class {number}"


def classes(scores: numpy.ndarray, labels: list[str] | None, most: int = 5) -> list[dict[str, Any]]:
    """The likeliest classes of a classifier's scores."""
    scores = scores.astype(numpy.float64).ravel()
    likely = numpy.exp(scores - scores.max())
    likely /= likely.sum()
    order = numpy.argsort(-likely, kind="stable")[:most]
    return [{"class": int(i), "label": name(labels, int(i)), "probability": float(likely[i])} for i in order]


def boxes(
    output: numpy.ndarray, labels: list[str] | None, scale: float = 1.0, corner: tuple[int, int] = (0, 0)
) -> list[dict[str, Any]]:
    """The boxes of a detector of the YOLO family, in pixels of the image.

    The output has a row for each of: the middle, width and height of a box, and the confidence of every class; and a
    column per candidate. Of a pose model, only the boxes are told.
    """
    if output.shape[1] == POSE_ROWS:
        output, labels = output[:, :5], ["person"]
    candidates = output[0].astype(numpy.float64).T
    confidences = candidates[:, 4:]
    best = confidences.argmax(axis=1)
    confidence = confidences[numpy.arange(len(best)), best]
    sure = confidence >= CONFIDENCE
    candidates, best, confidence = candidates[sure], best[sure], confidence[sure]
    half = candidates[:, 2:4] / 2
    corners = numpy.concatenate([candidates[:, :2] - half, candidates[:, :2] + half], axis=1)
    kept = _apart(corners, best, confidence)
    pixels = (corners - numpy.tile(corner, 2)) / scale
    return [
        {
            "class": int(best[i]),
            "label": name(labels, int(best[i])),
            "confidence": float(confidence[i]),
            "box": [round(float(edge), 1) for edge in pixels[i]],
        }
        for i in kept
    ]


def _apart(corners: numpy.ndarray, kinds: numpy.ndarray, confidence: numpy.ndarray) -> list[int]:
    """The surest boxes that share little of their area with a surer one of the same class."""
    areas = numpy.prod(corners[:, 2:] - corners[:, :2], axis=1)
    kept: list[int] = []
    for i in numpy.argsort(-confidence, kind="stable"):
        low = numpy.maximum(corners[kept, :2], corners[i, :2])
        high = numpy.minimum(corners[kept, 2:], corners[i, 2:])
        shared = numpy.prod(numpy.clip(high - low, 0, None), axis=1)
        overlap = shared / numpy.maximum(areas[kept] + areas[i] - shared, 1e-9)
        if not ((overlap > OVERLAP) & (kinds[kept] == kinds[i])).any():
            kept.append(int(i))
        if len(kept) == MOST:
            break
    return kept
