"""Objects that a store lists: below a prefix, or one of them. Their contents are not read."""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.errors import ObjectNotFoundException, StorageError
from lakespark.operations.data_files import folder_prefix
from lakespark.operations.imports.found import Found, OnFound, check_outside, sorted_out
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location
from lakespark.storage.store import StoredFile

Lister = Callable[[Location], pa.Table]
TOLD_EVERY = 1000
_MD5 = re.compile(r'"?([0-9a-fA-F]{32})"?')
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Prefix:
    """Every object below a location, as below a folder, to its relative key below ``destination``.

    ``lister`` lists in the store's place: a function from the location to a table of ``key`` (below it), ``size_bytes``
    and ``time_ns``.
    """

    location: Location
    destination: str
    lister: Lister | None = None

    @property
    def replaces(self) -> str | None:
        """The destination becomes what lies below the location."""
        return folder_prefix(self.destination)

    def find(self, repository: OpenRepository, on_found: OnFound) -> Found:
        """List it. Raises ObjectNotFoundException if there is nothing at all."""
        check_outside(repository, self.location)
        files = _Files(on_found)
        if self.lister is not None:
            columns = _Columns.of(self.lister(self.location))
            on_found(len(columns.keys))
        else:
            self._list(repository, files)
            columns = files.columns()
        if not len(columns.keys) and not files.skipped:
            raise ObjectNotFoundException(f"nothing to import: there are no objects below {self.location}")
        return sorted_out(columns.rows(self.location, folder_prefix(self.destination)), files.skipped)

    def _list(self, repository: OpenRepository, files: _Files) -> None:
        location = self.location
        if location.scheme == "file":
            _list_folder(location.path, files)
            return
        store = repository.foreign_store(Location(location.scheme, location.bucket, ""))
        start = len(location.path) + 1 if location.path else 0
        list_files = getattr(store, "list_exactly", store.list)
        for file in list_files(location.path):
            files.add_stored(file.key[start:], file, location.scheme)
        files.take_out_markers(location)

    def __str__(self) -> str:
        return self.location.url


@dataclass(frozen=True)
class SingleObject:
    """One object, to the path ``destination``."""

    location: Location
    destination: str

    @property
    def replaces(self) -> str | None:
        """Nothing but the object of that path."""
        return None

    def find(self, repository: OpenRepository, on_found: OnFound) -> Found:
        """Look it up. Raises ObjectNotFoundException."""
        check_outside(repository, self.location)
        store, key = repository.contents(self.location.url)
        file = store.stat(key)
        if file is None:
            raise ObjectNotFoundException(f"nothing to import: there is no object at {self.location}")
        files = _Files(on_found)
        if self.location.scheme == "file":
            files.add(key, file.size_bytes, Path(self.location.path).stat().st_mtime_ns)
        else:
            files.add_stored(key, file, self.location.scheme)
        path, address = pa.array([self.destination], pa.string()), pa.array([self.location.url], pa.string())
        return sorted_out(files.columns().entries(path, address))

    def __str__(self) -> str:
        return self.location.url


class _Columns(NamedTuple):
    """What was found, as Arrow: ``times`` in nanoseconds, and checksums where the store has some."""

    keys: pa.Array
    sizes: pa.Array
    times: pa.Array
    checksums: pa.Array

    @classmethod
    def of(cls, listed: pa.Table) -> _Columns:
        """From the table of a lister."""
        keys, sizes, times = (listed[name].combine_chunks() for name in ("key", "size_bytes", "time_ns"))
        return cls(keys, sizes, times, pa.nulls(listed.num_rows, pa.string()))

    def rows(self, root: Location, destination: str) -> pa.Table:
        """Rows of which keys below ``root`` are paths below ``destination``."""
        escaped = pc.replace_substring(self.keys, "%", "%25") if root.scheme == "file" else self.keys
        return self.entries(
            pc.binary_join_element_wise(destination, self.keys, ""),
            pc.binary_join_element_wise(root.url.rstrip("/"), escaped, "/"),
        )

    def entries(self, paths: pa.Array, addresses: pa.Array) -> pa.Table:
        """Rows with these paths and addresses."""
        stamp = pc.binary_join_element_wise(pc.cast(self.times, pa.string()), pc.cast(self.sizes, pa.string()), "-")
        return pa.table(
            {
                "path": paths,
                "physical_address": addresses,
                "size_bytes": self.sizes,
                "checksum": pc.coalesce(self.checksums, pc.binary_join_element_wise("stat:", stamp, "")),
                "mtime": pc.divide(self.times, _NANOSECONDS),
            }
        )


@dataclass
class _Files:
    """The same while it is found, and what was left out."""

    on_found: OnFound
    keys: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    checksums: list[str | None] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def add(self, key: str, size_bytes: int, time_ns: int, checksum: str | None = None) -> None:
        """One more file."""
        self.keys.append(key)
        self.sizes.append(size_bytes)
        self.times.append(time_ns)
        self.checksums.append(checksum)
        if not len(self.keys) % TOLD_EVERY:
            self.on_found(TOLD_EVERY)

    def add_stored(self, key: str, file: StoredFile, scheme: str) -> None:
        """One more file of an object store."""
        time_ns = int(file.modified * 1_000_000) * 1000  # a float knows no more than microseconds
        self.add(key, file.size_bytes, time_ns, etag_checksum(file.etag, scheme))

    def take_out_markers(self, location: Location) -> None:
        """Skip empty objects that stand for folders: clients list ``dir/`` as ``dir``, which is not there."""
        if 0 not in self.sizes:
            return
        in_order = sorted(self.keys)

        def is_marker(key: str) -> bool:
            place = bisect_left(in_order, f"{key}/")
            return place < len(in_order) and in_order[place].startswith(f"{key}/")

        is_kept = [bool(size) or not is_marker(key) for key, size in zip(self.keys, self.sizes, strict=True)]
        markers = [key for key, kept in zip(self.keys, is_kept, strict=True) if not kept]
        self.skipped += [(f"{location.url}/{key}", "it is empty, and a folder of other objects") for key in markers]
        columns: tuple[list[Any], ...] = (self.keys, self.sizes, self.times, self.checksums)
        for column in columns:
            column[:] = compress(column, is_kept)

    def columns(self) -> _Columns:
        """Everything that was found, as Arrow."""
        self.on_found(len(self.keys) % TOLD_EVERY)
        return _Columns(
            pa.array(self.keys, pa.string()),
            pa.array(self.sizes, pa.int64()),
            pa.array(self.times, pa.int64()),
            pa.array(self.checksums, pa.string()),
        )


def etag_checksum(etag: str | None, scheme: str) -> str | None:
    """The checksum that an ETag stands for: an MD5 if it is that of a single-part upload to S3."""
    if not etag:
        return None
    md5 = _MD5.fullmatch(etag) if scheme == "s3" else None
    return md5[1].lower() if md5 else f"etag:{etag.strip(chr(34))}"


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
        files.skipped.append((repr(os.fsencode(entry.path))[2:-1], "its name is not UTF-8"))
    except FileNotFoundError:
        files.skipped.append((entry.path, "it is a link to nothing, or was removed meanwhile"))
    else:
        if stat.S_ISREG(known.st_mode):
            files.add(key, known.st_size, known.st_mtime_ns)
        else:
            files.skipped.append((entry.path, "it is a link to a folder, or no file"))
