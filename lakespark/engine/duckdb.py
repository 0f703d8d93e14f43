"""The in-process engine: DuckDB over Arrow tables."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy as np
import pyarrow as pa

from lakespark.engine.interface import Frame
from lakespark.entries import ENTRY_COLUMNS, is_ascending
from lakespark.storage import Store
from lakespark.storage.background import Background
from lakespark.tree.metarange import RangeRef
from lakespark.tree.range_files import RangeReader, RangeWriter

_MACROS = """
create macro octet_length(x) as strlen(x);
create macro sha2(x, bits) as sha256(x);
create macro regexp_like(x, pattern) as regexp_matches(x, pattern);
create macro startswith(x, start) as starts_with(x, start);
create macro try_url_decode(x) as try(url_decode(x));
create macro try_to_timestamp(x) as try_cast(x as timestamptz);
create macro unix_seconds(t) as cast(floor(epoch(t)) as bigint);
create macro encoded_metadata(m map(varchar, varchar)) as case
    when cardinality(m) = 0 then '1:0'
    else strlen(cardinality(m)::varchar) || ':' || cardinality(m) || list_aggregate(
        list_transform(
            list_sort(map_keys(m)),
            lambda k: strlen(k) || ':' || k || strlen(m[k]) || ':' || m[k]
        ), 'string_agg', '')
end;
"""

_connect_lock = threading.Lock()
_connection: duckdb.DuckDBPyConnection | None = None


def _connect() -> duckdb.DuckDBPyConnection:
    """One DuckDB instance a process; each query runs on a cursor of its own."""
    global _connection  # noqa: PLW0603 - made once, under a lock
    with _connect_lock:
        if _connection is None:
            _connection = duckdb.connect(config={"preserve_insertion_order": True})
            _connection.execute(_MACROS)
        return _connection.cursor()


class Query:
    """A query that has not run: its text, and the queries and tables that the text names.

    Frames that are made of frames run as one query, with a common table expression for each.
    """

    _numbers = itertools.count()

    def __init__(self, sql: str, frames: Mapping[str, pa.Table | Query]) -> None:
        self.name = f"query_{next(self._numbers)}"
        self.tables: dict[str, pa.Table] = {}
        self.expressions: dict[str, str] = {}
        self.text = sql.format(**{key: self._add(frame) for key, frame in frames.items()}).strip()

    def _add(self, frame: pa.Table | Query) -> str:
        if isinstance(frame, Query):
            self.tables |= frame.tables
            self.expressions |= frame.expressions | {frame.name: frame.text}
            return frame.name
        name = f"table_{id(frame)}"
        self.tables[name] = frame
        return name

    @property
    def sql(self) -> str:
        """The whole statement."""
        if not self.expressions:
            return self.text
        named = ", ".join(f"{name} as ({text})" for name, text in self.expressions.items())
        if self.text.startswith("with "):
            return f"with {named}, {self.text.removeprefix('with ')}"
        return f"with {named} {self.text}"


class DuckDBEngine:
    """Frames are Arrow tables, or queries over such; results keep the order of their query."""

    name = "duckdb"
    entries_at_once: int | None = 1_000_000

    def __init__(self, store: Store, background: Background | None = None) -> None:
        """``background`` writes small trees; whoever passes one waits for it before something names them."""
        pool = ThreadPoolExecutor(os.cpu_count() or 2, thread_name_prefix="lakespark")
        self.reader = RangeReader(store, pool)
        self._writer = RangeWriter(store, self.reader, pool, background or Background(store.location, runs_now=True))

    def frame(self, table: pa.Table) -> Frame:
        return table

    def collect(self, frame: Frame) -> pa.Table:
        if not isinstance(frame, Query):
            return frame
        cursor = _connect()
        try:
            for name, table in frame.tables.items():
                cursor.register(name, table)
            return cursor.sql(frame.sql).to_arrow_table()
        finally:
            cursor.close()

    def keep(self, frame: Frame) -> Frame:
        return self.collect(frame)

    def query(self, sql: str, **frames: Frame) -> Frame:
        return Query(sql, frames)

    def read_ranges(self, ranges: Sequence[RangeRef], columns: Sequence[str]) -> Frame:
        return self.reader.read(ranges, columns)

    def read_numbered(self, ranges: Sequence[RangeRef], columns: Sequence[str]) -> Frame:
        counts = np.array([ref.count for ref in ranges], np.int64)
        numbers = np.repeat(np.arange(len(ranges)), counts)
        return self.reader.read(ranges, columns).append_column("range_number", pa.array(numbers, pa.int64()))

    def number_ranges(self, paths: Frame, max_paths: Sequence[str]) -> Frame:
        if not max_paths:
            return self.query("select *, 0 as range_number from {paths}", paths=paths)
        ranges = {"max_path": pa.array(max_paths, pa.string()), "range_number": pa.array(range(len(max_paths)))}
        return self.query(
            f"""
            select p.*, coalesce(r.range_number, {len(max_paths)}) as range_number
            from {{paths}} p asof left join {{ranges}} r on p.path <= r.max_path
            """,
            paths=paths,
            ranges=pa.table(ranges),
        )

    def write_ranges(self, rows: Frame, threshold: str, reuse: Mapping[str, RangeRef]) -> list[RangeRef]:
        return self.write_cut(self.cut(rows, threshold), reuse)

    def cut(self, rows: Frame, threshold: str, columns: Sequence[str] = ENTRY_COLUMNS) -> pa.Table:
        """Rows in order of path with these columns and ``is_cut``: whether a range ends at the path."""
        is_sorted = isinstance(rows, pa.Table) and is_ascending(rows["path"])
        sql = f"select {', '.join(columns)}, md5(path) < '{threshold}' as is_cut from {{rows}}"
        return self.collect(self.query(sql if is_sorted else f"{sql} order by path", rows=rows))

    def write_cut(self, rows: pa.Table, reuse: Mapping[str, RangeRef]) -> list[RangeRef]:
        """Write the ranges of rows as ``cut`` gives them, but those that ``reuse`` (by range id) holds."""
        return self._writer.write(rows.select(ENTRY_COLUMNS), rows["is_cut"].to_numpy(), reuse)
