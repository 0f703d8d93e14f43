"""Entries that come from outside as a table: checked, completed, given identities."""

from __future__ import annotations

import itertools
import time
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.algebra import incoming as incoming_sql
from lakespark.engine import Engine, Frame
from lakespark.entries import DATA_COLUMNS, ENTRY_COLUMNS, ENTRY_SCHEMA
from lakespark.errors import InvalidEntriesError
from lakespark.model import DEFAULT_CONTENT_TYPE
from lakespark.operations.opened import OpenRepository

REQUIRED = ("path", "physical_address", "size_bytes", "checksum")
_OPTIONAL = ("mtime", "content_type", "metadata", *DATA_COLUMNS)
_SHOWN = 80


def entries_from(repository: OpenRepository, table: pa.Table) -> pa.Table:
    """A table of ``path, physical_address, size_bytes, checksum`` and optional columns as entries.

    Physical addresses inside the storage namespace become relative to it. ``mtime`` (unix seconds) defaults to
    now, ``content_type`` to application/octet-stream, ``metadata`` to none; ``data_schema`` and ``data_stats`` are
    those of ``lakespark.entries``. Raises InvalidEntriesError that names what is wrong; other columns are refused.
    """
    _check_columns(table)
    count = table.num_rows
    columns = {name: _cast(table[name], name) for name in table.column_names}
    columns["mtime"] = _filled(columns.get("mtime"), count, pa.scalar(int(time.time()), pa.int64()))
    columns["content_type"] = _filled(columns.get("content_type"), count, pa.scalar(DEFAULT_CONTENT_TYPE))
    columns["metadata"] = _filled_maps(columns.get("metadata"), count)
    columns["physical_address"] = _relative(repository, columns["physical_address"])
    columns |= {name: pa.nulls(count, pa.string()) for name in ("identity", *DATA_COLUMNS) if name not in columns}
    entries = pa.table({name: columns[name] for name in ENTRY_COLUMNS}, schema=ENTRY_SCHEMA)
    _check_texts(entries)
    run = repository.local_engine
    checked = run.collect(run.query(incoming_sql.CHECKED, entries=entries))
    check(run, checked, what="the table of entries", outcome="nothing was staged")
    return checked.select(ENTRY_COLUMNS).cast(ENTRY_SCHEMA)


def _check_columns(table: pa.Table) -> None:
    missing = [name for name in REQUIRED if name not in table.column_names]
    unknown = [name for name in table.column_names if name not in REQUIRED + _OPTIONAL]
    if missing or unknown:
        problems = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has unknown {', '.join(unknown)}"] * bool(
            unknown
        )
        raise InvalidEntriesError(
            f"the table of entries {' and '.join(problems)}: it needs the columns {', '.join(REQUIRED)}, "
            f"and may have {', '.join(_OPTIONAL)}"
        )


def _cast(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    wanted = ENTRY_SCHEMA.field(name).type
    try:
        return column if column.type == wanted else column.cast(wanted)
    except pa.ArrowException as error:
        raise InvalidEntriesError(f"column {name!r} is {column.type}, not {wanted}: {error}") from None


def _filled(column: pa.ChunkedArray | None, count: int, default: pa.Scalar) -> pa.ChunkedArray | pa.Array:
    return pa.repeat(default, count) if column is None else pc.fill_null(column, default)


def _filled_maps(column: pa.ChunkedArray | None, count: int) -> pa.ChunkedArray | pa.Array:
    kind = ENTRY_SCHEMA.field("metadata").type
    if column is None:
        zeros = pa.array([0] * (count + 1), pa.int32())
        return pa.MapArray.from_arrays(zeros, pa.array([], pa.string()), pa.array([], pa.string()))
    if not column.null_count:
        return column
    return pa.array([value or [] for value in column.to_pylist()], kind)


def _relative(repository: OpenRepository, addresses: pa.ChunkedArray) -> pa.ChunkedArray:
    inside = pc.starts_with(addresses, repository.store.location.url + "/")
    if not pc.any(inside).as_py():
        return addresses
    keys = pc.utf8_slice_codeunits(addresses, len(repository.store.location.url) + 1)
    if repository.store.location.scheme == "file" and pc.any(pc.match_substring(keys, "%")).as_py():
        keys = pa.array([key and unquote(key) for key in keys.to_pylist()], pa.string())  # as ``parse_location`` does
    return pc.if_else(inside, keys, addresses)


def _check_texts(entries: pa.Table) -> None:
    try:
        entries.validate(full=True)
    except pa.ArrowException as error:
        raise InvalidEntriesError(f"the table of entries is not valid (are all texts UTF-8?): {error}") from None


class Counts(NamedTuple):
    """How many rows were checked, and how many of them are left out."""

    rows: int
    skipped: int

    @property
    def taken(self) -> int:
        """Rows that become entries."""
        return self.rows - self.skipped


def check(run: Engine, checked: Frame, *, what: str, outcome: str) -> Counts:
    """Count checked entries. Raises InvalidEntriesError if one of them has a problem, or a path stands twice."""
    (found,) = run.collect(run.query(incoming_sql.SUMMARY, checked=checked)).to_pylist()
    counts = Counts(found["rows"], found["skipped"])
    if found["problems"]:
        _refuse(run.collect(run.query(incoming_sql.PROBLEMS, checked=checked)).to_pylist(), what, outcome)
    if found["paths"] != counts.taken:
        _refuse(run.collect(run.query(incoming_sql.REPEATED, checked=checked)).to_pylist(), what, outcome)
    return counts


def _refuse(rows: list[dict[str, Any]], what: str, outcome: str) -> NoReturn:
    problems = []
    for problem, examples in itertools.groupby(rows, lambda row: row["problem"]):
        named = list(examples)
        shown = ", ".join(repr(row["example"])[:_SHOWN] for row in named if row["example"] is not None)
        problems.append(f"rows of {what} {problem} ({int(named[0]['rows']):,} in all){shown and f': {shown}'}")
    raise InvalidEntriesError(f"{'; '.join(problems)}; {outcome}")
