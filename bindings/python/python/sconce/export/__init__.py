"""Exports well-known models to programs for devices, and tries programs out: ``python -m sconce.export --help``.

| module | what it knows |
|---|---|
| ``_models`` | the models, where their weights come from |
| ``_backends`` | who lowers for which backend, and what is missing where nobody can |
| ``_images`` | images as inputs |
| ``_labels`` | the names of classes |
| ``_results`` | scores and boxes as answers |
| ``_validate`` | programs over folders of images |
| ``_command`` | the command |

Each exported program is run at once, and its numbers are compared with those of the module.
"""

from ._command import main

__all__ = ["main"]
