"""The grammar of ref expressions: a name or commit id, then ``~N`` and ``^N`` as in gitrevisions(7), or ``@``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lakespark.errors import InvalidRefExpressionError
from lakespark.names import check_ref, is_commit_id

_EXPRESSION = re.compile(r"(?P<base>[^~^@]+)(?P<steps>(?:[~^][0-9]*)*)(?P<at>@?)")
_STEP = re.compile(r"([~^])([0-9]*)")


@dataclass(frozen=True)
class Step:
    """``~``: ``count`` times the first parent. ``^``: the ``count``-th parent (0 is the commit itself)."""

    kind: Literal["~", "^"]
    count: int


class RefExpression(NamedTuple):
    """A parsed expression. ``committed``: a trailing ``@``, a branch without its staging area."""

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
    return RefExpression(base, steps, bool(match["at"]))
