"""Staging tables: what was written to a branch under one staging token, in the order of the token's log.

A row is a ``put``, ``delete`` or ``reset`` of one path, or a ``delete-prefix`` or ``reset-prefix``. Nothing is
ever rewritten: a reset is a row that says so. The newest row that covers a path wins; ``algebra.staged`` is that
rule for whole tables, ``StagedPart.look_up`` the same for one path.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.entries import ENTRY_COLUMNS, ENTRY_SCHEMA
from lakespark.errors import MissingFileError, StateUnknownError, StorageError
from lakespark.storage import Store
from lakespark.tables.delta_log import DeltaLog, LogExpiredError
from lakespark.tables.log_entry import DataFile, LogEntry

ROOT = "_lakespark/staging"

STAGING_SCHEMA = pa.schema(
    [
        pa.field("entry", pa.int64()),
        pa.field("position", pa.int64()),
        pa.field("op", pa.string()),
        *ENTRY_SCHEMA,
        pa.field("written_by", pa.string()),
        pa.field("written_at", pa.int64()),
    ]
)
SMALL_BATCH_ROWS = 1000
SMALL_BATCHES = 64
"""More trailing batches than this, all of them small, are kept as one table in memory."""
_TOKEN_EPOCH_MS = (1 << 44) - 1


def new_token() -> str:
    """A random token; tokens sort in rough reverse order of their making, so that listings show new ones first."""
    return f"{_TOKEN_EPOCH_MS - int(time.time() * 1000):011x}-{secrets.token_hex(8)}"


def staged_rows(rows: Iterable[dict[str, Any]], *, user: str) -> pa.Table:
    """A batch from plain rows (``op``, ``path``, and for a put the entry)."""
    now = int(time.time())
    head = {"written_by": user, "written_at": now}
    return pa.Table.from_pylist(
        [{"position": position, "metadata": {}, **head, **row} for position, row in enumerate(rows)],
        schema=STAGING_SCHEMA,
    )


def staged_table(entries: pa.Table, *, user: str, op: str = "put") -> pa.Table:
    """A batch from a table with the entry columns, which is not copied."""
    count = entries.num_rows
    columns = {
        "entry": pa.nulls(count, pa.int64()),
        "position": pa.array(range(count), pa.int64()),
        "op": pa.repeat(op, count),
        **{name: entries[name] for name in ENTRY_COLUMNS},
        "written_by": pa.repeat(user, count),
        "written_at": pa.repeat(pa.scalar(int(time.time()), pa.int64()), count),
    }
    return pa.table(columns, schema=STAGING_SCHEMA)


class StagedRow(NamedTuple):
    """The newest staged row that covers a path: its ``op``, and the whole row."""

    op: str
    row: dict[str, Any]


@dataclass(frozen=True)
class StagedPart:
    """What one token had staged when it was read: the rows of entries above ``above``, up to ``version``."""

    above: int
    version: int
    _batches: tuple[pa.Table, ...]
    _lookup: _Lookup

    def rows(self) -> pa.Table:
        """The rows in their order."""
        tables = [batch for batch in self._batches if batch["entry"][-1].as_py() > self.above]
        if tables and tables[0]["entry"][0].as_py() <= self.above:
            tables[0] = tables[0].filter(pc.greater(tables[0]["entry"], self.above))
        return pa.concat_tables(tables) if tables else STAGING_SCHEMA.empty_table()

    def look_up(self, path: str) -> StagedRow | None:
        """The newest row that covers a path, or None. Rows that this process has staged since count as well."""
        row = self._lookup.find(path)
        return StagedRow(row["op"], row) if row is not None and row["entry"] > self.above else None


class StagingTable:
    """A handle on the staging table of one token, which follows its log. Safe to share between threads."""

    def __init__(self, store: Store, token: str) -> None:
        self.token = token
        self._store = store
        self._lock = threading.RLock()
        self._clear()

    def _clear(self) -> None:
        self._log = DeltaLog(self._store, f"{ROOT}/{self.token}", STAGING_SCHEMA)
        self._batches: list[pa.Table] = []
        self._lookup = _Lookup()
        self._forgotten = -1

    @property
    def version(self) -> int:
        """Number of the newest entry that this handle has read."""
        return self._log.version

    def create(self) -> None:
        """Make the table of a new token."""
        with self._lock:
            self._log.create()

    def write_file(self, rows: pa.Table) -> DataFile:
        """Write a batch that is to be appended: no entry names it yet."""
        return self._log.write_file(rows)

    def append(self, rows: pa.Table, file: DataFile) -> None:
        """Append a batch, which stands in the file, as the next entry, whatever comes before it."""
        with self._lock:
            if self._log.version < 0 or self._log.is_expired:
                self.refresh()
            while not self._log.put_rows(file, self._log.version + 1):
                self.refresh()
            self._appended(rows)

    def append_next(self, rows: pa.Table, version: int) -> bool:
        """Append a batch if no entry has come after ``version``: for a decision made on the rows up to there."""
        with self._lock:
            file = self._log.write_file(rows)
            if self._log.version != version or not self._log.put_rows(file, version + 1):
                return False
            self._appended(rows)
            return True

    def refresh(self) -> None:
        """Follow the log to its end. Raises MissingFileError if there is no such table."""
        with self._lock:
            try:
                self._catch_up()
            except BaseException:
                self._clear()  # a watermark must never stand above rows that were not read
                raise

    def read(self, above: int) -> StagedPart:
        """What the newest entries, above one, hold: one state, whatever other threads append meanwhile."""
        with self._lock:
            if above < self._forgotten:
                self._clear()
            if self._log.version < 0 and above > 0 and self._log.resume_at_end(above):
                self._forgotten = above  # a sealed token whose rows are all committed: none of them is read
            else:
                self.refresh()
            return StagedPart(above, self._log.version, tuple(self._batches), self._lookup)

    def forget(self, upto: int) -> None:
        """Let go of the rows of entries up to one, which are committed. A late reader has them read again."""
        with self._lock:
            if self._log.version == upto and self._batches:
                self._batches, self._lookup, self._forgotten = [], _Lookup(), upto

    def _catch_up(self) -> None:
        if self._log.version >= 0:
            try:
                entries = self._log.refresh()
            except LogExpiredError:
                self._clear()
            else:
                self._follow(entries)
                return
        self._load()

    def _load(self) -> None:
        self._log.load(is_empty_at_first=True)
        if self._log.version < 0:
            raise MissingFileError(f"the staging table of token {self.token} is missing")
        for file in sorted(self._log.files.values(), key=lambda file: file.first):
            self._add(_in_order(self._log.read_rows(file)))

    def _follow(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            if entry.is_data_change:
                for file in entry.added:
                    self._add(_in_order(self._log.read_rows(file)))

    def _appended(self, rows: pa.Table) -> None:
        entries = pa.repeat(pa.scalar(self._log.version, pa.int64()), rows.num_rows)
        self._add(rows.set_column(0, "entry", entries))
        with contextlib.suppress(StorageError, StateUnknownError):  # derived work: the batch is in
            while self._log.compact(self._follow_or_clear):
                pass
            self._log.checkpoint_if_due()

    def _follow_or_clear(self, entries: Sequence[LogEntry]) -> None:
        try:
            self._follow(entries)
        except BaseException:
            self._clear()
            raise

    def _add(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        self._lookup.add(rows)
        self._batches.append(rows)
        small = 0
        while small < len(self._batches) and self._batches[-1 - small].num_rows < SMALL_BATCH_ROWS:
            small += 1
        if small > SMALL_BATCHES:
            self._batches[-small:] = [pa.concat_tables(self._batches[-small:]).combine_chunks()]


class _Lookup:
    """The newest row of each path and the prefix rows. Indexes its batches when it is first asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[pa.Table] = []
        self._batches: list[pa.Table] = []
        self._starts: list[int] = []
        self._newest: dict[str, int] = {}
        self._prefixes: list[tuple[int, str]] = []
        self._count = 0

    def add(self, rows: pa.Table) -> None:
        with self._lock:
            self._pending.append(rows)

    def find(self, path: str) -> dict[str, Any] | None:
        with self._lock:
            return self._find(path)

    def _find(self, path: str) -> dict[str, Any] | None:
        if self._pending:
            self._index(pa.concat_tables(self._pending))
            self._pending = []
        newest = self._newest.get(path, -1)
        covering = (row for row, prefix in reversed(self._prefixes) if path.startswith(prefix))
        newest = max(newest, next(covering, -1))
        return self._row(newest) if newest >= 0 else None

    def _index(self, rows: pa.Table) -> None:
        numbers = range(self._count, self._count + rows.num_rows)
        if pc.any(pc.match_substring(rows["op"], "-prefix")).as_py():
            for number, op, path in zip(numbers, rows["op"].to_pylist(), rows["path"].to_pylist(), strict=True):
                if op.endswith("-prefix"):
                    self._prefixes.append((number, path))
                else:
                    self._newest[path] = number
        else:
            self._newest.update(zip(rows["path"].to_pylist(), numbers, strict=True))
        self._batches.append(rows)
        self._starts.append(self._count)
        self._count += rows.num_rows

    def _row(self, number: int) -> dict[str, Any]:
        batch = bisect_right(self._starts, number) - 1
        row: dict[str, Any] = self._batches[batch].slice(number - self._starts[batch], 1).to_pylist()[0]
        return row


def _in_order(rows: pa.Table) -> pa.Table:
    """Rows by entry and position, which is how they were written unless a compaction joined files."""
    entries = rows["entry"]
    if rows.num_rows < 2 or entries[0] == entries[-1]:  # noqa: PLR2004
        return rows
    return rows.sort_by([("entry", "ascending"), ("position", "ascending")])
