"""Protection rules: which branches take merges only. They are settings of the ledger, one a pattern.

A rule binds every client of lakespark. What moves a branch is decided on the settings as they are when it lands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import get_args

from lakespark.errors import BadRequestException, BranchProtectedError, InvalidNameError, NotFoundException
from lakespark.model import Operation, ProtectedAction, ProtectionRule, RefState, SettingChange
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import known_branch

ACTIONS: tuple[ProtectedAction, ...] = get_args(ProtectedAction)
"""``staging_write``: uploads, deletions, resets. ``commit``: commits, imports, cherry-picks, moves, undo, deletion."""

_SETTING = "protection."
_PATTERN = re.compile(r"[A-Za-z0-9_\-.:*?\[\]!]{1,255}")


def rules(repository: OpenRepository) -> list[ProtectionRule]:
    """The rules as of the last refresh, in order of pattern."""
    settings = repository.ledger.settings()
    return [_rule(name, value) for name, value in sorted(settings.items()) if name.startswith(_SETTING)]


def protect(repository: OpenRepository, pattern: str, actions: Iterable[str] = ACTIONS) -> ProtectionRule:
    """Make a rule, or replace the one of the same pattern. Raises InvalidNameError or BadRequestException."""
    value = _value(actions)
    name = _setting(pattern)
    repository.ledger.refresh()
    if repository.ledger.settings().get(name) != value:
        _set(repository, "protect", name, value)
    return _rule(name, value)


def unprotect(repository: OpenRepository, pattern: str) -> None:
    """Take a rule away. Raises NotFoundException if there is none of that pattern."""
    _set(repository, "unprotect", _setting(pattern), None)


def check(repository: OpenRepository, branch: str, state: RefState, action: ProtectedAction) -> None:
    """Raises BranchProtectedError if a rule, as of the last refresh, forbids the action on a branch.

    The hidden branch of a transaction is no branch that a rule is about.
    """
    if state.hidden:
        return
    for rule in rules(repository):
        if action in rule.actions and fnmatchcase(branch, rule.pattern):
            raise BranchProtectedError(
                f"branch {branch!r} is protected by the rule {rule.pattern!r} ({', '.join(rule.actions)}): "
                f"make the change on another branch and merge that into {branch!r}"
            )


def committable(repository: OpenRepository, branch: str) -> RefState:
    """A branch as last seen that may be committed to. Raises RefNotFoundError or BranchProtectedError."""
    state = known_branch(repository, branch)
    check(repository, branch, state, "commit")
    return state


def last_writable(repository: OpenRepository, branch: str) -> RefState:
    """A branch as last seen that may be written to. Raises RefNotFoundError or BranchProtectedError."""
    state = known_branch(repository, branch)
    check(repository, branch, state, "staging_write")
    return state


def writable(repository: OpenRepository, branch: str) -> RefState:
    """The newest state of a branch that may be written to. Raises RefNotFoundError or BranchProtectedError."""
    repository.ledger.refresh()
    return last_writable(repository, branch)


def _set(repository: OpenRepository, verb: str, name: str, value: str | None) -> None:
    def decide() -> Operation:
        pattern, before = name.removeprefix(_SETTING), repository.ledger.settings().get(name)
        if before is None and value is None:
            raise NotFoundException(f"there is no protection rule {pattern!r}; there are: {_named(rules(repository))}")
        return Operation(verb, (), details=(("pattern", pattern),), settings=(SettingChange(name, before, value),))

    repository.ledger.operate(decide)


def _setting(pattern: str) -> str:
    if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
        raise InvalidNameError(
            f"invalid pattern {pattern!r}: use the characters of branch names and '*', '?', '[...]', 1 to 255 of them"
        )
    return _SETTING + pattern


def _value(actions: Iterable[str]) -> str:
    given = {actions} if isinstance(actions, str) else set(actions)
    if not given or not given <= set(ACTIONS):
        raise BadRequestException(f"a protection rule blocks one or more of {', '.join(ACTIONS)}, not {sorted(given)}")
    return ",".join(action for action in ACTIONS if action in given)


def _rule(name: str, value: str) -> ProtectionRule:
    known = tuple(action for action in ACTIONS if action in value.split(","))
    return ProtectionRule(name.removeprefix(_SETTING), known)


def _named(found: list[ProtectionRule]) -> str:
    return ", ".join(repr(rule.pattern) for rule in found) or "none"
