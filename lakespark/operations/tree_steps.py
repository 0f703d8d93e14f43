"""A tree after each of several steps that change it, no two of them at one path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakespark.algebra import in_steps as in_steps_sql
from lakespark.entries import ENTRY_COLUMNS
from lakespark.operations import trees
from lakespark.tree.metarange import Metarange, RangeRef

if TYPE_CHECKING:
    from lakespark.engine.duckdb import DuckDBEngine

_FOR_EVER = np.iinfo(np.int64).max


def apply_in_steps(
    engine: DuckDBEngine, base: Metarange, changes: pa.Table, reuse: Sequence[Mapping[str, RangeRef]]
) -> Iterator[Metarange]:
    """The trees that ``trees.apply_changes`` makes one after the other, step by step.

    ``changes`` carry the ``step`` (from 1) that they belong to. ``reuse`` has for each step the ranges that may be
    taken instead of writing them, beside those of the tree before it.
    """
    steps = _Steps(engine, base, changes)
    tree = base
    for step, ranges in enumerate(reuse, 1):
        tree = steps.after(step, tree, ranges)
        yield tree


class _Steps:
    """The rows of all the ranges that any step touches, in order of path, and in which steps each is there."""

    def __init__(self, engine: DuckDBEngine, base: Metarange, changes: pa.Table) -> None:
        self._engine = engine
        touched = [base.ranges[number] for number in sorted(trees.touched_by(engine, base, changes).numbers)]
        rows = engine.query(
            in_steps_sql.OVERLAY_IN_STEPS, base=engine.read_ranges(touched, ENTRY_COLUMNS), changes=changes
        )
        self._rows = engine.cut(rows, base.threshold, (*ENTRY_COLUMNS, "since", "until")).combine_chunks()
        self._is_cut = self._rows["is_cut"].to_numpy()
        self._since = self._rows["since"].to_numpy()
        self._until = self._rows["until"].fill_null(_FOR_EVER).to_numpy()

    def after(self, step: int, tree: Metarange, reuse: Mapping[str, RangeRef]) -> Metarange:
        """The tree after a step, from the one before it."""
        changed = np.flatnonzero((self._since == step) | (self._until == step))
        if not len(changed):
            return tree
        stretch = self._around(changed, step)
        before = stretch[(self._since[stretch] < step) & (self._until[stretch] >= step)]
        now = stretch[(self._since[stretch] <= step) & (self._until[stretch] > step)]
        written = self._engine.write_cut(self._rows.take(now), {**reuse, **tree.by_id})
        gone = self._last_paths(before)
        kept = [ref for ref in tree.ranges if ref.max_path not in gone]
        return Metarange(tree.threshold, tuple(sorted(kept + written, key=lambda ref: ref.min_path)))

    def _around(self, changed: np.ndarray, step: int) -> np.ndarray:
        """The rows around changed ones up to the next cuts on both sides that are there before and after the step."""
        cuts = np.flatnonzero(self._is_cut & (self._since < step) & (self._until > step))
        bounds = np.concatenate(([0], cuts + 1, [len(self._is_cut)]))
        numbers = np.unique(np.searchsorted(cuts, changed))
        return np.concatenate([np.arange(bounds[number], bounds[number + 1]) for number in numbers])

    def _last_paths(self, rows: np.ndarray) -> set[str]:
        """The paths at which the ranges of these rows end."""
        ends = rows[self._is_cut[rows]]
        return set(self._rows["path"].take(np.append(ends, rows[-1:])).to_pylist())
