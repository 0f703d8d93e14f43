"""The in-process engine: DuckDB over Arrow tables."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakespark.engine.interface import Frame
from lakespark.entries import ENTRY_COLUMNS
from lakespark.storage import Store
from lakespark.tree.metarange import RangeRef
from lakespark.tree.range_files import RangeReader, write_ranges

_MACROS = """
create macro octet_length(x) as strlen(x);
create macro sha2(x, bits) as sha256(x);
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


class DuckDBEngine:
    """Frames are Arrow tables; results keep the order of their query."""

    name = "duckdb"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(os.cpu_count() or 2, thread_name_prefix="lakespark")
        self.reader = RangeReader(store, self._pool)

    def frame(self, table: pa.Table) -> Frame:
        return table

    def collect(self, frame: Frame) -> pa.Table:
        return frame

    def keep(self, frame: Frame) -> Frame:
        return frame

    def query(self, sql: str, **frames: Frame) -> Frame:
        cursor = _connect()
        try:
            for name, frame in frames.items():
                cursor.register(f"frame_{name}", frame)
            return cursor.sql(sql.format(**{name: f"frame_{name}" for name in frames})).to_arrow_table()
        finally:
            cursor.close()

    def read_ranges(self, ranges: Sequence[RangeRef], columns: Sequence[str]) -> Frame:
        return self.reader.read(ranges, columns)

    def number_ranges(self, paths: Frame, max_paths: Sequence[str]) -> Frame:
        ranges = pa.table(
            {"max_path": pa.array(max_paths, pa.string()), "range_number": pa.array(range(len(max_paths)), pa.int64())}
        )
        if not max_paths:
            return paths.append_column("range_number", pa.repeat(pa.scalar(0, pa.int64()), paths.num_rows))
        return self.query(
            f"""
            select p.*, coalesce(r.range_number, {len(max_paths)}) as range_number
            from {{paths}} p asof left join {{ranges}} r on p.path <= r.max_path
            """,
            paths=paths,
            ranges=ranges,
        )

    def write_ranges(self, rows: Frame, threshold: str, reuse: Mapping[str, RangeRef]) -> list[RangeRef]:
        order = "" if _is_sorted(rows["path"]) else "order by path"
        columns = ", ".join(ENTRY_COLUMNS)
        cut = self.query(f"select {columns}, md5(path) < '{threshold}' as is_cut from {{rows}} {order}", rows=rows)
        cuts: np.ndarray = cut["is_cut"].to_numpy()
        return write_ranges(self._store, cut, cuts, reuse, self._pool)


def _is_sorted(paths: pa.ChunkedArray) -> bool:
    if len(paths) <= 1:
        return True
    return bool(pc.all(pc.less(paths.slice(0, len(paths) - 1), paths.slice(1))).as_py())
