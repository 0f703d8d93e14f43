"""What the sources of an import find, as entries of an engine, and what cannot be a path, with the reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple, Protocol

import pyarrow as pa

from lakespark.algebra import imports as imports_sql
from lakespark.algebra import incoming as incoming_sql
from lakespark.engine import Engine, Frame
from lakespark.entries import ENTRY_SCHEMA
from lakespark.errors import BadRequestException
from lakespark.model import DEFAULT_CONTENT_TYPE
from lakespark.operations.incoming import check
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location
from lakespark.storage.s3_keys import has_boto3

ROW_SCHEMA = pa.schema(
    [
        (name, ENTRY_SCHEMA.field(name).type if name in ENTRY_SCHEMA.names else pa.string())
        for name in imports_sql.ROW_COLUMNS
    ]
)
"""Rows of a source, as ``algebra.imports`` takes them."""

LISTING_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("address", "bucket", "key", "path")),
        ("size_bytes", pa.int64()),
        *((name, pa.string()) for name in ("checksum", "mtime", "content_type", "data_schema", "data_stats")),
        *((name, pa.string()) for name in ("is_latest", "is_delete_marker")),
        ("is_text", pa.bool_()),
    ]
)
"""Rows of a listing. ``mtime`` is unix seconds or ISO 8601, both as text; ``is_text``: all texts are UTF-8."""

FILE_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("address", pa.string()),
        ("size_bytes", pa.int64()),
        ("time_ms", pa.int64()),
        ("checksum", pa.string()),
        ("reason", pa.string()),
    ]
)
"""Files of a store: ``key`` below the place that was listed, or the whole ``address``; why one is left out."""

SKIPPED_SCHEMA = pa.schema([("address", pa.string()), ("reason", pa.string())])

OnFound = Callable[[int], None]
"""Called with the number of objects that were found since the last call; raises to stop the import."""


class Reader(Protocol):
    """How an engine gets at the names of objects. Frames are those of the engine."""

    def files_below(self, location: Location) -> Frame:
        """The files below a folder or prefix, with the columns of ``FILE_SCHEMA``."""

    def listing(self, location: Location) -> Frame:
        """The rows of a listing, which is a file or a folder of such, with the columns of ``LISTING_SCHEMA``."""


class Finding(NamedTuple):
    """What a source finds its objects with."""

    repository: OpenRepository
    run: Engine
    reader: Reader
    on_found: OnFound


class Source(Protocol):
    """Where objects come from."""

    @property
    def replaces(self) -> str | None:
        """The prefix whose objects give way to what is found, or None."""

    def most_objects(self, repository: OpenRepository) -> int | None:
        """About how many objects there are at most, or None where that takes looking for them."""

    def rows(self, finding: Finding) -> Frame:
        """Look for the objects: a frame with the columns of ``ROW_SCHEMA``."""


class Found(NamedTuple):
    """``entries``: a frame of ``taken`` entries; ``skipped``: address and reason of the first of the ``left_out``."""

    entries: Frame
    taken: int
    skipped: pa.Table
    left_out: int


def most_objects(sources: Sequence[Source], repository: OpenRepository) -> int | None:
    """About how many objects all sources have at most, or None where that takes looking for them."""
    counts = [source.most_objects(repository) for source in sources]
    return None if None in counts else sum(filter(None, counts))


def find(sources: Sequence[Source], finding: Finding) -> Found:
    """What all sources find, checked. Raises InvalidEntriesError that names what is wrong."""
    run = finding.run
    rows = reduce(
        lambda left, right: run.query(imports_sql.UNION, left=left, right=right),
        [source.rows(finding) for source in sources],
    )
    checked = run.keep(run.query(imports_sql.checked(_unreachable()), rows=rows, defaults=run.frame(_defaults())))
    counts = check(run, checked, what="what is to be imported", outcome="nothing was changed")
    skipped = SKIPPED_SCHEMA.empty_table()
    if counts.skipped:
        skipped = _as_text(run.collect(run.query(incoming_sql.SKIPPED, checked=checked)))
    return Found(run.query(incoming_sql.TAKEN, checked=checked), counts.taken, skipped, counts.skipped)


def rows_table(columns: dict[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    """Rows from some of their columns; the others are null."""
    return completed(columns, ROW_SCHEMA)


def completed(columns: dict[str, pa.Array | pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    """A table of a schema from some of its columns; the others are null."""
    count = len(next(iter(columns.values())))
    return pa.table([columns.get(field.name, pa.nulls(count, field.type)) for field in schema], schema=schema)


def check_outside(repository: OpenRepository, location: Location) -> None:
    """Raises BadRequestException for a place that holds the repository's own files, or is in its namespace."""
    own, given = repository.store.location.url + "/", location.url.rstrip("/") + "/"
    if own.startswith(given) or given.startswith(own):
        raise BadRequestException(
            f"cannot import from {location}: the repository's own files are in {repository.store.location}. "
            "Objects in the namespace are linked by stage()"
        )


def _unreachable() -> str:
    """The schemes of stores in which nothing here can read a key of which only boto3 takes care."""
    return "memory|gs|abfss|az" if has_boto3() else "memory|gs|abfss|az|s3"


def _defaults() -> pa.Table:
    """What entries have that their source says nothing of."""
    return pa.table(
        {
            "mtime": pa.array([int(time.time())], pa.int64()),
            "content_type": [DEFAULT_CONTENT_TYPE],
            "metadata": pa.array([[]], ENTRY_SCHEMA.field("metadata").type),
        }
    )


def _as_text(skipped: pa.Table) -> pa.Table:
    """With escapes for what is not UTF-8 in an address."""
    addresses = skipped["address"].cast(pa.binary()).to_pylist()
    texts = [None if address is None else address.decode(errors="backslashreplace") for address in addresses]
    return pa.table([pa.array(texts, pa.string()), skipped["reason"]], schema=SKIPPED_SCHEMA)
