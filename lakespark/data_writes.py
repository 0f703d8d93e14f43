"""Writing data below a prefix of a branch: what is asked for, what it replaces, who writes the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakespark.errors import BadRequestException
from lakespark.names import check_path
from lakespark.operations import arrow_write, data_sets, listing, partitions, staged
from lakespark.operations.incoming import entries_from
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import branch_state

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
    token = branch_state(repository, branch).token
    entries = entries_from(repository, _write_files(repository, token, data, request))
    data_sets.stage(
        repository,
        branch,
        request.prefix,
        entries,
        mode=request.mode,
        replaced=None if request.replace_where is None else _replaced(repository, branch, entries, request),
    )
    return int(entries.num_rows)


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


def _replaced(repository: OpenRepository, branch: str, entries: pa.Table, request: Request) -> list[str]:
    """The partition folders that the predicate names. Raises BadRequestException for data outside of it."""
    types = partitions.types(entries["data_schema"][0].as_py() if entries.num_rows else None, request.partition_by)
    new = partitions.folders(entries["path"].to_pylist(), request.prefix)
    outside = sorted(set(new) - set(partitions.matching(repository, new, types, request.replace_where or "")))
    if outside:
        raise BadRequestException(
            f"the data has rows outside of replace_where={request.replace_where!r}: {outside[0]!r}; nothing was staged"
        )
    view = staged.newest_view(repository, branch)
    pages = listing.entries_in(repository, view, prefix=request.prefix)
    present = partitions.folders((path for page in pages for path in page["path"].to_pylist()), request.prefix)
    return partitions.matching(repository, present, types, request.replace_where or "")
