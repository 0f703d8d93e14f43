"""Merge, revert and cherry-pick: the same three-way merge with other bases, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakespark.errors import (
    BadRequestException,
    DirtyBranchError,
    ForbiddenException,
    NothingToMergeError,
    RefNotFoundError,
)
from lakespark.model import CommitRecord, Operation, RefChange, RefState
from lakespark.operations import bases, protection, refs, staged
from lakespark.operations.commit import check_description, idempotent, landed_before, new_commits, new_record
from lakespark.operations.opened import EngineName, OpenRepository
from lakespark.operations.resolutions import Resolutions
from lakespark.operations.resolve import Resolved, commit_record, resolve
from lakespark.operations.three_way import CONFLICT_SCHEMA, Sides, Strategy, check_strategy, merge_trees
from lakespark.tree.metarange import Metarange

_NAMED = 5


@dataclass(frozen=True)
class Wanted:
    """What a merge, revert or cherry-pick was asked for, beside its sides."""

    message: str | None = None
    metadata: Mapping[str, str] | None = None
    committer: str | None = None
    date: int | None = None
    strategy: Strategy | None = None
    resolutions: Mapping[str, Any] | pa.Table | None = None
    allow_empty: bool = False
    engine: EngineName | None = None
    idempotency_key: str | None = None

    def check(self) -> None:
        """Raises BadRequestException for values that no merge takes."""
        check_strategy(self.strategy)
        check_description(self.message or "", self.metadata, self.committer, self.date)


@dataclass(frozen=True)
class Destination:
    """What is merged into: the branch's name, the commit that it is at, and the tree of that."""

    branch: str
    head: CommitRecord
    tree: Metarange


@dataclass(frozen=True)
class Outcome:
    """A landed merge: its commit, its bases, and the conflicts that the strategy decided.

    ``is_repeated``: it had landed under the idempotency key before.
    """

    record: CommitRecord
    bases: tuple[CommitRecord, ...]
    conflicts: pa.Table
    is_repeated: bool = False


def merge(
    repository: OpenRepository,
    source: str,
    destination: str,
    wanted: Wanted,
    *,
    squash: bool = False,
    also: Sequence[RefChange] = (),
    tag: str | None = None,
) -> Outcome:
    """Merge a ref expression into a branch without uncommitted changes.

    ``also``: ref changes of the same operation, and a ``tag`` to put on the merge commit: what a transaction
    ends with. If a merge into the branch has landed under the idempotency key already, that one is answered.
    Raises NothingToMergeError, DirtyBranchError, MergeConflictError.
    """
    wanted.check()
    key = idempotent(wanted.idempotency_key, "merge", destination)
    resolutions = Resolutions.parse(repository, wanted.resolutions)
    outcome: list[Outcome] = []

    def decide() -> Operation:
        into = check_clean(repository, destination)
        given = resolve(repository, source)
        check_source(given, destination, is_own_transaction=bool(also))
        head = commit_record(repository, into.state.commit_id)
        into_tree = Destination(destination, head, repository.tree(head))
        found = bases.merge_bases(repository, given.commit_id, head.commit.id)
        landing, _ = merged(repository, given, into_tree, found, wanted, resolutions=resolutions, squash=squash)
        record = landing.record
        outcome[:] = [landing]
        changes = [RefChange(destination, into.state, moved(repository, into, record.commit.id)), *also]
        if tag is not None:
            refs.check_free(repository, tag, "tag")
            changes.append(RefChange(tag, None, RefState("tag", record.commit.id)))
        return Operation("merge", tuple(changes), new_commits(record), (("source", source),))

    landed = repository.ledger.operate(decide, key=key)
    return landed_merge(repository, _made_by(repository, landed)) if landed.is_repeated else outcome[0]


def _made_by(repository: OpenRepository, landed: Operation) -> CommitRecord:
    """The commit that an operation has moved its branch to."""
    after = landed.changes[0].after
    if after is None:
        raise AssertionError(landed.verb)
    return commit_record(repository, after.commit_id)


def landed_merge(repository: OpenRepository, record: CommitRecord) -> Outcome:
    """What an earlier merge has come to; which conflicts its strategy decided is not recorded."""
    parents = record.commit.parents
    found = bases.merge_bases(repository, parents[1], parents[0]) if len(parents) > 1 else ()
    return Outcome(record, tuple(found), CONFLICT_SCHEMA.empty_table(), is_repeated=True)


