"""Ranges as Parquet files: reading them, with a cache, and cutting and writing sorted entries."""

from __future__ import annotations

import hashlib
import io
import secrets
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakespark import digest
from lakespark.entries import ENTRY_COLUMNS, ENTRY_SCHEMA
from lakespark.model import FileRef
from lakespark.storage import Store
from lakespark.storage.background import Background
from lakespark.tree.metarange import RangeRef, parse_parquet, read_checked

ROOT = "_lakespark/ranges"
CACHE_BYTES = 256 << 20
CACHED_RANGES = 8
"""Reads and writes of no more ranges than this go through the cache: small work comes back to the same ranges."""
_UNREPEATED_COLUMNS = ("path", "identity", "physical_address", "checksum")


class RangeReader:
    """Reads ranges of one store, keeps what was looked up last. Safe to share between threads."""

    def __init__(self, store: Store, pool: ThreadPoolExecutor) -> None:
        self._store = store
        self._pool = pool
        self._cache: OrderedDict[str, pa.Table] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()

    def read(self, ranges: Sequence[RangeRef], columns: Sequence[str] = ENTRY_COLUMNS) -> pa.Table:
        """Entries of the ranges in their order, whole files at a time and in parallel."""
        if not ranges:
            return ENTRY_SCHEMA.empty_table().select(columns)
        if len(ranges) <= CACHED_RANGES:
            return pa.concat_tables([self._cached(ref).select(columns) for ref in ranges])
        return pa.concat_tables(self._pool.map(lambda ref: self._read(ref, columns), ranges))

    def entry_in_each(
        self, ranges: Sequence[RangeRef], path: str, columns: Sequence[str]
    ) -> list[dict[str, Any] | None]:
        """What each of several ranges has at one path. In parallel, past the cache: few of them are asked for again."""
        return list(self._pool.map(lambda ref: _row_at(self._read(ref, ("path", *columns)), path), ranges))

    def remember(self, file: str, table: pa.Table) -> None:
        """Keep a range that was just written or read."""
        with self._lock:
            if file not in self._cache:
                self._cache[file] = table
                self._cached_bytes += table.nbytes
            while self._cached_bytes > CACHE_BYTES and len(self._cache) > 1:
                self._cached_bytes -= self._cache.popitem(last=False)[1].nbytes

    def entry(self, ref: RangeRef, path: str) -> dict[str, Any] | None:
        """The entry of one path, by binary search in its range."""
        return _row_at(self._cached(ref), path)

    def _read(self, ref: RangeRef, columns: Sequence[str]) -> pa.Table:
        with self._lock:
            cached = self._cache.get(ref.file)
        if cached is not None:
            return cached.select(columns)
        body = read_checked(self._store, FileRef(ref.file, ref.file_sha256))
        schema = pa.schema([ENTRY_SCHEMA.field(name) for name in columns])
        return parse_parquet(body, ref.file, columns).cast(schema)

    def _cached(self, ref: RangeRef) -> pa.Table:
        with self._lock:
            table = self._cache.get(ref.file)
            if table is not None:
                self._cache.move_to_end(ref.file)
                return table
        table = self._read(ref, ENTRY_COLUMNS).combine_chunks()
        self.remember(ref.file, table)
        return table


class RangeWriter:
    """Cuts sorted entries into ranges and writes those that are new: few of them in the background."""

    def __init__(self, store: Store, reader: RangeReader, pool: ThreadPoolExecutor, background: Background) -> None:
        self._store = store
        self._reader = reader
        self._pool = pool
        self._background = background

    def write(self, rows: pa.Table, cuts: np.ndarray, reuse: Mapping[str, RangeRef]) -> list[RangeRef]:
        """Write the ranges that ``reuse`` (by range id) does not hold.

        ``cuts`` has a boolean a row: whether a range ends there. The last row ends one in any case.
        """
        if not rows.num_rows:
            return []
        ends = np.flatnonzero(cuts) + 1
        if not len(ends) or ends[-1] != rows.num_rows:
            ends = np.append(ends, rows.num_rows)
        starts = np.concatenate(([0], ends[:-1]))
        folder = f"{ROOT}/{secrets.token_hex(16)}"
        is_small = len(ends) <= CACHED_RANGES
        small: list[tuple[str, bytes]] = []

        def write(number: int) -> RangeRef:
            part = rows.slice(starts[number], ends[number] - starts[number]).combine_chunks()
            range_id = hash_range(part)
            if range_id in reuse:
                return reuse[range_id]
            ref, body = range_file(f"{folder}/{number:06d}.parquet", part, range_id)
            if is_small:
                self._reader.remember(ref.file, part)
                small.append((ref.file, body))
            else:
                self._store.put(ref.file, body)
            return ref

        written = list(self._pool.map(write, range(len(ends))))
        for file in small:
            self._background.start(partial(self._store.put, *file))
        return written


def _row_at(table: pa.Table, path: str) -> dict[str, Any] | None:
    paths = table["path"]
    place = bisect_left(range(len(paths)), path, key=lambda i: paths[i].as_py())
    if place == len(paths) or paths[place].as_py() != path:
        return None
    row: dict[str, Any] = table.slice(place, 1).to_pylist(maps_as_pydicts="strict")[0]
    return row


def hash_range(rows: pa.Table) -> str:
    """Id of a range: SHA-256 over the encoded (path, identity) pairs in order of path."""
    if not rows.num_rows:
        return hashlib.sha256().hexdigest()
    encoded = pa.concat_arrays(_encode(rows).chunks)
    # the data buffer of a string array is its strings one after the other: exactly what is to be hashed
    offsets = np.frombuffer(encoded.buffers()[1], dtype=np.int32)[encoded.offset :]
    data = memoryview(encoded.buffers()[2])
    return hashlib.sha256(data[offsets[0] : offsets[len(encoded)]]).hexdigest()


def _encode(rows: pa.Table) -> pa.ChunkedArray:
    """``<bytes of path>:<path>64:<identity>`` for each row: the encoding of ``digest.encode``."""
    length = pc.cast(pc.binary_length(rows["path"]), pa.string())
    return pc.binary_join_element_wise(pc.binary_join_element_wise(length, rows["path"], ":"), rows["identity"], "64:")


def range_file(key: str, rows: pa.Table, range_id: str) -> tuple[RangeRef, bytes]:
    """The file of a range, sorted by path, that is to lie at ``key``: how trees name it, and its bytes."""
    sink = io.BytesIO()
    pq.write_table(
        rows,
        sink,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in ENTRY_COLUMNS if name not in _UNREPEATED_COLUMNS],
        write_statistics=["path"],
        store_schema=False,
    )
    body = sink.getvalue()
    ref = RangeRef(
        min_path=rows["path"][0].as_py(),
        max_path=rows["path"][-1].as_py(),
        range_id=range_id,
        file=key,
        file_sha256=digest.hash_bytes(body),
        count=rows.num_rows,
        bytes=pc.sum(rows["size_bytes"]).as_py(),
    )
    return ref, body
