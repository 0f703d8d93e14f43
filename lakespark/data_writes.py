"""Writing data below a prefix of a branch: what is asked for, what it replaces, who writes the files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakespark.errors import BadRequestException
from lakespark.names import check_path
from lakespark.operations import arrow_write, data_sets, protection, schemas
from lakespark.operations.incoming import entries_from
from lakespark.operations.opened import OpenRepository

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Request:
    """What ``Branch.write`` was asked for. ``prefix`` is empty or ends with a slash."""

    prefix: str
    format: str
    mode: data_sets.WriteMode
    replace_where: str | None
    partition_by: Sequence[str]
    options: Mapping[str, Any]

    def check(self) -> None:
        """Raises BadRequestException or InvalidPathError for what cannot be meant."""
        check_path(self.prefix or "x")
        data_sets.check_mode(self.mode, self.partition_by)
        if self.replace_where is not None and not self.partition_by:
            raise BadRequestException("replace_where needs partition_by: the columns that it is about")


def write(repository: OpenRepository, branch: str, data: DataFrame | pa.Table, request: Request) -> int:
    """Write the files, then stage them in one batch. The number of files."""
    request.check()
    token = protection.writable(repository, branch).token
    columns = schemas.partition_fields(request.partition_by, _fields(data))
    target = data_sets.Target(branch, request.prefix, request.mode, request.replace_where, schemas.sql_types(columns))
    data_sets.check_target(repository, target)
    entries = entries_from(repository, _write_files(repository, token, data, request))
    data_sets.stage(repository, target, entries)
    return int(entries.num_rows)


def _fields(data: DataFrame | pa.Table) -> list[schemas.Field]:
    """The columns of the data. Raises BadRequestException for what is neither a DataFrame nor an Arrow table."""
    if isinstance(data, pa.Table):
        fields: list[schemas.Field] = json.loads(arrow_write.delta_schema(data.schema))["fields"]
    elif hasattr(data, "sparkSession"):
        fields = data.schema.jsonValue()["fields"]
    else:
        kind = f"{type(data).__module__}.{type(data).__qualname__}"
        raise BadRequestException(
            f"cannot write a {kind}: pass a DataFrame of Spark or an Arrow table (pyarrow.Table.from_pandas(...))"
        )
    return fields


def _write_files(repository: OpenRepository, token: str, data: DataFrame | pa.Table, request: Request) -> pa.Table:
    if isinstance(data, pa.Table):
        if request.format != "parquet":
            raise BadRequestException(f"an Arrow table is written as Parquet, not as {request.format!r}")
        return arrow_write.write_files(repository, token, request.prefix, data, request.partition_by)
    from lakespark.spark import write as spark_write  # noqa: PLC0415 - needs pyspark

    return spark_write.write_files(
        repository,
        token,
        request.prefix,
        data,
        format=request.format,
        partition_by=request.partition_by,
        options=request.options,
    )
