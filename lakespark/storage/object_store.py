"""S3, GCS, Azure and memory, through obstore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import obstore
from obstore import exceptions
from obstore.store import MemoryStore, from_url

from lakespark.errors import StorageError
from lakespark.storage.location import Location
from lakespark.storage.s3_keys import S3Keys, has_boto3, is_odd
from lakespark.storage.store import StoredFile, Writer

WRITER_BUFFER_BYTES = 8 << 20


class ObjectStore:
    """A Store over obstore."""

    def __init__(self, location: Location, **options: Any) -> None:
        self.location = location
        self._options = options
        self._prefix = f"{location.path}/" if location.scheme == "memory" and location.path else ""
        self._opened: Any = None
        self._odd_keys = S3Keys(location, options)

    def get(self, key: str) -> bytes | None:
        if self._is_odd(key):
            return self._odd_keys.get(key)
        try:
            return bytes(obstore.get(self._backend(), self._prefix + key).bytes())
        except FileNotFoundError:
            return None
        except exceptions.BaseError as error:
            raise self.failed("read", key, error) from error

    def get_range(self, key: str, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        if self._is_odd(key):
            return self._odd_keys.get_range(key, start, end)
        try:
            return bytes(obstore.get_range(self._backend(), self._prefix + key, start=start, end=end))
        except exceptions.BaseError as error:
            size = self.size(key)
            if size is not None and start >= size:
                return b""
            raise self.failed("read", key, error) from error

    def put(self, key: str, body: bytes) -> None:
        backend = self._backend()
        try:
            obstore.put(backend, self._prefix + key, body, use_multipart=len(body) > WRITER_BUFFER_BYTES)
        except (exceptions.BaseError, OSError) as error:
            raise self.failed("write", key, error) from error

    def put_if_absent(self, key: str, body: bytes) -> bool:
        backend = self._backend()
        try:
            obstore.put(backend, self._prefix + key, body, mode="create", use_multipart=False)
        except exceptions.AlreadyExistsError:
            return False
        except (exceptions.BaseError, OSError) as error:
            raise self.failed("write", key, error) from error
        return True

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredFile]:
        backend = self._backend()
        offset = None if after is None else self._prefix + after
        try:
            for batch in obstore.list(backend, self._prefix + prefix, offset=offset):
                for meta in batch:
                    yield _stored_file(meta["path"][len(self._prefix) :], meta)
        except (exceptions.BaseError, OSError) as error:
            raise self.failed("list", prefix, error) from error

    def size(self, key: str) -> int | None:
        found = self.stat(key)
        return None if found is None else found.size_bytes

    def stat(self, key: str) -> StoredFile | None:
        if self._is_odd(key):
            return self._odd_keys.stat(key)
        try:
            return _stored_file(key, obstore.head(self._backend(), self._prefix + key))
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
        backend = self._backend()
        stream = obstore.open_writer(backend, self._prefix + key, buffer_size=WRITER_BUFFER_BYTES)
        return _StreamWriter(self, key, stream)

    def list_exactly(self, prefix: str) -> Iterator[StoredFile]:
        """As ``list``, by the very keys that anybody may have given to objects of S3, if boto3 is there."""
        if self.location.scheme == "s3" and has_boto3():
            return self._odd_keys.list(prefix)
        return self.list(prefix)

    def _is_odd(self, key: str) -> bool:
        return self.location.scheme == "s3" and is_odd(key)

    def _backend(self) -> Any:
        """Obstore's store, opened at first use."""
        if self._opened is None:
            try:
                self._opened = _open_backend(self.location, self._options)
            except (exceptions.BaseError, OSError) as error:
                raise self.failed("open", "", error) from error
        return self._opened

    def failed(self, action: str, key: str, error: Exception) -> StorageError:
        place = self.location.child(key) if key else self.location
        reason = str(error).split("\n", 1)[0]
        return StorageError(f"cannot {action} {place}: {reason}")


def _stored_file(key: str, meta: Any) -> StoredFile:
    return StoredFile(key, meta["size"], meta["last_modified"].timestamp(), meta["e_tag"])


class _StreamWriter:
    """obstore's buffered writer with lakespark's errors."""

    def __init__(self, store: ObjectStore, key: str, writer: Any) -> None:
        self._store, self._key, self._writer = store, key, writer

    def write(self, data: bytes) -> int:
        try:
            return int(self._writer.write(data))
        except (exceptions.BaseError, OSError) as error:
            raise self._store.failed("write", self._key, error) from error

    def discard(self) -> None:
        self._writer = None  # an upload that is not closed is never completed

    def close(self) -> None:
        try:
            self._writer.close()
        except (exceptions.BaseError, OSError) as error:
            raise self._store.failed("write", self._key, error) from error


_memory: dict[str, MemoryStore] = {}


def _open_backend(location: Location, options: dict[str, Any]) -> Any:
    if location.scheme == "memory":
        return _memory.setdefault(location.bucket, MemoryStore())
    return from_url(location.url, **options)
