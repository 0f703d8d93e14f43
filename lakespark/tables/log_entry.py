"""One entry of a table's log: the files that it adds and removes, and the digest that it states of itself.

An entry is lines of JSON, an action each. The first is ``commitInfo``, whose last key ``sha256`` is the SHA-256 of
the entry without that key: no other file names the digest of an entry.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lakespark import digest
from lakespark.tables.delta_schema import schema_string

LEVEL_FACTOR = 16
"""So many files of one level are compacted into one of the next."""
LOG_RETENTION_DAYS = 30

_ENTRY_DIGEST = re.compile(rb',"sha256":"([0-9a-f]{64})"(?=\}\}(?:\n|\Z))')


Row = dict[str, Any]
Action = dict[str, Any]


class DataFile(NamedTuple):
    """A live Parquet file: its name below the table, size, SHA-256, and the entries whose rows it holds."""

    name: str
    size_bytes: int
    rows: int
    sha256: str
    first: int
    last: int

    @property
    def level(self) -> int:
        """0 for the file of one entry; each further level spans LEVEL_FACTOR times as many entries."""
        level, span = 0, self.last - self.first + 1
        while span >= LEVEL_FACTOR:
            level, span = level + 1, span // LEVEL_FACTOR
        return level


class LogEntry(NamedTuple):
    """One entry of the log: the files it adds and the names it removes. Compactions bring no new rows.

    ``rows`` are those of the file that it adds if the entry repeats them, each without its entry number.
    """

    number: int
    added: tuple[DataFile, ...]
    removed: tuple[str, ...]
    is_data_change: bool
    rows: tuple[Row, ...] | None = None


def entry_body(
    operation: str,
    added: Iterable[DataFile],
    removed: Iterable[DataFile] = (),
    *,
    data_change: bool = True,
    header: Iterable[Action] = (),
    repeated: Sequence[Row] | None = None,
) -> bytes:
    """The bytes of an entry. ``header`` is of a table's first; ``repeated`` are the rows of the file that it adds."""
    now = int(time.time() * 1000)
    info: dict[str, Any] = {"timestamp": now, "operation": operation, "engineInfo": "lakespark"}
    if repeated is not None:
        info["rows"] = repeated
    actions: list[Action] = [{"commitInfo": info}, *header]
    actions += [{"remove": _removal(file, now, data_change=data_change)} for file in removed]
    actions += [{"add": _addition(file, now, data_change=data_change)} for file in added]
    info["actions"] = len(actions)  # an entry cut off between two lines is valid JSON still
    return sealed("\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode())


def table_header(schema: pa.Schema) -> list[Action]:
    """The actions that a table begins with: its protocol and what Delta keeps of it."""
    token = secrets.token_hex(16)
    metadata = {
        "id": f"{token[:8]}-{token[8:12]}-{token[12:16]}-{token[16:20]}-{token[20:]}",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_string(schema),
        "partitionColumns": [],
        "configuration": {
            "delta.appendOnly": "false",  # compaction removes files, never rows
            "delta.logRetentionDuration": f"interval {LOG_RETENTION_DAYS} days",
        },
        "createdTime": int(time.time() * 1000),
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def _removal(file: DataFile, now: int, *, data_change: bool) -> Action:
    return {
        "path": file.name,
        "deletionTimestamp": now,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": file.size_bytes,
    }


def _addition(file: DataFile, now: int, *, data_change: bool) -> Action:
    return {
        "path": file.name,
        "partitionValues": {},
        "size": file.size_bytes,
        "modificationTime": now,
        "dataChange": data_change,
        "tags": {"firstEntry": str(file.first), "lastEntry": str(file.last), "sha256": file.sha256},
        "stats": json.dumps({"numRecords": file.rows}),
    }


def sealed(body: bytes) -> bytes:
    """An entry with its digest: ``body`` is its lines, ``commitInfo`` first."""
    first, line_end, rest = body.partition(b"\n")
    return b'%b,"sha256":"%b"}}%b%b' % (first[:-2], digest.hash_bytes(body).encode(), line_end, rest)


def entry_digests(body: bytes) -> tuple[str | None, str]:
    """The SHA-256 that a log entry states for itself, if any, and the one that it has."""
    stated = _ENTRY_DIGEST.search(body)
    return stated and stated[1].decode(), digest.hash_bytes(stripped(body))


def stripped(body: bytes) -> bytes:
    """An entry without its digest."""
    return _ENTRY_DIGEST.sub(b"", body, count=1)


def parse_entry(number: int, body: bytes) -> LogEntry:
    """What a log entry says. Raises ValueError for one that is not as it was written."""
    stated, found = entry_digests(body)
    if stated != found:
        raise ValueError(f"it states the SHA-256 {stated} and has {found}")
    added, removed, is_data_change = [], [], True
    try:
        actions = _actions(body)
        rows = actions[0]["commitInfo"].get("rows")
        for action in actions:
            if "add" in action:
                add = action["add"]
                is_data_change = add["dataChange"]
                added.append(data_file(add))
            elif "remove" in action:
                removed.append(action["remove"]["path"])
    except (LookupError, TypeError) as error:
        raise ValueError(f"{error!r}") from error
    return LogEntry(number, tuple(added), tuple(removed), is_data_change, None if rows is None else tuple(rows))


def _actions(body: bytes) -> list[dict[str, Any]]:
    actions = [json.loads(line) for line in body.splitlines()]
    if actions[0]["commitInfo"]["actions"] != len(actions):
        raise ValueError(f"it is cut short after {len(actions)} lines")
    return actions


def data_file(add: dict[str, Any]) -> DataFile:
    """The file of an add action. Raises ValueError, LookupError or TypeError."""
    rows = json.loads(add["stats"])["numRecords"]
    tags = dict(add["tags"])  # a mapping in a log entry, pairs in a checkpoint
    first, last = int(tags["firstEntry"]), int(tags["lastEntry"])
    return DataFile(add["path"], add["size"], rows, tags["sha256"], first, last)
