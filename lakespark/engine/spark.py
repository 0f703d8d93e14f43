"""The distributed engine: the same SQL on a SparkSession that the caller passes.

Public PySpark API only. Functions that go to executors are closures over plain values that import pyarrow and
the standard library, and executors touch storage through Spark's own readers and writers alone.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import ArrayType, BooleanType, LongType, MapType, StringType, StructField, StructType

from lakespark.engine.connectors import names_missing_connector
from lakespark.engine.interface import Frame
from lakespark.entries import ENTRY_COLUMNS, ENTRY_SCHEMA
from lakespark.errors import BadRequestException
from lakespark.storage import Location, Store
from lakespark.tree.metarange import RangeRef
from lakespark.tree.range_files import ROOT

_SPARK_SCHEMES = {"file": "file", "s3": "s3a", "gs": "gs", "abfss": "abfss"}
_GLOB = re.compile(r"([\\{}\[\]*?])")
_LISTING_SETTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_LISTING_TASKS = "64"
_listing = threading.Lock()
_PLAIN_LOCAL_FILES = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""In a local folder without a checksum file beside each file, for which Hadoop would start three processes more."""
_RANGE_FOLDER = re.compile(r"range_number=([0-9]+)/")

_ENCODED_METADATA = """(
    octet_length(cast(cardinality(metadata) as string)) || ':' || cardinality(metadata)
    || array_join(
        transform(
            array_sort(map_keys(metadata)),
            k -> octet_length(k) || ':' || k || octet_length(metadata[k]) || ':' || metadata[k]
        ), '')
)"""

_DESCRIBE_RANGES = """
select
    range_number,
    min(path) as min_path,
    max(path) as max_path,
    sha2(
        array_join(
            transform(
                sort_array(collect_list(struct(path, identity))),
                e -> octet_length(e.path) || ':' || e.path || '64:' || e.identity
            ), ''),
        256
    ) as range_id,
    count(*) as entries,
    sum(size_bytes) as size_bytes
from {numbered}
group by range_number
"""


class SparkEngine:
    """Frames are DataFrames, evaluated when they are collected, written or kept.

    An engine is for one operation: what it keeps goes with it. Spark Connect drops a checkpoint with the DataFrame
    that made it, even if queries that are not evaluated yet read it. ``lasting``: nothing is kept, so that frames
    can be given away to be evaluated at any time.
    """

    name = "spark"
    entries_at_once: int | None = None

    def __init__(self, session: SparkSession, store: Store, *, lasting: bool = False) -> None:
        self._session = session
        self._store = store
        self._lasting = lasting
        self._kept: list[DataFrame] = []
        self._root = spark_url(store.location)
        self._entry_type = _spark_schema(ENTRY_SCHEMA)

    def frame(self, table: pa.Table) -> Frame:
        if not table.num_rows:
            return self._session.createDataFrame([], _spark_schema(table.schema))
        # of two empty batches in a row, Spark 4.2 takes the second one for the end
        filled = [batch for batch in table.to_batches() if batch.num_rows]
        return self._session.createDataFrame(pa.Table.from_batches(filled, table.schema))

    def collect(self, frame: Frame) -> pa.Table:
        return frame.toArrow()

    def keep(self, frame: Frame) -> Frame:
        if self._lasting:
            return frame
        self._kept.append(frame.localCheckpoint(eager=False))
        return self._kept[-1]

    def query(self, sql: str, **frames: Frame) -> Frame:
        return self._session.sql(sql.replace("encoded_metadata(metadata)", _ENCODED_METADATA), **frames)

    @names_missing_connector
    def read_ranges(self, ranges: Sequence[RangeRef], columns: Sequence[str]) -> Frame:
        if not ranges:
            return self._session.createDataFrame([], _spark_schema(ENTRY_SCHEMA)).select(*columns)
        return self._entries(ranges).select(*columns)

    def _entries(self, ranges: Sequence[RangeRef]) -> DataFrame:
        files = [f"{self._root}/{ref.file}" for ref in ranges]
        with _few_listing_tasks(self._session):
            return self._session.read.schema(self._entry_type).parquet(*files)

    @names_missing_connector
    def read_numbered(self, ranges: Sequence[RangeRef], columns: Sequence[str]) -> Frame:
        numbers = pa.table(
            {
                "file": pa.array([ref.file for ref in ranges], pa.string()),
                "range_number": pa.array(range(len(ranges)), pa.int64()),
            }
        )
        if not ranges:
            return self.read_ranges(ranges, columns).withColumn("range_number", lit(0).cast(LongType()))
        named = self._entries(ranges).selectExpr(
            *columns, f"regexp_extract(_metadata.file_path, '.*({ROOT}/.*)', 1) as file"
        )
        return named.join(self.frame(numbers), "file").select(*columns, "range_number")

    def number_ranges(self, paths: Frame, max_paths: Sequence[str]) -> Frame:
        if not max_paths:
            return paths.withColumn("range_number", lit(0).cast(LongType()))
        schema = StructType([*paths.schema.fields, StructField("range_number", LongType())])
        return paths.mapInArrow(_numbering(list(max_paths)), schema)

    def write_ranges(self, rows: Frame, threshold: str, reuse: Mapping[str, RangeRef]) -> list[RangeRef]:
        cuts = self.collect(self.query(f"select path from {{rows}} where md5(path) < '{threshold}'", rows=rows))
        numbered = self.keep(self.number_ranges(rows.select(*ENTRY_COLUMNS), sorted(cuts["path"].to_pylist())))
        # sorted here: Spark would make all of it twice, once to find out where to cut its partitions
        described = sorted(
            self.collect(self.query(_DESCRIBE_RANGES, numbered=numbered)).to_pylist(),
            key=lambda row: row["range_number"],
        )
        fresh = [row["range_number"] for row in described if row["range_id"] not in reuse]
        files = self._write(numbered.where(numbered["range_number"].isin(fresh)), len(fresh)) if fresh else {}
        return [
            reuse[row["range_id"]]
            if row["range_id"] in reuse
            else RangeRef(
                min_path=row["min_path"],
                max_path=row["max_path"],
                range_id=row["range_id"],
                file=files[row["range_number"]][0],
                file_sha256=files[row["range_number"]][1],
                count=row["entries"],
                bytes=row["size_bytes"],
            )
            for row in described
        ]

    @names_missing_connector
    def _write(self, numbered: DataFrame, count: int) -> dict[int, tuple[str, str]]:
        """Write one file a range; key and SHA-256 of each by its number."""
        folder = f"{ROOT}/{secrets.token_hex(16)}"
        parallel = int(self._session.conf.get("spark.sql.shuffle.partitions", "200"))
        (
            numbered.repartition(min(count, parallel), "range_number")
            .sortWithinPartitions("range_number", "path")
            .write.partitionBy("range_number")
            .option("compression", "zstd")
            .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            .options(**_PLAIN_LOCAL_FILES)
            .parquet(f"{self._root}/{folder}")
        )
        with _few_listing_tasks(self._session):
            written = self._session.read.schema(self._entry_type).parquet(f"{self._root}/{folder}").inputFiles()
            contents = self._session.read.format("binaryFile").load([escaped(_decoded(file)) for file in written])
        hashed = contents.selectExpr("path", "sha2(content, 256) as sha256")
        files = {}
        for row in self.collect(hashed).to_pylist():
            key = folder + "/" + row["path"].rsplit(folder + "/", 1)[1]
            number = _RANGE_FOLDER.search(key)
            if number is None:
                raise AssertionError(key)
            files[int(number[1])] = (key, row["sha256"])
        return files


