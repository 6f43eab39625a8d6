"""The rows, by family: each module has a TITLE and ROWS."""

import importlib

FAMILIES = [
    "classification",
    "classification_timm",
    "encoders",
    "languages",
    "mixtures",
    "state_spaces",
    "recurrent",
    "detection",
    "segmentation",
    "video",
    "speech",
    "translation",
    "diffusion",
    "graphs",
    "pictures",
    "various",
    "types",
    "multimodal",
]


def rows(families, names):
    """Pairs of FAMILY/NAME and row; all of them, or those that are named. A family whose packages lack is left out."""
    for family in FAMILIES:
        wanted = [name for name in names if name.startswith(f"{family}/")]
        if (families or names) and family not in families and not wanted:
            continue
        try:
            module = importlib.import_module(f"models.{family}")
        except ModuleNotFoundError as error:
            print(f"{family}: left out, {error}")
            continue
        for row in module.ROWS:
            if not wanted or f"{family}/{row.name}" in wanted:
                yield f"{family}/{row.name}", row
