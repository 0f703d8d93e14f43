"""Objects: one path at one ref, to read, to stat, to write."""

from __future__ import annotations

import hashlib
import io
import secrets
import time
from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import IO, TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakespark import digest
from lakespark.errors import (
    BadRequestException,
    MissingFileError,
    ObjectExistsException,
    ObjectNotFoundException,
    StorageError,
)
from lakespark.model import DEFAULT_CONTENT_TYPE, ObjectInfo
from lakespark.names import check_path, check_text, check_texts
from lakespark.operations import listing, protection, writes
from lakespark.operations.resolve import resolve
from lakespark.operations.staged import StagedView
from lakespark.storage import PresignedUrl
from lakespark.tables.staging import staged_rows

if TYPE_CHECKING:
    from lakespark.repository import Repository

ReadMode = Literal["r", "rb"]
WriteMode = Literal["w", "wb", "x", "xb"]
BUFFER_BYTES = 1 << 20
PRESIGNED_SECONDS = 900
"""How long a URL is good for, if nobody says."""


def object_info(repository: Repository, entry: Mapping[str, Any]) -> ObjectInfo:
    """An entry as the public value, with its full physical address."""
    return ObjectInfo(
        path=entry["path"],
        physical_address=repository.opened.full_address(entry["physical_address"]),
        checksum=entry["checksum"],
        mtime=entry["mtime"],
        physical_address_expiry=None,
        size_bytes=entry["size_bytes"],
        metadata=dict(entry["metadata"]),
        content_type=entry["content_type"],
    )


def object_infos(repository: Repository, rows: pa.Table) -> Iterator[ObjectInfo]:
    """The same for a page of entries, column by column: a listing may be long."""
    stored = rows["physical_address"]
    inside = pc.binary_join_element_wise(f"{repository.opened.store.location.url}/", stored, "")
    columns = {name: listing.values(rows[name]) for name in ObjectInfo._fields if name in rows.column_names}
    columns["physical_address"] = listing.values(pc.if_else(pc.match_substring(stored, "://"), stored, inside))
    columns["physical_address_expiry"] = repeat(None, rows.num_rows)
    return map(ObjectInfo._make, zip(*(columns[name] for name in ObjectInfo._fields), strict=True))


class StoredObject:
    """The object at a path of a ref. Making one reads nothing."""

    def __init__(self, repository: Repository, reference_id: str, path: str) -> None:
        self._repository = repository
        self._reference_id = reference_id
        self._path = check_path(path)

    @property
    def repo(self) -> str:
        """Id of the repository."""
        return self._repository.id

    @property
    def ref(self) -> str:
        """The ref expression."""
        return self._reference_id

    @property
    def path(self) -> str:
        """The path in the repository."""
        return self._path

    def __str__(self) -> str:
        return f"lakefs://{self.repo}/{self.ref}/{self.path}"

    def __repr__(self) -> str:
        repository = self._repository.label
        return f"{type(self).__name__}({repository=}, reference={self.ref!r}, path={self.path!r})"

    def stat(self, pre_sign: bool | None = None) -> ObjectInfo:  # noqa: FBT001 - the SDK's signature
        """What is known of the object. Raises ObjectNotFoundException.

        ``pre_sign``: the physical address is a URL that any HTTP client can read the contents by, for 15 minutes
        (``physical_address_expiry``). Raises BadRequestException where the store has no such URLs.
        """
        entry = self._entry()
        info = object_info(self._repository, entry)
        if not pre_sign:
            return info
        signed = self._presigned(entry, PRESIGNED_SECONDS)
        return info._replace(physical_address=signed.url, physical_address_expiry=signed.expires)

    def presign(self, seconds: int = PRESIGNED_SECONDS) -> PresignedUrl:
        """A URL that any HTTP client can read the contents by, and until when (unix seconds). At most seven days.

        Raises ObjectNotFoundException, and BadRequestException where the store has no such URLs.
        """
        return self._presigned(self._entry(), seconds)

    def exists(self) -> bool:
        """Whether the ref has an object at this path. Raises RefNotFoundError if there is no such ref."""
        return self._find() is not None

    def reader(
        self,
        mode: ReadMode = "rb",
        pre_sign: bool | None = None,  # noqa: FBT001 - the SDK's signature
        *,
        encoding: str = "utf-8",
        newline: str | None = None,
        info: ObjectInfo | None = None,
    ) -> IO[Any]:
        """A seekable file object, binary (``rb``) or text (``r``); ranges are read as they are asked for.

        ``info``: what a listing or ``stat`` said, to read just those contents, whatever the path holds by now.
        """
        if mode not in ("r", "rb"):
            raise BadRequestException(f"unknown read mode {mode!r}: use 'r' or 'rb'")
        _refuse_pre_sign(pre_sign)
        raw = _RangeReader(self._repository, self._entry() if info is None else self._listed(info))
        buffered = io.BufferedReader(raw, BUFFER_BYTES)
        if mode == "rb":
            return cast("IO[Any]", buffered)
        return cast("IO[Any]", io.TextIOWrapper(buffered, encoding=encoding, newline=newline))

    def copy(self, destination_branch_id: str, destination_path: str) -> WriteableObject:
        """Link the object at another path of a branch; no data is copied."""
        copied = WriteableObject(self._repository, destination_branch_id, destination_path)
        entry = self._entry()
        copied.stage_entry({**entry, "path": destination_path, "mtime": int(time.time())})
        return copied

    def _presigned(self, entry: Mapping[str, Any], seconds: int) -> PresignedUrl:
        store, key = self._repository.opened.contents(entry["physical_address"])
        return store.presign(key, seconds)

    def _find(self) -> dict[str, Any] | None:
        opened = self._repository.opened
        return listing.find(opened, resolve(opened, self._reference_id), self._path)

    def _listed(self, info: ObjectInfo) -> dict[str, Any]:
        return {**info._asdict(), "physical_address": self._repository.opened.relative_address(info.physical_address)}

    def _entry(self) -> dict[str, Any]:
        entry = self._find()
        if entry is None:
            raise ObjectNotFoundException(f"object not found: {self}")
        return entry


