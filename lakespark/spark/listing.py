"""The names of objects for the Spark engine: listings, which executors read, and files below a place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, DataType, IntegralType, StringType, TimestampNTZType, TimestampType

from lakespark.engine import Engine
from lakespark.engine.connectors import names_missing_connector
from lakespark.engine.spark import spark_url
from lakespark.errors import (
    BadRequestException,
    InvalidEntriesError,
    LakesparkError,
)
from lakespark.operations.imports.found import LISTING_SCHEMA, OnFound
from lakespark.operations.imports.listing_files import GZIP_MAGIC, PARQUET_MAGIC, TEXTS, find_files, names_of
from lakespark.operations.imports.store_reader import StoreReader
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location, Store

_CSV = {
    "header": "true",
    "escape": '"',
    "mode": "FAILFAST",
    "enforceSchema": "false",
    "encoding": "ISO-8859-1",  # a character for each byte, so that what is not UTF-8 can be told
}


class SparkReader:
    """Reads listings by Spark's own sources. Frames are DataFrames."""

    def __init__(self, session: SparkSession, run: Engine, repository: OpenRepository, on_found: OnFound) -> None:
        self._session = session
        self._run = run
        self._repository = repository
        self._on_found = on_found

    @names_missing_connector
    def files_below(self, location: Location) -> DataFrame:
        """The files below a folder or prefix. Raises ObjectNotFoundException if there are none, StorageError.

        The store's client lists them: Spark's sources pass over empty files and hidden names, and know no checksums.
        """
        return self._run.frame(StoreReader(self._repository, self._on_found).files_below(location))

    def listing(self, location: Location) -> DataFrame:
        """The rows of a listing. Raises ObjectNotFoundException, InvalidEntriesError."""
        store, keys, _ = find_files(self._repository, location)
        is_parquet = {key: _is_parquet(store, key) for key in keys}
        places = {key: spark_url(store.location.child(key)) for key in keys}
        with _named(InvalidEntriesError, f"the listing {location} cannot be read as Parquet or CSV"):
            frames = []
            if parquet := [places[key] for key in keys if is_parquet[key]]:
                frames.append(_normal(self._session.read.option("mergeSchema", "true").parquet(*parquet)))
            if csv := [places[key] for key in keys if not is_parquet[key]]:
                frames.append(self._run.keep(_normal(_as_bytes(self._session.read.options(**_CSV).csv(csv)))))
            found = reduce(DataFrame.unionByName, frames)
            self._on_found(found.count())
        return found


@contextmanager
def _named(kind: type[LakesparkError], problem: str) -> Iterator[None]:
    """What Spark raises as an error of this library."""
    try:
        yield
    except LakesparkError:
        raise
    except Exception as error:  # what Java raises has no class of PySpark's
        raise kind(f"{problem}: {_cause(error)}") from error


def _cause(error: Exception) -> str:
    """The innermost cause that Spark names, else the first line."""
    lines = str(error).splitlines() or [type(error).__name__]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    raised = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return (causes[-1:] or raised[:1] or lines)[0]


def _is_parquet(store: Store, key: str) -> bool:
    """Whether a file is Parquet: folders hold none that do not say it by their names."""
    if key.endswith((".parquet", ".csv", ".csv.gz")):
        return key.endswith(".parquet")
    begin = store.get_range(key, 0, len(PARQUET_MAGIC))
    if begin.startswith(GZIP_MAGIC):
        raise BadRequestException(f"Spark knows compressed files by their names: let {key!r} end with .csv.gz")
    return begin == PARQUET_MAGIC


def _as_bytes(listing: DataFrame) -> DataFrame:
    """CSV that was read a character for each byte with its bytes."""
    return listing.select(*(f.encode(_column(name), "ISO-8859-1").alias(name) for name in listing.columns))


def _normal(listing: DataFrame) -> DataFrame:
    """A listing with the columns of ``LISTING_SCHEMA``. Raises InvalidEntriesError for columns of other types."""
    names = names_of(listing.columns)
    columns = {what: _typed(what, name, listing.schema[name].dataType) for what, name in names.items()}
    texts = [f.is_valid_utf8(columns[what]) for what in TEXTS if what in columns]
    columns["is_text"] = reduce(lambda left, right: left & right, (f.coalesce(text, f.lit(True)) for text in texts))
    return listing.select(*(columns.get(name, _nothing()).alias(name) for name in LISTING_SCHEMA.names))


def _typed(what: str, name: str, kind: DataType) -> Column:
    column = _column(name)
    if what == "size_bytes":
        return column.cast("long") if isinstance(kind, IntegralType) else _whole(column)
    if what == "mtime" and isinstance(kind, TimestampType):
        return f.unix_seconds(column).cast("string")
    if what == "mtime" and isinstance(kind, TimestampNTZType):
        epoch = f.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
        return f.timestamp_diff("SECOND", epoch, column).cast("string")
    if what in TEXTS and not isinstance(kind, StringType | BinaryType):
        raise InvalidEntriesError(f"column {name!r} of the listing is {kind.simpleString()}, not text")
    return column.cast("string")


def _whole(column: Column) -> Column:
    """A number in any other form, null where it is none or not whole."""
    number = column.cast("string").try_cast("decimal(38, 9)")
    return f.when(number == f.floor(number), number.cast("long"))


def _column(name: str) -> Column:
    return f.col(f"`{name.replace('`', '``')}`")


def _nothing() -> Column:
    return f.lit(None).cast("string")
