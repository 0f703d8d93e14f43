"""History drawn: as lanes beside a log, and in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakespark.cli import text

if TYPE_CHECKING:
    from lakespark.model import Commit


class Graph:
    """Lanes from commits to their parents. Draws commits one by one, a child always before its parents.

    Each lane waits for one commit. A lane is two characters wide.
    """

    def __init__(self) -> None:
        self._lanes: list[str] = []

    def draw(self, commit: str, parents: Sequence[str], line: str) -> str:
        """The rows of one commit: itself with its line, then how the lanes go on to its parents."""
        if commit not in self._lanes:
            self._lanes.append(commit)
        lane = self._lanes.index(commit)
        marks = ["*" if i == lane else "|" for i in range(len(self._lanes))]
        return "\n".join([f"{' '.join(marks)} {line}", *self._onward(lane, parents)])

    def _onward(self, lane: int, parents: Sequence[str]) -> list[str]:
        if not parents:
            del self._lanes[lane]
            return self._shifted(lane)
        self._lanes[lane] = parents[0]
        rows = []
        for offset, parent in enumerate(parents[1:]):
            rows.append(self._forked(lane + offset))
            self._lanes.insert(lane + offset + 1, parent)
        return rows + self._joined()

    def _shifted(self, lane: int) -> list[str]:
        """Lanes right of one that has ended move to the left."""
        after = len(self._lanes) - lane
        return [("| " * lane + " " + "/ " * after).rstrip()] if after else []

    def _forked(self, lane: int) -> str:
        """A new lane leaves ``lane`` for the right; those beyond make room."""
        return "| " * lane + "|\\" + " \\" * (len(self._lanes) - lane - 1)

    def _joined(self) -> list[str]:
        """Lanes that wait for the same commit become the leftmost of them."""
        rows = []
        while (pair := self._double()) is not None:
            left, right = pair
            between = "|_" * (right - left - 1)
            beyond = " /" * (len(self._lanes) - right - 1)
            rows.append("| " * left + between + "|/" + beyond)
            del self._lanes[right]
        return rows

    def _double(self) -> tuple[int, int] | None:
        first: dict[str, int] = {}
        for i, commit in enumerate(self._lanes):
            if first.setdefault(commit, i) != i:
                return first[commit], i
        return None


def dot(commits: Sequence[Commit], names: Mapping[str, Sequence[str]]) -> str:
    """Commits as a directed graph, from each to those of its parents that are among them."""
    shown = {commit.id for commit in commits}
    lines = ["digraph history {", "  rankdir=BT;", "  node [shape=box, fontname=monospace];"]
    for commit in commits:
        lines.append(f'  "{commit.id}" [label={_quoted(_label(commit, names.get(commit.id, ())))}];')
        lines += [f'  "{commit.id}" -> "{parent}";' for parent in commit.parents if parent in shown]
    return "\n".join([*lines, "}"])


def _label(commit: Commit, names: Sequence[str]) -> list[str]:
    head = commit.id[: text.SHORT_ID] + (f" ({', '.join(names)})" if names else "")
    return [
        head,
        text.first_line(commit.message),
        f"{text.printable(commit.committer)}, {text.when(commit.creation_date)}",
    ]


def _quoted(lines: Sequence[str]) -> str:
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(escaped) + '"'