class WriteableObject(StoredObject):
    """The object at a path of a branch."""

    def upload(
        self,
        data: str | bytes,
        mode: WriteMode = "w",
        pre_sign: bool | None = None,  # noqa: FBT001 - the SDK's signature
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> WriteableObject:
        """Write the whole object; staged when this returns. ``x``: raises ObjectExistsException if there is one."""
        if not isinstance(data, str | bytes | bytearray | memoryview):
            raise BadRequestException(f"upload takes str or bytes, not {type(data).__name__}: use writer() for streams")
        body = check_text(data, "the text to upload").encode() if isinstance(data, str) else bytes(data)
        self.writer(mode, pre_sign, content_type, metadata).put(body)
        return self

    def writer(
        self,
        mode: WriteMode = "wb",
        pre_sign: bool | None = None,  # noqa: FBT001 - the SDK's signature
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        *,
        encoding: str = "utf-8",
    ) -> ObjectWriter:
        """A file object that streams into the store and stages the object when it is closed."""
        _refuse_pre_sign(pre_sign)
        return ObjectWriter(self, mode, content_type=content_type, metadata=metadata, encoding=encoding)

    def delete(self) -> None:
        """Delete the object from the branch. Raises ObjectNotFoundException if there is none."""
        self._entry()
        self._repository.shared_appends.append(self._reference_id, {"op": "delete", "path": self._path})

    def stage_entry(self, entry: Mapping[str, Any], *, exclusive: bool = False) -> None:
        """Stage a put of an entry at this path, in the way that ``upload`` does."""
        row = {"op": "put", **entry}
        if not exclusive:
            self._repository.shared_appends.append(self._reference_id, row)
            return
        opened = self._repository.opened
        writes.append_if(opened, self._reference_id, staged_rows([row], user=opened.user), self._check_absent(row))

    def new_address(self) -> str:
        """A fresh physical address under the token that the branch was last seen with, relative to the namespace.

        Whether the branch is still there and may be written to is looked at when the object is staged.
        """
        opened = self._repository.opened
        state = opened.ledger.ref(self._reference_id)
        if state is None or state.kind != "branch":
            opened.ledger.refresh()
        token = protection.last_writable(opened, self._reference_id).token
        return f"data/{token}/{self._repository.write_id}/{secrets.token_hex(12)}"

    @property
    def store(self) -> Any:
        """The store that contents go to."""
        return self._repository.opened.store

    def _check_absent(self, row: Mapping[str, Any]) -> Any:
        opened = self._repository.opened

        def check(view: StagedView) -> None:
            found = listing.find_staged(opened, view, self._path)
            if found is not None and found["physical_address"] != row["physical_address"]:
                raise ObjectExistsException(f"object exists already: {self}")

        return check


class ObjectWriter(io.RawIOBase):
    """Streams into the store while the MD5 is computed; the object is staged by ``close``.

    Leaving a ``with`` block by an exception discards what was written.
    """

    def __init__(
        self,
        target: WriteableObject,
        mode: WriteMode,
        *,
        content_type: str | None,
        metadata: Mapping[str, str] | None,
        encoding: str = "utf-8",
    ) -> None:
        super().__init__()
        self._stream: Any = None
        if mode not in ("w", "wb", "x", "xb"):
            raise BadRequestException(f"unknown write mode {mode!r}: use 'w', 'wb', 'x' or 'xb'")
        self._target = target
        self._exclusive = mode.startswith("x")
        self._encoding = None if mode.endswith("b") else encoding
        self._content_type = check_text(content_type or DEFAULT_CONTENT_TYPE, "a content type")
        self._metadata = check_texts(metadata, "the object's metadata")
        self._address = target.new_address()
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Take text or bytes. Answers with the number of characters or bytes taken."""
        if self.closed:
            raise ValueError("write to a closed writer")
        body = data.encode(self._encoding or "utf-8") if isinstance(data, str) else bytes(data)
        if self._stream is None:
            self._stream = self._target.store.open_writer(self._address)
        self._stream.write(body)
        self._md5.update(body)
        self._size += len(body)
        return len(data)

    def put(self, body: bytes) -> None:
        """Write the whole object in one request, and close."""
        self._md5.update(body)
        self._size = len(body)
        self._target.store.put(self._address, body)
        super().close()
        self._stage()

    def discard(self) -> None:
        """Close without staging anything."""
        if self.closed:
            return
        super().close()
        if self._stream is not None:
            self._stream.discard()

    def close(self) -> None:
        """Finish the upload and stage the object."""
        if self.closed:
            return
        super().close()
        if self._stream is None:
            self._target.store.put(self._address, b"")
        else:
            self._stream.close()
        self._stage()

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is not None:
            self.discard()
        else:
            self.close()

    def __del__(self) -> None:
        self.discard()  # a writer that nobody closed must not stage half an object

    def _stage(self) -> None:
        checksum = self._md5.hexdigest()
        entry = {
            "path": self._target.path,
            "identity": digest.entry_identity(self._size, checksum, self._content_type, self._metadata),
            "physical_address": self._address,
            "size_bytes": self._size,
            "checksum": checksum,
            "mtime": int(time.time()),
            "content_type": self._content_type,
            "metadata": self._metadata,
        }
        self._target.stage_entry(entry, exclusive=self._exclusive)


class _RangeReader(io.RawIOBase):
    """Reads ranges of one physical object."""

    def __init__(self, repository: Repository, entry: Mapping[str, Any]) -> None:
        super().__init__()
        self._store, self._key = repository.opened.contents(entry["physical_address"])
        self._size: int = entry["size_bytes"]
        self._path: str = entry["path"]
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}.get(whence)
        if start is None:
            raise ValueError(f"unknown whence {whence}")
        if start + offset < 0:
            raise ValueError(f"cannot seek to {start + offset}, before the start of {self._path}")
        self._place = start + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        end = min(self._place + len(view), self._size)
        if end <= self._place:
            return 0
        body = self._get(self._place, end)
        view[: len(body)] = body
        self._place += len(body)
        return len(body)

    def _get(self, start: int, end: int) -> bytes:
        try:
            body = self._store.get_range(self._key, start, end)
        except FileNotFoundError as error:
            if isinstance(error, StorageError):
                raise
            raise MissingFileError(
                f"the contents of {self._path!r} are gone: {self._store.location.child(self._key)} is not there"
            ) from None
        if len(body) != end - start:
            raise MissingFileError(
                f"the contents of {self._path!r} are cut short: {self._store.location.child(self._key)} "
                f"has fewer than {self._size} bytes"
            )
        return body


def _refuse_pre_sign(pre_sign: bool | None) -> None:  # noqa: FBT001 - the SDK's parameter
    if pre_sign:
        raise BadRequestException(
            "pre_sign=True is not supported here: objects are read and written straight in the store. "
            "stat(pre_sign=True) and presign() give a URL to read one by"
        )
