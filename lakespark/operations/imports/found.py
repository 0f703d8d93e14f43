"""What a source of an import has found: rows to become entries, and what cannot be a path, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.errors import BadRequestException
from lakespark.names import MAX_PATH_BYTES
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location
from lakespark.storage.s3_keys import has_boto3

SKIPPED_SCHEMA = pa.schema([("address", pa.string()), ("reason", pa.string())])
OnFound = Callable[[int], None]
"""Called with the number of objects that were found since the last call; raises to stop the import."""

_REASONS: tuple[tuple[Callable[[pa.Table], Any], str], ...] = (
    (lambda rows: pc.equal(pc.binary_length(rows["path"]), 0), "its path would be empty"),
    (
        lambda rows: pc.greater(pc.binary_length(rows["path"]), MAX_PATH_BYTES),
        f"its path is longer than {MAX_PATH_BYTES:,} bytes",
    ),
    (lambda rows: pc.match_substring(rows["path"], "\0"), "its path holds a NUL character"),
    (
        lambda rows: pc.and_(pc.ends_with(rows["physical_address"], "/"), pc.equal(rows["size_bytes"], 0)),
        "it is empty and its key ends with /: the marker of a folder",
    ),
    (
        lambda rows: pc.match_substring_regex(rows["physical_address"], _unreachable()),
        "its key has an empty part, '.', '..' or a control character: only boto3 can address it, and only in S3",
    ),
)
"""What takes a row out, first come first."""


def _unreachable() -> str:
    """A pattern of addresses that nothing here can read. A local file may be called anything."""
    schemes = "memory|gs|abfss|az" if has_boto3() else "memory|gs|abfss|az|s3"
    return rf"(?s)^({schemes})://[^/]*/(|.*/)(/|\.\.?(/|$)|$|.*[\x00-\x1f\x7f])"


class Found(NamedTuple):
    """``entries`` as ``operations.incoming`` takes them; ``skipped``: address and reason."""

    entries: pa.Table
    skipped: pa.Table


class Source(Protocol):
    """Where objects come from."""

    @property
    def replaces(self) -> str | None:
        """The prefix whose objects give way to what is found, or None."""

    def find(self, repository: OpenRepository, on_found: OnFound) -> Found:
        """Look for the objects."""


def sorted_out(rows: pa.Table, skipped: Sequence[tuple[str, str]] = ()) -> Found:
    """Rows that cannot be entries are taken out, each with its reason, and put to those known to be ``skipped``."""
    names = SKIPPED_SCHEMA.names
    known = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in skipped], schema=SKIPPED_SCHEMA)
    if not rows.num_rows:
        return Found(rows, known)
    wrong = [pc.fill_null(is_wrong(rows), fill_value=False) for is_wrong, _ in _REASONS]
    if not any(pc.any(mask).as_py() for mask in wrong):
        return Found(rows, known)
    conditions = pa.StructArray.from_arrays([_flat(mask) for mask in wrong], [str(i) for i in range(len(wrong))])
    reasons = pc.case_when(conditions, *(reason for _, reason in _REASONS))
    out = pa.table([rows["physical_address"], reasons], schema=SKIPPED_SCHEMA).filter(pc.is_valid(reasons))
    return Found(rows.filter(pc.is_null(reasons)), pa.concat_tables([known, out]))


def joined(found: Sequence[Found]) -> Found:
    """What several sources have found. Columns that one of them lacks are null there."""
    return Found(
        pa.concat_tables([each.entries for each in found], promote_options="default"),
        pa.concat_tables([each.skipped for each in found]),
    )


def check_outside(repository: OpenRepository, location: Location) -> None:
    """Raises BadRequestException for a place that holds the repository's own files, or is in its namespace."""
    own, given = repository.store.location.url + "/", location.url.rstrip("/") + "/"
    if own.startswith(given) or given.startswith(own):
        raise BadRequestException(
            f"cannot import from {location}: the repository's own files are in {repository.store.location}. "
            "Objects in the namespace are linked by stage()"
        )


def _flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
