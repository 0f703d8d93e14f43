"""Local folders. Files show up whole or not at all: they are written under another name and linked or renamed.

Half as long a put, and a tenth as long a look-up of an absent file, as through obstore (docs/design.md), which
is what uploads and small commits consist of. A durable store syncs to the disk what it acknowledges.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

from lakespark.errors import (
    AccessDeniedError,
    BadRequestException,
    StateUnknownError,
    StorageError,
    UnsafeStoreError,
)
from lakespark.storage.disk import Disk, SyncedDisk, UnsyncedDisk
from lakespark.storage.location import Location
from lakespark.storage.store import PresignedUrl, StoredFile, Writer

_UNFINISHED = ".unfinished-"
_DENIED = {errno.EACCES, errno.EROFS}
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


class LocalStore:
    """A Store over a local folder, which is made by the first write.

    ``durable``: what a call has written is on the disk when it answers, whole, and stays there after a power loss.
    """

    def __init__(self, location: Location, *, durable: bool = False) -> None:
        self.location = location
        self._root = location.path
        self.disk: Disk = SyncedDisk(self._root) if durable else UnsyncedDisk()

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    def get(self, key: str) -> bytes | None:
        try:
            with open(self.path(key), "rb", buffering=0) as file:  # noqa: PTH123 - half the time of Path.open
                return file.read()
        except (FileNotFoundError, IsADirectoryError):
            return None
        except OSError as error:
            raise self.failed("read", key, error) from error

    def get_range(self, key: str, start: int, end: int) -> bytes:
        try:
            with open(self.path(key), "rb", buffering=0) as file:  # noqa: PTH123
                return os.pread(file.fileno(), end - start, start)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self.failed("read", key, error) from error

    def put(self, key: str, body: bytes) -> None:
        try:
            with _Unfinished(self.path(key), self.disk) as unfinished:
                unfinished.append(body)
                unfinished.become(self.path(key))
        except OSError as error:
            raise self.failed("write", key, error) from error

    def put_if_absent(self, key: str, body: bytes) -> bool:
        try:
            with _Unfinished(self.path(key), self.disk) as unfinished:
                unfinished.append(body)
                unfinished.finish()
                self._link(unfinished.path, key)
        except FileExistsError:
            is_first = False
        except StorageError:
            raise
        except OSError as error:
            raise self.failed("write", key, error) from error
        else:
            is_first = True
        self._settle_name(key)  # that of another writer too: what comes next may build on it
        return is_first

    def _settle_name(self, key: str) -> None:
        """Others have seen the file: that it cannot be synced does not say that it is not there."""
        path = self.path(key)
        try:
            self.disk.name_given(os.path.dirname(path))  # noqa: PTH120
        except OSError as error:
            raise StateUnknownError(
                f"{path} is written, but cannot be synced to the disk ({error.strerror or error}): "
                "look at the repository before repeating"
            ) from error

    def _link(self, path: str, key: str) -> None:
        try:
            os.link(path, self.path(key))
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise UnsafeStoreError(
                f"cannot write {self.path(key)}: this file system has no hard links ({error.strerror}), by which a "
                "lake tells who was first. Mounts of object stores have none: use the store's URL"
            ) from error

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredFile]:
        try:
            yield from self._walk(prefix, after or "")
        except OSError as error:
            raise self.failed("list", prefix, error) from error

    def size(self, key: str) -> int | None:
        found = self.stat(key)
        return None if found is None else found.size_bytes

    def stat(self, key: str) -> StoredFile | None:
        try:
            status = os.stat(self.path(key))  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self.failed("look up", key, error) from error
        return StoredFile(key, status.st_size, status.st_mtime) if stat.S_ISREG(status.st_mode) else None

    def delete(self, key: str) -> None:
        try:
            Path(self.path(key)).unlink(missing_ok=True)
        except OSError as error:
            raise self.failed("delete", key, error) from error

    def presign(self, key: str, seconds: int) -> PresignedUrl:  # noqa: ARG002 - the protocol's
        raise BadRequestException(f"no URL can be made for {self.path(key)}: a local folder has no server that signs")

    def open_writer(self, key: str) -> Writer:
        return _LocalWriter(self, key)

    def path(self, key: str) -> str:
        """Path of a key's file."""
        return f"{self._root}/{key}"

    def _walk(self, folder: str, after: str) -> Iterator[StoredFile]:
        try:
            entries = list(os.scandir(self.path(folder)))
        except FileNotFoundError:
            return
        for entry in entries:
            key = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                yield from self._walk(key, after)
            elif key > after and not entry.name.startswith(_UNFINISHED):
                status = entry.stat()
                yield StoredFile(key, status.st_size, status.st_mtime)

    def failed(self, action: str, key: str, error: OSError) -> StorageError:
        """The error of a failed request."""
        kind = AccessDeniedError if error.errno in _DENIED else StorageError
        return kind(f"cannot {action} {self.path(key)}: {error.strerror or error}")


class _Unfinished:
    """A file beside its target that is gone after the ``with`` block, unless it was renamed."""

    def __init__(self, target: str, disk: Disk) -> None:
        self._folder = os.path.dirname(target)  # noqa: PTH120
        self._disk = disk
        self._is_there = True
        self.path = f"{self._folder}/{_UNFINISHED}{secrets.token_hex(8)}"
        try:
            self._file = self._open()
        except FileNotFoundError:
            disk.make_folder(self._folder)
            self._file = self._open()

    def _open(self) -> IO[bytes]:
        return open(self.path, "xb", buffering=0)  # noqa: PTH123 - closed by close or __exit__

    def append(self, body: bytes) -> None:
        """Write more, all of it."""
        left = memoryview(body)
        while left:
            left = left[self._file.write(left) :]

    def finish(self) -> None:
        """Close without taking it away: the contents are whole."""
        self._disk.contents_written(self._file.fileno())
        self._file.close()

    def become(self, target: str) -> None:
        """Finish and take the target's name, over another file if there is one."""
        self.finish()
        os.replace(self.path, target)  # noqa: PTH105 - a third of the time of Path.replace
        self._is_there = False
        self._disk.name_given(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._is_there:
            os.unlink(self.path)  # noqa: PTH108


class _LocalWriter:
    """Streams into an unfinished file that gets its name when the writer is closed."""

    def __init__(self, store: LocalStore, key: str) -> None:
        self._store, self._key = store, key
        try:
            self._unfinished = _Unfinished(store.path(key), store.disk)
        except OSError as error:
            raise store.failed("write", key, error) from error

    def write(self, data: bytes) -> int:
        try:
            self._unfinished.append(data)
        except OSError as error:
            raise self._store.failed("write", self._key, error) from error
        return len(data)

    def discard(self) -> None:
        self._unfinished.__exit__()

    def close(self) -> None:
        try:
            with self._unfinished:
                self._unfinished.become(self._store.path(self._key))
        except OSError as error:
            raise self._store.failed("write", self._key, error) from error
