"""The columns of entries, in ranges and in staged rows: legal values, right identities, cuts where they must be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakespark import digest
from lakespark.algebra.identity import WITH_IDENTITY
from lakespark.entries import DATA_COLUMNS, ENTRY_COLUMNS
from lakespark.names import MAX_PATH_BYTES
from lakespark.operations.opened import OpenRepository
from lakespark.tree.metarange import is_cut

_SMALL_ROWS = 1000
"""Fewer rows than this are computed in Python: a query costs more."""
_NEVER_NULL = tuple(name for name in ENTRY_COLUMNS if name not in DATA_COLUMNS)


def wrong_entries(opened: OpenRepository, rows: pa.Table) -> list[str]:
    """What is wrong with rows that must be entries, a line a rule, each with the first path that breaks it."""
    problems = [
        f"{_first(rows, broken)}: {rule}" for rule, broken in _rules(rows) if pc.any(broken, min_count=0).as_py()
    ]
    if problems:
        return problems
    computed = _identities(opened, rows)
    differs = pc.fill_null(pc.not_equal(rows["identity"].combine_chunks(), computed), fill_value=True)
    if not pc.any(differs, min_count=0).as_py():
        return []
    place = pc.index(differs, value=True).as_py()
    stated = rows["identity"][place].as_py()
    return [f"{_first(rows, differs)}: its identity is {computed[place].as_py()}, and {stated} is said"]


def cuts(opened: OpenRepository, rows: pa.Table, threshold: str) -> np.ndarray:
    """Whether a range ends at each path."""
    if rows.num_rows < _SMALL_ROWS:
        return np.array([is_cut(path, threshold) for path in rows["path"].to_pylist()], bool)
    engine = opened.local_engine
    sql = f"select md5(path) < '{threshold}' as is_cut from {{rows}}"
    return np.asarray(engine.collect(engine.query(sql, rows=rows.select(["path"])))["is_cut"].to_numpy(), bool)


def _rules(rows: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Rules, each with whether a row breaks it."""
    for name in _NEVER_NULL:
        yield f"{name} is null", pc.is_null(rows[name])
    size = pc.binary_length(rows["path"])
    yield "not a legal path", pc.or_(pc.equal(size, 0), pc.greater(size, MAX_PATH_BYTES))
    yield "a path with a NUL character", pc.match_substring(rows["path"], "\0")
    yield "its size is negative", pc.less(rows["size_bytes"], 0)
    yield "it has no physical address", pc.equal(rows["physical_address"], "")


def _identities(opened: OpenRepository, rows: pa.Table) -> pa.Array:
    if rows.num_rows >= _SMALL_ROWS:
        engine = opened.local_engine
        computed = engine.collect(engine.query(WITH_IDENTITY, entries=rows.select(ENTRY_COLUMNS)))
        return computed["identity"].combine_chunks()
    columns = (rows[name].to_pylist() for name in ("size_bytes", "checksum", "content_type", "metadata"))
    identities = [
        digest.entry_identity(size, checksum, content_type, dict(metadata))
        for size, checksum, content_type, metadata in zip(*columns, strict=True)
    ]
    return pa.array(identities, pa.string())


def _first(rows: pa.Table, broken: pa.ChunkedArray) -> str:
    return repr(rows["path"][pc.index(broken, value=True).as_py()].as_py())
