"""Branches and tags: create, delete, move, reset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakespark import names
from lakespark.errors import ForbiddenException, NameTakenError, RefMovedError, RefNotFoundError
from lakespark.model import Operation, RefChange, RefState, Sealed
from lakespark.operations import protection, writes
from lakespark.operations.commit import idempotent
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import resolve
from lakespark.tables.ledger import IdempotencyKey
from lakespark.tables.staging import staged_rows


def create_branch(
    repository: OpenRepository,
    name: str,
    source: str,
    *,
    hidden: bool = False,
    exist_ok: bool = False,
    idempotency_key: str | None = None,
) -> None:
    """Create a branch at a ref expression. Raises NameTakenError, unless a branch has the name and exist_ok.

    Nothing is done if the branch was created under the idempotency key before.
    """
    names.check_ref(name)
    key = idempotent(idempotency_key, "branch-create", name)

    def decide() -> Operation:
        commit_id = resolve(repository, source).commit_id
        check_free(repository, name)
        state = RefState("branch", commit_id, repository.new_staging(), hidden=hidden)
        return Operation("branch-create", (RefChange(name, None, state),), details=(("source", source),))

    _create(repository, name, decide, kind="branch", exist_ok=exist_ok, key=key)


def create_tag(
    repository: OpenRepository, name: str, source: str, *, exist_ok: bool = False, idempotency_key: str | None = None
) -> None:
    """Create a tag at a ref expression. Raises NameTakenError, unless a tag has the name and exist_ok.

    Nothing is done if the tag was created under the idempotency key before.
    """
    names.check_ref(name, "tag")
    key = idempotent(idempotency_key, "tag-create", name)

    def decide() -> Operation:
        state = RefState("tag", resolve(repository, source).commit_id)
        check_free(repository, name, "tag")
        return Operation("tag-create", (RefChange(name, None, state),), details=(("source", source),))

    _create(repository, name, decide, kind="tag", exist_ok=exist_ok, key=key)


def delete_branch(repository: OpenRepository, name: str) -> None:
    """Delete a branch with what is uncommitted on it.

    Raises ForbiddenException for the default branch, BranchProtectedError for one that a rule protects.
    """

    def decide() -> Operation:
        if name == repository.default_branch:
            raise ForbiddenException(f"branch {name!r} is the default branch and cannot be deleted")
        state = protection.committable(repository, name)
        return Operation("branch-delete", (RefChange(name, state, None),))

    repository.ledger.operate(decide)


def delete_tag(repository: OpenRepository, name: str) -> None:
    """Delete a tag. Raises RefNotFoundError."""
    names.check_ref(name, "tag")

    def decide() -> Operation:
        state = repository.ledger.ref(name)
        if state is None or state.kind != "tag":
            kind = "a branch, not a tag" if state else "not a tag of this repository"
            raise RefNotFoundError(f"tag {name!r} not found: it is {kind}")
        return Operation("tag-delete", (RefChange(name, state, None),))

    repository.ledger.operate(decide)


def move_branch(repository: OpenRepository, name: str, target: str, *, expected: str | None = None) -> str:
    """Point a branch at a ref expression; what is uncommitted stays so. The commit id.

    With ``expected`` (a ref expression) a compare-and-swap: raises RefMovedError if the branch is not there.
    """

    def decide() -> Operation:
        state = protection.committable(repository, name)
        if expected is not None and state.commit_id != (wanted := resolve(repository, expected).commit_id):
            raise RefMovedError(
                f"branch {name!r} is at {state.commit_id[:12]}, not at {wanted[:12]} as expected; nothing was changed"
            )
        after = with_fresh_token(repository, state, resolve(repository, target).commit_id)
        return Operation("branch-move", (RefChange(name, state, after),), details=(("target", target),))

    operation = repository.ledger.operate(decide)
    state = operation.changes[0].after
    return state.commit_id if state else ""


def with_fresh_token(repository: OpenRepository, state: RefState, commit_id: str) -> RefState:
    """A branch at another commit under a fresh token; the old one is sealed with all of it uncommitted."""
    sealed = (*state.sealed, Sealed(state.token, 0))
    return replace(state, commit_id=commit_id, token=repository.new_staging(), sealed=sealed)


def reset(repository: OpenRepository, branch: str, *, op: str, path: str) -> None:
    """Undo what is staged: ``reset`` of one path, or ``reset-prefix`` (the empty prefix is everything)."""
    names.check_text(path, "a path to reset")
    writes.append(repository, branch, staged_rows([{"op": op, "path": path}], user=repository.user))


def check_free(repository: OpenRepository, name: str, kind: str = "branch") -> None:
    """Raises InvalidNameError or, as of the last refresh, NameTakenError for the name of a new branch or tag."""
    names.check_ref(name, kind)
    taken = repository.ledger.ref(name)
    if taken is not None:
        raise NameTakenError(f"cannot create {name!r}: a {taken.kind} of that name exists already")


def _create(
    repository: OpenRepository,
    name: str,
    decide: Callable[[], Operation],
    *,
    kind: str,
    exist_ok: bool,
    key: IdempotencyKey | None,
) -> None:
    try:
        repository.ledger.operate(decide, key=key)
    except NameTakenError:
        state = repository.ledger.ref(name)
        if not exist_ok or state is None or state.kind != kind:
            raise
