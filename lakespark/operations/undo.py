"""Undo: a new operation that puts back the refs and settings of an earlier one as they were before it.

What is uncommitted stays so. An undone commit is like a soft reset: what it took in is uncommitted again, and what
was staged since, or while the undo ran, stands on top of it. To undo an undo is to redo.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakespark.errors import (
    AmbiguousRefError,
    ForbiddenException,
    MissingFileError,
    NameTakenError,
    OperationNotFoundError,
    RefMovedError,
    RefNotFoundError,
)
from lakespark.model import UNDOES, Operation, OperationInfo, RefChange, RefState, Sealed, SettingChange
from lakespark.names import check_ref
from lakespark.operations import protection
from lakespark.operations.merge import check_clean
from lakespark.operations.opened import OpenRepository

LoggedOperation = tuple[OperationInfo, tuple[RefChange, ...]]

_ID_DIGITS = 32
_SHORTEST_PREFIX = 4
_NAMED = 5


def find(repository: OpenRepository, name: str) -> LoggedOperation:
    """The operation of an id, of the first digits of one (four or more), or of an entry number.

    Raises OperationNotFoundError, or AmbiguousRefError with the candidates.
    """
    repository.ledger.refresh()
    is_prefix = len(name) >= _SHORTEST_PREFIX and set(name) <= set("0123456789abcdef")
    found: list[LoggedOperation] = []
    for info, changes in repository.ledger.operations():
        if name == str(info.number) or (is_prefix and info.id.startswith(name)):
            found.append((info, changes))
            if len(name) == _ID_DIGITS:
                break
    if not found:
        raise OperationNotFoundError(
            f"operation {name!r} not found: give its entry number, its id or four or more of the id's first digits"
        )
    if len(found) > 1:
        ids = [info.id for info, _ in found]
        raise AmbiguousRefError(f"operation {name!r} is ambiguous: it fits {', '.join(ids)}; give more digits", ids)
    return found[0]


def undo(repository: OpenRepository, name: str) -> OperationInfo:
    """Undo an operation (see ``find``); the new operation, which can be undone in turn.

    Raises RefMovedError, naming what came after, if something that it changed has changed since;
    ForbiddenException for the creation of the repository, DirtyBranchError if it would delete a branch with
    uncommitted changes, BranchProtectedError.
    """
    undone = find(repository, name)[0].id

    def decide() -> Operation:
        now = _Now(repository.ledger.refs(), repository.ledger.settings())
        (info, changes), later = _read(repository, undone)
        _check_undoable(info, changes)
        _check_newest(info, changes, later)
        return Operation(
            "undo",
            tuple(_taken_back(repository, info, change, now.refs.get(change.name)) for change in changes),
            details=((UNDOES, info.id), ("verb", info.verb)),
            settings=tuple(SettingChange(s.name, now.settings.get(s.name), s.before) for s in info.settings),
        )

    landed = repository.ledger.operate(decide).landed
    if landed is None:
        raise AssertionError(undone)
    return landed


def restore_branch(repository: OpenRepository, branch: str) -> OperationInfo:
    """Undo the deletion of a branch. Raises NameTakenError, or RefNotFoundError if none of that name was deleted."""
    check_ref(branch)
    repository.ledger.refresh()
    taken = repository.ledger.ref(branch)
    if taken is not None:
        raise NameTakenError(f"cannot restore {branch!r}: a {taken.kind} of that name exists")
    for info, changes in repository.ledger.operations():
        if [change.name for change in changes] == [branch] and info.undone_by is None:
            (change,) = changes
            if change.after is None and change.before is not None and change.before.kind == "branch":
                return undo(repository, info.id)
    raise RefNotFoundError(f"cannot restore branch {branch!r}: no branch of that name was deleted")


@dataclass(frozen=True)
class _Now:
    """Refs and settings before the log was read: what has come since then fails the compare-and-swap."""

    refs: dict[str, RefState]
    settings: dict[str, str]


def _read(repository: OpenRepository, operation_id: str) -> tuple[LoggedOperation, list[LoggedOperation]]:
    """An operation of the log, and those after it, the newest first."""
    later: list[LoggedOperation] = []
    for logged in repository.ledger.operations():
        if logged[0].id == operation_id:
            return logged, later
        later.append(logged)
    raise OperationNotFoundError(f"operation {operation_id!r} not found")


def _check_undoable(info: OperationInfo, changes: tuple[RefChange, ...]) -> None:
    if info.number == 0:
        raise ForbiddenException("the creation of the repository cannot be undone: delete the repository instead")
    if not changes and not info.settings:
        raise ForbiddenException(f"{_named(info)} cannot be undone: it changed no branch, tag or setting")


def _check_newest(info: OperationInfo, changes: tuple[RefChange, ...], later: list[LoggedOperation]) -> None:
    """Raises RefMovedError if the operation was undone, or something that it changed has changed since.

    An operation that was undone, and its undo, leave everything as it was: they do not count.
    """
    if info.undone_by is not None:
        raise RefMovedError(
            f"{_named(info)} was undone already, by {info.undone_by[:12]}; undo that one to redo it", (info.undone_by,)
        )
    touched, ids = _touched(info, changes), {other.id for other, _ in later}
    after = [
        (other, sorted(touched & _touched(other, others)))
        for other, others in later
        if other.undone_by is None and other.undoes not in ids and touched & _touched(other, others)
    ]
    if after:
        shown = "; ".join(f"{', '.join(names)} by {_named(other)}" for other, names in after[:_NAMED])
        more = f"; and {len(after) - _NAMED} more" if len(after) > _NAMED else ""
        raise RefMovedError(
            f"cannot undo {_named(info)}: changed since were {shown}{more}. Undo these first, the newest first",
            tuple(other.id for other, _ in after),
        )


def _taken_back(repository: OpenRepository, info: OperationInfo, change: RefChange, now: RefState | None) -> RefChange:
    """The change that puts a ref back, checked against protection rules and uncommitted changes."""
    if now is not None and now.kind == "branch":
        protection.check(repository, change.name, now, "commit")
        if change.before is None:
            check_clean(repository, change.name)
    if change.before is None or change.before.kind == "tag":
        return RefChange(change.name, now, change.before)
    sealed = _sealed(change.before, now)
    _check_staged(repository, info, sealed)
    return RefChange(change.name, now, replace(change.before, token=repository.new_staging(), sealed=sealed))


def _sealed(before: RefState, now: RefState | None) -> tuple[Sealed, ...]:
    """What was uncommitted before, as it was then, and on top of it what the branch has staged since.

    No token becomes current again, so all of them are sealed: the current ones with all of theirs uncommitted.
    """
    kept = (*before.sealed, Sealed(before.token, 0))
    known = {sealed.token for sealed in kept}
    since = () if now is None else (*now.sealed, Sealed(now.token, 0))
    return (*kept, *(sealed for sealed in since if sealed.token not in known))


def _check_staged(repository: OpenRepository, info: OperationInfo, sealed: tuple[Sealed, ...]) -> None:
    """Raises MissingFileError if the staging table of a token that comes back is gone."""
    try:
        for token, _ in sealed:
            repository.staging(token).refresh()
    except MissingFileError as error:
        raise MissingFileError(
            f"cannot undo {_named(info)}: what would be uncommitted again was collected ({error}). "
            "Revert it, or move the branch to an earlier commit"
        ) from error


def _touched(info: OperationInfo, changes: tuple[RefChange, ...]) -> set[str]:
    """Refs and settings by what they are called for people. No ref has a blank in its name."""
    return {change.name for change in changes} | {f"setting {setting.name}" for setting in info.settings}


def _named(info: OperationInfo) -> str:
    return f"{info.id[:12]} ({info.verb} by {info.user})"
