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
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakespark import digest
from lakespark.errors import CorruptFileError, MissingFileError, StateUnknownError, StorageError
from lakespark.storage import Store
from lakespark.tables.delta_schema import schema_string

LEVEL_FACTOR = 16
"""So many files of one level are compacted into one of the next."""
COMPACTED_FILE_BYTES = 8 << 20
"""Larger files are left alone: rewriting them costs more than keeping them."""
CHECKPOINT_ENTRIES = 256
"""So many entries after the last checkpoint, the writer that compacts makes the next one."""
LOG_RETENTION_DAYS = 30
_SETTLE_TRIES = 5
_PARALLEL_READS = 8

_ENTRY_NAME = re.compile(r"([0-9]{20})\.json")


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
    """One entry of the log: the files it adds and the names it removes. Compactions bring no new rows."""

    number: int
    added: tuple[DataFile, ...]
    removed: tuple[str, ...]
    is_data_change: bool


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

    # -- reading -------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Find the newest version from the last checkpoint and the entries after it. Version -1: no table."""
        self.version, self.files = self._read_checkpoint()
        self._checkpoint_version = self.version
        self.refresh_by_listing()

    def resume(self, version: int, files: Iterable[DataFile]) -> list[LogEntry]:
        """Start from a known state instead of a checkpoint; answers with the entries after it."""
        self.version = version
        self.files = {file.name: file for file in files}
        return self.refresh_by_listing()

    def refresh(self) -> list[LogEntry]:
        """The entries that have come since the last look: one request if there are none."""
        if time.monotonic() - self._fresh_at > LOG_RETENTION_DAYS * 86400 / 2:
            raise LogExpiredError(self._root)
        entries = []
        while (body := self._store.get(self._entry_key(self.version + 1))) is not None:
            entries.append(self._apply(self.version + 1, body))
        self._fresh_at = time.monotonic()
        return entries

    def refresh_by_listing(self) -> list[LogEntry]:
        """As ``refresh``, by one listing and parallel reads: for a handle that may be far behind."""
        listed = self._store.list(f"{self._root}/_delta_log", after=self._entry_key(self.version))
        names = (_ENTRY_NAME.fullmatch(file.key.rsplit("/", 1)[-1]) for file in listed)
        numbers = sorted(int(match[1]) for match in names if match)
        for expected, number in enumerate(numbers, start=self.version + 1):
            if number != expected:
                raise MissingFileError(
                    f"log entry {self._place(self._entry_key(expected))} is missing: the table has later ones"
                )
        entries = [self._apply(*read) for read in zip(numbers, self._read_entries(numbers), strict=True)]
        self._fresh_at = time.monotonic()
        return entries + self.refresh()

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
        body = self._entry_body("CREATE TABLE", (), (), header=self._header())
        if not self._put(0, body):
            return False
        self._apply(0, body)
        return True

    def create_with(self, rows: pa.Table) -> bool:
        """Put entry 0 with the first rows. False if the table exists already."""
        file = self.write_file(rows)._replace(first=0, last=0)
        return self._put(0, self._entry_body("CREATE TABLE", (file,), (), header=self._header()))

    def write_file(self, rows: pa.Table) -> DataFile:
        """Write rows as a Parquet file that no entry names yet. Its entries are not known yet (-1)."""
        name = f"{secrets.token_hex(16)}.parquet"
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="zstd", write_statistics=False, store_schema=False)
        body = sink.getvalue()
        self._store.put(f"{self._root}/{name}", body)
        return DataFile(name, len(body), rows.num_rows, digest.hash_bytes(body), -1, -1)

    def put_rows(self, file: DataFile, number: int) -> bool:
        """Put entry ``number``, which adds the file. False if another writer has that number.

        Raises StateUnknownError if the store does not say.
        """
        body = self._entry_body("WRITE", (file._replace(first=number, last=number),), ())
        if not self._put(number, body):
            return False
        if number == self.version + 1:
            self._apply(number, body)
        return True

    def compact(self) -> bool:
        """Merge the files of a level that has LEVEL_FACTOR of them. Whether anything was merged."""
        due = self._due_for_compaction()
        if not due:
            return False
        merged = pa.concat_tables([self.read_rows(file) for file in due])
        file = self.write_file(merged)._replace(first=due[0].first, last=due[-1].last)
        body = self._entry_body("OPTIMIZE", (file,), due, data_change=False)
        if not self._put(self.version + 1, body):
            return False  # somebody else writes, and will compact
        self._apply(self.version + 1, body)
        return True

    def checkpoint_if_due(self) -> None:
        """Make a Delta checkpoint, which other readers use and our own need to open without a snapshot.

        Raises StorageError.
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
        """Enough neighbours of one level. Only neighbours: no file may hold entries from both sides of another's."""
        run: list[DataFile] = []
        for file in sorted(self.files.values(), key=lambda file: file.first):
            is_large = file.size_bytes > COMPACTED_FILE_BYTES
            if run and (is_large or file.level != run[-1].level):
                if len(run) >= LEVEL_FACTOR:
                    break
                run = []
            if not is_large:
                run.append(file)
        return run if len(run) >= LEVEL_FACTOR else []

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
                failure = error
            try:
                found = self._store.get(key)
            except StorageError as error:
                failure, is_absent = error, False
            else:
                if found is not None:
                    return found == body
                is_absent = True
            time.sleep(0.01 * 2**attempt)
        if failure is not None and is_absent and self._store.location.scheme in ("file", "memory"):
            raise failure  # a local store that failed and holds no entry has not written one
        raise StateUnknownError(
            f"the store did not say whether log entry {self._place(key)} was written: "
            "look at the repository before repeating"
        ) from failure

    def _entry_key(self, number: int) -> str:
        return f"{self._root}/_delta_log/{number:020d}.json"

    def _place(self, key: str) -> str:
        return str(self._store.location.child(key))

    def _read_entries(self, numbers: list[int]) -> list[bytes]:
        if self._store.location.scheme in ("file", "memory"):  # starting a thread takes longer than a read
            return [self._read_entry(number) for number in numbers]
        with ThreadPoolExecutor(_PARALLEL_READS) as pool:
            return list(pool.map(self._read_entry, numbers))

    def _read_entry(self, number: int) -> bytes:
        body = self._store.get(self._entry_key(number))
        if body is None:
            raise MissingFileError(f"log entry {self._place(self._entry_key(number))} is missing: it was listed")
        return body

    def _entry_body(
        self,
        operation: str,
        added: Iterable[DataFile],
        removed: Iterable[DataFile],
        *,
        data_change: bool = True,
        header: Iterable[dict[str, Any]] = (),
    ) -> bytes:
        now = int(time.time() * 1000)
        info: dict[str, Any] = {"timestamp": now, "operation": operation, "engineInfo": "lakespark"}
        actions: list[dict[str, Any]] = [{"commitInfo": info}, *header]
        actions += [
            {
                "remove": {
                    "path": file.name,
                    "deletionTimestamp": now,
                    "dataChange": data_change,
                    "extendedFileMetadata": True,
                    "partitionValues": {},
                    "size": file.size_bytes,
                }
            }
            for file in removed
        ]
        actions += [
            {
                "add": {
                    "path": file.name,
                    "partitionValues": {},
                    "size": file.size_bytes,
                    "modificationTime": now,
                    "dataChange": data_change,
                    "tags": {"firstEntry": str(file.first), "lastEntry": str(file.last), "sha256": file.sha256},
                    "stats": json.dumps({"numRecords": file.rows}),
                }
            }
            for file in added
        ]
        info["actions"] = len(actions)  # an entry cut off between two lines is valid JSON still
        return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()

    def _header(self) -> list[dict[str, Any]]:
        token = secrets.token_hex(16)
        metadata = {
            "id": f"{token[:8]}-{token[8:12]}-{token[12:16]}-{token[16:20]}-{token[20:]}",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_string(self._schema),
            "partitionColumns": [],
            "configuration": {
                "delta.appendOnly": "false",  # compaction removes files, never rows
                "delta.logRetentionDuration": f"interval {LOG_RETENTION_DAYS} days",
            },
            "createdTime": int(time.time() * 1000),
        }
        return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]

    def _apply(self, number: int, body: bytes) -> LogEntry:
        added, removed, is_data_change = [], [], True
        try:
            for action in _actions(body):
                if "add" in action:
                    add = action["add"]
                    is_data_change = add["dataChange"]
                    added.append(_data_file(add))
                elif "remove" in action:
                    removed.append(action["remove"]["path"])
        except (ValueError, LookupError, TypeError) as error:
            place = self._place(self._entry_key(number))
            raise CorruptFileError(f"log entry {place} cannot be read: {error!r}") from error
        for name in removed:
            self.files.pop(name, None)
        for file in added:
            self.files[file.name] = file
        self.version = number
        return LogEntry(number, tuple(added), tuple(removed), is_data_change)

    def _read_checkpoint(self) -> tuple[int, dict[str, DataFile]]:
        pointer = self._store.get(f"{self._root}/_delta_log/_last_checkpoint")
        if pointer is None:
            return -1, {}
        try:
            version = int(json.loads(pointer)["version"])
            body = self._store.get(f"{self._root}/_delta_log/{version:020d}.checkpoint.parquet")
            adds = pq.read_table(pa.BufferReader(body), columns=["add"])["add"].to_pylist()
            files = [_data_file(add) for add in adds if add and add["path"]]
        except (ValueError, KeyError, TypeError, pa.ArrowException, OSError):
            return -1, {}  # a checkpoint is derived: without it every entry is read
        return version, {file.name: file for file in files}


def _actions(body: bytes) -> list[dict[str, Any]]:
    actions = [json.loads(line) for line in body.splitlines()]
    if actions[0]["commitInfo"]["actions"] != len(actions):
        raise ValueError(f"it is cut short after {len(actions)} lines")
    return actions


def _data_file(add: dict[str, Any]) -> DataFile:
    rows = json.loads(add["stats"])["numRecords"]
    tags = dict(add["tags"])  # a mapping in a log entry, pairs in a checkpoint
    first, last = int(tags["firstEntry"]), int(tags["lastEntry"])
    return DataFile(add["path"], add["size"], rows, tags["sha256"], first, last)
