"""The error of this package."""

from __future__ import annotations

import errno


class Error(RuntimeError):
    """What is wrong, in a sentence with the values in it and the way out.

    ``code`` is the number by which the C++ runtime reports such an error, 0 where it knows none.
    """

    def __init__(self, sentence: str, code: int = 0) -> None:
        super().__init__(sentence)
        self.code = code

    def __reduce__(self) -> tuple[type[Error], tuple[str, int]]:
        return type(self), (str(self), self.code)


class FileNotFound(Error, FileNotFoundError):
    """A file is not there; a :class:`FileNotFoundError`, too."""

    def __init__(self, sentence: str, code: int = 0) -> None:
        super().__init__(sentence, code)
        self.errno = errno.ENOENT


#: Codes that this package uses itself.
NOT_SUPPORTED = 0x10
INVALID_ARGUMENT = 0x12
NO_ACCESS = 0x22
INVALID_PROGRAM = 0x23
OPERATOR_MISSING = 0x14
