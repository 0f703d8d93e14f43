"""What a store can do: put, put-if-absent, get, list, delete and streams, by key below one location.

Every change of state passes through ``Store.put_if_absent``; contents and derived files through the rest.
Keys are made by lakespark (ASCII letters, digits and ``/ - _ . =``), so no store needs to escape them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from lakespark.errors import BadRequestException
from lakespark.storage.location import Location

LONGEST_PRESIGNED_SECONDS = 7 * 86400
"""Seven days: what S3 and Google allow."""


class StoredFile(NamedTuple):
    """A file of a listing: key, size in bytes, time of the last change (unix seconds), and ETag, without its quotes."""

    key: str
    size_bytes: int
    modified: float
    etag: str | None = None


class PresignedUrl(NamedTuple):
    """A URL that any HTTP client may read one file by, and until when (unix seconds)."""

    url: str
    expires: int


class Writer(Protocol):
    """A stream of bytes into one key, visible when closed."""

    def write(self, data: bytes) -> Any:
        """Take more bytes."""

    def close(self) -> None:
        """Make the file visible."""

    def discard(self) -> None:
        """Give up: no file shows up."""


class Store(Protocol):
    """Bytes by key below ``location``. Any failure but an absent key is a StorageError."""

    location: Location

    def get(self, key: str) -> bytes | None:
        """The whole file, or None if there is none."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Bytes ``start`` up to ``end``, fewer at the file's end. Raises FileNotFoundError."""

    def put(self, key: str, body: bytes) -> None:
        """Write the whole file, over another if there is one."""

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Write the whole file unless there is one. False if there is one. Atomic between processes."""

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredFile]:
        """Files below the folder ``prefix`` with keys above ``after``, in no particular order."""

    def size(self, key: str) -> int | None:
        """Size of a file in bytes, or None if there is none."""

    def stat(self, key: str) -> StoredFile | None:
        """One file as a listing shows it, or None if there is none."""

    def delete(self, key: str) -> None:
        """Delete a file; an absent one is no error."""

    def presign(self, key: str, seconds: int) -> PresignedUrl:
        """A URL to read a file by. Raises BadRequestException where there are none: in folders and in memory."""

    def open_writer(self, key: str) -> Writer:
        """Stream into a file that shows up when the writer is closed."""


def plain_etag(etag: str | None) -> str | None:
    """An ETag without the quotes that it has in answers, but for Azure's listings."""
    return etag and etag.strip('"')


def list_exactly(store: Store, prefix: str) -> Iterator[StoredFile]:
    """As ``Store.list``, by the very keys that anybody may have given, if the store has a way of its own to."""
    list_files: Callable[[str], Iterator[StoredFile]] = getattr(store, "list_exactly", store.list)
    return list_files(prefix)


def check_presigned_seconds(seconds: int) -> None:
    """Raises BadRequestException for a time that no store signs a URL for."""
    if not 1 <= seconds <= LONGEST_PRESIGNED_SECONDS:
        raise BadRequestException(f"a URL is good for 1 to {LONGEST_PRESIGNED_SECONDS} seconds, not {seconds}")
