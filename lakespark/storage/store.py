"""The store: put, put-if-absent, get, list, delete and streams, by key below one location.

Every change of state passes through ``Store.put_if_absent``; contents and derived files through the rest.
Keys are made by lakespark (ASCII letters, digits and ``/ - _ . =``), so no store needs to escape them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import obstore
from obstore import exceptions
from obstore.store import LocalStore, MemoryStore, from_url

from lakespark.errors import StorageError
from lakespark.storage.location import Location, parse_location

WRITER_BUFFER_BYTES = 8 << 20


class StoredFile(NamedTuple):
    """A file of a listing: its key, its size in bytes and when it was last modified (unix seconds)."""

    key: str
    size_bytes: int
    modified: float


class Writer(Protocol):
    """A stream of bytes into one key, visible when closed."""

    def write(self, data: bytes) -> Any:
        """Take more bytes."""

    def close(self) -> None:
        """Make the file visible."""


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

    def delete(self, key: str) -> None:
        """Delete a file; an absent one is no error."""

    def open_writer(self, key: str) -> Writer:
        """Stream into a file that shows up when the writer is closed."""


class ObjectStore:
    """A Store over obstore: local folders, memory, S3, GCS and Azure."""

    def __init__(self, location: Location, **options: Any) -> None:
        self.location = location
        self._options = options
        self._prefix = f"{location.path}/" if location.scheme == "memory" and location.path else ""
        self._opened: Any = None

    def get(self, key: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._backend(), self._prefix + key).bytes())
        except FileNotFoundError:
            return None
        except exceptions.BaseError as error:
            raise self.failed("read", key, error) from error

    def get_range(self, key: str, start: int, end: int) -> bytes:
        try:
            return bytes(obstore.get_range(self._backend(), self._prefix + key, start=start, end=end))
        except exceptions.BaseError as error:
            raise self.failed("read", key, error) from error

    def put(self, key: str, body: bytes) -> None:
        backend = self._backend(create=True)
        try:
            obstore.put(backend, self._prefix + key, body, use_multipart=len(body) > WRITER_BUFFER_BYTES)
        except (exceptions.BaseError, OSError) as error:
            raise self.failed("write", key, error) from error

    def put_if_absent(self, key: str, body: bytes) -> bool:
        backend = self._backend(create=True)
        try:
            obstore.put(backend, self._prefix + key, body, mode="create", use_multipart=False)
        except exceptions.AlreadyExistsError:
            return False
        except (exceptions.BaseError, OSError) as error:
            raise self.failed("write", key, error) from error
        return True

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredFile]:
        try:
            backend = self._backend()
        except FileNotFoundError:
            return
        offset = None if after is None else self._prefix + after
        try:
            for batch in obstore.list(backend, self._prefix + prefix, offset=offset):
                for meta in batch:
                    key = meta["path"][len(self._prefix) :]
                    yield StoredFile(key, meta["size"], meta["last_modified"].timestamp())
        except (exceptions.BaseError, OSError) as error:
            raise self.failed("list", prefix, error) from error

    def size(self, key: str) -> int | None:
        try:
            return int(obstore.head(self._backend(), self._prefix + key)["size"])
        except FileNotFoundError:
            return None
        except exceptions.BaseError as error:
            raise self.failed("look up", key, error) from error

    def delete(self, key: str) -> None:
        try:
            obstore.delete(self._backend(), self._prefix + key)
        except FileNotFoundError:
            return
        except exceptions.BaseError as error:
            raise self.failed("delete", key, error) from error

    def open_writer(self, key: str) -> Writer:
        backend = self._backend(create=True)
        stream = obstore.open_writer(backend, self._prefix + key, buffer_size=WRITER_BUFFER_BYTES)
        return _StreamWriter(self, key, stream)

    def _backend(self, *, create: bool = False) -> Any:
        """Obstore's store. A local folder is made by the first write, never by looking for it."""
        if self._opened is None:
            if self.location.scheme == "file" and not create and not Path(self.location.path).is_dir():
                raise FileNotFoundError(self.location.path)
            try:
                self._opened = _open_backend(self.location, self._options)
            except (exceptions.BaseError, OSError) as error:
                raise self.failed("open", "", error) from error
        return self._opened

    def failed(self, action: str, key: str, error: Exception) -> StorageError:
        place = self.location.child(key) if key else self.location
        reason = str(error).split("\n", 1)[0]
        return StorageError(f"cannot {action} {place}: {reason}")


class _StreamWriter:
    """obstore's buffered writer with lakespark's errors."""

    def __init__(self, store: ObjectStore, key: str, writer: Any) -> None:
        self._store, self._key, self._writer = store, key, writer

    def write(self, data: bytes) -> int:
        try:
            return int(self._writer.write(data))
        except (exceptions.BaseError, OSError) as error:
            raise self._store.failed("write", self._key, error) from error

    def close(self) -> None:
        try:
            self._writer.close()
        except (exceptions.BaseError, OSError) as error:
            raise self._store.failed("write", self._key, error) from error


_memory: dict[str, MemoryStore] = {}


def _open_backend(location: Location, options: dict[str, Any]) -> Any:
    if location.scheme == "memory":
        return _memory.setdefault(location.bucket, MemoryStore())
    if location.scheme == "file":
        return LocalStore(location.path, mkdir=True)
    return from_url(location.url, **options)


def open_store(location: Location | str, **options: Any) -> ObjectStore:
    """Open the store at a location. ``options`` go to obstore's store class (credentials, endpoint, ...).

    A local folder need not exist yet: writing makes it. ``memory://name`` lives as long as the process; the
    same name is the same store.
    """
    return ObjectStore(parse_location(location) if isinstance(location, str) else location, **options)