@contextmanager
def _few_listing_tasks(session: SparkSession) -> Iterator[None]:
    """Spark looks at many files in a task each, and a task costs more than a hundred looks.

    Where the setting is not to be had, Spark does as it does.
    """
    with _listing:
        before = session.conf.get(_LISTING_SETTING, None)
        with suppress(PySparkException):
            session.conf.set(_LISTING_SETTING, _LISTING_TASKS)
        try:
            yield
        finally:
            with suppress(PySparkException):
                if before is None:
                    session.conf.unset(_LISTING_SETTING)
                else:
                    session.conf.set(_LISTING_SETTING, before)


def spark_url(location: Location, *, is_escaped: bool = True) -> str:
    """A location as Spark reads it, glob characters escaped. Raises BadRequestException if Spark cannot."""
    scheme = _SPARK_SCHEMES.get(location.scheme)
    if scheme is None:
        raise BadRequestException(f"Spark cannot read {location}: use engine='duckdb' for {location.scheme}://")
    url = f"{scheme}://{location.bucket}{'' if scheme == 'file' else '/'}{location.path}"
    return escaped(url) if is_escaped else url


def escaped(path: str) -> str:
    """A path with what Spark takes for a pattern escaped."""
    return _GLOB.sub(r"\\\1", path)


def _decoded(uri: str) -> str:
    """A file name as Spark lists it (percent-encoded) as Spark reads it."""
    return unquote(uri)


def _numbering(max_paths: list[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that executors number rows with. A closure, so that it travels by value."""

    def number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from bisect import bisect_left  # noqa: PLC0415 - runs on executors

        import pyarrow  # noqa: PLC0415, ICN001

        for batch in batches:
            paths = batch.column(batch.schema.get_field_index("path")).to_pylist()
            numbers = pyarrow.array([bisect_left(max_paths, path) for path in paths], pyarrow.int64())
            yield batch.append_column("range_number", numbers)

    return number


def _spark_schema(schema: pa.Schema) -> StructType:
    return StructType([StructField(field.name, _spark_type(field.type)) for field in schema])


def _spark_type(kind: pa.DataType) -> Any:
    if pa.types.is_map(kind):
        return MapType(StringType(), StringType())
    if pa.types.is_list(kind):
        return ArrayType(_spark_type(kind.value_type))
    if pa.types.is_boolean(kind):
        return BooleanType()
    return LongType() if pa.types.is_integer(kind) else StringType()
