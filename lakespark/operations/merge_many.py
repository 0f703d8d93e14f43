"""Merging many sources at once: a merge commit each, one after the other, and all of them in one ledger entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from lakespark import graph
from lakespark.errors import BadRequestException, MergeConflictError, NothingToMergeError
from lakespark.model import CommitRecord, Operation, RefChange
from lakespark.operations import merge as merges
from lakespark.operations import resolve
from lakespark.operations.bases import oldest_first
from lakespark.operations.commit import idempotent, new_commits
from lakespark.operations.merge import Destination, Outcome, Wanted
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolutions import Resolutions
from lakespark.operations.resolve import Resolved, commit_record

VERB = "merge-many"
_HAD_ALREADY = "had already"
_READ_AHEAD = 64
"""So many sources are read at once, before they are merged one by one."""


def merge_many(
    repository: OpenRepository, sources: Sequence[str], destination: str, wanted: Wanted
) -> list[Outcome | None]:
    """Merge ref expressions into a branch in their order, as so many merges would, all of them or none.

    An outcome a source; None for one that the branch had all of already. If that has landed under the
    idempotency key before, its merges are answered. Raises NothingToMergeError if there is nothing to merge at
    all, DirtyBranchError, and MergeConflictError that names its source.
    """
    wanted.check()
    if not sources or isinstance(sources, str):
        raise BadRequestException("give a list of one or more sources to merge")
    key = idempotent(wanted.idempotency_key, VERB, destination)
    outcomes: list[Outcome | None] = []

    def decide() -> Operation:
        into = merges.check_clean(repository, destination)
        head = commit_record(repository, into.state.commit_id)
        chain = _Chain(repository, Destination(destination, head, repository.tree(head)), wanted)
        for start in range(0, len(sources), _READ_AHEAD):
            found = [resolve.resolve(repository, source) for source in sources[start : start + _READ_AHEAD]]
            chain.read_ahead(found)
            for source in found:
                chain.merge(source)
        if not any(chain.outcomes):
            raise NothingToMergeError(f"nothing to merge: {destination!r} has all of these sources already")
        outcomes[:] = chain.outcomes
        after = merges.moved(repository, into, chain.into.head.commit.id)
        change = RefChange(destination, into.state, after)
        return Operation(VERB, (change,), tuple(chain.records), _details(chain.outcomes))

    landed = repository.ledger.operate(decide, key=key)
    if not landed.is_repeated:
        return outcomes
    repeated = _landed_before(repository, landed)
    if len(repeated) != len(sources):
        raise BadRequestException(
            f"the idempotency key {wanted.idempotency_key!r} was used before, for a merge of {len(repeated)} sources, "
            f"not of {len(sources)}: give each operation a key of its own"
        )
    return repeated


def _details(outcomes: Sequence[Outcome | None]) -> tuple[tuple[str, str], ...]:
    """How many sources there are and, by their numbers from 1, those that the branch had all of already."""
    passed_over = ",".join(str(number) for number, outcome in enumerate(outcomes, 1) if outcome is None)
    details = (("sources", str(len(outcomes))), (_HAD_ALREADY, passed_over))
    return details if passed_over else details[:1]


def _landed_before(repository: OpenRepository, landed: Operation) -> list[Outcome | None]:
    """What an earlier call came to: the merges on the way of first parents between the branch's two states."""
    change, details = landed.changes[0], dict(landed.details)
    if change.before is None or change.after is None:
        raise AssertionError(change.name)
    merged: list[CommitRecord] = []  # the newest first
    commit_id = change.after.commit_id
    while commit_id != change.before.commit_id:
        merged.append(commit_record(repository, commit_id))
        commit_id = merged[-1].commit.parents[0]
    had_already = set(details.get(_HAD_ALREADY, "").split(","))
    return [
        None if str(number) in had_already else merges.recorded(repository, merged.pop())
        for number in range(1, int(details["sources"]) + 1)
    ]


class _Chain:
    """Merges one after the other, none of which the ledger has yet."""

    def __init__(self, repository: OpenRepository, into: Destination, wanted: Wanted) -> None:
        self.into = into
        self.records: list[CommitRecord] = []
        self.outcomes: list[Outcome | None] = []
        self._repository = repository
        self._wanted = wanted
        self._no_resolutions = Resolutions.parse(repository, None)
        self._parents = partial(resolve.parents, repository)
        self._number = partial(resolve.number, repository)
        self._merged = graph.ancestors(self._parents, [into.head.commit.id])

    def read_ahead(self, sources: Sequence[Resolved]) -> None:
        """Read the trees of some sources and, where they differ in one range, that range, in parallel."""
        each = self._repository.ledger.background.each
        trees = each(lambda source: self._repository.tree(source.record), sources)
        differing = [[ref for ref in tree.ranges if ref.range_id not in self.into.tree.by_id] for tree in trees]
        reader = self._repository.local_engine.reader
        each(reader.read, [ranges for ranges in differing if len(ranges) == 1])

    def merge(self, source: Resolved) -> None:
        """One merge into what the merges so far came to."""
        merges.check_source(source, self.into.branch)
        bases = graph.best_among(self._parents, source.commit_id, self._merged, number=self._number)
        found = oldest_first([commit_record(self._repository, commit) for commit in bases])
        outcome = None
        try:
            outcome, tree = merges.merged(
                self._repository, source, self.into, found, self._wanted, resolutions=self._no_resolutions
            )
        except NothingToMergeError:
            pass
        except MergeConflictError as error:
            place = f"source {len(self.outcomes) + 1}, {source.expression!r}"
            raise MergeConflictError(f"{place}: {error}; nothing was merged", error.conflicts) from error
        else:
            self.records += new_commits(outcome.record)
            self.into = replace(self.into, head=outcome.record, tree=tree)
            self._merged |= graph.ancestors(self._parents, [source.commit_id], outside=self._merged)
        self.outcomes.append(outcome)
