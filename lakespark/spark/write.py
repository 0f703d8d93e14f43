"""DataFrames into a branch: Spark's own writers into a fresh place, then one staged batch."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody does
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType, TimestampType

from lakespark.engine.connectors import names_missing_connector
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


@names_missing_connector
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
    Raises BadRequestException for what cannot be written so.
    """
    _check(df.schema, format, partition_by)
    write_id = secrets.token_hex(8)
    folder = f"data/{token}/{write_id}"
    writer = _with_times_in_utc(df, partition_by).write.format(format).options(**{_NO_MARKER: "false", **options})
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    try:
        writer.save(f"{spark_url(repository.store.location)}/{folder}")
    except (AnalysisException, IllegalArgumentException) as error:
        reason = str(error).splitlines()[0]
        raise BadRequestException(
            f"the DataFrame cannot be written as {format}: {reason}; nothing was staged"
        ) from error
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


def _check(schema: StructType, file_format: str, partition_by: Sequence[str]) -> None:
    """Raises BadRequestException for columns that files of the format cannot have, or an unknown format."""
    if file_format not in FORMATS:
        raise BadRequestException(f"unknown format {file_format!r}: use {', '.join(FORMATS)}")
    names = [name.lower() for name in schema.names]  # Spark does not tell columns by their case
    twice = sorted({name for name in schema.names if names.count(name.lower()) > 1})
    if twice:
        raise BadRequestException(f"the DataFrame has more than one column {', '.join(twice)}: rename them")
    partitions = {name.lower() for name in partition_by}
    data = [field for field in schema.fields if field.name.lower() not in partitions]
    if file_format == "text" and [type(field.dataType) for field in data] != [StringType]:
        shown = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in data)
        raise BadRequestException(f"text files have one column, of strings, and the DataFrame has {shown}")
    unsuited = [field for field in data if file_format == "csv" and isinstance(field.dataType, _NOT_IN_CSV)]
    if unsuited:
        kind = unsuited[0].dataType.simpleString()
        raise BadRequestException(f"CSV files cannot hold column {unsuited[0].name!r}, which is {kind}: use parquet")


_NOT_IN_CSV = (ArrayType, BinaryType, MapType, StructType)


def _with_times_in_utc(df: DataFrame, partition_by: Sequence[str]) -> DataFrame:
    """Points in time as text in UTC where they become folders, which Spark would name by the session's time zone."""
    partitions = {name.lower() for name in partition_by}
    times = [
        field.name
        for field in df.schema.fields
        if field.name.lower() in partitions and isinstance(field.dataType, TimestampType)
    ]
    since = "timestampadd(microsecond, unix_micros({}), timestamp_ntz'1970-01-01 00:00:00')"
    for name in times:
        quoted = "`" + name.replace("`", "``") + "`"
        df = df.withColumn(name, F.expr(f"concat(cast({since.format(quoted)} as string), 'Z')"))
    return df


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
