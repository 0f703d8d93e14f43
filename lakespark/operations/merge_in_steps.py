"""Merging several sources one after the other, of which no two change one path: compared once for all of them.

The rule is that of a single merge, and so are the trees. What needs more (several bases, a conflict, a path that an
earlier source changes as well) is left to single merges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakespark.algebra import changes as changes_sql
from lakespark.algebra import in_steps as in_steps_sql
from lakespark.algebra import three_way as three_way_sql
from lakespark.engine import Frame
from lakespark.entries import ENTRY_COLUMNS, IDENTITY_COLUMNS
from lakespark.operations import trees
from lakespark.operations.tree_steps import apply_in_steps
from lakespark.tree.metarange import Metarange, RangeRef

if TYPE_CHECKING:
    from lakespark.engine.duckdb import DuckDBEngine


@dataclass(frozen=True)
class Step:
    """One of the merges: the tree of its only base and that of its source, cut as the destination is."""

    base: Metarange
    source: Metarange

    @property
    def entries(self) -> int:
        """How many entries are read to compare the two."""
        return sum(ref.count for side in trees.differing(self.base, self.source) for ref in side)


def merge_in_steps(engine: DuckDBEngine, steps: Sequence[Step], destination: Metarange) -> Iterator[Metarange]:
    """The destination after each of the first merges, up to one that cannot be merged together with those before."""
    of_base, of_source = zip(*(trees.differing(step.base, step.source) for step in steps), strict=True)
    source_rows = _numbered(engine, of_source, ENTRY_COLUMNS)
    changes = engine.collect(
        engine.query(changes_sql.CHANGES_IN_STEPS, left=_numbered(engine, of_base, IDENTITY_COLUMNS), right=source_rows)
    )
    count = _first_repeated(changes, len(steps) + 1) - 1
    outcomes = engine.collect(_outcomes(engine, _upto(changes, count), destination))
    conflicts = outcomes.filter(pc.equal(outcomes["outcome"], "conflict"))
    count = min([count + 1, *conflicts["step"].to_pylist()]) - 1
    taken = _upto(outcomes.filter(pc.equal(outcomes["outcome"], "source")), count)
    entries = engine.query(in_steps_sql.OWN_ENTRIES, entries=source_rows, paths=taken)
    put = engine.query(three_way_sql.PUT_OR_DELETE, paths=taken, entries=entries)
    laid_over = engine.collect(engine.query(in_steps_sql.OF_STEPS, changes=put, paths=taken))
    return apply_in_steps(engine, destination, laid_over, [step.source.by_id for step in steps[:count]])


def _numbered(engine: DuckDBEngine, ranges: Sequence[Sequence[RangeRef]], columns: Sequence[str]) -> pa.Table:
    """The entries of the ranges of each step, with its number from 1."""
    tables = [engine.read_ranges(of_step, columns) for of_step in ranges]
    numbers = np.repeat(np.arange(1, len(tables) + 1), [table.num_rows for table in tables])
    return pa.concat_tables(tables).append_column("step", pa.array(numbers, pa.int64()))


def _first_repeated(changes: pa.Table, none: int) -> int:
    """The first step that changes a path which an earlier one changes as well."""
    seen: set[str] = set()
    for step, path in sorted(zip(changes["step"].to_pylist(), changes["path"].to_pylist(), strict=True)):
        if path in seen:
            return int(step)
        seen.add(path)
    return none


def _upto(rows: pa.Table, step: int) -> pa.Table:
    return rows.filter(pc.less_equal(rows["step"], step))


def _outcomes(engine: DuckDBEngine, changes: pa.Table, destination: Metarange) -> Frame:
    """The three-way table of all steps: ``step, path, outcome``."""
    found = trees.entries_at(engine, destination, changes, IDENTITY_COLUMNS)
    bases = engine.query(in_steps_sql.BASES, changes=changes)
    merged = engine.query(
        three_way_sql.THREE_WAY,
        source_changes=changes,
        destination_changes=trees.changes_of(engine, bases, found),
    )
    return engine.query(in_steps_sql.OUTCOMES, merged=merged, changes=changes)
