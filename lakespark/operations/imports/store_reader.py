"""The names of objects as the store's own client gives them: files below a place, and listings."""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakespark.errors import ObjectNotFoundException, StorageError
from lakespark.operations.imports.found import FILE_SCHEMA, OnFound, completed
from lakespark.operations.imports.listing_files import find_files, read_files
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location
from lakespark.storage.store import StoredFile, list_exactly

TOLD_EVERY = 1000
_MD5 = re.compile(r"[0-9a-fA-F]{32}")
_NANOSECONDS_A_MILLISECOND = 1_000_000


class StoreReader:
    """Reads names by the repository's stores. Frames are Arrow tables."""

    def __init__(self, repository: OpenRepository, on_found: OnFound) -> None:
        self._repository = repository
        self._on_found = on_found

    def files_below(self, location: Location) -> pa.Table:
        """The files below a folder or prefix. Raises ObjectNotFoundException if there are none."""
        files = _Files(self._on_found)
        if location.scheme == "file":
            _list_folder(location.path, files)
        else:
            self._list(location, files)
        table = files.table()
        if not table.num_rows:
            raise ObjectNotFoundException(f"nothing to import: there are no objects below {location}")
        return table

    def listing(self, location: Location) -> pa.Table:
        """The rows of a listing. Raises ObjectNotFoundException, InvalidEntriesError."""
        table = read_files(find_files(self._repository, location))
        self._on_found(table.num_rows)
        return table

    def _list(self, location: Location, files: _Files) -> None:
        store = self._repository.foreign_store(Location(location.scheme, location.bucket, ""))
        start = len(location.path) + 1 if location.path else 0
        for file in list_exactly(store, location.path):
            files.add_stored(file.key[start:], file, location.scheme)
        files.take_out_markers(location)


def file_at(repository: OpenRepository, location: Location) -> pa.Table:
    """One object, with an empty key. Raises ObjectNotFoundException."""
    store, key = repository.contents(location.url)
    file = store.stat(key)
    if file is None:
        raise ObjectNotFoundException(f"nothing to import: there is no object at {location}")
    files = _Files(lambda _count: None)
    if location.scheme == "file":
        files.add("", file.size_bytes, Path(location.path).stat().st_mtime_ns // _NANOSECONDS_A_MILLISECOND)
    else:
        files.add_stored("", file, location.scheme)
    address = pa.array([location.url], pa.string())
    return files.table().set_column(1, FILE_SCHEMA.field("address"), address)


def etag_checksum(etag: str | None, scheme: str) -> str | None:
    """The checksum that an ETag stands for: an MD5 if it is that of a single-part upload to S3."""
    if not etag:
        return None
    md5 = _MD5.fullmatch(etag) if scheme == "s3" else None
    return etag.lower() if md5 else f"etag:{etag}"


@dataclass
class _Files:
    """Files while they are found, column by column, and what is left out with the reason."""

    on_found: OnFound
    keys: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    checksums: list[str | None] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def add(self, key: str, size_bytes: int, time_ms: int, checksum: str | None = None) -> None:
        """One more file."""
        self.keys.append(key)
        self.sizes.append(size_bytes)
        self.times.append(time_ms)
        self.checksums.append(checksum)
        if not len(self.keys) % TOLD_EVERY:
            self.on_found(TOLD_EVERY)

    def add_stored(self, key: str, file: StoredFile, scheme: str) -> None:
        """One more file of an object store."""
        self.add(key, file.size_bytes, int(file.modified * 1000), etag_checksum(file.etag, scheme))

    def take_out_markers(self, location: Location) -> None:
        """Leave out empty objects that stand for folders: clients list ``dir/`` as ``dir``, which is not there."""
        if 0 not in self.sizes:
            return
        in_order = sorted(self.keys)

        def is_marker(key: str) -> bool:
            place = bisect_left(in_order, f"{key}/")
            return place < len(in_order) and in_order[place].startswith(f"{key}/")

        is_kept = [bool(size) or not is_marker(key) for key, size in zip(self.keys, self.sizes, strict=True)]
        markers = [key for key, kept in zip(self.keys, is_kept, strict=True) if not kept]
        self.left_out += [(f"{location.url}/{key}", "it is empty, and a folder of other objects") for key in markers]
        columns: tuple[list[Any], ...] = (self.keys, self.sizes, self.times, self.checksums)
        for column in columns:
            column[:] = compress(column, is_kept)

    def table(self) -> pa.Table:
        """Everything that was found, with the columns of ``FILE_SCHEMA``."""
        self.on_found(len(self.keys) % TOLD_EVERY)
        columns = {"key": self.keys, "size_bytes": self.sizes, "time_ms": self.times, "checksum": self.checksums}
        found = completed({name: pa.array(v, FILE_SCHEMA.field(name).type) for name, v in columns.items()}, FILE_SCHEMA)
        if not self.left_out:
            return found
        addresses, reasons = (pa.array(column, pa.string()) for column in zip(*self.left_out, strict=True))
        return pa.concat_tables([found, completed({"address": addresses, "reason": reasons}, FILE_SCHEMA)])


def _list_folder(root: str, files: _Files) -> None:
    try:
        for key, entry in _walk(root):
            _add_local(files, key, entry)
    except OSError as error:
        raise StorageError(f"cannot list {error.filename or root}: {error.strerror or error}") from error


def _walk(root: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below a folder but the folders themselves, with its key; links to folders are not followed."""
    folders = [("", root)]
    while folders:
        prefix, folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except FileNotFoundError:
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                folders.append((f"{prefix}{entry.name}/", entry.path))
            else:
                yield prefix + entry.name, entry


def _add_local(files: _Files, key: str, entry: os.DirEntry[str]) -> None:
    try:
        if not key.isascii():
            key.encode()
        known = entry.stat()
    except UnicodeEncodeError:
        files.left_out.append((repr(os.fsencode(entry.path))[2:-1], "its name is not UTF-8"))
    except FileNotFoundError:
        files.left_out.append((entry.path, "it is a link to nothing, or was removed meanwhile"))
    else:
        if stat.S_ISREG(known.st_mode):
            files.add(key, known.st_size, known.st_mtime_ns // _NANOSECONDS_A_MILLISECOND)
        else:
            files.left_out.append((entry.path, "it is a link to a folder, or no file"))
