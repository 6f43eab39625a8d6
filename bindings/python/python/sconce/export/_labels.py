"""The names of classes, as files with one name per line."""

from __future__ import annotations

from pathlib import Path

#: The files, by what they name.
IMAGENET, COCO = "imagenet_classes.txt", "coco_labels.txt"


def write(folder: Path) -> list[Path]:
    """Writes the names of ImageNet's 1000 classes and COCO's 80, which torchvision knows."""
    from torchvision.models import MobileNet_V3_Small_Weights
    from torchvision.models.detection import FasterRCNN_ResNet50_FPN_Weights

    imagenet = MobileNet_V3_Small_Weights.DEFAULT.meta["categories"]
    detected = FasterRCNN_ResNet50_FPN_Weights.DEFAULT.meta["categories"]
    coco = [name for name in detected if name not in ("__background__", "N/A")]
    written = []
    for name, labels in [(IMAGENET, imagenet), (COCO, coco)]:
        path = folder / name
        path.write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")
        written.append(path)
    return written


def read(folder: Path, count: int) -> list[str] | None:
    """The file in a folder that names so many classes, if there is one."""
    for name in (IMAGENET, COCO):
        path = folder / name
        labels = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        if len(labels) == count:
            return labels
    return None