def merged(
    repository: OpenRepository,
    source: Resolved,
    into: Destination,
    found: Sequence[CommitRecord],
    wanted: Wanted,
    *,
    resolutions: Resolutions,
    squash: bool = False,
) -> tuple[Outcome, Metarange]:
    """The merge of a source into a tree over the bases that were ``found``, and its own tree.

    Raises NothingToMergeError and MergeConflictError.
    """
    name = source.expression
    if [base.commit.id for base in found] == [source.commit_id] and not wanted.allow_empty and not len(resolutions):
        raise NothingToMergeError(f"nothing to merge: {into.branch!r} has all of {name!r} already")
    sides = Sides(found, repository.tree(source.record), into.tree, (name, into.branch))
    result = merge_trees(repository, sides, strategy=wanted.strategy, resolutions=resolutions, engine=wanted.engine)
    if not result.source_changed and not wanted.allow_empty and result.tree.id == into.tree.id:
        raise NothingToMergeError(f"nothing to merge: {name!r} changed nothing since {into.branch!r} had it")
    record = recorded_merge(repository, source, into, wanted, source_tree=sides.source, tree=result.tree, squash=squash)
    return Outcome(record, tuple(found), result.conflicts), result.tree


def recorded_merge(
    repository: OpenRepository,
    source: Resolved,
    into: Destination,
    wanted: Wanted,
    *,
    source_tree: Metarange,
    tree: Metarange,
    squash: bool = False,
) -> CommitRecord:
    """The record of a merge commit: what the merge of a source, which has one tree, came to is the other."""
    return new_record(
        repository,
        tree,
        (into.head,) if squash else (into.head, source.record),
        message=wanted.message if wanted.message is not None else f"Merge {source.expression!r} into {into.branch!r}",
        metadata=wanted.metadata,
        committer=wanted.committer,
        date=wanted.date,
        unchanged=_unchanged(tree, (into.tree, into.head), (source_tree, source.record)),
    )


def revert(repository: OpenRepository, branch: str, reference: str, wanted: Wanted, *, parent: int = 0) -> CommitRecord:
    """Undo on a branch what a commit did against its parent: a merge with that commit as the base.

    If a revert on the branch has landed under the idempotency key already, that one is answered.
    """
    landed = landed_before(repository, wanted.idempotency_key, "revert", branch)
    if landed is not None:
        return _made_by(repository, landed)
    given = resolve(repository, reference)
    before = _parent(repository, given, parent, "revert")
    message = wanted.message if wanted.message is not None else f"Revert {given.record.commit.message!r}"
    wanted = replace(wanted, message=message)
    return _reapply(repository, branch, "revert", reference, base=given.record, source=before, wanted=wanted)


def cherry_pick(
    repository: OpenRepository, branch: str, reference: str, wanted: Wanted, *, parent: int = 0
) -> CommitRecord:
    """Do on a branch what a commit did against its parent: a merge with that parent as the base.

    If a cherry-pick to the branch has landed under the idempotency key already, that one is answered.
    """
    landed = landed_before(repository, wanted.idempotency_key, "cherry-pick", branch)
    if landed is not None:
        return _made_by(repository, landed)
    given = resolve(repository, reference)
    before = _parent(repository, given, parent, "cherry-pick")
    message = wanted.message if wanted.message is not None else given.record.commit.message
    metadata = given.record.commit.metadata if wanted.metadata is None else wanted.metadata
    wanted = replace(wanted, message=message, metadata=metadata)
    return _reapply(repository, branch, "cherry-pick", reference, base=before, source=given.record, wanted=wanted)


