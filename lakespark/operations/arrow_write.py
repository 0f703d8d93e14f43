"""Writing an Arrow table as Parquet files below a prefix, without Spark."""

from __future__ import annotations

import hashlib
import io
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

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

    Raises BadRequestException for partition columns that the table does not have.
    """
    missing = [name for name in partition_by if name not in table.column_names]
    if missing:
        raise BadRequestException(f"the table has no column {', '.join(missing)} to partition by")
    schema = schema_string(table.schema)
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


def _write(repository: OpenRepository, address: str, part: pa.Table) -> dict[str, Any]:
    sink = io.BytesIO()
    pq.write_table(part, sink, compression="zstd")
    body = sink.getvalue()
    repository.store.put(address, body)
    return {
        "physical_address": address,
        "size_bytes": len(body),
        "checksum": hashlib.md5(body, usedforsecurity=False).hexdigest(),
        "mtime": int(time.time()),
        "data_stats": data_files.parquet_statistics(pq.ParquetFile(pa.BufferReader(body)).metadata),
    }


def _partitions(table: pa.Table, partition_by: Sequence[str]) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """The values of each partition and its rows without the partition columns, in files of a bounded length."""
    if not partition_by:
        yield from (({}, table.slice(start, ROWS_A_FILE)) for start in range(0, max(table.num_rows, 1), ROWS_A_FILE))
        return
    for values in table.select(partition_by).group_by(list(partition_by)).aggregate([]).to_pylist():
        mask = pa.scalar(value=True)
        for name, value in values.items():
            is_value = pc.is_null(table[name]) if value is None else pc.fill_null(pc.equal(table[name], value), False)
            mask = pc.and_(mask, is_value)
        part = table.filter(mask).drop_columns(list(partition_by))
        yield from ((values, part.slice(start, ROWS_A_FILE)) for start in range(0, part.num_rows, ROWS_A_FILE))
