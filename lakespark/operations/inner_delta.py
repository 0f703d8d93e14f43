"""Delta tables that lie inside a repository: their files at a ref, by replaying the log that the ref holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lakespark.errors import BadRequestException, CorruptFileError, MissingFileError
from lakespark.operations import data_files, listing
from lakespark.operations.opened import OpenRepository
from lakespark.operations.read_plan import Plan, PlannedFile
from lakespark.operations.resolve import Resolved

_ENTRY = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.parquet")

Entries = dict[str, dict[str, Any]]


def plan(repository: OpenRepository, at: Resolved, prefix: str) -> Plan | None:
    """The files of the Delta table at a prefix, as of the ref; None if there is no Delta table.

    Raises BadRequestException for a table with features that plain files cannot stand for.
    """
    folder = data_files.folder_prefix(prefix)
    log = _entries(repository, at, f"{folder}_delta_log/")
    if not any(_ENTRY.fullmatch(path.rsplit("/", 1)[-1]) for path in log):
        return None
    metadata, adds = _replay(repository, log)
    entries = _entries(repository, at, folder)
    files = tuple(_file(entries, folder, add, metadata["schemaString"]) for add in adds.values())
    schemas = frozenset({metadata["schemaString"]})
    return Plan(folder, "parquet", files, tuple(metadata["partitionColumns"]), schemas)


def _entries(repository: OpenRepository, at: Resolved, prefix: str) -> Entries:
    pages = listing.entries(repository, at, prefix=prefix)
    return {entry["path"]: entry for page in pages for entry in listing.plain_entries(page)}


def _replay(repository: OpenRepository, log: Entries) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The newest metadata and the live add actions, from the newest checkpoint on."""
    names = {path.rsplit("/", 1)[-1]: path for path in log}
    checkpoints = sorted(int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name)))
    start = checkpoints[-1] if checkpoints else -1
    metadata: dict[str, Any] = {}
    adds: dict[str, dict[str, Any]] = {}
    actions: list[dict[str, Any]] = []
    if checkpoints:
        body = _read(repository, log[names[f"{start:020d}.checkpoint.parquet"]])
        columns = ["metaData", "add"]
        actions += pq.read_table(pa.BufferReader(body), columns=columns).to_pylist(maps_as_pydicts="strict")
    versions = sorted(int(match[1]) for name in names if (match := _ENTRY.fullmatch(name)))
    for version in _unbroken(versions, start + 1):
        body = _read(repository, log[names[f"{version:020d}.json"]])
        actions += [json.loads(line) for line in body.splitlines()]
    for action in actions:
        metadata = action.get("metaData") or metadata
        if action.get("remove"):
            adds.pop(action["remove"]["path"], None)
        if action.get("add"):
            adds[action["add"]["path"]] = action["add"]
    _check(metadata, adds.values())
    return metadata, adds


def _unbroken(versions: Iterable[int], first: int) -> list[int]:
    """The versions from the first on. Raises BadRequestException for a missing one: rows would be wrong."""
    found = [version for version in versions if version >= first]
    missing = set(range(first, max(found, default=first) + 1)).difference(found) if found else set()
    if missing:
        raise BadRequestException(f"the log of the Delta table is incomplete: it has no version {min(missing)}")
    return found


def _check(metadata: dict[str, Any], adds: Iterable[dict[str, Any]]) -> None:
    if not metadata:
        raise CorruptFileError("the log of the Delta table has no metadata")
    if dict(metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none") != "none":
        raise BadRequestException("the Delta table maps its columns to other names: it cannot be read by its files")
    if any(add.get("deletionVector") for add in adds):
        raise BadRequestException("the Delta table has deletion vectors: purge them before committing it")


def _read(repository: OpenRepository, entry: dict[str, Any]) -> bytes:
    store, key = repository.contents(entry["physical_address"])
    body = store.get(key)
    if body is None:
        raise MissingFileError(f"the contents of {entry['path']!r} are gone: {store.location.child(key)} is not there")
    return body


def _file(entries: Entries, folder: str, add: dict[str, Any], schema: str) -> PlannedFile:
    relative = unquote(add["path"])
    entry = entries.get(folder + relative)
    if entry is None:
        raise MissingFileError(
            f"the Delta table at {folder!r} names {relative!r}, which is not in the repository there"
        )
    return PlannedFile(
        relative_path=relative,
        physical_address=entry["physical_address"],
        size_bytes=entry["size_bytes"],
        mtime=entry["mtime"],
        partition=dict(add["partitionValues"]),
        data_schema=schema,
        data_stats=add.get("stats"),
    )
