"""Listings as they are stored: which files they are, what their columns may be called, and reading them as Arrow."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from lakespark.entries import DATA_COLUMNS
from lakespark.errors import InvalidEntriesError, ObjectNotFoundException
from lakespark.operations.data_files import is_data_file
from lakespark.operations.imports.found import LISTING_SCHEMA, completed
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location, Store

NAMES: Mapping[str, Sequence[str]] = {
    "address": ("address", "physical_address"),
    "path": ("path",),
    "size_bytes": ("size", "size_bytes"),
    "checksum": ("checksum", "e_tag", "etag"),
    "mtime": ("mtime", "last_modified_date", "last_modified"),
    "content_type": ("content_type",),
    "bucket": ("bucket",),
    "key": ("key",),
    "is_latest": ("is_latest",),
    "is_delete_marker": ("is_delete_marker",),
    **{name: (name,) for name in DATA_COLUMNS},
}
"""What the columns of a listing may be called; ``bucket`` and ``key`` stand for the address of an S3 object."""

TEXTS = ("address", "path", "bucket", "key", "checksum", "content_type", *DATA_COLUMNS)
"""Columns that may hold anything, of which only UTF-8 is text."""

ROW_BYTES = 64
"""A row of a listing takes about so many bytes: 20 to 60 compressed, 90 and more as plain CSV."""

PARQUET_MAGIC, GZIP_MAGIC = b"PAR1", b"\x1f\x8b"
_FILE = re.compile(r".*\.(parquet|csv|csv\.gz)")


class ListingFiles(NamedTuple):
    """The files of a listing in one store, and how large they are together."""

    store: Store
    keys: list[str]
    size_bytes: int


def find_files(repository: OpenRepository, location: Location) -> ListingFiles:
    """The file at a location, or all of Parquet or CSV in the folder. Raises ObjectNotFoundException."""
    store, key = repository.contents(location.url)
    file = store.stat(key)
    if file is not None:
        return ListingFiles(store, [key], file.size_bytes)
    files = [file for file in store.list(key) if _is_listing(file.key[len(key) :])]
    if not files:
        raise ObjectNotFoundException(f"no listing at {location}: neither a file nor a folder of .parquet or .csv")
    return ListingFiles(store, sorted(file.key for file in files), sum(file.size_bytes for file in files))


def names_of(columns: Sequence[str]) -> dict[str, str]:
    """The columns that matter, by what they are. Raises InvalidEntriesError if some are missing."""
    found = {what: name for what, names in NAMES.items() for name in reversed(names) if name in columns}
    has_address = "address" in found or {"bucket", "key"} <= found.keys()
    missing = [what for what in ("size_bytes", "checksum") if what not in found]
    missing = missing if has_address else ["address", *missing]
    if missing:
        wanted = "; ".join(f"{what}: one of {', '.join(NAMES[what])}" for what in missing)
        raise InvalidEntriesError(f"the listing lacks columns ({wanted}): it has {', '.join(columns)}")
    return found


def read_files(files: ListingFiles) -> pa.Table:
    """All files as one table, with the columns of ``LISTING_SCHEMA``."""
    tables: list[pa.Table] = []
    first_csv: tuple[str, list[str]] | None = None
    for key in files.keys:
        body = files.store.get(key) or b""
        tables.append(_parse(body, key))
        if not body.startswith(PARQUET_MAGIC):
            first_csv = first_csv or (key, tables[-1].column_names)
            _check_header(key, tables[-1].column_names, *first_csv)
    return listing_table(pa.concat_tables(tables, promote_options="permissive"))


def listing_table(table: pa.Table) -> pa.Table:
    """A listing with the columns of ``LISTING_SCHEMA``. Raises InvalidEntriesError for columns of other types."""
    columns: dict[str, Any] = {what: table[name] for what, name in names_of(table.column_names).items()}
    wrong: set[int] = set()
    for what in TEXTS:
        if what in columns:
            columns[what], bad = _text(columns[what], what)
            wrong.update(bad)
    columns["size_bytes"] = _sizes(columns["size_bytes"])
    if "mtime" in columns:
        columns["mtime"] = _times(columns["mtime"])
    for what in ("is_latest", "is_delete_marker"):
        if what in columns:
            columns[what] = columns[what].cast(pa.string())
    count = table.num_rows
    is_text: Any = pa.repeat(pa.scalar(value=True), count)
    columns["is_text"] = pa.array([number not in wrong for number in range(count)]) if wrong else is_text
    return completed(columns, LISTING_SCHEMA)


def _is_listing(relative_key: str) -> bool:
    return bool(_FILE.fullmatch(relative_key)) and is_data_file(relative_key.lstrip("/"))


def _check_header(key: str, header: list[str], first_key: str, first_header: list[str]) -> None:
    if header != first_header:
        raise InvalidEntriesError(
            f"the listing {key!r} cannot be read with {first_key!r}: its header is {', '.join(header)} instead of "
            f"{', '.join(first_header)}"
        )


def _parse(body: bytes, name: str) -> pa.Table:
    try:
        if body.startswith(PARQUET_MAGIC):
            return pq.read_table(io.BytesIO(body))
        return _parse_csv(body)
    except (pa.ArrowException, OSError) as error:
        raise InvalidEntriesError(f"the listing {name!r} cannot be read as Parquet or CSV: {error}") from None


def _parse_csv(body: bytes) -> pa.Table:
    """Texts as bytes, which need not be UTF-8; nothing between two commas is null."""
    source: Any = pa.BufferReader(body)
    if body.startswith(GZIP_MAGIC):
        source = pa.CompressedInputStream(source, "gzip")
    types = {name: pa.int64() if what == "size_bytes" else pa.binary() for what in NAMES for name in NAMES[what]}
    options = pa_csv.ConvertOptions(
        column_types=types,
        check_utf8=False,
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=True,
    )
    return pa_csv.read_csv(source, convert_options=options)


def _text(column: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, list[int]]:
    """A column as strings, and the numbers of the rows that are not UTF-8, which are written with escapes."""
    try:
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.binary())  # the strings of a file may be anything: the way back looks at them
        return column.cast(pa.string()), []
    except pa.ArrowNotImplementedError:
        raise InvalidEntriesError(f"column {name!r} of the listing is {column.type}, not text") from None
    except pa.ArrowInvalid:
        values: list[bytes | None] = column.to_pylist()
    texts = [None if value is None else value.decode(errors="backslashreplace") for value in values]
    wrong = [
        i for i, (v, text) in enumerate(zip(values, texts, strict=True)) if text is not None and text.encode() != v
    ]
    return pa.chunked_array([pa.array(texts, pa.string())]), wrong


def _sizes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.int64())
    except pa.ArrowException as error:
        raise InvalidEntriesError(f"the listing's size_bytes cannot be read as numbers: {error}") from None


def _times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times and unix seconds as text."""
    try:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("s", column.type.tz), safe=False).cast(pa.int64())
        if pa.types.is_floating(column.type):
            column = pc.floor(column).cast(pa.int64())
        return column.cast(pa.string())
    except pa.ArrowException as error:
        raise InvalidEntriesError(f"the listing's times of modification cannot be read: {error}") from None
