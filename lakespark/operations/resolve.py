"""From ref expressions to commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakespark import names, refspec
from lakespark.errors import InvalidRefExpressionError, MissingFileError, RefNotFoundError
from lakespark.model import CommitRecord, RefState
from lakespark.operations.opened import OpenRepository


@dataclass(frozen=True)
class Resolved:
    """A commit, and the state of the branch if the expression is a bare branch name."""

    expression: str
    record: CommitRecord
    branch: RefState | None = None

    @property
    def commit_id(self) -> str:
        """Id of the commit."""
        return self.record.commit.id


def resolve(repository: OpenRepository, expression: str) -> Resolved:
    """What a ref expression means now: full commit id, branch, tag or unique commit id prefix, then its steps.

    Raises InvalidRefExpressionError, AmbiguousRefError or RefNotFoundError.
    """
    parsed = refspec.parse(expression)
    record, branch = _resolve_base(repository, parsed.base, expression)
    if parsed.committed and branch is None:
        raise InvalidRefExpressionError(f"invalid ref expression {expression!r}: '@' follows a branch only")
    if parsed.steps:
        commit_id = refspec.walk(parsed, record.commit.id, lambda commit: parents(repository, commit))
        record = commit_record(repository, commit_id)
    return Resolved(expression, record, branch if parsed.is_name else None)


def branch_state(repository: OpenRepository, name: str) -> RefState:
    """The newest state of a branch. Raises RefNotFoundError."""
    repository.ledger.refresh()
    return known_branch(repository, name)


def known_branch(repository: OpenRepository, name: str) -> RefState:
    """The state of a branch as last seen. Raises RefNotFoundError."""
    names.check_ref(name)
    state = repository.ledger.ref(name)
    if state is None or state.kind != "branch":
        kind = "a tag, not a branch" if state else "not a branch of this repository"
        raise RefNotFoundError(f"branch {name!r} not found: it is {kind}")
    return state


def commit_record(repository: OpenRepository, commit_id: str) -> CommitRecord:
    """The record of a commit that a ref or another commit names."""
    record = repository.ledger.commit(commit_id)
    if record is None:
        raise MissingFileError(f"commit {commit_id} is missing from the ledger, though it is named there")
    return record


def parents(repository: OpenRepository, commit_id: str) -> Sequence[str]:
    """Parents of a commit: the look-up for ``lakespark.graph``."""
    return commit_record(repository, commit_id).commit.parents


def number(repository: OpenRepository, commit_id: str) -> int:
    """Topological number of a commit: the look-up for ``lakespark.graph``."""
    return commit_record(repository, commit_id).number


def _resolve_base(repository: OpenRepository, base: str, expression: str) -> tuple[CommitRecord, RefState | None]:
    ledger = repository.ledger
    is_id = names.is_commit_id(base)
    if not is_id or ledger.version < 0:
        ledger.refresh()  # a branch is always read from its newest state
    if is_id:
        record = ledger.commit(base)
        if record is None:
            ledger.refresh()
            record = ledger.commit(base)
    else:
        state = ledger.ref(base)
        if state is not None:
            return commit_record(repository, state.commit_id), state if state.kind == "branch" else None
        record = ledger.commit_by_prefix(base)
    if record is None:
        raise RefNotFoundError(f"ref {expression!r} not found: no branch, tag or commit answers to {base!r}")
    return record, None
