"""DataFrames into a branch: Spark's own writers into a fresh place, then one staged batch."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from lakespark.engine.spark import spark_url
from lakespark.errors import BadRequestException
from lakespark.operations import data_files
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Store

FORMATS = ("parquet", "orc", "csv", "json", "text")
MOST_FOOTERS = 5_000
"""Statistics are read from the footers of Parquet files on the driver, of no more files than this."""
_PARALLEL_FOOTERS = 16
_FOOTER_BYTES = 64 << 10


def write_files(
    repository: OpenRepository,
    token: str,
    prefix: str,
    df: DataFrame,
    *,
    format: str,  # noqa: A002 - Spark's word
    partition_by: Sequence[str],
    options: Mapping[str, Any],
) -> pa.Table:
    """Write a DataFrame under a staging token; a table of entries to stage.

    What failed or speculative tasks leave is not in Spark's listing of the result, and so never visible.
    Raises BadRequestException for an unknown format.
    """
    if format not in FORMATS:
        raise BadRequestException(f"unknown format {format!r}: use {', '.join(FORMATS)}")
    write_id = secrets.token_hex(8)
    folder = f"data/{token}/{write_id}"
    writer = df.write.format(format).options(**{_NO_MARKER: "false", **options})
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.save(f"{spark_url(repository.store.location)}/{folder}")
    files = _written_files(repository, df, folder)
    relative = [file[0] for file in files]
    stats: Sequence[str | None] = [None] * len(files)
    if format == "parquet" and len(files) <= MOST_FOOTERS:
        stats = _footers(repository.store, [(f"{folder}/{name}", size) for name, size in files])
    return pa.table(
        {
            "path": pa.array([prefix + name for name in relative], pa.string()),
            "physical_address": pa.array([f"{folder}/{name}" for name in relative], pa.string()),
            "size_bytes": pa.array([size for _, size in files], pa.int64()),
            "checksum": pa.array([f"write:{write_id}/{name}" for name in relative], pa.string()),
            "mtime": pa.array([int(time.time())] * len(files), pa.int64()),
            "data_schema": pa.array([df.schema.json()] * len(files), pa.string()),
            "data_stats": pa.array(stats, pa.string()),
        }
    )


_NO_MARKER = "mapreduce.fileoutputcommitter.marksuccessfuljobs"


def _written_files(repository: OpenRepository, df: DataFrame, folder: str) -> list[tuple[str, int]]:
    """Name below the folder and size of each file that Spark lists as written."""
    root = f"{spark_url(repository.store.location)}/{folder}"
    listed = df.sparkSession.read.format("binaryFile").option("recursiveFileLookup", "true").load(root)
    rows = listed.select("path", "length").toArrow().to_pylist()
    return sorted((row["path"].split(folder + "/", 1)[1], row["length"]) for row in rows)


def _footers(store: Store, files: Sequence[tuple[str, int]]) -> list[str | None]:
    with ThreadPoolExecutor(_PARALLEL_FOOTERS) as pool:
        return list(pool.map(lambda file: _statistics(store, *file), files))


def _statistics(store: Store, key: str, size: int) -> str | None:
    """Statistics from a file's footer. The footer's length stands in the last 8 bytes, before the magic."""
    tail = store.get_range(key, max(0, size - _FOOTER_BYTES), size)
    need = int.from_bytes(tail[-8:-4], "little") + 8
    if need > len(tail):
        tail = store.get_range(key, max(0, size - need), size)
    footer = pq.read_metadata(pa.BufferReader(b"PAR1" + tail[-need:]))
    return data_files.parquet_statistics(footer)
