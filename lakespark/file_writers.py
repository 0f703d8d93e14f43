"""Files of the fsspec file system that are being written: whole objects, or nothing where the writing fails."""

from __future__ import annotations

import inspect
import io
import sys
from typing import IO, Any, cast

from fsspec.compression import compr
from fsspec.core import get_compression

from lakespark.objects import ObjectWriter


class ObjectFile(ObjectWriter):
    """An object being written; where a ``with`` block further up fails, closing it discards it.

    fsspec's own context manager, pandas and others close their files in either case, and do not say which it was.
    """

    def __init__(self, *target: Any, **how: Any) -> None:
        super().__init__(*target, **how)
        self.is_given_up = False
        self._error_before = sys.exception()

    def close(self) -> None:
        """Finish the upload and stage the object, unless the writing has failed."""
        if self.is_given_up or self._is_left_by_an_error():
            self.discard()
        else:
            super().close()

    def _is_left_by_an_error(self) -> bool:
        """Whether an ``__exit__`` that calls this was given an error, one that came after the file was opened."""
        error, frame = sys.exception(), inspect.currentframe()
        if error is None or error is self._error_before:
            return False
        while frame is not None:
            if frame.f_code.co_name == "__exit__" and _holds(frame.f_locals, error):
                return True
            frame = frame.f_back
        return False


def _holds(names: dict[str, Any], error: BaseException) -> bool:
    return any(value is error or (isinstance(value, tuple) and error in value) for value in names.values())


def layered(file: ObjectFile, name: str, *, compression: str | None, text: dict[str, Any] | None) -> IO[Any]:
    """What compresses, and encodes text, into a file; the file itself where neither is asked for.

    ``text``: encoding, errors and newline. ``compression``: a name of fsspec's, or ``infer``.
    """
    kind = get_compression(name, compression)
    packed = file if kind is None else compr[kind](file, mode="w")
    if text is not None:
        return _TextLayer(packed, file, **text)
    return cast("IO[Any]", file if kind is None else _BinaryLayer(packed, file))


class _Layer(io.IOBase):
    """Closes the file below it too, which the layers of Python leave open."""

    file: ObjectFile

    def close(self) -> None:
        super().close()
        self.file.close()

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self.file.is_given_up = kind is not None
        self.close()


class _TextLayer(_Layer, io.TextIOWrapper):
    def __init__(self, packed: Any, file: ObjectFile, **text: Any) -> None:
        self.file = file
        super().__init__(packed, **text)


class _BinaryLayer(_Layer, io.BufferedWriter):
    def __init__(self, packed: Any, file: ObjectFile) -> None:
        self.file = file
        super().__init__(packed)
