"""Merging many sources at once: a merge commit each, one after the other, and all of them in one ledger entry."""

from __future__ import annotations

from collections.abc import Sequence

from lakespark.errors import BadRequestException, NothingToMergeError
from lakespark.model import CommitRecord, Operation, RefChange
from lakespark.operations import merge as merges
from lakespark.operations.commit import idempotent
from lakespark.operations.merge import Destination, Outcome, Wanted
from lakespark.operations.merge_chain import MergeChain
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import commit_record

VERB = "merge-many"
_HAD_ALREADY = "had already"


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
        chain = MergeChain(repository, Destination(destination, head, repository.tree(head)), sources, wanted)
        chain.merge_all()
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
        None if str(number) in had_already else merges.landed_merge(repository, merged.pop())
        for number in range(1, int(details["sources"]) + 1)
    ]
