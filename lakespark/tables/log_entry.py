"""One entry of a table's log: the files that it adds and removes, and the digest that it states of itself.

An entry is lines of JSON, an action each. The first is ``commitInfo``, whose last key ``sha256`` is the SHA-256 of
the entry without that key: no other file names the digest of an entry.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from lakespark import digest

LEVEL_FACTOR = 16
"""So many files of one level are compacted into one of the next."""

_ENTRY_DIGEST = re.compile(rb',"sha256":"([0-9a-f]{64})"(?=\}\}(?:\n|\Z))')


Row = dict[str, Any]


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
