"""One append-only Delta table: the log entries, which Parquet files are live, and putting the next entry.

A table changes by put-if-absent of ``_delta_log/<n+1>.json`` after the Parquet file that it adds; whoever puts
that entry has won number n+1. Rows carry the number of the entry that brought them in the column ``entry``,
null as long as they lie in the file of their own entry; the tags ``firstEntry`` and ``lastEntry`` of an add
action say which entries' rows a file holds. Compaction merges small files of one level into one of the next, so
that the number of live files grows with the logarithm of the history, and so does what a row costs in rewrites.
"""

from __future__ import annotations

import io
import json
import re
import secrets
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from lakespark import digest
from lakespark.errors import (
    CorruptFileError,
    MissingFileError,
    StateUnknownError,
    StorageError,
    StoreRefusedError,
    StoreUnavailableError,
    UnsafeStoreError,
)
from lakespark.storage import Store
from lakespark.tables.log_entry import (
    LEVEL_FACTOR,
    LOG_RETENTION_DAYS,
    DataFile,
    LogEntry,
    Row,
    data_file,
    entry_body,
    parse_entry,
    table_header,
)

COMPACTED_FILE_BYTES = 8 << 20
"""Larger files are left alone: rewriting them costs more than keeping them."""
CHECKPOINT_ENTRIES = 256
"""So many entries after the last checkpoint, the writer that compacts makes the next one."""
_LAST_CHECKPOINT = "_last_checkpoint"
_LISTING_TRIES = 3
_SETTLE_TRIES = 5
_PARALLEL_READS = 8

Item = TypeVar("Item")
Value = TypeVar("Value")

_ENTRY_NAME = re.compile(r"([0-9]{20})\.json")


class LogExpiredError(Exception):
    """The handle is so old that the log may have been cleaned up past it: open the table again."""


