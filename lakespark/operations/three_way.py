"""Three-way merges of trees: what to take from the source, and what nobody can decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from lakespark.algebra import three_way as three_way_sql
from lakespark.engine import Engine, Frame
from lakespark.entries import ENTRY_COLUMNS, ENTRY_SCHEMA
from lakespark.errors import BadRequestException, InvalidResolutionError, MergeConflictError
from lakespark.model import CommitRecord
from lakespark.operations import trees
from lakespark.operations.bases import base_changes, involved
from lakespark.operations.opened import EngineName, OpenRepository
from lakespark.operations.resolutions import Resolutions
from lakespark.tree.metarange import Metarange

Strategy = Literal["source-wins", "dest-wins"]
STRATEGIES = ("source-wins", "dest-wins")
CONFLICT_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("conflict", pa.string()),
        *(
            (f"{side}_{name}", pa.int64() if name == "size_bytes" else pa.string())
            for side in ("base", "source", "destination")
            for name in ("identity", "size_bytes", "physical_address")
        ),
    ]
)
"""A table of conflicts: see ``MergeConflictError``."""
_NAMED = 5


@dataclass(frozen=True)
class Sides:
    """What is merged: bases, source and destination trees, and what to call the two sides in messages."""

    bases: Sequence[CommitRecord]
    source: Metarange
    destination: Metarange
    names: tuple[str, str]


@dataclass(frozen=True)
class Merged:
    """The tree of a merge, whether the source changed anything, and the conflicts that a strategy decided."""

    tree: Metarange
    source_changed: bool
    conflicts: pa.Table


def merge_trees(
    repository: OpenRepository,
    sides: Sides,
    *,
    strategy: Strategy | None,
    resolutions: Resolutions,
    engine: EngineName | None,
) -> Merged:
    """Merge source into destination. Raises MergeConflictError with the table of all conflicts that are left."""
    if _is_fast_forward(repository, sides) and not len(resolutions):
        return Merged(sides.source, sides.source.id != sides.destination.id, CONFLICT_SCHEMA.empty_table())
    merging = _Merging(repository, sides, resolutions, engine)
    outcomes = merging.outcomes()
    conflicts = merging.conflicts() if "conflict" in outcomes else CONFLICT_SCHEMA.empty_table()
    if conflicts.num_rows and strategy is None:
        raise MergeConflictError(_describe(conflicts, sides.names), conflicts)
    source_changed = bool(outcomes) or len(resolutions) > 0
    taken = {"source", "conflict"} if strategy == "source-wins" else {"source"}
    if not outcomes & taken and not len(resolutions):
        return Merged(sides.destination, source_changed, conflicts)
    changes = merging.changes(taken)
    reuse = {**sides.source.by_id, **sides.destination.by_id}
    tree = trees.apply_changes(merging.engine, sides.destination, changes, reuse)
    return Merged(tree, source_changed, conflicts)


def _is_fast_forward(repository: OpenRepository, sides: Sides) -> bool:
    """Whether the destination is as the only base left it, so that the source's tree is the answer."""
    destination = sides.destination
    return (
        len(sides.bases) == 1
        and repository.tree(sides.bases[0]).id == destination.id
        and sides.source.threshold == destination.threshold
    )


def check_strategy(strategy: str | None) -> None:
    """Raises BadRequestException for an unknown strategy."""
    if strategy is not None and strategy not in STRATEGIES:
        raise BadRequestException(f"unknown merge strategy {strategy!r}: use {' or '.join(STRATEGIES)}")


def compare(repository: OpenRepository, engine: Engine, sides: Sides) -> Frame:
    """The three-way table: a row a path that the source changed."""
    both = base_changes(repository, engine, sides.bases, (sides.source, sides.destination))
    return engine.keep(engine.query(three_way_sql.THREE_WAY, source_changes=both[0], destination_changes=both[1]))


def engine_for(repository: OpenRepository, sides: Sides, name: EngineName | None) -> Engine:
    """The engine for comparing these sides, by the entries of the ranges that differ from the bases."""
    ranges = [
        ref
        for base in map(repository.tree, sides.bases)
        for side in (sides.source, sides.destination)
        for part in trees.differing(base, side)
        for ref in part
    ]
    return repository.engine(name, tuple(ranges))


