"""Staging the files of a data set below a prefix: all of them in one batch, with what they replace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
import pyarrow as pa

from lakespark.errors import BadRequestException, ObjectExistsException
from lakespark.operations import listing, partitions, staged, writes
from lakespark.operations.data_files import partition_values
from lakespark.operations.opened import OpenRepository
from lakespark.operations.staged import StagedView
from lakespark.tables.staging import staged_rows, staged_table

WriteMode = Literal["error", "append", "overwrite", "overwrite_partitions"]
MODES = ("error", "append", "overwrite", "overwrite_partitions")


@dataclass(frozen=True)
class Target:
    """Where files go on a branch, and what they replace there.

    ``prefix`` is empty or ends with a slash. ``error`` wants nothing below it, and of two such writers at once the
    second fails. ``overwrite`` replaces all that is below it, ``overwrite_partitions`` the partitions of the new
    files, ``replace_where`` instead those that an SQL predicate names. ``types``: SQL types of the partition columns.
    """

    branch: str
    prefix: str
    mode: WriteMode
    replace_where: str | None
    types: Mapping[str, str]


def check_mode(mode: str, partition_by: Sequence[str]) -> None:
    """Raises BadRequestException for an unknown mode, or one that needs partitions."""
    if mode not in MODES:
        raise BadRequestException(f"unknown write mode {mode!r}: use {', '.join(MODES)}")
    if mode == "overwrite_partitions" and not partition_by:
        raise BadRequestException("mode='overwrite_partitions' needs partition_by: the columns of the partitions")


def check_target(repository: OpenRepository, target: Target) -> None:
    """Look whether files may go there, before they are written.

    Raises BadRequestException for a prefix below an object or a predicate that fails, ObjectExistsException.
    """
    view = staged.newest_view(repository, target.branch)
    for folder in accumulate(target.prefix.split("/")[:-1], "{}/{}".format):
        if folder and listing.find_staged(repository, view, folder) is not None:
            raise BadRequestException(
                f"cannot write below {target.prefix!r}: {folder!r} is an object. Choose another prefix, or delete it"
            )
    if target.replace_where is not None:
        partitions.matching(repository, [], target.types, target.replace_where)
    elif target.mode == "error":
        _check_empty(repository, view, target.prefix, own=())


def stage(repository: OpenRepository, target: Target, entries: pa.Table) -> None:
    """Stage entries in one batch, or none. Raises ObjectExistsException, or BadRequestException for data outside."""
    if target.replace_where is None and target.mode in ("append", "overwrite"):
        rows = _batch(repository, [target.prefix] if target.mode == "overwrite" else [], entries)
        if rows.num_rows:
            writes.append(repository, target.branch, rows)
        return
    new = partitions.folders(entries["path"].to_pylist(), target.prefix)
    if target.replace_where is not None:
        _check_inside(repository, target, target.replace_where, new)
    own = entries["physical_address"].to_pylist()

    def decide(view: StagedView) -> pa.Table:
        if target.replace_where is None and target.mode == "error":
            _check_empty(repository, view, target.prefix, own)
            return _batch(repository, [], entries)
        return _batch(repository, _replaced(repository, target, view, new), entries)

    writes.append_decided(repository, target.branch, decide)


def _replaced(repository: OpenRepository, target: Target, view: StagedView, new: Sequence[str]) -> list[str]:
    """The partition folders of a branch that new files replace."""
    pages = listing.entries_in(repository, view, prefix=target.prefix)
    found = partitions.folders((path for page in pages for path in page["path"].to_pylist()), target.prefix)
    present = [folder for folder in found if partition_values(folder).keys() >= target.types.keys()]
    if target.replace_where is not None:
        return partitions.matching(repository, present, target.types, target.replace_where)
    return partitions.same(repository, present, new, target.types)


def _check_inside(repository: OpenRepository, target: Target, predicate: str, new: Sequence[str]) -> None:
    outside = sorted(set(new) - set(partitions.matching(repository, new, target.types, predicate)))
    if outside:
        raise BadRequestException(
            f"the data has rows outside of replace_where={predicate!r}: {outside[0]!r}; nothing was staged"
        )


def _batch(repository: OpenRepository, folders: Sequence[str], entries: pa.Table) -> pa.Table:
    deleted = staged_rows([{"op": "delete-prefix", "path": folder} for folder in folders], user=repository.user)
    rows = pa.concat_tables([deleted, staged_table(entries, user=repository.user)])
    place = rows.schema.get_field_index("position")
    return rows.set_column(place, "position", pa.array(np.arange(rows.num_rows)))


def _check_empty(repository: OpenRepository, view: StagedView, prefix: str, own: Sequence[str]) -> None:
    """Raises ObjectExistsException for an entry below the prefix that is not one of this very write."""
    known = set(own)
    for page in listing.entries_in(repository, view, prefix=prefix):
        for path, address in zip(page["path"].to_pylist(), page["physical_address"].to_pylist(), strict=True):
            if address not in known:
                raise ObjectExistsException(
                    f"{prefix!r} is not empty: it has {path!r}. "
                    "Choose mode 'append', 'overwrite' or 'overwrite_partitions'"
                )
