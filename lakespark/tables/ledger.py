"""The ledger: the one Delta table in which every operation of a repository stands, and the state that follows.

A handle keeps the refs, settings and features in memory, follows the log entry by entry, and reads commits of
older files when somebody asks for them, newest file first. ``_state/latest.parquet`` beside the table is a
derived snapshot (refs, settings, their commits and the live files at one version), written by whoever compacts;
it can be lost and is never a source of truth.
"""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from lakespark.errors import (
    AmbiguousRefError,
    BadRequestException,
    ContentionError,
    MissingFileError,
    RepositoryNotFoundError,
    StateUnknownError,
    StorageError,
)
from lakespark.model import CommitRecord, Operation, OperationInfo, RefChange, RefState, SettingChange
from lakespark.storage import Store
from lakespark.storage.background import Background
from lakespark.tables import ledger_rows, operation_log
from lakespark.tables.delta_log import DeltaLog, LogExpiredError
from lakespark.tables.ledger_snapshot import Snapshot, parse_snapshot, snapshot_body
from lakespark.tables.ledger_state import KNOWN_FEATURES, LedgerState
from lakespark.tables.log_entry import DataFile, LogEntry

ROOT = "_lakespark/ledger"
SNAPSHOT = f"{ROOT}/_state/latest.parquet"
_TRIES = 40
_LOST_IN_A_ROW = 4
"""Who lost so many numbers looks how far the log has come. Before, the winner is read and the next number tried."""
_SNAPSHOT_ENTRIES = 4
"""A snapshot is written after so many entries; later where there are many refs to write."""
_REFS_AN_ENTRY = 256
_REPEATED_BYTES = 16 << 10
"""The rows of an operation stand in the log entry too, if they are no larger than this as JSON."""
_SHORTEST_PREFIX = 4
_COLUMNS_OF_COMMITS = ("entry", "position", "kind", "name", "commit", "idempotency_key")


class IdempotencyKey(NamedTuple):
    """A caller's name for one operation, with what it does to which ref: the same name lands once."""

    value: str
    verb: str
    ref: str


