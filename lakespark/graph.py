"""Ancestry as pure functions over a parent look-up.

``parents(id)`` gives the parents of a commit, first parent first, any number of them. ``number(id)``, where a
function takes one, grows from a commit to each of its children (a ledger knows such numbers); with it a walk
ends as soon as the answer is settled, without it the whole ancestry is walked once to make the numbers up.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

Parents = Callable[[str], Sequence[str]]
Number = Callable[[str], int]

_LEFT, _RIGHT, _STALE = 1, 2, 4
_BOTH = _LEFT | _RIGHT


def ancestors(parents: Parents, tips: Iterable[str], *, outside: Collection[str] = ()) -> set[str]:
    """Every commit that can be reached from ``tips``, the tips included.

    ``outside``: commits whose ancestors are all among them; they and what lies beyond are left out.
    """
    seen: set[str] = set()
    pending = list(tips)
    while pending:
        commit = pending.pop()
        if commit not in seen and commit not in outside:
            seen.add(commit)
            pending.extend(parents(commit))
    return seen


def generations(parents: Parents, tips: Iterable[str]) -> dict[str, int]:
    """For each commit reachable from ``tips``: 1 + the largest generation of its parents (0 for a root)."""
    generation: dict[str, int] = {}
    stack = list(tips)
    while stack:
        commit = stack[-1]
        if commit in generation:
            stack.pop()
            continue
        missing = [parent for parent in parents(commit) if parent not in generation]
        if missing:
            stack.extend(missing)
        else:
            generation[commit] = 1 + max((generation[p] for p in parents(commit)), default=-1)
            stack.pop()
    return generation


def merge_bases(parents: Parents, left: str, right: str, *, number: Number | None = None) -> set[str]:
    """All best common ancestors of two commits, exactly as ``git merge-base --all`` defines them.

    A common ancestor is *best* if it is not an ancestor of another common ancestor. Commits are visited from
    the highest number down; since children come before parents, a commit's flags are final when it is visited.
    The walk ends when no commit is left that one of the sides reaches by a way without a base on it.
    """
    if number is None:
        number = generations(parents, (left, right)).__getitem__
    flags: dict[str, int] = {left: _LEFT}
    flags[right] = flags.get(right, 0) | _RIGHT
    queue = [(-number(commit), commit) for commit in flags]
    heapq.heapify(queue)
    waiting = {_LEFT: 1, _RIGHT: 1}
    best: set[str] = set()

    def count(flag: int, by: int) -> None:
        if not flag & _STALE:
            waiting[_LEFT] += by * bool(flag & _LEFT)
            waiting[_RIGHT] += by * bool(flag & _RIGHT)

    while waiting[_LEFT] and waiting[_RIGHT]:
        _, commit = heapq.heappop(queue)
        flag = flags[commit]
        count(flag, -1)
        if flag == _BOTH:
            best.add(commit)
            flag |= _STALE
        for parent in parents(commit):
            known = flags.get(parent)
            if known is None:
                heapq.heappush(queue, (-number(parent), parent))
            else:
                count(known, -1)
            flags[parent] = (known or 0) | flag
            count(flags[parent], 1)
    return best


def best_among(parents: Parents, tip: str, merged: Collection[str], *, number: Number) -> set[str]:
    """The best common ancestors of ``tip`` and a commit whose ancestors are ``merged``, every one of them."""
    beyond = ancestors(parents, [tip], outside=merged)
    found = {parent for commit in beyond for parent in parents(commit) if parent in merged} or (
        {tip} if tip in merged else set()
    )
    return {
        commit
        for commit in found
        if not any(other != commit and is_ancestor(parents, commit, other, number=number) for other in found)
    }


def is_ancestor(parents: Parents, ancestor: str, commit: str, *, number: Number | None = None) -> bool:
    """Whether ``ancestor`` can be reached from ``commit`` (a commit is its own ancestor)."""
    if number is None:
        return ancestor in ancestors(parents, [commit])
    floor = number(ancestor)
    seen: set[str] = set()
    pending = [commit]
    while pending:
        current = pending.pop()
        if current == ancestor:
            return True
        if current not in seen and number(current) > floor:
            seen.add(current)
            pending.extend(parents(current))
    return False


def log_order(parents: Parents, tips: Iterable[str], *, date: Number, number: Number) -> Iterator[str]:
    """Commits reachable from ``tips``: a child always before its parents, otherwise the newest date first.

    Works from the tips down and looks no further than the next answer needs. Dates may be skewed: a commit
    waits until all of its children are out, whatever the clocks said.
    """
    children: dict[str, int] = {}
    explore: list[tuple[int, str]] = []

    def see(commit: str) -> None:
        if commit not in children:
            children[commit] = 0
            heapq.heappush(explore, (-number(commit), commit))

    def explore_above(floor: int) -> None:
        while explore and -explore[0][0] > floor:
            _, commit = heapq.heappop(explore)
            for parent in parents(commit):
                see(parent)
                children[parent] += 1

    starts = list(dict.fromkeys(tips))
    for tip in starts:
        see(tip)
    explore_above(min((number(tip) for tip in starts), default=0))
    ready = [(-date(tip), -number(tip), tip) for tip in starts if not children[tip]]
    heapq.heapify(ready)
    while ready:
        _, _, commit = heapq.heappop(ready)
        yield commit
        for parent in parents(commit):
            explore_above(number(parent))
            children[parent] -= 1
            if not children[parent]:
                heapq.heappush(ready, (-date(parent), -number(parent), parent))
