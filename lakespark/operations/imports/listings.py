"""A listing of objects, such as an inventory, as Parquet, CSV or an Arrow table."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from lakespark.entries import DATA_COLUMNS
from lakespark.errors import BadRequestException, InvalidEntriesError, ObjectNotFoundException
from lakespark.operations.data_files import folder_prefix, is_data_file
from lakespark.operations.imports.addresses import canonical, check_foreign, keys_of
from lakespark.operations.imports.found import Found, OnFound, sorted_out
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location, parse_location

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

_TEXTS = ("address", "path", "bucket", "key", "checksum", "content_type", *DATA_COLUMNS)
_CSV_TYPES = {
    **{name: pa.binary() for what in _TEXTS for name in NAMES[what]},
    **{name: pa.int64() for name in NAMES["size_bytes"]},
}
_FILE = re.compile(r".*\.(parquet|csv|csv\.gz)")


@dataclass(frozen=True)
class Listing:
    """The objects of a table or of a file (Parquet, or CSV with a header), or of all such files in a folder.

    A row's path is its column ``path`` or else its key: below ``base`` if that is given, else in its bucket. It is
    put below ``destination``.
    """

    table: pa.Table | None
    location: Location | None
    destination: str
    base: Location | None = None

    @property
    def replaces(self) -> str | None:
        """Nothing but the objects of those paths."""
        return None

    def find(self, repository: OpenRepository, on_found: OnFound) -> Found:
        """Read the listing. Raises InvalidEntriesError for columns that are missing or hold what cannot be."""
        table = self.table if self.table is not None else self._read(repository)
        columns = _current(_columns(table))
        on_found(len(columns["size_bytes"]))
        columns, skipped = _texts(columns)
        addresses = canonical(columns["address"])
        check_foreign(repository, addresses)
        paths = columns["path"] if "path" in columns else keys_of(addresses, self.base)
        rows: dict[str, Any] = {
            "path": pc.binary_join_element_wise(folder_prefix(self.destination), paths, ""),
            "physical_address": addresses,
            "size_bytes": _sizes(columns["size_bytes"]),
            "checksum": _checksums(columns["checksum"]),
        }
        if "mtime" in columns:
            rows["mtime"] = _seconds(columns["mtime"])
        rows |= {name: columns[name] for name in ("content_type", *DATA_COLUMNS) if name in columns}
        return sorted_out(pa.table(rows), skipped)

    def __str__(self) -> str:
        return "a table" if self.location is None else self.location.url

    def _read(self, repository: OpenRepository) -> pa.Table:
        location = self.location or parse_location("")
        store, key = repository.contents(location.url)
        names = [key]
        if store.stat(key) is None:
            names = sorted(file.key for file in store.list(key) if _is_listing(file.key[len(key) :]))
            if not names:
                raise ObjectNotFoundException(
                    f"no listing at {location}: neither a file nor a folder of .parquet or .csv"
                )
        return pa.concat_tables([_parse(store.get(name) or b"", name) for name in names], promote_options="permissive")


def _is_listing(relative_key: str) -> bool:
    return bool(_FILE.fullmatch(relative_key)) and is_data_file(relative_key.lstrip("/"))


def _parse(body: bytes, name: str) -> pa.Table:
    try:
        if body[:4] == b"PAR1":
            return pq.read_table(io.BytesIO(body))
        source: Any = pa.BufferReader(body)
        if body[:2] == b"\x1f\x8b":
            source = pa.CompressedInputStream(source, "gzip")
        options = pa_csv.ConvertOptions(column_types=_CSV_TYPES, check_utf8=False)
        return pa_csv.read_csv(source, convert_options=options)
    except (pa.ArrowException, OSError) as error:
        raise InvalidEntriesError(f"the listing {name!r} cannot be read as Parquet or CSV: {error}") from None


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """The columns that matter, by what they are. Raises InvalidEntriesError if some are missing."""
    found = {what: name for what, names in NAMES.items() for name in reversed(names) if name in table.column_names}
    columns = {what: table[name] for what, name in found.items()}
    if "address" not in columns and "bucket" in columns and "key" in columns:
        parts = [columns.pop(name).cast(pa.binary()) for name in ("bucket", "key")]
        columns["address"] = pc.binary_join_element_wise(b"s3://", pc.binary_join_element_wise(*parts, b"/"), b"")
    missing = [what for what in ("address", "size_bytes", "checksum") if what not in columns]
    if missing:
        wanted = "; ".join(f"{what}: one of {', '.join(NAMES[what])}" for what in missing)
        raise InvalidEntriesError(f"the listing lacks columns ({wanted}): it has {', '.join(table.column_names)}")
    return columns


def _current(columns: dict[str, pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
    """Without the rows of an inventory that stand for old versions and deletions."""
    keep: Any = None
    for name, wanted in (("is_latest", True), ("is_delete_marker", False)):
        column = columns.pop(name, None)
        if column is not None:
            fits = pc.equal(pc.utf8_lower(column.cast(pa.string())), str(wanted).lower())
            keep = fits if keep is None else pc.and_(keep, fits)
    return columns if keep is None else {name: column.filter(keep) for name, column in columns.items()}


def _texts(columns: dict[str, pa.ChunkedArray]) -> tuple[dict[str, pa.ChunkedArray], list[tuple[str, str]]]:
    """Columns of text as text; rows with bytes that are none are taken out, and named."""
    bad: set[int] = set()
    for name in _TEXTS:
        if name in columns:
            columns[name], wrong = _text(columns[name], name)
            bad.update(wrong)
    if not bad:
        return columns, []
    keep = pa.array([number not in bad for number in range(len(columns["address"]))])
    skipped = [(columns["address"][number].as_py() or "", "its address or path is not UTF-8") for number in sorted(bad)]
    return {name: column.filter(keep) for name, column in columns.items()}, skipped


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


def _checksums(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """MD5s in lower case, checksums that carry their kind as they stand, everything else as ETags."""
    plain = pc.utf8_trim(column, '" ')
    is_md5 = pc.match_substring_regex(plain, "^[0-9a-fA-F]{32}$")
    if pc.all(is_md5).as_py():
        return pc.ascii_lower(plain)
    has_kind = pc.or_(pc.match_substring(plain, ":"), pc.equal(plain, ""))
    other = pc.if_else(has_kind, plain, pc.binary_join_element_wise("etag:", plain, ""))
    return pc.if_else(is_md5, pc.ascii_lower(plain), other)


def _seconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times, ISO 8601 texts or unix seconds as unix seconds."""
    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = column.cast(pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("s", column.type.tz), safe=False)
        return column.cast(pa.int64())
    except pa.ArrowException as error:
        raise InvalidEntriesError(f"the listing's times of modification cannot be read: {error}") from None


def listing_of(listing: Any, destination: str, base: Location | None) -> Listing:
    """A listing from an Arrow table, or from the location of a file or folder."""
    if isinstance(listing, pa.Table):
        return Listing(listing, None, destination, base)
    if isinstance(listing, str) or hasattr(listing, "__fspath__"):
        return Listing(None, parse_location(listing), destination, base)
    raise BadRequestException(f"a listing is an Arrow table or the location of a file, not {type(listing).__name__}")
