"""Where things are: one form of URL for a folder or a prefix of an object store."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lakespark.errors import InvalidUriError

SCHEMES = ("file", "memory", "s3", "s3a", "gs", "abfss", "az")


@dataclass(frozen=True)
class Location:
    """A root in a store: ``scheme``, ``bucket`` (empty for files) and ``path`` without a slash at its end."""

    scheme: str
    bucket: str
    path: str

    @property
    def url(self) -> str:
        """The location as a URL; for a local folder ``file:///...`` with nothing but ``%`` percent-encoded."""
        if self.scheme == "file":
            return "file://" + self.path.replace("%", "%25")
        return f"{self.scheme}://{self.bucket}" + (f"/{self.path}" if self.path else "")

    @property
    def is_remote(self) -> bool:
        """Whether a request takes so long that several at once are worth a thread each."""
        return self.scheme not in ("file", "memory")

    def child(self, name: str) -> Location:
        """The location of ``name`` below this one."""
        return Location(self.scheme, self.bucket, f"{self.path}/{name}" if self.path else name)

    def __str__(self) -> str:
        return self.path if self.scheme == "file" else self.url


def parse_location(text: str | os.PathLike[str]) -> Location:
    """A location from a URL, or from a path of a local folder, which is made absolute.

    The ``%`` escapes of a ``file://`` URL, as ``Path.as_uri`` writes them, are decoded; other URLs are taken as
    they stand. Raises InvalidUriError for an unknown scheme, or where no folder or bucket is named.
    """
    text = os.fspath(text)
    if "://" not in text:
        return Location("file", "", _absolute(text))
    scheme, rest = text.split("://", 1)
    if scheme == "local":  # lakeFS's name for a local folder
        scheme = "file"
    if scheme not in SCHEMES:
        raise InvalidUriError(f"cannot open {text!r}: schemes are {', '.join(SCHEMES)}, or a local path")
    if scheme == "file":
        return Location("file", "", _absolute(unquote(rest)))
    parts = urlsplit(text)
    if not parts.netloc and scheme != "memory":
        raise InvalidUriError(f"cannot open {text!r}: it names no bucket")
    bucket, _, path = rest.partition("/")
    return Location("s3" if scheme == "s3a" else scheme, bucket, path.rstrip("/"))


def _absolute(path: str) -> str:
    if not path:
        raise InvalidUriError("cannot open '': it names no folder")
    return str(Path(path).expanduser().absolute())
