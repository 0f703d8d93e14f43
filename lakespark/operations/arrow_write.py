"""Writing an Arrow table as Parquet files below a prefix, without Spark."""

from __future__ import annotations

import hashlib
import io
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakespark.errors import BadRequestException
from lakespark.operations import data_files
from lakespark.operations.opened import OpenRepository
from lakespark.tables.delta_schema import schema_string

ROWS_A_FILE = 5_000_000


def write_files(
    repository: OpenRepository, token: str, prefix: str, table: pa.Table, partition_by: Sequence[str]
) -> pa.Table:
    """Write the table's partitions as files under a staging token; a table of entries to stage.

    Raises BadRequestException for a table that cannot be written so.
    """
    schema = _checked_schema(table.schema, partition_by)
    folder = f"data/{token}/{secrets.token_hex(8)}"
    rows = []
    for values, part in _partitions(table, partition_by):
        name = f"{data_files.partition_path(values)}part-{secrets.token_hex(8)}.parquet"
        rows.append({**_write(repository, f"{folder}/{name}", part), "path": prefix + name, "data_schema": schema})
    return pa.Table.from_pylist(rows, schema=_ENTRIES)


_ENTRIES = pa.schema(
    [
        ("path", pa.string()),
        ("physical_address", pa.string()),
        ("size_bytes", pa.int64()),
        ("checksum", pa.string()),
        ("mtime", pa.int64()),
        ("data_schema", pa.string()),
        ("data_stats", pa.string()),
    ]
)


def _checked_schema(schema: pa.Schema, partition_by: Sequence[str]) -> str:
    missing = [name for name in partition_by if name not in schema.names]
    if missing:
        raise BadRequestException(f"the table has no column {', '.join(missing)} to partition by")
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise BadRequestException(f"the table has more than one column {', '.join(twice)}")
    if len(set(partition_by)) < len(partition_by):
        raise BadRequestException(f"partition_by names a column twice: {', '.join(partition_by)}")
    if partition_by and len(partition_by) == len(schema):
        raise BadRequestException("the table has no column besides those to partition by")
    unsuited = [name for name in partition_by if pa.types.is_nested(schema.field(name).type)]
    unsuited += [name for name in partition_by if _is_binary(schema.field(name).type)]
    if unsuited:
        raise BadRequestException(f"the column {unsuited[0]} cannot be one to partition by: its values have no text")
    return delta_schema(schema)


def delta_schema(schema: pa.Schema) -> str:
    """The schema in the JSON of Delta. Raises BadRequestException for a type that Spark has none for."""
    try:
        return schema_string(schema)
    except TypeError as error:
        raise BadRequestException(f"the table cannot be written as Parquet for Spark: {error}") from error


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _write(repository: OpenRepository, address: str, part: pa.Table) -> dict[str, Any]:
    sink = io.BytesIO()
    try:
        # Spark has no nanoseconds, and skips by a footer's bounds, which say nothing of NaN
        pq.write_table(part, sink, compression="zstd", coerce_timestamps="us", write_statistics=_bounded(part))
    except pa.ArrowInvalid as error:
        raise BadRequestException(f"the table cannot be written as Parquet for Spark: {error}") from error
    body = sink.getvalue()
    repository.store.put(address, body)
    return {
        "physical_address": address,
        "size_bytes": len(body),
        "checksum": hashlib.md5(body, usedforsecurity=False).hexdigest(),
        "mtime": int(time.time()),
        "data_stats": data_files.parquet_statistics(pq.ParquetFile(pa.BufferReader(body)).metadata),
    }


def _bounded(part: pa.Table) -> bool | list[str]:
    """Columns that get statistics: all that hold no NaN."""
    fields = [field for field in part.schema if pa.types.is_floating(field.type)]
    unbounded = {field.name for field in fields if pc.any(pc.is_nan(part[field.name])).as_py()}
    return [name for name in part.column_names if name not in unbounded] if unbounded else True


def _partitions(table: pa.Table, partition_by: Sequence[str]) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """The values of each partition and its rows without the partition columns, in files of a bounded length."""
    if not partition_by:
        yield from (({}, table.slice(start, ROWS_A_FILE)) for start in range(0, max(table.num_rows, 1), ROWS_A_FILE))
        return
    keys = [f"key_{i}" for i in range(len(partition_by))]
    numbered = table.select(partition_by).rename_columns(keys).append_column("row", pa.array(np.arange(table.num_rows)))
    rest = table.drop_columns(list(partition_by))
    groups = numbered.group_by(keys, use_threads=False).aggregate([("row", "list")])
    for group in range(groups.num_rows):
        values = {name: groups[key][group].as_py() for name, key in zip(partition_by, keys, strict=True)}
        part = rest.take(groups["row_list"][group].values)
        yield from ((values, part.slice(start, ROWS_A_FILE)) for start in range(0, part.num_rows, ROWS_A_FILE))
