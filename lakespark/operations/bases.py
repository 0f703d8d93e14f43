"""The base of a merge: one commit, or the virtual commit that several best merge bases fold into.

With several best bases, the base of a path is the three-way merge of the bases over *their* bases, recursively,
the oldest first, as git's recursive strategy does with whole files. Only paths and identities are folded, and
only those of ranges that the commits involved do not all share.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from lakespark import graph
from lakespark.algebra import three_way as three_way_sql
from lakespark.engine import Engine, Frame
from lakespark.entries import ENTRY_SCHEMA, IDENTITY_COLUMNS
from lakespark.model import CommitRecord
from lakespark.operations import resolve, trees
from lakespark.operations.opened import OpenRepository
from lakespark.tree.metarange import Metarange

_VIRTUAL = "virtual"


def merge_bases(repository: OpenRepository, left: str, right: str) -> list[CommitRecord]:
    """The best common ancestors of two commits, the oldest first."""
    found = graph.merge_bases(
        lambda commit: resolve.parents(repository, commit),
        left,
        right,
        number=lambda commit: resolve.number(repository, commit),
    )
    return oldest_first([resolve.commit_record(repository, commit) for commit in found])


def base_changes(
    repository: OpenRepository, engine: Engine, bases: Sequence[CommitRecord], sides: Sequence[Metarange]
) -> list[Frame]:
    """For each side, its changes from the base (path, left_identity, right_identity)."""
    if len(bases) == 1:
        base = repository.tree(bases[0])
        return [trees.changes_between(engine, base, side) for side in sides]
    fold = _Fold(repository, engine, sides)
    return fold.changes(bases)


def involved(repository: OpenRepository, bases: Sequence[CommitRecord]) -> list[CommitRecord]:
    """The bases and, of several, the bases that they are folded over: where the values of the base come from."""
    found = {record.commit.id: record for record in bases}
    for merged, record in _pairs(bases):
        for deeper in involved(repository, _bases_of(repository, merged, record)):
            found[deeper.commit.id] = deeper
    return list(found.values())


def _bases_of(repository: OpenRepository, merged: Sequence[CommitRecord], record: CommitRecord) -> list[CommitRecord]:
    """The best bases of a commit and the virtual commit whose parents are those merged so far."""
    virtual_parents = [parent.commit.id for parent in merged]
    above = max(parent.number for parent in merged) + 1

    def parents(commit: str) -> Sequence[str]:
        return virtual_parents if commit == _VIRTUAL else resolve.parents(repository, commit)

    def number(commit: str) -> int:
        return above if commit == _VIRTUAL else resolve.number(repository, commit)

    found = graph.merge_bases(parents, _VIRTUAL, record.commit.id, number=number)
    return oldest_first([resolve.commit_record(repository, commit) for commit in found])


def oldest_first(records: Sequence[CommitRecord]) -> list[CommitRecord]:
    """Bases in the order in which they are folded."""
    return sorted(records, key=lambda record: (record.commit.creation_date, record.number))


class _Fold:
    """One recursive merge of bases."""

    def __init__(self, repository: OpenRepository, engine: Engine, sides: Sequence[Metarange]) -> None:
        self._repository = repository
        self._engine = engine
        self._sides = sides
        self._conflicts = itertools.count()
        self._shared: frozenset[str] = frozenset()

    def changes(self, bases: Sequence[CommitRecord]) -> list[Frame]:
        involved_in = involved(self._repository, bases)
        range_ids = [set(tree.by_id) for tree in (*self._sides, *(self._repository.tree(r) for r in involved_in))]
        self._shared = frozenset.intersection(*map(frozenset, range_ids))
        base = self._fold(bases)
        return [trees.changes_of(self._engine, base, self._entries(side)) for side in self._sides]

    def _fold(self, bases: Sequence[CommitRecord]) -> Frame:
        if not bases:
            return self._engine.frame(ENTRY_SCHEMA.empty_table().select(IDENTITY_COLUMNS))
        value = self._entries(self._repository.tree(bases[0]))
        for merged, record in _pairs(bases):
            value = self._merge(self._fold(_bases_of(self._repository, merged, record)), record, value)
        return value

    def _merge(self, base: Frame, source: CommitRecord, destination: Frame) -> Frame:
        engine = self._engine
        merged = engine.query(
            three_way_sql.THREE_WAY,
            source_changes=trees.changes_of(engine, base, self._entries(self._repository.tree(source))),
            destination_changes=trees.changes_of(engine, base, destination),
        )
        folded = engine.query(three_way_sql.FOLD_BASES % next(self._conflicts), merged=merged)
        return engine.keep(engine.query(three_way_sql.APPLY_FOLDED, destination=destination, folded=folded))

    def _entries(self, tree: Metarange) -> Frame:
        ranges = [ref for ref in tree.ranges if ref.range_id not in self._shared]
        return self._engine.keep(self._engine.read_ranges(ranges, IDENTITY_COLUMNS))


def _pairs(bases: Sequence[CommitRecord]) -> list[tuple[Sequence[CommitRecord], CommitRecord]]:
    """For each base after the first: those that are merged before it, and it."""
    return [(bases[:count], bases[count]) for count in range(1, len(bases))]
