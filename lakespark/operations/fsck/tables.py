"""One Delta table: its log entries, the files that they name, and whether each entry's rows are there once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakespark import digest
from lakespark.errors import CorruptFileError
from lakespark.operations.fsck.report import Finding
from lakespark.operations.fsck.run import RESTORE, Run
from lakespark.tables.log_entry import DataFile, LogEntry, data_file, entry_digests, parse_entry, sealed, stripped
from lakespark.tree.metarange import parse_parquet

_ENTRY_NAME = re.compile(r"([0-9]{20})\.json")
_DELETE_CHECKPOINT = "delete it and the checkpoint that it names: they are derived, and made again"


@dataclass
class TableLog:
    """What the log of a table says, as far as it can be read. ``version`` -1: there is no such table."""

    root: str
    version: int = -1
    files: dict[str, DataFile] = field(default_factory=dict)
    entries: dict[int, LogEntry] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    is_whole: bool = True
    """Whether every entry was read and is what was written."""

    def entry_key(self, number: int) -> str:
        """Key of the file of an entry."""
        return f"{self.root}/_delta_log/{number:020d}.json"


def read_log(run: Run, root: str) -> TableLog:
    """Check the log of a table: entries without a gap, each as it was written, and the last checkpoint."""
    log = TableLog(root)
    numbers, has_checkpoint = _listed(run, root)
    if not numbers:
        return log
    start, log.version = min(numbers), max(numbers)
    checkpoint = _read_checkpoint(run, log) if has_checkpoint else None
    if checkpoint is not None and checkpoint[0] >= start - 1:
        base, known = checkpoint[0], dict(checkpoint[1])
    else:
        base, known = -1, {}
    first = start if base >= 0 else 0  # entries before a checkpoint may have been cleaned up
    _read_entries(run, log, range(first, log.version + 1))
    log.files = known if first else {}
    for number in range(base + 1 if first else 0, log.version + 1):
        if number in log.entries:
            _replay(log, log.entries[number])
        if checkpoint is not None and not first and number == base and log.is_whole and log.files != known:
            log.findings.append(_bad_checkpoint(log, "it names other files than the log up to there"))
    if log.is_whole:
        log.findings += _coverage(log)
    return log


def read_files(run: Run, log: TableLog, schema: pa.Schema) -> Iterator[tuple[DataFile, pa.Table | None]]:
    """The live files of a table, oldest rows first, each with its rows as far as they can be read.

    What is wrong with them goes to ``log.findings``; a file that is not as it was written makes the log not whole.
    """
    files = sorted(log.files.values(), key=lambda file: file.first)
    for file, (table, found) in zip(
        files, run.each(lambda file: _read_file(run, log, file, schema), files), strict=True
    ):
        run.count(table_files=1)
        log.findings += found
        log.is_whole = log.is_whole and not found
        yield file, table


def _listed(run: Run, root: str) -> tuple[list[int], bool]:
    names = [file.key.rsplit("/", 1)[-1] for file in run.store.list(f"{root}/_delta_log")]
    numbers = [int(match[1]) for match in map(_ENTRY_NAME.fullmatch, names) if match]
    return numbers, "_last_checkpoint" in names


def _read_entries(run: Run, log: TableLog, numbers: range) -> None:
    gone: list[int] = []
    for number, (entry, finding) in zip(
        numbers, run.each(lambda number: _read_entry(run, log, number), numbers), strict=True
    ):
        run.count(log_entries=1)
        if entry is not None:
            log.entries[number] = entry
        if finding is not None:
            log.findings.append(finding)
        elif entry is None:
            gone.append(number)
        log.is_whole = log.is_whole and entry is not None and finding is None
    log.findings += [
        Finding("missing", "log entry", log.entry_key(number), "the table has later ones", mend=RESTORE)
        for number in gone
    ]


def _read_entry(run: Run, log: TableLog, number: int) -> tuple[LogEntry | None, Finding | None]:
    """An entry, as far as it can be read, and what is wrong with it."""
    key = log.entry_key(number)
    body = run.get(key, "log entry")
    if body is None or isinstance(body, Finding):
        return None, body
    try:
        return parse_entry(number, body), None
    except ValueError as error:
        stated, found = entry_digests(body)
        finding = Finding("altered", "log entry", key, str(error), stated, found, mend=RESTORE)
    try:
        return parse_entry(number, sealed(stripped(body))), finding
    except ValueError:
        return None, finding


def _replay(log: TableLog, entry: LogEntry) -> None:
    for name in entry.removed:
        if log.files.pop(name, None) is None and log.is_whole:
            log.findings.append(_inconsistent(log, entry.number, f"it removes {name}, which was not live"))
    for file in entry.added:
        is_own = file.first == file.last == entry.number
        if log.is_whole and entry.is_data_change and not is_own:
            log.findings.append(_inconsistent(log, entry.number, f"{file.name} is said to hold other entries' rows"))
        log.files[file.name] = file


def _coverage(log: TableLog) -> Iterator[Finding]:
    """Whether the rows of every entry stand in exactly one live file."""
    spans = sorted((file.first, file.last, file.name) for file in log.files.values())
    for (_, last, name), (first, _, other) in pairwise(spans):
        if first <= last:
            yield _inconsistent(log, log.version, f"the live files {name} and {other} both hold rows of entry {first}")
    for number, entry in log.entries.items():
        brings_rows = entry.is_data_change and entry.added
        if brings_rows and not any(first <= number <= last for first, last, _ in spans):
            yield _inconsistent(log, number, "no live file holds its rows")


def _inconsistent(log: TableLog, number: int, problem: str) -> Finding:
    return Finding("inconsistent", "log entry", log.entry_key(number), problem, mend=RESTORE)


def _read_checkpoint(run: Run, log: TableLog) -> tuple[int, Mapping[str, DataFile]] | None:
    """Version and files of the last checkpoint; None, with a note, if it is of no use."""
    pointer = run.get(f"{log.root}/_delta_log/_last_checkpoint", "checkpoint")
    try:
        version = int(json.loads(pointer)["version"])  # type: ignore[arg-type]
        body = run.store.get(f"{log.root}/_delta_log/{version:020d}.checkpoint.parquet")
        adds = pq.read_table(pa.BufferReader(body), columns=["add"])["add"].to_pylist()
        files = [data_file(add) for add in adds if add and add["path"]]
    except (ValueError, LookupError, TypeError, pa.ArrowException, OSError) as error:
        log.findings.append(_bad_checkpoint(log, f"it cannot be read: {error!r}")._replace(is_error=False))
        return None
    if version > log.version:
        log.findings.append(_bad_checkpoint(log, f"it is of version {version}, and the log ends at {log.version}"))
        return None
    return version, {file.name: file for file in files}


def _bad_checkpoint(log: TableLog, problem: str) -> Finding:
    key = f"{log.root}/_delta_log/_last_checkpoint"
    return Finding("inconsistent", "checkpoint", key, problem, mend=_DELETE_CHECKPOINT)


def _read_file(run: Run, log: TableLog, file: DataFile, schema: pa.Schema) -> tuple[pa.Table | None, list[Finding]]:
    """The rows of a file, ``entry`` filled in, as far as they can be read, and what is wrong with it."""
    key = f"{log.root}/{file.name}"
    body = run.get(key, "table file")
    if isinstance(body, Finding):
        return None, [body]
    if body is None:
        problem = f"the log of {log.root} names it"
        return None, [Finding("missing", "table file", key, problem, expected=file.sha256, mend=RESTORE)]
    found = digest.hash_bytes(body)
    if found != file.sha256:
        altered = Finding("altered", "table file", key, "its SHA-256 differs", file.sha256, found, mend=RESTORE)
        return _parsed(body, file, schema), [altered]
    table = _parsed(body, file, schema)
    if table is None:
        return None, [Finding("unreadable", "table file", key, "it is not a Parquet file of this table", mend=RESTORE)]
    return table, [
        Finding("inconsistent", "table file", key, problem, str(expected), str(found), mend=RESTORE)
        for problem, expected, found in _compared(file, body, table)
        if expected != found
    ]


def _parsed(body: bytes, file: DataFile, schema: pa.Schema) -> pa.Table | None:
    """The columns of the schema; None if the body is no such file."""
    try:
        table = parse_parquet(body, file.name)
        table = table.select(schema.names).cast(schema)
        table.validate(full=True)
    except (CorruptFileError, pa.ArrowException, KeyError, ValueError):
        return None
    if file.first == file.last:
        numbers = pa.array([file.first] * table.num_rows, pa.int64())
        table = table.set_column(table.schema.get_field_index("entry"), "entry", numbers)
    return None if table["entry"].null_count or table["position"].null_count else table


def _compared(file: DataFile, body: bytes, table: pa.Table) -> Iterator[tuple[str, Any, Any]]:
    """What the log says of a file that was read, and what it is."""
    yield "the log gives another size", file.size_bytes, len(body)
    yield "the log gives another number of rows", file.rows, table.num_rows
    numbers = set(table["entry"].unique().to_pylist())
    strange = [n for n in numbers if not file.first <= n <= file.last]
    yield f"it holds rows of other entries than {file.first} to {file.last}", [], strange
