"""Metaranges: the ordered list of ranges of one commit, as a value and as a Parquet file.

A range ends exactly at each path whose MD5, in hex, is below the threshold, and at the last path. So the cut
depends on nothing but the paths, and commits with mostly equal contents share most of their ranges.
"""

from __future__ import annotations

import hashlib
import io
import secrets
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from lakespark import digest
from lakespark.errors import CorruptFileError, MissingFileError
from lakespark.model import FileRef
from lakespark.names import prefix_end
from lakespark.storage import Store

ROOT = "_lakespark/metaranges"
DEFAULT_RANGE_ENTRIES = 5000

METARANGE_SCHEMA = pa.schema(
    [
        ("min_path", pa.string()),
        ("max_path", pa.string()),
        ("range_id", pa.string()),
        ("file", pa.string()),
        ("file_sha256", pa.string()),
        ("count", pa.int64()),
        ("bytes", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class RangeRef:
    """One range of a metarange. ``bytes`` is the sum of its entries' sizes."""

    min_path: str
    max_path: str
    range_id: str
    file: str
    file_sha256: str
    count: int
    bytes: int


def threshold_for(mean_entries: int) -> str:
    """The cut threshold, 32 hex digits, that makes ranges of so many entries on average."""
    return f"{min((1 << 128) // mean_entries, (1 << 128) - 1):032x}"


def is_cut(path: str, threshold: str) -> bool:
    """Whether a range ends at this path."""
    return hashlib.md5(path.encode(), usedforsecurity=False).hexdigest() < threshold


@dataclass(frozen=True)
class Metarange:
    """The tree of a commit as a value."""

    threshold: str
    ranges: tuple[RangeRef, ...]

    @cached_property
    def id(self) -> str:
        """A pure function of the contents and the threshold."""
        return digest.metarange_id(self.threshold, [ref.range_id for ref in self.ranges])

    @cached_property
    def max_paths(self) -> list[str]:
        """The last path of each range, ascending."""
        return [ref.max_path for ref in self.ranges]

    @cached_property
    def by_id(self) -> Mapping[str, RangeRef]:
        """The ranges by their ids."""
        return {ref.range_id: ref for ref in self.ranges}

    @property
    def count(self) -> int:
        """Number of entries."""
        return sum(ref.count for ref in self.ranges)

    def find(self, path: str) -> RangeRef | None:
        """The range that holds the path if any does."""
        place = bisect_left(self.max_paths, path)
        if place == len(self.ranges) or path < self.ranges[place].min_path:
            return None
        return self.ranges[place]

    def between(self, start: str, end: str | None) -> tuple[RangeRef, ...]:
        """The ranges that may hold paths from ``start`` up to, not including, ``end``."""
        first = bisect_left(self.max_paths, start)
        after = len(self.ranges)
        if end is not None:
            after = next((i for i in range(first, after) if self.ranges[i].min_path >= end), after)
        return self.ranges[first:after]

    def with_prefix(self, prefix: str) -> tuple[RangeRef, ...]:
        """The ranges that may hold paths starting with ``prefix``."""
        return self.between(prefix, prefix_end(prefix))

    def touched(self, numbers: Iterable[int], numbers_without_cut: Iterable[int]) -> frozenset[int]:
        """Which ranges must be written anew, by their numbers in this metarange.

        ``numbers``: for each change, the first range whose last path is not below it (the count of ranges if
        there is none). ``numbers_without_cut``: those whose last path is deleted; the next range then has no
        start of its own. What follows the last range touches it, unless that ends with a cut.
        """
        count = len(self.ranges)
        touched = {number for number in numbers if number < count}
        if count and count in numbers and not is_cut(self.ranges[-1].max_path, self.threshold):
            touched.add(count - 1)
        touched |= {number + 1 for number in numbers_without_cut if number + 1 < count}
        return frozenset(touched)


def write_metarange(put: Callable[[str, bytes], None], metarange: Metarange) -> FileRef:
    """Write the metarange under a fresh name with ``put``."""
    columns = [[getattr(ref, name) for ref in metarange.ranges] for name in METARANGE_SCHEMA.names]
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, METARANGE_SCHEMA, strict=True)],
        schema=METARANGE_SCHEMA.with_metadata({"threshold": metarange.threshold, "id": metarange.id}),
    )
    sink = io.BytesIO()
    # a history reads thousands of them: without zstd and dictionaries each takes a quarter of the time
    pq.write_table(table, sink, compression="snappy", use_dictionary=False, write_statistics=False)
    body = sink.getvalue()
    ref = FileRef(f"{ROOT}/{secrets.token_hex(16)}.parquet", digest.hash_bytes(body))
    put(ref.file, body)
    return ref


def read_metarange(store: Store, ref: FileRef) -> Metarange:
    """Read a metarange. Raises MissingFileError or CorruptFileError naming the file."""
    return parse_metarange(read_checked(store, ref), ref.file)


def parse_metarange(body: bytes, name: str) -> Metarange:
    """A metarange from its file's bytes. Raises CorruptFileError naming the file."""
    threshold, columns = _parsed(body, name)
    return Metarange(threshold, tuple(map(RangeRef, *(column.to_pylist() for column in columns))))


def read_ranges_at(store: Store, ref: FileRef, paths: Sequence[str]) -> tuple[RangeRef | None, ...]:
    """What a metarange finds for each path, without making values of all its ranges.

    Raises MissingFileError or CorruptFileError naming the file.
    """
    _, columns = _parsed(read_checked(store, ref), ref.file)
    max_paths = columns[METARANGE_SCHEMA.get_field_index("max_path")]
    numbers = range(len(max_paths))

    def at(path: str) -> RangeRef | None:
        place = bisect_left(numbers, path, key=lambda number: max_paths[number].as_py())
        if place == len(max_paths):
            return None
        found = RangeRef(*(column[place].as_py() for column in columns))
        return None if path < found.min_path else found

    return tuple(map(at, paths))


def _parsed(body: bytes, name: str) -> tuple[str, list[pa.ChunkedArray]]:
    """The threshold of a metarange's file and its columns. Raises CorruptFileError naming the file."""
    table = parse_parquet(body, name)
    try:
        return table.schema.metadata[b"threshold"].decode(), [table[column] for column in METARANGE_SCHEMA.names]
    except (KeyError, TypeError):
        raise CorruptFileError(f"metarange {name} lacks its threshold or a column") from None


def read_checked(store: Store, ref: FileRef) -> bytes:
    """The bytes of a file, which must be there and have the SHA-256 that was recorded for it."""
    body = store.get(ref.file)
    if body is None:
        raise MissingFileError(f"file {store.location.child(ref.file)} is missing")
    if digest.hash_bytes(body) != ref.sha256:
        raise CorruptFileError(f"file {store.location.child(ref.file)} is not what was written: its SHA-256 differs")
    return body


def parse_parquet(body: bytes, name: str, columns: Iterable[str] | None = None) -> pa.Table:
    """A Parquet file's table, read in this thread. Raises CorruptFileError naming the file."""
    try:
        file = pq.ParquetFile(pa.BufferReader(body))
        return file.read(columns=None if columns is None else list(columns), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(f"file {name} cannot be read: {error}") from error
