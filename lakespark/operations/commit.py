"""Committing what a branch has staged."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from lakespark import digest
from lakespark.errors import BadRequestException, NothingToCommitError
from lakespark.model import Commit, CommitRecord, Operation, RefChange
from lakespark.names import check_text, check_texts
from lakespark.operations import protection, staged, trees
from lakespark.operations.opened import EngineName, OpenRepository
from lakespark.operations.resolve import commit_record
from lakespark.tables.ledger import IdempotencyKey
from lakespark.tree.metarange import Metarange

_LONGEST_KEY = 255
"""Characters of an idempotency key: every handle keeps all keys in memory."""


def commit(
    repository: OpenRepository,
    branch: str,
    *,
    message: str,
    metadata: Mapping[str, str] | None = None,
    committer: str | None = None,
    date: int | None = None,
    allow_empty: bool = False,
    engine: EngineName | None = None,
    idempotency_key: str | None = None,
) -> CommitRecord:
    """Commit the staged changes of a branch. Raises NothingToCommitError unless ``allow_empty``.

    If a commit to the branch has landed under the idempotency key already, that one is answered.
    """
    check_description(message, metadata, committer, date)
    key = idempotent(idempotency_key, "commit", branch)

    def decide() -> Operation:
        protection.committable(repository, branch)
        before = staged.newest_view(repository, branch)
        state = before.state
        head = commit_record(repository, state.commit_id)
        base = repository.tree(head)
        run = repository.engine(engine, *staged.reach(before, base))
        # allow_empty also takes in new addresses of equal contents, so nothing is reused then
        reuse = {} if allow_empty else base.by_id
        tree = trees.apply_changes(run, base, staged.changes(run, before, base), reuse)
        if tree.id == base.id and not allow_empty:
            raise NothingToCommitError(f"nothing to commit on branch {branch!r}: stage a change first, or allow_empty")
        record = new_record(
            repository,
            tree,
            (head,),
            message=message,
            metadata=metadata,
            committer=committer,
            date=date,
            unchanged=head if tree.ranges == base.ranges else None,
        )
        after = staged.taken_in(repository, before, record.commit.id)
        return Operation("commit", (RefChange(branch, state, after),), new_commits(record))

    after = repository.ledger.operate(decide, key=key).changes[0].after
    if after is None:
        raise AssertionError(branch)
    for sealed in after.sealed:
        repository.staging(sealed.token).forget(sealed.watermark)
    return commit_record(repository, after.commit_id)


def new_record(
    repository: OpenRepository,
    tree: Metarange,
    parents: Sequence[CommitRecord],
    *,
    message: str,
    metadata: Mapping[str, str] | None,
    committer: str | None,
    date: int | None,
    unchanged: CommitRecord | None = None,
) -> CommitRecord:
    """The record of a commit of a tree, whose metarange is written unless ``unchanged`` has that very one.

    If the ledger has a commit of that id already, that one: the same contents, message and second.
    """
    commit = Commit(
        id="",
        parents=tuple(parent.commit.id for parent in parents),
        committer=committer or repository.user,
        message=message,
        creation_date=int(time.time()) if date is None else date,
        meta_range_id=tree.id,
        metadata=dict(metadata or {}),
    )
    commit = commit._replace(
        id=digest.commit_id(
            committer=commit.committer,
            message=message,
            metarange=tree.id,
            creation_date=commit.creation_date,
            metadata=commit.metadata,
            parents=commit.parents,
        )
    )
    known = repository.ledger.commit_after(commit.id, parents)
    if known is not None:
        return known
    metarange = unchanged.metarange if unchanged is not None else repository.write_tree(tree)
    return CommitRecord(commit, metarange)


def new_commits(record: CommitRecord) -> tuple[CommitRecord, ...]:
    """The record if it is not in the ledger yet, for an operation's list of commits."""
    return () if record.number >= 0 else (record,)


def idempotent(key: str | None, verb: str, ref: str) -> IdempotencyKey | None:
    """A caller's key for one operation on a ref. Raises BadRequestException for what cannot be a key."""
    if key is None:
        return None
    if not key:
        raise BadRequestException("an idempotency key is a text of at least one character, or None")
    check_text(key, "an idempotency key")
    if len(key) > _LONGEST_KEY:
        raise BadRequestException(
            f"an idempotency key has at most {_LONGEST_KEY} characters, not {len(key):,}: "
            "a long name can be given as its digest"
        )
    return IdempotencyKey(key, verb, ref)


def landed_before(repository: OpenRepository, key: str | None, verb: str, ref: str) -> Operation | None:
    """The operation that a caller's key stands for already, or None. Raises BadRequestException as ``idempotent``."""
    found = idempotent(key, verb, ref)
    if found is None:
        return None
    repository.ledger.refresh()
    return repository.ledger.landed(found)


def check_description(
    message: str, metadata: Mapping[str, str] | None, committer: str | None, date: int | None
) -> None:
    """What a commit is described with. Raises BadRequestException for what is not text, or no number of seconds."""
    check_text(message, "a commit message")
    check_texts(metadata, "the commit's metadata")
    check_text(committer or "", "a committer")
    if date is not None and not isinstance(date, int):
        raise BadRequestException(f"the date of a commit is in whole unix seconds, not {date!r}")
