"""Files below a location as Spark lists them, on many machines where there are many folders."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakespark.engine.spark import spark_url
from lakespark.errors import StorageError
from lakespark.storage import Location


def list_files(session: SparkSession, location: Location) -> pa.Table:
    """``key`` (below the location), ``size_bytes`` and ``time_ns`` of each file; contents are not read.

    Spark leaves out what begins with ``_`` or ``.``, and knows times to the millisecond. Raises StorageError.
    """
    try:
        files = session.read.format("binaryFile").option("recursiveFileLookup", "true").load(spark_url(location))
        found = files.selectExpr(
            "path", "length as size_bytes", "unix_micros(modificationTime) * 1000 as time_ns"
        ).toArrow()
    except PySparkException as error:
        raise StorageError(f"Spark cannot list {location}: {str(error).splitlines()[0]}") from error
    keys = pc.utf8_slice_codeunits(found["path"], _start(found, location))
    return found.set_column(0, "key", keys.cast(pa.string()))


def _start(found: pa.Table, location: Location) -> int:
    """Where the key begins in Spark's names, which all begin alike, though not always as ours do."""
    if not found.num_rows:
        return 0
    root = f"{location.bucket}/{location.path}".strip("/") + "/"
    first: str = found["path"][0].as_py()
    return first.index(root) + len(root)
