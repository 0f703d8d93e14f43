"""Listing entries at a ref, committed and uncommitted, page by page so that the first page costs little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.algebra import listing as listing_sql
from lakespark.algebra import overlay as overlay_sql
from lakespark.engine import Engine
from lakespark.entries import ENTRY_COLUMNS
from lakespark.model import CommitRecord
from lakespark.names import prefix_end
from lakespark.operations import staged, trees
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import Resolved, commit_record
from lakespark.tree.metarange import Metarange, RangeRef

_FIRST_PAGE_RANGES = 1
_PAGE_GROWTH = 4


def entries(
    repository: OpenRepository, at: Resolved, *, prefix: str = "", after: str = "", engine: Engine | None = None
) -> Iterator[pa.Table]:
    """Pages of entries in order of path, below a prefix and above ``after``."""
    run = engine or repository.local_engine
    if at.branch is None:
        return _entries(run, repository.tree(at.record), None, prefix, after)
    return entries_in(repository, staged.newest_view(repository, at.expression), prefix=prefix, after=after, engine=run)


def entries_in(
    repository: OpenRepository,
    view: staged.StagedView,
    *,
    prefix: str = "",
    after: str = "",
    engine: Engine | None = None,
) -> Iterator[pa.Table]:
    """The same for a branch with what a view of its staging area holds."""
    run = engine or repository.local_engine
    tree = repository.tree(commit_record(repository, view.state.commit_id))
    changes = None
    if view.rows().num_rows:
        changes = trees.below(run, staged.changes(run, view, tree), [prefix] if prefix else [])
    return _entries(run, tree, changes, prefix, after)


def _entries(run: Engine, tree: Metarange, changes: object, prefix: str, after: str) -> Iterator[pa.Table]:
    start, end = max(prefix, after), prefix_end(prefix)
    for ranges, lower, upper in _pages(tree, start, end, changes):
        page = run.collect(_page(run, ranges, changes, lower, upper))
        yield _between(page, prefix, after, end)


def folders(
    repository: OpenRepository, at: Resolved, *, prefix: str = "", after: str = "", delimiter: str
) -> Iterator[pa.Table]:
    """Pages of entries with a column ``folder``: what stands behind the delimiter is one row a folder."""
    run = repository.local_engine
    parameters = pa.table({"delimiter": [delimiter], "start": [len(prefix) + 1]})
    last = after
    for page in entries(repository, at, prefix=prefix, after=after):
        rows = run.collect(run.query(listing_sql.FOLDERS, entries=page, parameters=parameters))
        rows = rows.filter(pc.greater(rows["path"], last))  # a folder may go on from page to page
        if rows.num_rows:
            last = rows["path"][-1].as_py()
            yield rows


def plain_entries(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Entries of a page as dicts."""
    names = [name for name in ENTRY_COLUMNS if name in rows.column_names]
    columns = [values(rows[name]) for name in names]
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def values(column: pa.ChunkedArray) -> Iterable[Any]:
    """A column as Python values: through NumPy, which makes them fastest. Maps become dicts."""
    if column.null_count == len(column):
        return repeat(None, len(column))
    if not pa.types.is_map(column.type):
        plain: list[Any] = column.to_numpy().tolist()
        return plain
    if not any(len(chunk.items) for chunk in column.chunks):
        return ({} for _ in range(len(column)))
    maps: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    return maps


def find(repository: OpenRepository, at: Resolved, path: str) -> dict[str, Any] | None:
    """The entry of one path at a ref, staged or committed, or None."""
    if at.branch is not None:
        return find_staged(repository, staged.newest_view(repository, at.expression), path)
    return _find_committed(repository, at.record, path)


def find_staged(repository: OpenRepository, view: staged.StagedView, path: str) -> dict[str, Any] | None:
    """The entry of one path on a branch with what is staged there, or None."""
    row = view.look_up(path)
    if row is not None and row.op == "put":
        return {name: row.row[name] for name in ENTRY_COLUMNS}
    if row is not None and row.op.startswith("delete"):
        return None
    return _find_committed(repository, commit_record(repository, view.state.commit_id), path)


def _find_committed(repository: OpenRepository, record: CommitRecord, path: str) -> dict[str, Any] | None:
    ref = repository.tree(record).find(path)
    return None if ref is None else repository.local_engine.reader.entry(ref, path)


def _pages(
    tree: Metarange, start: str, end: str | None, changes: object
) -> Iterator[tuple[Sequence[RangeRef], str, str | None]]:
    """Runs of ranges with the interval of paths (lower, upper] that each of them answers for."""
    ranges = tree.between(start, end)
    if not ranges:
        if changes is not None:
            yield (), "", None
        return
    size, lower, done = _FIRST_PAGE_RANGES, "", 0
    while done < len(ranges):
        page = ranges[done : done + size]
        done += len(page)
        upper = page[-1].max_path if done < len(ranges) else None
        yield page, lower, upper
        lower, size = page[-1].max_path, size * _PAGE_GROWTH


def _page(run: Engine, ranges: Sequence[RangeRef], changes: object, lower: str, upper: str | None) -> object:
    base = run.read_ranges(ranges, ENTRY_COLUMNS)
    if changes is None:
        return base
    here = run.query(listing_sql.WITHIN, changes=changes, bounds=run.frame(_bounds(lower, upper)))
    laid = run.query(overlay_sql.OVERLAY, base=base, changes=here)
    return run.query(listing_sql.IN_ORDER, entries=laid)


def _bounds(lower: str, upper: str | None) -> pa.Table:
    return pa.table({"lower": pa.array([lower], pa.string()), "upper": pa.array([upper], pa.string())})


def _between(page: pa.Table, prefix: str, after: str, end: str | None) -> pa.Table:
    if not page.num_rows:
        return page
    paths = page["path"]
    if (paths[0].as_py() < prefix) or (after and paths[0].as_py() <= after):
        page = page.filter(pc.and_(pc.greater_equal(paths, prefix), pc.greater(paths, after)))
    if end is not None and page.num_rows and page["path"][-1].as_py() >= end:
        page = page.filter(pc.less(page["path"], end))
    return page
