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

from lakespark.engine.connectors import names_missing_connector
from lakespark.engine.spark import escaped, spark_url
from lakespark.errors import BadRequestException, StorageError
from lakespark.operations import inner_delta, read_plan, schemas
from lakespark.operations.opened import OpenRepository
from lakespark.operations.read_plan import Plan
from lakespark.operations.resolve import Resolved
from lakespark.operations.schemas import Field
from lakespark.operations.views import ViewFile, write_view
from lakespark.storage import parse_location

_NO_SUCH_SOURCE = "DATA_SOURCE_NOT_FOUND"
_NOT_BUILT_IN = "external data source module"


@names_missing_connector
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
    plan = inner_delta.plan(repository, at, prefix) or read_plan.plan(repository, at, prefix, format=format)
    given = _given(session, plan, schema)
    chosen = plan
    if where is not None:
        chosen = read_plan.pruned(repository, plan, where, given or plan.recorded_fields())
    if not chosen.files:
        fields = given or _fields(repository, session, plan, options)
        return session.createDataFrame([], _struct(plan.data_fields(fields) + plan.partition_fields(fields)))
    fields = given or _fields(repository, session, chosen, options)
    if plan.format == "parquet":
        view = _view(repository, session, chosen, plan.data_fields(fields) + plan.partition_fields(fields))
        return view if view is not None else _by_files(repository, session, chosen, fields, options)
    if plan.format == "csv" and given is None and len(plan.schemas) > 1:
        return _by_schema(repository, session, chosen, fields, options)
    return _by_files(repository, session, chosen, fields, options)


def _by_schema(
    repository: OpenRepository, session: SparkSession, plan: Plan, fields: Sequence[Field], options: Mapping[str, Any]
) -> DataFrame:
    """CSV files by name: Spark finds their columns by position, so those of each schema are read on their own."""
    types = {field["name"]: field for field in fields}
    parts = []
    for schema in {file.data_schema for file in plan.files}:
        files = tuple(file for file in plan.files if file.data_schema == schema)
        part = replace(plan, files=files, schemas=frozenset({schema}))
        found = part.data_fields(_fields(repository, session, part, options))
        own = [types[field["name"]] for field in found] + plan.partition_fields(fields)
        checked = {"enforceSchema": "false"} if schema is None else {}
        parts.append(_by_files(repository, session, part, own, {**checked, **options}))
    merged = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    return merged.to(_struct(plan.data_fields(fields) + plan.partition_fields(fields)))


def _struct(fields: Sequence[Field]) -> StructType:
    return StructType.fromJson({"type": "struct", "fields": list(fields)})


def _fields(repository: OpenRepository, session: SparkSession, plan: Plan, options: Mapping[str, Any]) -> list[Field]:
    """Data and partition columns as they are recorded, and as Spark finds them in files without a recorded schema."""
    known = plan.recorded_fields()
    urls = [escaped(_url(repository, file.physical_address)) for file in plan.files if file.data_schema is None]
    if not urls:
        return known
    if plan.format == "csv" and known and str(options.get("header", "false")).lower() != "true":
        raise BadRequestException(
            f"some files below {plan.prefix!r} have neither a recorded schema nor a header: pass schema="
        )
    found = schemas.as_recorded(_found(session, plan, urls, options), known, plan.format)
    return schemas.union([known, plan.data_fields(found)])


def _found(session: SparkSession, plan: Plan, urls: Sequence[str], options: Mapping[str, Any]) -> list[Field]:
    """The columns that Spark finds in files, by halves where it cannot find one schema for all.

    Raises BadRequestException for files that cannot be read, or that have a column of incompatible types.
    """
    reader = session.read.format(plan.format).options(**{"recursiveFileLookup": "true", **_MERGED, **options})
    try:
        fields: list[Field] = reader.load(list(urls)).schema.jsonValue()["fields"]
    except Exception as error:  # a PySpark error on Connect, a Java one elsewhere
        _check_source(error, plan.format)
        if len(urls) > 1:
            half = len(urls) // 2
            return schemas.union(_found(session, plan, part, options) for part in (urls[:half], urls[half:]))
        lines = str(error).splitlines()
        reason = next((line for line in lines if "[" in line), lines[0] if lines else "")
        raise BadRequestException(f"{urls[0]} cannot be read as {plan.format}: {reason}") from error
    return schemas.union([fields])


_MERGED = {"mergeSchema": "true"}


def _check_source(error: Exception, file_format: str) -> None:
    """Raises BadRequestException if the error says that Spark has no such format."""
    if _NO_SUCH_SOURCE in str(error) or _NOT_BUILT_IN in str(error):
        raise BadRequestException(
            f"Spark cannot read {file_format!r}: the session has no package for it (spark.jars.packages)"
        ) from error


def _given(session: SparkSession, plan: Plan, schema: StructType | str | None) -> list[Field] | None:
    """The columns that the caller wants, with the partition columns that they leave out as they are recorded."""
    if schema is None:
        return None
    struct: StructType = session.createDataFrame([], schema).schema
    fields = schemas.union([struct.jsonValue()["fields"]])
    others = set(plan.partition_columns).difference(field["name"] for field in fields)
    return fields + schemas.recorded(plan.schemas, others)


def _view(repository: OpenRepository, session: SparkSession, plan: Plan, fields: Sequence[Field]) -> DataFrame | None:
    """The data set through a view; None where the view cannot be written, or the session has no Delta."""
    files = (
        ViewFile(_url(repository, file.physical_address), file.size_bytes, file.mtime, file.partition, file.data_stats)
        for file in plan.files
    )
    try:
        key = write_view(repository.store, fields, plan.partition_columns, files)
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
    fields: Sequence[Field],
    options: Mapping[str, Any],
) -> DataFrame:
    """The data set by its files, with the partition columns joined on by the file's name."""
    urls = {_url(repository, file.physical_address): file for file in plan.files}
    reader = session.read.format(plan.format).options(**{"recursiveFileLookup": "true", **options})
    try:
        df = reader.schema(_struct(plan.data_fields(fields))).load([escaped(url) for url in urls])
    except Exception as error:
        _check_source(error, plan.format)
        raise
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
        for name, field in zip(names, plan.partition_fields(fields), strict=True)
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