def _reapply(
    repository: OpenRepository,
    branch: str,
    verb: str,
    reference: str,
    *,
    base: CommitRecord,
    source: CommitRecord,
    wanted: Wanted,
) -> CommitRecord:
    wanted.check()
    key = idempotent(wanted.idempotency_key, verb, branch)
    resolutions = Resolutions.parse(repository, wanted.resolutions)

    def decide() -> Operation:
        if verb != "revert":  # which lakeFS allows on a protected branch
            protection.committable(repository, branch)
        into = check_clean(repository, branch)
        head = commit_record(repository, into.state.commit_id)
        sides = Sides((base,), repository.tree(source), repository.tree(head), (f"{verb} of {reference}", branch))
        merged = merge_trees(repository, sides, strategy=wanted.strategy, resolutions=resolutions, engine=wanted.engine)
        if merged.tree.id == sides.destination.id and not wanted.allow_empty:
            raise NothingToMergeError(f"nothing to {verb}: {branch!r} is the same with and without {reference!r}")
        record = new_record(
            repository,
            merged.tree,
            (head,),
            message=wanted.message or "",
            metadata=wanted.metadata,
            committer=wanted.committer,
            date=wanted.date,
            unchanged=_unchanged(merged.tree, (sides.destination, head), (sides.source, source)),
        )
        change = RefChange(branch, into.state, moved(repository, into, record.commit.id))
        return Operation(verb, (change,), new_commits(record), (("commit", reference),))

    return _made_by(repository, repository.ledger.operate(decide, key=key))


def check_clean(repository: OpenRepository, branch: str) -> staged.StagedView:
    """What is staged on a branch without uncommitted changes. Raises DirtyBranchError that names some of them."""
    before = staged.newest_view(repository, branch)
    if not before.rows().num_rows:
        return before
    tree = repository.tree(commit_record(repository, before.state.commit_id))
    run = repository.local_engine
    found = run.collect(staged.uncommitted(run, before, tree))
    if found.num_rows:
        rows = found.slice(0, _NAMED).to_pylist()
        named = "; ".join(
            f"{row['path']} ({row['type']} by {row['written_by']} at {_when(row['written_at'])})" for row in rows
        )
        more = f" and {found.num_rows - _NAMED} more" if found.num_rows > _NAMED else ""
        raise DirtyBranchError(
            f"branch {branch!r} has {found.num_rows} uncommitted change{'s' * (found.num_rows != 1)}: {named}{more}; "
            "commit or reset them first"
        )
    return before


def moved(repository: OpenRepository, clean: staged.StagedView, commit_id: str) -> RefState:
    """A clean branch at another commit. Staged rows that changed nothing must not come to mean something there."""
    if clean.rows().num_rows:
        return staged.taken_in(repository, clean, commit_id)
    return replace(clean.state, commit_id=commit_id)


def _when(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_source(source: Resolved, destination: str, *, is_own_transaction: bool = False) -> None:
    """Raises BadRequestException or ForbiddenException for what cannot be merged into a branch."""
    refused = refusal(source, destination, is_own_transaction=is_own_transaction)
    if refused is not None:
        raise refused


def refusal(
    source: Resolved, destination: str, *, is_own_transaction: bool = False
) -> BadRequestException | ForbiddenException | None:
    """Why a source cannot be merged into a branch at all, or None if it can."""
    if source.expression == destination:
        return BadRequestException(f"cannot merge branch {destination!r} into itself")
    if source.branch is not None and source.branch.hidden and not is_own_transaction:
        return ForbiddenException(
            f"branch {source.expression!r} is a hidden branch, left by a transaction that did not finish: "
            f"to use what it holds, merge {source.expression + '@'!r}"
        )
    return None


def _unchanged(tree: Metarange, *sides: tuple[Metarange, CommitRecord]) -> CommitRecord | None:
    """The side whose very tree the merge took over, if any: its metarange file serves again."""
    return next((record for side, record in sides if side == tree), None)


def _parent(repository: OpenRepository, given: Resolved, parent: int, verb: str) -> CommitRecord:
    """The parent that a commit is compared with: by its number from 1, which a merge must name."""
    have = given.record.commit.parents
    if not have:
        raise BadRequestException(f"cannot {verb} {given.expression!r}: it is the initial commit and has no parent")
    if parent == 0 and len(have) > 1:
        raise BadRequestException(
            f"cannot {verb} {given.expression!r} without a parent number: it is a merge of {len(have)} parents; "
            "say which of them (from 1) it is to be compared with"
        )
    if parent < 0 or parent > len(have):
        raise RefNotFoundError(f"{given.expression!r} has no parent number {parent}: it has {len(have)}")
    return commit_record(repository, have[max(parent, 1) - 1])
