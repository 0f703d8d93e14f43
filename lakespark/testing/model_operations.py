"""The operations of the reference model: which refs each changed, from what to what, and undo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from lakespark.errors import DirtyBranchError, ForbiddenException, RefMovedError

if TYPE_CHECKING:
    from lakespark.testing.model_state import ModelState, StagedOp


class ModelRef(NamedTuple):
    """A branch or tag at one time: its commit and, for a branch, what was staged."""

    head: str
    staged: tuple[StagedOp, ...] | None


class ModelOperation:
    """One operation: the refs that it changed, before and after, and its number."""

    def __init__(self, number: int, changes: Mapping[str, tuple[ModelRef | None, ModelRef | None]]) -> None:
        self.number = number
        self.changes = changes
        self.undoes: ModelOperation | None = None


class ModelOperations:
    """Every operation of a model, the oldest first."""

    def __init__(self, state: ModelState) -> None:
        self._state = state
        self._is_under_way = False
        self.all: list[ModelOperation] = []

    @contextmanager
    def one(self, *names: str) -> Iterator[None]:
        """What happens in the block is one operation on these refs, unless it is a part of one or fails."""
        if self._is_under_way:
            yield
            return
        before = {name: self._ref(name) for name in names}
        self._is_under_way = True
        try:
            yield
        finally:
            self._is_under_way = False
        changes = {name: (before[name], self._ref(name)) for name in names}
        self.all.append(ModelOperation(len(self.all), changes))

    def undo(self, number: int) -> None:
        """Put the refs of an operation back; what was staged since stands on top of what was staged before."""
        undone = self.all[number]
        self._check(undone)
        with self.one(*undone.changes):
            for name, (before, after) in undone.changes.items():
                self._put_back(name, before, after)
        self.all[-1].undoes = undone

    def undone_by(self, operation: ModelOperation) -> ModelOperation | None:
        """The operation that has undone another and was not undone itself, or None."""
        found = (other for other in self.all[operation.number + 1 :] if other.undoes is operation)
        return next((other for other in found if self.undone_by(other) is None), None)

    def _check(self, undone: ModelOperation) -> None:
        if undone.number == 0:
            raise ForbiddenException("the creation")
        in_force = self._in_force_after(undone)
        if self.undone_by(undone) or any(other.changes.keys() & undone.changes for other in in_force):
            raise RefMovedError(str(undone.number))
        for name, (before, after) in undone.changes.items():
            is_branch = after is not None and after.staged is not None
            if before is None and is_branch and self._state.uncommitted(name):
                raise DirtyBranchError(name)

    def _in_force_after(self, operation: ModelOperation) -> list[ModelOperation]:
        """Later ones that are not undone, without the undoing of one of them: the two leave everything as it was."""
        later = self.all[operation.number + 1 :]
        return [other for other in later if self.undone_by(other) is None and other.undoes not in later]

    def _put_back(self, name: str, before: ModelRef | None, after: ModelRef | None) -> None:
        now = self._ref(name)
        self._state.branches.pop(name, None)
        self._state.tags.pop(name, None)
        if before is None:
            return
        if before.staged is None:
            self._state.tags[name] = before.head
            return
        since = [] if now is None or after is None else list(now.staged or ())[len(after.staged or ()) :]
        self._state.put_branch(name, before.head, [*before.staged, *since])

    def _ref(self, name: str) -> ModelRef | None:
        if name in self._state.tags:
            return ModelRef(self._state.tags[name], None)
        branch = self._state.branches.get(name)
        return None if branch is None else ModelRef(branch.head, tuple(branch.staged))
