"""Staging the files of a data set below a prefix: all of them in one batch, with what they replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from lakespark.errors import BadRequestException, ObjectExistsException
from lakespark.operations import listing, writes
from lakespark.operations.data_files import partition_folder
from lakespark.operations.opened import OpenRepository
from lakespark.operations.staged import StagedView
from lakespark.tables.staging import staged_rows, staged_table

WriteMode = Literal["error", "append", "overwrite", "overwrite_partitions"]
MODES = ("error", "append", "overwrite", "overwrite_partitions")


def check_mode(mode: str, partition_by: Sequence[str]) -> None:
    """Raises BadRequestException for an unknown mode, or one that needs partitions."""
    if mode not in MODES:
        raise BadRequestException(f"unknown write mode {mode!r}: use {', '.join(MODES)}")
    if mode == "overwrite_partitions" and not partition_by:
        raise BadRequestException("mode='overwrite_partitions' needs partition_by: the columns of the partitions")


def stage(
    repository: OpenRepository,
    branch: str,
    prefix: str,
    entries: pa.Table,
    *,
    mode: WriteMode,
    replaced: Sequence[str] | None = None,
) -> None:
    """Stage entries below a prefix in one batch.

    ``error`` wants nothing below the prefix, and of two such writers at once the second fails. ``overwrite``
    replaces all that is below the prefix, ``overwrite_partitions`` the folders that the entries lie in.
    ``replaced``: the folders to replace instead. Raises ObjectExistsException.
    """
    folders = list(replaced) if replaced is not None else _replaced(prefix, entries, mode)
    rows = _batch(repository, folders, entries)
    if not rows.num_rows:
        return
    if mode == "error" and replaced is None:
        own = set(entries["physical_address"].to_pylist())
        writes.append_if(repository, branch, rows, lambda view: _check_empty(repository, view, prefix, own))
    else:
        writes.append(repository, branch, rows)


def _replaced(prefix: str, entries: pa.Table, mode: WriteMode) -> list[str]:
    if mode == "overwrite":
        return [prefix]
    if mode == "overwrite_partitions":
        return sorted({partition_folder(path) for path in entries["path"].to_pylist()})
    return []


def _batch(repository: OpenRepository, folders: Sequence[str], entries: pa.Table) -> pa.Table:
    deleted = staged_rows([{"op": "delete-prefix", "path": folder} for folder in folders], user=repository.user)
    rows = pa.concat_tables([deleted, staged_table(entries, user=repository.user)])
    place = rows.schema.get_field_index("position")
    return rows.set_column(place, "position", pa.array(np.arange(rows.num_rows)))


def _check_empty(repository: OpenRepository, view: StagedView, prefix: str, own: set[str]) -> None:
    """Raises ObjectExistsException for an entry below the prefix that is not one of this very write."""
    for page in listing.entries_in(repository, view, prefix=prefix):
        for path, address in zip(page["path"].to_pylist(), page["physical_address"].to_pylist(), strict=True):
            if address not in own:
                raise ObjectExistsException(
                    f"{prefix!r} is not empty: it has {path!r}. "
                    "Choose mode 'append', 'overwrite' or 'overwrite_partitions'"
                )
