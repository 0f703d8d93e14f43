"""A chain of merges into one branch, each on top of the one before, before the ledger has any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lakespark import graph
from lakespark.errors import MergeConflictError, NothingToMergeError
from lakespark.model import CommitRecord
from lakespark.operations import merge as merges
from lakespark.operations import resolve
from lakespark.operations.bases import oldest_first
from lakespark.operations.commit import new_commits
from lakespark.operations.merge import Destination, Outcome, Wanted
from lakespark.operations.merge_in_steps import Step, merge_in_steps
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolutions import Resolutions
from lakespark.operations.resolve import Resolved, commit_record
from lakespark.operations.three_way import CONFLICT_SCHEMA
from lakespark.tree.metarange import Metarange
from lakespark.tree.range_files import CACHED_RANGES

TOGETHER = 24
"""So many sources are read at once while those before them are merged, and at most so many are merged together."""
ENTRIES_TOGETHER = 250_000
"""Sources whose differing ranges have more entries than this are not merged together."""


@dataclass(frozen=True)
class _Source:
    """A source with its tree; ``place`` is its number from 0."""

    place: int
    resolved: Resolved
    tree: Metarange


@dataclass(frozen=True)
class _Planned:
    """A source that may be merged together with others, over its only base."""

    source: _Source
    base: CommitRecord
    step: Step


class MergeChain:
    """Merges of several sources, in their order; ``into`` is what they have come to so far.

    ``outcomes`` has one a source, None where the branch had everything; ``records`` their commits.
    """

    def __init__(self, repository: OpenRepository, into: Destination, sources: Sequence[str], wanted: Wanted) -> None:
        self.into = into
        self.records: list[CommitRecord] = []
        self.outcomes: list[Outcome | None] = [None] * len(sources)
        self._sources = sources
        self._repository = repository
        self._wanted = wanted
        self._no_resolutions = Resolutions.parse(repository, None)
        self._parents = partial(resolve.parents, repository)
        self._number = partial(resolve.number, repository)
        self._merged = graph.ancestors(self._parents, [into.head.commit.id])
        self._limit = TOGETHER if repository.engine(wanted.engine) is repository.local_engine else 1
        self._together = self._limit

    def merge_all(self) -> None:
        """Merge all sources. Raises MergeConflictError that names its source."""
        reading = self._begin_reading(0)
        for start in range(0, len(self._sources), TOGETHER):
            sources = reading()
            reading = self._begin_reading(start + TOGETHER)
            while sources:
                sources = sources[self._merge_first_of(sources) :]

    def _begin_reading(self, start: int) -> Callable[[], list[_Source]]:
        """Some sources with their trees; of those that differ in few ranges, these are then in the cache."""
        places = range(start, min(start + TOGETHER, len(self._sources)))
        found = [(place, resolve.resolve(self._repository, self._sources[place])) for place in places]
        known, reader = self.into.tree.by_id, self._repository.local_engine.reader

        def read(numbered: tuple[int, Resolved]) -> _Source:
            source = _Source(*numbered, self._repository.tree(numbered[1].record))
            differing = [ref for ref in source.tree.ranges if ref.range_id not in known]
            if len(differing) <= CACHED_RANGES:
                reader.read(differing)
            return source

        return self._repository.ledger.background.ahead(read, found)

    def _merge_first_of(self, sources: Sequence[_Source]) -> int:
        """Merge the first of these, several together if possible. How many are done with."""
        plan, done = self._plan(sources)
        self._together = min(2 * self._together, self._limit)
        landed = self._merge_together(plan) if len(plan) > 1 else 0
        if landed < len(plan):
            done = plan[landed].source.place - sources[0].place
        if not landed and done < len(sources):
            self._merge_alone(sources[done])
            done += 1
        return done

    def _plan(self, sources: Sequence[_Source]) -> tuple[list[_Planned], int]:
        """Sources that may be merged together, before any are compared, and how many were looked at for them.

        Those of which the branch has everything are passed over.
        """
        plan: list[_Planned] = []
        merged, entries = set(self._merged), 0
        for number, source in enumerate(sources[: self._together]):
            bases = self._bases(source, merged)
            if len(bases) != 1 or merges.refusal(source.resolved, self.into.branch) is not None:
                return plan, number
            planned = _Planned(source, bases[0], Step(self._repository.tree(bases[0]), source.tree))
            if self._is_nothing(planned):
                continue
            entries += planned.step.entries
            if entries > ENTRIES_TOGETHER or not self._can_be_a_step(planned, is_first=not plan):
                return plan, number
            plan.append(planned)
            merged |= graph.ancestors(self._parents, [source.resolved.commit_id], outside=merged)
        return plan, min(len(sources), self._together)

    def _bases(self, source: _Source, merged: set[str]) -> list[CommitRecord]:
        found = graph.best_among(self._parents, source.resolved.commit_id, merged, number=self._number)
        return oldest_first([commit_record(self._repository, commit) for commit in found])

    def _is_nothing(self, planned: _Planned) -> bool:
        """Whether there is nothing to merge: the source has no commit of its own, or changed nothing."""
        has_all = planned.base.commit.id == planned.source.resolved.commit_id
        return not self._wanted.allow_empty and (has_all or planned.step.base.id == planned.step.source.id)

    def _can_be_a_step(self, planned: _Planned, *, is_first: bool) -> bool:
        """Whether trees are cut alike, and the source is not just taken over: the branch is no more where it left."""
        base, source, into = planned.step.base, planned.step.source, self.into.tree
        return base.threshold == source.threshold == into.threshold and not (is_first and base.id == into.id)

    def _merge_together(self, plan: Sequence[_Planned]) -> int:
        """Merge the first of these sources. How many it could be; the next time, at most twice as many are tried."""
        trees = merge_in_steps(self._repository.local_engine, [planned.step for planned in plan], self.into.tree)
        landed = 0
        for planned, tree in zip(plan, trees, strict=False):
            source = planned.source
            record = merges.recorded_merge(
                self._repository, source.resolved, self.into, self._wanted, source_tree=source.tree, tree=tree
            )
            self._put_on_top(source, Outcome(record, (planned.base,), CONFLICT_SCHEMA.empty_table()), tree)
            landed += 1
        self._together = min(max(1, 2 * landed), self._limit)
        return landed

    def _merge_alone(self, source: _Source) -> None:
        merges.check_source(source.resolved, self.into.branch)
        bases = self._bases(source, self._merged)
        try:
            outcome, tree = merges.merged(
                self._repository, source.resolved, self.into, bases, self._wanted, resolutions=self._no_resolutions
            )
        except NothingToMergeError:
            return
        except MergeConflictError as error:
            place = f"source {source.place + 1}, {source.resolved.expression!r}"
            raise MergeConflictError(f"{place}: {error}; nothing was merged", error.conflicts) from error
        self._put_on_top(source, outcome, tree)

    def _put_on_top(self, source: _Source, outcome: Outcome, tree: Metarange) -> None:
        self.outcomes[source.place] = outcome
        self.records += new_commits(outcome.record)
        self.into = replace(self.into, head=outcome.record, tree=tree)
        self._merged |= graph.ancestors(self._parents, [source.resolved.commit_id], outside=self._merged)