class Ledger:
    """A handle on a repository's ledger. Safe to share between threads."""

    def __init__(self, store: Store, *, user: str) -> None:
        self._store = store
        self._user = user
        self._lock = threading.RLock()
        self.background = Background(store.location)
        """What a deciding thread starts here is done before its operation lands."""
        self._of_thread = threading.local()
        self._looks_begun = 0
        self._looks_done = 0
        self._left_at = -1  # the version that was found at first, or that the last operation of this handle left
        self._clear()

    # -- reading -------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Follow the log to its end. Raises RepositoryNotFoundError if there is no ledger.

        A look that began after this call serves it, whichever thread took it. While an operation decides, its
        thread keeps to the look that ``operate`` took.
        """
        if getattr(self._of_thread, "is_deciding", False):
            return
        wanted = self._looks_begun + 1
        with self._lock:
            if self._looks_done < wanted:
                self._look()

    def _look(self) -> None:
        self._looks_begun = look = self._looks_begun + 1
        with self._whole_or_cleared():
            self._catch_up()
        self._looks_done = look

    def _follow_or_clear(self, entries: Iterable[LogEntry]) -> None:
        with self._whole_or_cleared():
            self._follow(entries)

    @contextlib.contextmanager
    def _whole_or_cleared(self) -> Iterator[None]:
        """Nothing may be decided on entries that were not followed to their end."""
        try:
            yield
        except BaseException:
            self._clear()
            raise

    def exists(self) -> bool:
        """Whether there is a ledger at all."""
        try:
            self.refresh()
        except RepositoryNotFoundError:
            return False
        return True

    @property
    def version(self) -> int:
        """Number of the newest log entry seen."""
        return self._log.version

    def refs(self) -> dict[str, RefState]:
        """Every branch and tag, as of the last refresh."""
        with self._lock:
            self._require_state()
            return dict(self._state.refs)

    def ref(self, name: str) -> RefState | None:
        """One branch or tag, as of the last refresh."""
        with self._lock:
            self._require_state()
            return self._state.refs.get(name)

    def settings(self) -> dict[str, str]:
        """Settings of the repository, as of the last refresh."""
        with self._lock:
            self._require_state()
            return dict(self._state.settings)

    def commit(self, commit_id: str) -> CommitRecord | None:
        """A commit, or None if the ledger has none of that id."""
        with self._lock:
            self._require_state()
            while (record := self._state.commits.get(commit_id)) is None and self._unread:
                self._read_next_commits()
            return record

    def commit_after(self, commit_id: str, parents: Iterable[CommitRecord]) -> CommitRecord | None:
        """As ``commit``, for an id whose record must stand after its parents': looks no further back."""
        with self._lock:
            floor = max((ledger_rows.commit_place(parent)[0] for parent in parents), default=0)
            while self._unread and self._unread[-1].last >= floor:
                self._read_next_commits()
            return self._state.commits.get(commit_id)

    def commit_by_prefix(self, prefix: str) -> CommitRecord | None:
        """The only commit whose id starts with ``prefix`` (four or more hex digits), or None.

        Raises AmbiguousRefError with the candidates if there are several.
        """
        if len(prefix) < _SHORTEST_PREFIX or not set(prefix) <= set("0123456789abcdef"):
            return None
        found = sorted(commit_id for commit_id in self._all_commits() if commit_id.startswith(prefix))
        if len(found) > 1:
            raise AmbiguousRefError(
                f"commit id prefix {prefix!r} is ambiguous: it fits {', '.join(found[:10])}; give more digits", found
            )
        return self._state.commits[found[0]] if found else None

    def commits(self) -> list[CommitRecord]:
        """Every commit, in order of number, as of the last refresh."""
        with self._lock:
            self._all_commits()
            return sorted(self._state.commits.values(), key=lambda record: record.number)

    def operations(self) -> Iterator[tuple[OperationInfo, tuple[RefChange, ...]]]:
        """Every operation with its ref changes, the newest first, as of the last refresh."""
        with self._lock:
            self._require_state()
            files = sorted(self._log.files.values(), key=lambda file: -file.last)
        yield from operation_log.operations(self._log.read_rows(file) for file in files)

    def landed(self, key: IdempotencyKey) -> Operation | None:
        """What has landed under a key, as of the last refresh. Raises BadRequestException for another operation's."""
        with self._lock:
            self._require_state()
            while key.value not in self._state.keys and self._unread:
                self._read_next_commits()
            number = self._state.keys.get(key.value)
            if number is None:
                return None
            file = next(file for file in self._log.files.values() if file.first <= number <= file.last)
        rows = [row for row in _in_order(self._log.read_rows(file)) if row["entry"] == number]
        info, changes = operation_log.operation(rows)
        if (info.verb, changes[0].name) != (key.verb, key.ref):
            raise BadRequestException(
                f"the idempotency key {key.value!r} was used before, for {info.verb} of {changes[0].name!r}: "
                "give each operation a key of its own"
            )
        return Operation(info.verb, changes, details=tuple(info.details.items()), landed=info, is_repeated=True)

    # -- writing -------------------------------------------------------------------------------------------

    def create(self, settings: dict[str, str], operation: Operation) -> bool:
        """Put entry 0 of a new repository. False if there is a ledger already."""
        rows = ledger_rows.operation_rows(operation, user=self._user, at=int(time.time()), write_id=_write_id())
        rows += [ledger_rows.feature_row(name) for name in sorted(KNOWN_FEATURES)]
        rows += [ledger_rows.setting_row(SettingChange(name, None, value)) for name, value in settings.items()]
        self.background.settle()
        return self._log.create_with(ledger_rows.to_table(rows))

    def operate(self, decide: Callable[[], Operation], *, key: IdempotencyKey | None = None) -> Operation:
        """Land one operation: decide on the newest state, put it, and decide again if the state has moved.

        ``decide`` states what it expects by the ``before`` of its ref changes; entries of other writers that
        touch none of that do not disturb it. If an operation has landed under the key already, that one is
        answered and nothing is decided. Raises ContentionError after a bounded number of tries, and
        BadRequestException for the key of another operation.
        """
        operation: Operation | None = None
        self.background.drop()
        for attempt in range(_TRIES):
            self.refresh()
            landed = None if key is None else self.landed(key)
            if landed is not None:
                return landed
            settings = self.settings()
            operation = self._decided(decide)
            landed_as = None if operation is None else self._land(operation, settings, key)
            if operation is not None and landed_as is not None:
                return replace(operation, landed=landed_as)
            time.sleep(random.uniform(0, min(0.5, 0.002 * 2**attempt)))  # noqa: S311 - jitter, not a secret
        what = operation.verb if operation else "the operation"
        raise ContentionError(f"{what} lost to other writers {_TRIES} times in a row; nothing was changed, try again")

    def _decided(self, decide: Callable[[], Operation]) -> Operation | None:
        """What was decided on one look at the state; None if a file was missing that a newer state does not name."""
        self.background.settle()  # what an earlier try has written may be used again
        version = self.version
        self._of_thread.is_deciding = True
        try:
            return decide()
        except MissingFileError:
            self._of_thread.is_deciding = False
            self.refresh()
            if self.version == version:
                raise
            return None
        finally:
            self._of_thread.is_deciding = False

    def _land(self, operation: Operation, settings: dict[str, str], key: IdempotencyKey | None) -> OperationInfo | None:
        rows = ledger_rows.operation_rows(
            operation, user=self._user, at=int(time.time()), write_id=_write_id(), key=key.value if key else None
        )
        file = self._log.write_file(ledger_rows.to_table(rows), put=self.put_soon)
        if self._log.version > self._left_at:
            self.refresh()  # others are at work: meanwhile more have come, and reading them costs less than losing
        self.background.settle()
        with self._lock:
            self._require_state()
            lost = 0
            while self._holds(operation, settings, key):
                if self._log.put_rows(file, self._log.version + 1, _repeatable(rows)):
                    rows = [{"entry": self._log.version, "position": i, **row} for i, row in enumerate(rows)]
                    self._state.apply(rows)
                    self._tidy(self._log.version)
                    self._left_at = self._log.version
                    return operation_log.operation(rows)[0]
                lost += 1
                with self._whole_or_cleared():
                    self._follow(self._log.refresh() if lost % _LOST_IN_A_ROW == 0 else self._log.follow_winners())
        return None

    def put_soon(self, name: str, body: bytes) -> None:
        """Write a file that the operation names which this thread decides; it is there when that lands."""
        self.background.start(lambda: self._store.put(name, body))

    def _holds(self, operation: Operation, settings: dict[str, str], key: IdempotencyKey | None) -> bool:
        return self._state.holds(operation, settings) and (key is None or self.landed(key) is None)

    def _tidy(self, landed: int) -> None:
        """Compact and write the snapshot if it is time. Derived work: a failing store does not fail its caller."""
        with contextlib.suppress(StorageError, StateUnknownError):
            while self._log.compact(self._follow_or_clear):
                pass
            interval = max(_SNAPSHOT_ENTRIES, len(self._state.refs) // _REFS_AN_ENTRY)
            if self._log.version // interval > (landed - 1) // interval:
                self._write_snapshot()
            self._log.checkpoint_if_due()

    # -- parts ---------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        self._log = DeltaLog(self._store, ROOT, ledger_rows.LEDGER_SCHEMA)
        self._state = LedgerState(str(self._store.location))
        self._unread: list[DataFile] = []

    def _catch_up(self) -> None:
        if self._log.version < 0:
            self._load()
            return
        try:
            entries = self._log.refresh()
        except LogExpiredError:
            self._clear()
            self._load()
        else:
            self._follow(entries)

    def _require_state(self) -> None:
        if self._log.version < 0:  # never read, or a refresh failed
            self.refresh()

    def _load(self) -> None:
        self._load_state()
        self._left_at = self._log.version

    def _load_state(self) -> None:
        if not self._load_snapshot():
            self._log.load()
            if self._log.version < 0:
                raise RepositoryNotFoundError(
                    f"no repository at {self._store.location}: create one, or name the place that holds one"
                )
            for file in sorted(self._log.files.values(), key=lambda file: file.first):
                self._state.apply(_in_order(self._log.read_rows(file)))

    def _load_snapshot(self) -> bool:
        body = self._store.get(SNAPSHOT)
        if body is None:
            return False
        snapshot = parse_snapshot(body)
        if snapshot is None:
            return False
        version, files, rows = snapshot
        entries = self._log.resume(version, files)
        if entries is None:
            return False
        self._unread = sorted(files, key=lambda file: file.last)
        self._state.apply(rows)
        self._follow(entries)
        return True

    def _write_snapshot(self) -> None:
        found = map(self.commit, {state.commit_id for state in self._state.refs.values()})
        rows = self._state.rows(record for record in found if record is not None)
        snapshot = Snapshot(self._log.version, list(self._log.files.values()), rows)
        self._store.put(SNAPSHOT, snapshot_body(snapshot))

    def _follow(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            if entry.rows is not None:
                self._state.apply({"entry": entry.number, "position": i, **row} for i, row in enumerate(entry.rows))
            elif entry.is_data_change:
                for file in entry.added:
                    self._state.apply(_in_order(self._log.read_rows(file)))

    def _read_next_commits(self) -> None:
        table = self._log.read_rows(self._unread[-1], _COLUMNS_OF_COMMITS)
        self._unread.pop()
        self._state.add_older(_in_order(table))

    def _all_commits(self) -> list[str]:
        with self._lock:
            self._require_state()
            while self._unread:
                self._read_next_commits()
            return list(self._state.commits)


def _in_order(table: pa.Table) -> list[ledger_rows.Row]:
    rows: list[ledger_rows.Row] = table.to_pylist()
    return sorted(rows, key=lambda row: (row["entry"], row["position"]))


def _repeatable(rows: list[ledger_rows.Row]) -> list[ledger_rows.Row] | None:
    return rows if len(json.dumps(rows)) <= _REPEATED_BYTES else None


def _write_id() -> str:
    return secrets.token_hex(16)
