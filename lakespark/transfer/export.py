"""A ref into any store as files under their logical names: in full, or what has changed since an earlier ref."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.entries import ENTRY_SCHEMA
from lakespark.errors import BadRequestException, CorruptFileError, ObjectNotFoundException
from lakespark.model import ObjectInfo
from lakespark.objects import object_infos
from lakespark.operations import diff, listing, trees
from lakespark.operations.data_files import folder_prefix
from lakespark.operations.imports.store_reader import etag_checksum
from lakespark.operations.merge import check_clean
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import Resolved, resolve
from lakespark.reference import Reference
from lakespark.storage import Location, Store, parse_location
from lakespark.storage.store import StoredFile
from lakespark.transfer import export_record
from lakespark.transfer.export_record import ExportRecord
from lakespark.transfer.parallel import DEFAULT_PARALLELISM, for_each
from lakespark.transfer.progress import Meter, OnProgress
from lakespark.transfer.target_paths import check_keys, check_targets

CHUNK_BYTES = 4 << 20
_MD5 = re.compile(r"[0-9a-f]{32}")


class Exported(NamedTuple):
    """What an export did: files written with their bytes, files that were there already, files deleted."""

    files: int
    size_bytes: int
    unchanged: int
    deleted: int
    commit: str


def export(
    reference: Reference,
    target: str | os.PathLike[str],
    prefix: str = "",
    *,
    since: str | Reference | None = None,
    delete: bool = False,
    overwrite: bool = False,
    parallelism: int = DEFAULT_PARALLELISM,
    on_progress: OnProgress | None = None,
) -> Exported:
    """Write what is committed below ``prefix`` (a folder of the ref; "" for all) to a location, by relative path.

    ``since``: only what has changed since that ref, which the target holds already; with ``delete`` paths that
    are gone since then are deleted there. In full, the target is empty or holds an export of the same commit that
    was interrupted: what is there with the right size and MD5 is not written again. ``overwrite`` allows other
    files there. Each file is verified by its MD5 where that is known, else by its size. Raises
    UnsafeDownloadError, TargetNotEmptyError or DirtyBranchError before anything is written.
    """
    if delete and since is None:
        raise BadRequestException("delete=True needs since: an export in full deletes nothing")
    opened = reference.repository.opened
    plan = _plan(opened, reference, folder_prefix(prefix), None if since is None else str(since))
    location = parse_location(target)
    _check_place(opened, location)
    removed = plan.removed if delete else []
    _check_names(location, plan, removed)
    store = opened.foreign_store(location)
    wanted = ExportRecord(
        opened.ledger.settings()["repository_id"], plan.commit, plan.prefix, was_empty=True, is_complete=False
    )
    record = export_record.check_target(store, wanted, since=plan.since, overwrite=overwrite)
    record.write(store)
    deleted = _delete(store, removed, parallelism)
    run = _Export(reference, plan, store, record, Meter(plan.entries.num_rows, plan.size_bytes, on_progress))
    for_each(plan.infos(reference), run.copy, parallelism=parallelism)
    replace(record, is_complete=True).write(store)
    return Exported(run.files, run.size_bytes, run.unchanged, deleted, plan.commit)


@dataclass(frozen=True)
class _Plan:
    """What to export: entries of a commit to write, names to delete; ``since`` a commit id."""

    commit: str
    prefix: str
    since: str | None
    entries: pa.Table
    removed: list[str]

    @property
    def names(self) -> list[str]:
        """Paths below the prefix."""
        return [path[len(self.prefix) :] for path in self.entries["path"].to_pylist()]

    @property
    def size_bytes(self) -> int:
        """Bytes of everything to write."""
        return pc.sum(self.entries["size_bytes"]).as_py() or 0

    def infos(self, reference: Reference) -> Iterator[ObjectInfo]:
        """What to write, one by one."""
        return object_infos(reference.repository, self.entries)


def _plan(opened: OpenRepository, reference: Reference, prefix: str, since: str | None) -> _Plan:
    at = resolve(opened, reference.id)
    if at.branch is not None:
        check_clean(opened, at.expression)
    at = Resolved(at.commit_id, at.record)
    if since is None:
        pages = list(listing.entries(opened, at, prefix=prefix))
        entries = pa.concat_tables(pages) if pages else ENTRY_SCHEMA.empty_table()
        if not entries.num_rows:
            raise ObjectNotFoundException(f"no objects below lakefs://{reference.repo_id}/{reference.id}/{prefix}")
        return _Plan(at.commit_id, prefix, None, entries, [])
    before = resolve(opened, since)
    changes = diff.diff(opened, before.commit_id, at.commit_id, kind="two_dot", prefix=prefix)
    is_gone = pc.equal(changes["type"], "removed")
    run = opened.local_engine
    found = trees.entries_at(run, opened.tree(at.record), changes.filter(pc.invert(is_gone)).select(["path"]))
    removed = [path[len(prefix) :] for path in changes.filter(is_gone)["path"].to_pylist()]
    return _Plan(at.commit_id, prefix, before.commit_id, run.collect(found), removed)


def _check_place(opened: OpenRepository, location: Location) -> None:
    own, given = opened.store.location.url + "/", location.url.rstrip("/") + "/"
    if own.startswith(given) or given.startswith(own):
        raise BadRequestException(
            f"cannot export to {location}: the repository's own files are in {opened.store.location}"
        )


def _check_names(location: Location, plan: _Plan, removed: list[str]) -> None:
    names = plan.names
    if export_record.NAME in names or export_record.NAME in removed:
        raise BadRequestException(f"cannot export {export_record.NAME!r}: an export's own record has that name")
    if location.scheme != "file":
        check_keys([*names, *removed], verb="export")
        return
    folder = Path(location.path)
    check_targets(folder, names, leaving=removed, verb="export")
    there = [name for name in removed if (folder / name).is_file()]
    check_targets(folder, there, leaving=removed, verb="delete")


def _delete(store: Store, names: list[str], parallelism: int) -> int:
    """Delete files at the target, and the local folders that this leaves empty; how many there were."""
    there: list[str] = []

    def delete(name: str) -> None:
        if store.size(name) is not None:
            store.delete(name)
            there.append(name)

    for_each(names, delete, parallelism=parallelism)
    if store.location.scheme == "file":
        for folder in sorted({parent for name in there for parent in Path(name).parents}, reverse=True):
            with suppress(OSError):  # not empty, or gone with another one
                (Path(store.location.path) / folder).rmdir()
    return len(there)


class _Export:
    """Copies single files, on many threads, and counts them."""

    def __init__(self, reference: Reference, plan: _Plan, target: Store, record: ExportRecord, meter: Meter) -> None:
        self.files = self.size_bytes = self.unchanged = 0
        self._reference = reference
        self._prefix = plan.prefix
        self._target = target
        self._is_size_enough = record.is_complete or record.was_empty
        self._meter = meter
        self._lock = threading.Lock()
        self._present = {} if plan.since is not None else {file.key: file for file in target.list("")}
        self._is_listed = plan.since is None

    def copy(self, info: ObjectInfo) -> None:
        """Write one file, unless it is there."""
        name = info.path[len(self._prefix) :]
        there = self._present.get(name) if self._is_listed else self._target.stat(name)
        is_there = there is not None and self._is_same(there, info)
        if not is_there:
            self._write(name, info)
        with self._lock:
            self.unchanged += is_there
            self.files += not is_there
            self.size_bytes += 0 if is_there else info.size_bytes
        self._meter.add(files=1, size_bytes=info.size_bytes if is_there else 0)

    def _is_same(self, there: StoredFile, info: ObjectInfo) -> bool:
        if there.size_bytes != info.size_bytes:
            return False
        if not _MD5.fullmatch(info.checksum):
            return self._is_size_enough
        if etag_checksum(there.etag, self._target.location.scheme) == info.checksum:
            return True
        return self._md5_at(there) == info.checksum

    def _md5_at(self, there: StoredFile) -> str:
        md5 = hashlib.md5(usedforsecurity=False)
        for start in range(0, there.size_bytes, CHUNK_BYTES):
            md5.update(self._target.get_range(there.key, start, min(start + CHUNK_BYTES, there.size_bytes)))
        return md5.hexdigest()

    def _write(self, name: str, info: ObjectInfo) -> None:
        self._check_source(info)
        md5 = hashlib.md5(usedforsecurity=False)
        with self._reference.object(info.path).reader(info=info) as source:
            if info.size_bytes <= CHUNK_BYTES:  # one request instead of a stream
                body = source.read()
                md5.update(body)
                _check_md5(info, md5.hexdigest())
                self._target.put(name, body)
                self._meter.add(size_bytes=len(body))
            else:
                self._stream(name, info, source, md5)
        if self._target.size(name) != info.size_bytes:
            raise CorruptFileError(
                f"{self._target.location.child(name)} has not the {info.size_bytes} bytes of {info.path!r}"
            )

    def _stream(self, name: str, info: ObjectInfo, source: IO[bytes], md5: hashlib._Hash) -> None:
        writer = self._target.open_writer(name)
        try:
            while chunk := source.read(CHUNK_BYTES):
                md5.update(chunk)
                writer.write(chunk)
                self._meter.add(size_bytes=len(chunk))
            _check_md5(info, md5.hexdigest())
        except BaseException:
            writer.discard()
            raise
        writer.close()

    def _check_source(self, info: ObjectInfo) -> None:
        """A foreign object may have been changed by its owner: then it has another size, at least."""
        opened = self._reference.repository.opened
        address = opened.relative_address(info.physical_address)
        if "://" not in address:
            return
        store, key = opened.contents(address)
        size = store.size(key)
        if size is not None and size != info.size_bytes:
            raise CorruptFileError(
                f"the contents of {info.path!r} have changed: {info.physical_address} has {size} bytes instead of "
                f"{info.size_bytes}"
            )


def _check_md5(info: ObjectInfo, md5: str) -> None:
    if _MD5.fullmatch(info.checksum) and md5 != info.checksum:
        raise CorruptFileError(
            f"the contents of {info.path!r} are not what was recorded: their MD5 is {md5} instead of {info.checksum}; "
            "it was not exported"
        )
