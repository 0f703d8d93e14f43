"""The grammar of ref expressions: a name or commit id, then ``~N`` and ``^N`` as in gitrevisions(7), or ``@``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lakespark.errors import InvalidRefExpressionError, RefNotFoundError
from lakespark.names import check_ref, is_commit_id

# 18 digits: more than any history has commits, and few enough for the machine
_EXPRESSION = re.compile(r"(?P<base>[^~^@]+)(?P<steps>(?:[~^][0-9]{0,18})*)(?P<at>@?)")
_STEP = re.compile(r"([~^])([0-9]*)")


@dataclass(frozen=True)
class Step:
    """``~``: ``count`` times the first parent. ``^``: the ``count``-th parent (0 is the commit itself)."""

    kind: Literal["~", "^"]
    count: int


class RefExpression(NamedTuple):
    """A parsed expression and its text. ``committed``: a trailing ``@``, a branch without its staging area."""

    text: str
    base: str
    steps: tuple[Step, ...]
    committed: bool

    @property
    def is_name(self) -> bool:
        """Whether the expression is a bare name, which may be a branch with a staging area."""
        return not self.steps and not self.committed


def parse(text: str) -> RefExpression:
    """Parse an expression. Raises InvalidRefExpressionError that shows it."""
    match = _EXPRESSION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidRefExpressionError(
            f"invalid ref expression {text!r}: expected a branch, tag or commit id, optionally followed by ~N, ^N or @"
        )
    base = match["base"]
    if not is_commit_id(base):
        try:
            check_ref(base, "ref")
        except ValueError as error:
            raise InvalidRefExpressionError(f"invalid ref expression {text!r}: {error}") from None
    steps = tuple(
        Step("~" if kind == "~" else "^", int(count) if count else 1) for kind, count in _STEP.findall(match["steps"])
    )
    return RefExpression(text, base, steps, bool(match["at"]))


def walk(expression: RefExpression, commit: str, parents: Callable[[str], Sequence[str]]) -> str:
    """The commit that the steps of an expression lead to from ``commit``.

    Raises RefNotFoundError that names the commit which has no such parent.
    """
    for step in expression.steps:
        for number in _parent_numbers(step):
            have = parents(commit)
            if number > len(have):
                raise RefNotFoundError(
                    f"ref {expression.text!r} not found: commit {commit[:12]} has "
                    f"{len(have) or 'no'} parent{'s' * (len(have) != 1)}, not a parent number {number}"
                )
            commit = have[number - 1]
    return commit


def _parent_numbers(step: Step) -> Iterable[int]:
    if step.kind == "~":
        return (1 for _ in range(step.count))
    return (step.count,) if step.count else ()
