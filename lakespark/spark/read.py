"""A data set at a ref as a DataFrame over the physical files: nothing is copied.

Parquet is read through a zero-copy Delta view, which prunes partitions and skips files by their statistics. Other
formats, and Parquet where there is no Delta or nothing can be written, are read by their files, with the partition
columns joined on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody does
from pyspark.sql.types import StructType

from lakespark.engine.spark import escaped, spark_url
from lakespark.errors import BadRequestException, ObjectNotFoundException, StorageError
from lakespark.operations import inner_delta, read_plan, views
from lakespark.operations.opened import OpenRepository
from lakespark.operations.read_plan import Field, Plan
from lakespark.operations.resolve import Resolved
from lakespark.storage import parse_location

_NO_SUCH_SOURCE = "DATA_SOURCE_NOT_FOUND"


def read(
    repository: OpenRepository,
    session: SparkSession,
    at: Resolved,
    prefix: str,
    *,
    format: str | None,  # noqa: A002 - Spark's word
    schema: StructType | str | None,
    where: str | None,
    options: Mapping[str, Any],
) -> DataFrame:
    """The data set below a prefix. See ``Reference.read``."""
    inner = inner_delta.plan(repository, at, prefix)
    if inner is not None and where is not None:
        inner = read_plan.pruned(repository, inner, where)
    plan = inner or read_plan.plan(repository, at, prefix, format=format, where=where)
    if not plan.files:
        return _empty(session, plan, schema)
    if plan.format == "parquet":
        fields = _fields(repository, session, plan, schema)
        view = _view(repository, session, plan, fields)
        if view is not None:
            return view
        return _by_files(repository, session, plan, fields, options)
    known = _given(session, schema) or plan.recorded_fields()
    if plan.format == "csv" and schema is None and known is not None:
        return _by_schema(repository, session, plan, known, options)
    return _by_files(repository, session, plan, known, options)


def _empty(session: SparkSession, plan: Plan, schema: StructType | str | None) -> DataFrame:
    """No rows, of the columns that are given or recorded. Raises ObjectNotFoundException if they are not known."""
    fields = _given(session, schema) or plan.recorded_fields()
    if fields is None:
        raise ObjectNotFoundException(
            f"no data files below {plan.prefix!r} match, and no schema is known: pass schema="
        )
    data = [field for field in fields if field["name"] not in plan.partition_columns]
    return session.createDataFrame([], _struct(data + plan.partition_fields(fields)))


def _by_schema(
    repository: OpenRepository, session: SparkSession, plan: Plan, fields: Sequence[Field], options: Mapping[str, Any]
) -> DataFrame:
    """CSV files by name: Spark finds their columns by position, so those of each schema are read on their own."""
    parts = []
    for schema in sorted({file.data_schema or "" for file in plan.files}):
        files = tuple(file for file in plan.files if file.data_schema == schema)
        part = replace(plan, files=files, schemas=frozenset({schema}))
        parts.append(_by_files(repository, session, part, part.recorded_fields(), options))
    merged = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    data = [field for field in fields if field["name"] not in plan.partition_columns]
    return merged.to(_struct(data + plan.partition_fields(fields)))


def _struct(fields: Sequence[Field]) -> StructType:
    return StructType.fromJson({"type": "struct", "fields": list(fields)})


def _fields(
    repository: OpenRepository, session: SparkSession, plan: Plan, schema: StructType | str | None
) -> list[Field]:
    """Data and partition columns: as given, as recorded, or as Spark finds them in the footers."""
    given = _given(session, schema)
    fields = given if given is not None else plan.recorded_fields()
    if fields is None:
        urls = [escaped(_url(repository, file.physical_address)) for file in plan.files]
        try:
            merged = session.read.option("mergeSchema", "true").option("recursiveFileLookup", "true").parquet(*urls)
            fields = read_plan.union([merged.schema.jsonValue()["fields"]])
        except Exception as error:  # a PySpark error on Connect, a Java one elsewhere
            lines = str(error).splitlines()
            reason = next((line for line in lines if "[" in line), lines[0] if lines else "")
            raise BadRequestException(f"the files below {plan.prefix!r} have no schema in common: {reason}") from error
    data = [field for field in fields if field["name"] not in plan.partition_columns]
    return data + plan.partition_fields(fields)


def _given(session: SparkSession, schema: StructType | str | None) -> list[Field] | None:
    if schema is None:
        return None
    struct: StructType = session.createDataFrame([], schema).schema
    fields: list[Field] = struct.jsonValue()["fields"]
    return read_plan.union([fields])


def _view(repository: OpenRepository, session: SparkSession, plan: Plan, fields: Sequence[Field]) -> DataFrame | None:
    """The data set through a view; None where the view cannot be written, or the session has no Delta."""
    adds = (
        views.add_action(
            _url(repository, file.physical_address), file.size_bytes, file.mtime, file.partition, file.data_stats
        )
        for file in plan.files
    )
    try:
        key = views.write_view(repository.store, fields, plan.partition_columns, adds)
    except StorageError:
        return None
    try:
        return session.read.format("delta").load(f"{spark_url(repository.store.location)}/{key}")
    except Exception as error:  # a missing source is a PySpark error on Connect, a Java one elsewhere
        if _NO_SUCH_SOURCE in str(error):
            return None
        raise


def _by_files(
    repository: OpenRepository,
    session: SparkSession,
    plan: Plan,
    fields: Sequence[Field] | None,
    options: Mapping[str, Any],
) -> DataFrame:
    """The data set by its files, with the partition columns joined on by the file's name."""
    urls = {_url(repository, file.physical_address): file for file in plan.files}
    reader = session.read.format(plan.format).options(**{"recursiveFileLookup": "true", **options})
    if fields is not None:
        data = [field for field in fields if field["name"] not in plan.partition_columns]
        reader = reader.schema(_struct(data))
    df = reader.load([escaped(url) for url in urls])
    if not plan.partition_columns:
        return df
    names = [f"partition_{i}" for i in range(len(plan.partition_columns))]
    rows = [[_file_path(url), *(urls[url].partition[column] for column in plan.partition_columns)] for url in urls]
    mapping = session.createDataFrame(_text_table(["file", *names], rows)).alias("of_file")
    joined = df.select("*", F.regexp_replace("_metadata.file_path", "^file:/+", "file:///").alias("read_from"))
    joined = joined.join(F.broadcast(mapping), F.col("read_from") == F.col("of_file.file"), "left")
    known = F.col("of_file.file").isNotNull()
    lost = F.raise_error(F.concat(F.lit("no partition is known for the file "), F.col("read_from")))
    typed = [
        F.when(known, F.col(f"of_file.{name}")).otherwise(lost).cast(_ddl(field["type"])).alias(field["name"])
        for name, field in zip(names, plan.partition_fields(fields or []), strict=True)
    ]
    return joined.select(*(F.col(f"`{name}`") for name in df.columns), *typed)


def _text_table(names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table({name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=True)})


def _ddl(kind: Any) -> str:
    return {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}.get(kind, str(kind))


def _url(repository: OpenRepository, physical_address: str) -> str:
    """A physical address as Spark reads it, with nothing escaped."""
    location = parse_location(repository.full_address(physical_address))
    return spark_url(location, is_escaped=False)


def _file_path(url: str) -> str:
    """A URL in the form of Spark's ``_metadata.file_path``: what a URI path cannot hold is percent-encoded."""
    return _NOT_IN_URI.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), url)


_NOT_IN_URI = re.compile(r"[^A-Za-z0-9_\-!.~'()*:@&=+$,;/\x80-\U0010ffff]")
