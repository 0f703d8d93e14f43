"""Trees as a whole: what differs between two, what stands at some paths, and a tree after changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from lakespark.algebra import changes as changes_sql
from lakespark.algebra import overlay as overlay_sql
from lakespark.engine import Engine, Frame
from lakespark.entries import ENTRY_COLUMNS, IDENTITY_COLUMNS
from lakespark.tree.metarange import Metarange, RangeRef


def differing(left: Metarange, right: Metarange, prefix: str = "") -> tuple[tuple[RangeRef, ...], tuple[RangeRef, ...]]:
    """The ranges of each side that the other does not have, below a prefix. Equal ids mean equal entries."""
    return (
        tuple(ref for ref in left.with_prefix(prefix) if ref.range_id not in right.by_id),
        tuple(ref for ref in right.with_prefix(prefix) if ref.range_id not in left.by_id),
    )


def changes_between(engine: Engine, left: Metarange, right: Metarange, prefix: str = "") -> Frame:
    """Paths that differ, with ``left_identity`` and ``right_identity``. Reads only ranges that differ."""
    left_ranges, right_ranges = differing(left, right, prefix)
    found = changes_of(
        engine,
        engine.read_ranges(left_ranges, IDENTITY_COLUMNS),
        engine.read_ranges(right_ranges, IDENTITY_COLUMNS),
    )
    return below(engine, found, [prefix] if prefix else [])


def changes_of(engine: Engine, left: Frame, right: Frame) -> Frame:
    """The same for frames with path and identity."""
    return engine.query(changes_sql.CHANGES, left=left, right=right)


def below(engine: Engine, rows: Frame, prefixes: Sequence[str]) -> Frame:
    """The rows whose paths start with one of the prefixes; all of them if none is given."""
    if not prefixes:
        return rows
    table = pa.table({"prefix": pa.array(prefixes, pa.string())})
    return engine.query(changes_sql.BELOW, rows=rows, prefixes=engine.frame(table))


def ranges_at(engine: Engine, tree: Metarange, paths: Frame) -> tuple[RangeRef, ...]:
    """The ranges that may hold some of the paths."""
    if not tree.ranges:
        return ()
    numbered = engine.number_ranges(engine.query("select path from {paths}", paths=paths), tree.max_paths)
    numbers = engine.collect(engine.query("select distinct range_number from {numbered}", numbered=numbered))
    return tuple(tree.ranges[n] for n in sorted(numbers["range_number"].to_pylist()) if n < len(tree.ranges))


def entries_at(engine: Engine, tree: Metarange, paths: Frame, columns: tuple[str, ...] = ENTRY_COLUMNS) -> Frame:
    """The entries of a tree at some paths, in no particular order."""
    entries = engine.read_ranges(ranges_at(engine, tree, paths), columns)
    return engine.query(changes_sql.AT_PATHS, entries=entries, paths=paths)


def apply_changes(engine: Engine, base: Metarange, changes: Frame, reuse: Mapping[str, RangeRef]) -> Metarange:
    """The tree after changes (one a path: ``path``, ``op`` and for a put the entry).

    Ranges that no change touches are taken over unread. A rewritten range whose id stands in ``reuse`` is not
    written: that range is taken.
    """
    touched = touched_by(engine, base, changes)
    stretches = list(_stretches(base, touched, engine.entries_at_once))
    if len(stretches) > 1:
        changes = engine.keep(changes)
    written: list[RangeRef] = []
    for stretch in stretches:
        rows = engine.query(
            overlay_sql.OVERLAY,
            base=engine.read_ranges([base.ranges[number] for number in stretch.numbers], ENTRY_COLUMNS),
            changes=changes if len(stretches) == 1 else _within(engine, changes, stretch),
        )
        written += engine.write_ranges(rows, base.threshold, reuse)
    kept = [ref for number, ref in enumerate(base.ranges) if number not in touched.numbers]
    return Metarange(base.threshold, tuple(sorted(kept + written, key=lambda ref: ref.min_path)))


class Touched(NamedTuple):
    """Ranges of a tree that must be written anew, by their numbers, and those among them that lose their last path."""

    numbers: frozenset[int]
    without_cut: frozenset[int]


class _Stretch(NamedTuple):
    """Touched ranges, and where the changes to them lie: above ``after``, up to ``upto``. None: no limit."""

    numbers: Sequence[int]
    after: str | None
    upto: str | None


def _stretches(base: Metarange, touched: Touched, most_entries: int | None) -> Iterator[_Stretch]:
    """The touched ranges in pieces that can be written one by one: each but the last ends with a cut that stays."""
    numbers: list[int] = []
    after, entries = None, 0
    for number in sorted(touched.numbers):
        numbers.append(number)
        entries += base.ranges[number].count
        ends = number not in touched.without_cut and number + 1 < len(base.ranges)
        if most_entries is not None and entries >= most_entries and ends:
            yield _Stretch(numbers, after, base.max_paths[number])
            numbers, after, entries = [], base.max_paths[number], 0
    yield _Stretch(numbers, after, None)


def _within(engine: Engine, changes: Frame, stretch: _Stretch) -> Frame:
    limits = pa.table({"after": pa.array([stretch.after], pa.string()), "upto": pa.array([stretch.upto], pa.string())})
    return engine.query(overlay_sql.WITHIN, changes=changes, limits=engine.frame(limits))


def touched_by(engine: Engine, base: Metarange, changes: Frame) -> Touched:
    """Which ranges of a tree changes have written anew."""
    paths = engine.query("select path, op from {changes}", changes=changes)
    numbered = engine.number_ranges(paths, base.max_paths)
    ranges = pa.table(
        {
            "range_number": pa.array(range(len(base.ranges)), pa.int64()),
            "max_path": pa.array(base.max_paths, pa.string()),
        }
    )
    hit = engine.collect(engine.query(overlay_sql.TOUCHED, changes=numbered, ranges=engine.frame(ranges))).to_pylist()
    without_cut = frozenset(row["range_number"] for row in hit if row["loses_cut"])
    return Touched(base.touched([row["range_number"] for row in hit], without_cut), without_cut)