class _Merging:
    """One merge under way: its engine and its three-way table."""

    def __init__(
        self, repository: OpenRepository, sides: Sides, resolutions: Resolutions, engine: EngineName | None
    ) -> None:
        self.engine = engine_for(repository, sides, engine)
        self._repository = repository
        self._sides = sides
        self._resolutions = resolutions
        self._table = compare(repository, self.engine, sides)
        self._open = resolutions.open_paths(self.engine, self._table)

    def outcomes(self) -> set[str]:
        """Which outcomes there are among the paths that no resolution decides."""
        found = self.engine.query("select distinct outcome from {open}", open=self._open)
        return set(self.engine.collect(found)["outcome"].to_pylist())

    def conflicts(self) -> pa.Table:
        """The open conflicts, with what base, source and destination have there."""
        run, sides = self.engine, self._sides
        rows = run.keep(run.query("select * from {open} where outcome = 'conflict'", open=self._open))
        return run.collect(
            run.query(
                three_way_sql.UNRESOLVED,
                merged=rows,
                base=self._base_entries(rows),
                source=trees.entries_at(run, sides.source, rows),
                destination=trees.entries_at(run, sides.destination, rows),
            )
        )

    def changes(self, taken: Iterable[str]) -> Frame:
        """What to lay over the destination: the outcomes taken from the source, and what the resolutions say."""
        outcomes = ", ".join(f"'{outcome}'" for outcome in taken)
        picked = self.engine.query(f"select path from {{open}} where outcome in ({outcomes})", open=self._open)
        parts = [self._take(self._sides.source, picked), *self._resolved()]
        union = " union all ".join(f"select * from {{part{i}}}" for i in range(len(parts)))
        return self.engine.keep(self.engine.query(union, **{f"part{i}": part for i, part in enumerate(parts)}))

    def _resolved(self) -> list[Frame]:
        run, resolutions = self.engine, self._resolutions
        parts = []
        for choice in ("source", "base", "deleted"):
            paths = resolutions.paths(choice)
            if paths.num_rows:
                entries = {"source": self._source_entries, "base": self._base_choice, "deleted": self._no_entries}
                parts.append(self._put(run.frame(paths), entries[choice](run.frame(paths))))
        if resolutions.entries is not None:
            own = run.frame(resolutions.entries)
            parts.append(self._put(own, own))
        return parts

    def _take(self, tree: Metarange, paths: Frame) -> Frame:
        return self._put(paths, trees.entries_at(self.engine, tree, paths))

    def _put(self, paths: Frame, entries: Frame) -> Frame:
        return self.engine.query(three_way_sql.PUT_OR_DELETE, paths=paths, entries=entries)

    def _source_entries(self, paths: Frame) -> Frame:
        return trees.entries_at(self.engine, self._sides.source, paths)

    def _no_entries(self, _paths: Frame) -> Frame:
        return self.engine.frame(ENTRY_SCHEMA.empty_table())

    def _base_choice(self, paths: Frame) -> Frame:
        """The base's entries; where the source changed nothing its own are the base's."""
        run = self.engine
        rows = run.query(three_way_sql.BASE_OF, paths=paths, merged=self._table)
        changed = run.keep(run.query("select path, base_identity from {rows} where is_changed", rows=rows))
        found = run.keep(self._base_entries(changed))
        lost = run.collect(run.query(three_way_sql.WITHOUT_BASE, rows=changed, entries=found))["path"].to_pylist()
        if lost:
            raise InvalidResolutionError(f"the bases of {lost[0]!r} are in conflict themselves: it has no base to take")
        unchanged = run.query("select path from {rows} where not is_changed", rows=rows)
        return run.query(
            "select * from {changed} union all select * from {unchanged}",
            changed=found,
            unchanged=self._source_entries(unchanged),
        )

    def _base_entries(self, rows: Frame) -> Frame:
        """Entries with the ``base_identity`` of their path, from whichever commit gave it to the base."""
        run = self.engine
        found = [
            run.query(
                three_way_sql.OF_IDENTITY,
                rows=rows,
                entries=trees.entries_at(run, self._repository.tree(record), rows),
            )
            for record in involved(self._repository, self._sides.bases)
        ]
        union = " union all ".join(f"select * from {{base{i}}}" for i in range(len(found)))
        entries = run.query(union, **{f"base{i}": frame for i, frame in enumerate(found)})
        return run.query(three_way_sql.ONE_A_PATH % ", ".join(ENTRY_COLUMNS), entries=entries)


def _describe(conflicts: pa.Table, names: tuple[str, str]) -> str:
    paths: list[str] = conflicts["path"].to_pylist()
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return (
        f"merging {names[0]} into {names[1]}: {len(paths)} path{'s' * (len(paths) != 1)} changed on both sides "
        f"({', '.join(paths[:_NAMED])}{more}); nothing was changed. Choose a strategy, or give resolutions"
    )
