"""Entries that come from outside as a table: checked, completed, given identities."""

from __future__ import annotations

import time
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.algebra.identity import WITH_IDENTITY
from lakespark.entries import DATA_COLUMNS, ENTRY_COLUMNS, ENTRY_SCHEMA
from lakespark.errors import InvalidEntriesError
from lakespark.model import DEFAULT_CONTENT_TYPE
from lakespark.names import MAX_PATH_BYTES
from lakespark.operations.opened import OpenRepository

REQUIRED = ("path", "physical_address", "size_bytes", "checksum")
_OPTIONAL = ("mtime", "content_type", "metadata", *DATA_COLUMNS)
_SHOWN = 5


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
    _check_values(entries)
    run = repository.local_engine
    return run.collect(run.query(WITH_IDENTITY, entries=entries)).cast(ENTRY_SCHEMA)


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


def _check_values(entries: pa.Table) -> None:
    try:
        entries.validate(full=True)
    except pa.ArrowException as error:
        raise InvalidEntriesError(f"the table of entries is not valid (are all texts UTF-8?): {error}") from None
    paths, lengths = entries["path"], pc.binary_length(entries["path"])
    _refuse(paths, pc.is_null(paths), "have no path")
    _refuse(paths, pc.equal(lengths, 0), "are empty")
    _refuse(paths, pc.greater(lengths, MAX_PATH_BYTES), f"are longer than {MAX_PATH_BYTES} bytes")
    _refuse(paths, pc.match_substring(paths, "\0"), "hold a NUL character")
    outside = pc.match_substring_regex(entries["physical_address"], r"^[^:]*(^|/)\.\.(/|$)|^/")
    _refuse(paths, outside, "have a physical_address that is neither a full URL nor a key inside the namespace")
    for name in ("physical_address", "checksum"):
        missing = pc.or_kleene(pc.is_null(entries[name]), pc.equal(entries[name], ""))
        _refuse(paths, missing, f"have no {name}")
    sizes = entries["size_bytes"]
    _refuse(paths, pc.or_kleene(pc.is_null(sizes), pc.less(sizes, 0)), "have no size_bytes, or a negative one")
    if pc.count_distinct(paths).as_py() != len(paths):
        counts = pc.value_counts(paths.combine_chunks())
        values, many = counts.field("values"), pc.greater(counts.field("counts"), 1)
        _refuse(values, many, "stand more than once")


def _refuse(paths: pa.ChunkedArray, wrong: pa.ChunkedArray, problem: str) -> None:
    named = paths.filter(wrong)
    if len(named):
        shown = ", ".join(repr(path)[:80] for path in named[:_SHOWN].to_pylist())
        raise InvalidEntriesError(f"{len(named)} paths of the table of entries {problem}: {shown}; nothing was staged")