class DeltaLog:
    """A handle on one table. Not synchronised: its owner holds a lock around calls that change it."""

    def __init__(self, store: Store, root: str, schema: pa.Schema) -> None:
        self._store = store
        self._root = root
        self._schema = schema
        self.version = -1
        self.files: dict[str, DataFile] = {}
        self._checkpoint_version = -1
        self._fresh_at = time.monotonic()
        self._won_by_others: dict[int, bytes] = {}

    # -- reading -------------------------------------------------------------------------------------------

    def load(self, *, is_empty_at_first: bool = False) -> None:
        """Find the newest version from the last checkpoint and the entries after it. Version -1: no table.

        ``is_empty_at_first``: entry 0 of such tables brings no rows, and is not read.
        """
        self.version, self.files = -1, {}
        names = self._list_log()
        if _LAST_CHECKPOINT in names:
            self.version, self.files = self._read_checkpoint()
            self._checkpoint_version = self.version
        elif is_empty_at_first and self._entry_name(0) in names:
            self.version = 0
        self._read_entries(self._numbers_in(names))

    def resume(self, version: int, files: Iterable[DataFile]) -> list[LogEntry] | None:
        """Start from a known state instead of a checkpoint; answers with the entries after it.

        None, and nothing is known, if the log does not have that version.
        """
        numbers = self._numbers_from(version)
        if not numbers:
            return None
        self.version, self.files = version, {file.name: file for file in files}
        return self._read_entries(numbers[1:])

    def resume_at_end(self, version: int) -> bool:
        """Start at a version if it is the newest of all, which one listing tells. False if it is not."""
        if self._numbers_from(version) != [version]:
            return False
        self.version, self.files, self._fresh_at = version, {}, time.monotonic()
        return True

    def _numbers_from(self, version: int) -> list[int]:
        """The entry of a version and all later ones, or nothing if that one is not there."""
        self.version = version - 1
        try:
            names = self._list_log()
            return self._numbers_in(names) if self._entry_name(version) in names else []
        finally:
            self.version = -1

    @property
    def is_expired(self) -> bool:
        """Whether later entries may have been cleaned up: then one that is absent does not mean a free number."""
        return time.monotonic() - self._fresh_at > LOG_RETENTION_DAYS * 86400 / 2

    def refresh(self) -> list[LogEntry]:
        """The entries that have come since the last look: one request if there are none."""
        if self.is_expired:
            raise LogExpiredError(self._root)
        entries = self.follow_winners()
        while (body := self._store.get(self._entry_key(self.version + 1))) is not None:
            entries.append(self._apply(self.version + 1, body))
        self._fresh_at = time.monotonic()
        return entries

    def follow_winners(self) -> list[LogEntry]:
        """The entries that took the number of one of ours and were read then: no request."""
        entries = []
        while (body := self._won_by_others.pop(self.version + 1, None)) is not None:
            entries.append(self._apply(self.version + 1, body))
        return entries

    def read_rows(self, file: DataFile, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a file, with ``entry`` filled in. Raises MissingFileError or CorruptFileError naming it."""
        key = f"{self._root}/{file.name}"
        body = self._store.get(key)
        if body is None:
            raise MissingFileError(f"file {self._place(key)} is missing: the table's log names it")
        if digest.hash_bytes(body) != file.sha256:
            raise CorruptFileError(f"file {self._place(key)} is not what was written: its SHA-256 differs")
        try:
            # one thread: these files are small, and a pool costs more than it saves
            table = pq.ParquetFile(pa.BufferReader(body)).read(columns=columns, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise CorruptFileError(f"file {self._place(key)} cannot be read: {error}") from error
        if file.first == file.last:
            # not pa.repeat: its first call imports pandas, where there is one, which takes longer than a whole log
            numbers = pa.py_buffer(struct.pack("<q", file.first) * table.num_rows)
            entries = pa.Array.from_buffers(pa.int64(), table.num_rows, [None, numbers])
            table = table.set_column(table.schema.get_field_index("entry"), "entry", entries)
        return table

    # -- writing -------------------------------------------------------------------------------------------

    def create(self) -> bool:
        """Put entry 0 without rows. False if the table exists already."""
        body = entry_body("CREATE TABLE", (), header=table_header(self._schema))
        if not self._put(0, body):
            return False
        self._apply(0, body)
        return True

    def create_with(self, rows: pa.Table) -> bool:
        """Put entry 0 with the first rows. False if the table exists already."""
        file = self.write_file(rows)._replace(first=0, last=0)
        return self._put(0, entry_body("CREATE TABLE", (file,), header=table_header(self._schema)))

    def write_file(self, rows: pa.Table, put: Callable[[str, bytes], None] | None = None) -> DataFile:
        """Write rows as a Parquet file that no entry names yet. Its entries are not known yet (-1).

        ``put`` is called in place of the store's, to write it later.
        """
        name = f"{secrets.token_hex(16)}.parquet"
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="zstd", write_statistics=False, store_schema=False)
        body = sink.getvalue()
        (put or self._store.put)(f"{self._root}/{name}", body)
        return DataFile(name, len(body), rows.num_rows, digest.hash_bytes(body), -1, -1)

    def put_rows(self, file: DataFile, number: int, repeated: Sequence[Row] | None = None) -> bool:
        """Put entry ``number``, which adds the file. False if another writer has that number.

        ``repeated``: the rows once more, for the entry itself, so that followers need not read the file.

        Raises StateUnknownError if the store does not say.
        """
        body = entry_body("WRITE", (file._replace(first=number, last=number),), repeated=repeated)
        if not self._put(number, body):
            return False
        if number == self.version + 1:
            self._apply(number, body)
        return True

    def compact(self, follow: Callable[[list[LogEntry]], None]) -> bool:
        """Merge the files of a level that has LEVEL_FACTOR of them. Whether anything was merged.

        ``follow`` is told of the entries that other writers put meanwhile; what was merged goes in after them.
        """
        due = self._due_for_compaction()
        if not due:
            return False
        merged = pa.concat_tables(self._in_parallel(self.read_rows, due))
        file = self.write_file(merged)._replace(first=due[0].first, last=due[-1].last)
        body = entry_body("OPTIMIZE", (file,), due, data_change=False)
        while not self._put(self.version + 1, body):
            follow(self.refresh())
            if any(merged_file.name not in self.files for merged_file in due):
                return False  # another writer has merged them
        self._apply(self.version + 1, body)
        return True

    def checkpoint_if_due(self) -> None:
        """Make a Delta checkpoint, which other readers use and our own need to open without a snapshot.

        It is derived, so that it is not synced where the store is durable. Raises StorageError.
        """
        # a checkpoint lists the files of the last week too, so long logs have them less often
        due = max(CHECKPOINT_ENTRIES, self.version // 32)
        if self.version - self._checkpoint_version < due or self._store.location.scheme != "file":
            return
        from deltalake import DeltaTable  # noqa: PLC0415 - slow to import, seldom needed
        from deltalake.exceptions import DeltaError  # noqa: PLC0415

        try:
            DeltaTable(self._store.location.child(self._root).path).create_checkpoint()
        except (DeltaError, OSError) as error:
            raise StorageError(f"cannot make a checkpoint of {self._place(self._root)}: {error}") from error
        self._checkpoint_version = self.version

    # -- parts ---------------------------------------------------------------------------------------------

    def _due_for_compaction(self) -> list[DataFile]:
        """Enough neighbours of one level. Only neighbours: no file may hold entries from both sides of another's.

        It is the business of the writer who fills a level; if that one dies, of the one who fills it once more.
        """
        run: list[DataFile] = []
        for file in sorted(self.files.values(), key=lambda file: file.first):
            is_large = file.size_bytes > COMPACTED_FILE_BYTES
            if run and (is_large or file.level != run[-1].level):
                if len(run) >= LEVEL_FACTOR:
                    break
                run = []
            if not is_large:
                run.append(file)
        return run if run and len(run) % LEVEL_FACTOR == 0 else []

    def _put(self, number: int, body: bytes) -> bool:
        """Put-if-absent of an entry, settled by reading it back: our own bytes there mean that we won."""
        key = self._entry_key(number)
        failure: StorageError | None = None
        is_absent = False
        for attempt in range(_SETTLE_TRIES):
            try:
                if self._store.put_if_absent(key, body):
                    return True
            except StorageError as error:
                failure = _unsettled(error)
            try:
                found = self._store.get(key)
            except StorageError as error:
                failure, is_absent = error, False
                if isinstance(error, StoreUnavailableError):
                    break  # after retries of the store's own
            else:
                if found is not None and found != body:
                    self._won_by_others[number] = found
                if found is not None:
                    return found == body
                is_absent = True
            time.sleep(0.01 * 2**attempt)
        if failure is not None and is_absent and not self._store.location.is_remote:
            raise failure  # a local store that failed and holds no entry has not written one
        raise StateUnknownError(
            f"the store did not say whether log entry {self._place(key)} was written: "
            "look at the repository before repeating"
        ) from failure

    def _entry_key(self, number: int) -> str:
        return f"{self._root}/_delta_log/{self._entry_name(number)}"

    @staticmethod
    def _entry_name(number: int) -> str:
        return f"{number:020d}.json"

    def _place(self, key: str) -> str:
        return str(self._store.location.child(key))

    def _list_log(self) -> list[str]:
        """Names in the log's folder, without the entries up to the version."""
        listed = self._store.list(f"{self._root}/_delta_log", after=self._entry_key(self.version))
        return [file.key.rsplit("/", 1)[-1] for file in listed]

    def _numbers_in(self, names: list[str]) -> list[int]:
        """Numbers of the entries after the version, without a gap.

        A folder that is listed while entries are put may show only the later of two, so gaps are looked at again.
        """
        for _ in range(_LISTING_TRIES):
            found = sorted(int(match[1]) for match in map(_ENTRY_NAME.fullmatch, names) if match)
            numbers = [number for number in found if number > self.version]
            expected = range(self.version + 1, self.version + 1 + len(numbers))
            if numbers == list(expected):
                return numbers
            names = self._list_log()
        missing = next(number for number in expected if number not in numbers)
        raise MissingFileError(
            f"log entry {self._place(self._entry_key(missing))} is missing: the table has later ones"
        )

    def _read_entries(self, numbers: list[int]) -> list[LogEntry]:
        bodies = self._in_parallel(self._read_entry, numbers)
        entries = [self._apply(*read) for read in zip(numbers, bodies, strict=True)]
        self._fresh_at = time.monotonic()
        return entries

    def _in_parallel(self, read: Callable[[Item], Value], items: Sequence[Item]) -> list[Value]:
        if not self._store.location.is_remote:  # starting a thread takes longer than a read
            return [read(item) for item in items]
        with ThreadPoolExecutor(_PARALLEL_READS) as pool:
            return list(pool.map(read, items))

    def _read_entry(self, number: int) -> bytes:
        body = self._store.get(self._entry_key(number))
        if body is None:
            raise MissingFileError(f"log entry {self._place(self._entry_key(number))} is missing: it was listed")
        return body

    def _apply(self, number: int, body: bytes) -> LogEntry:
        try:
            entry = parse_entry(number, body)
        except ValueError as error:
            place = self._place(self._entry_key(number))
            raise CorruptFileError(f"log entry {place} cannot be read: {error}") from error
        for name in entry.removed:
            self.files.pop(name, None)
        for file in entry.added:
            self.files[file.name] = file
        self.version = number
        return entry

    def _read_checkpoint(self) -> tuple[int, dict[str, DataFile]]:
        pointer = self._store.get(f"{self._root}/_delta_log/{_LAST_CHECKPOINT}")
        if pointer is None:
            return -1, {}
        try:
            version = int(json.loads(pointer)["version"])
            body = self._store.get(f"{self._root}/_delta_log/{version:020d}.checkpoint.parquet")
            adds = pq.read_table(pa.BufferReader(body), columns=["add"])["add"].to_pylist()
            files = [data_file(add) for add in adds if add and add["path"]]
        except (ValueError, KeyError, TypeError, pa.ArrowException, OSError):
            return -1, {}  # a checkpoint is derived: without it every entry is read
        return version, {file.name: file for file in files}


def _unsettled(error: StorageError) -> StorageError:
    """The failure of a write that may have taken effect. Raises one that says that nothing was written."""
    if isinstance(error, StoreRefusedError | UnsafeStoreError):
        raise error
    return error
