"""Ancestry: merge bases against git's answers, and the order of the log against a plain implementation."""

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakespark import graph
from lakespark.testing.history import PastMerge, read_history, read_merges

DATA = Path(__file__).parents[1] / "data" / "git-lfs-history"
Dag = dict[str, tuple[str, ...]]

CRISS_CROSS: Dag = {
    "root": (),
    "a": ("root",),
    "b": ("root",),
    "ab": ("a", "b"),
    "ba": ("b", "a"),
    "left": ("ab",),
    "right": ("ba",),
}


@pytest.fixture(scope="module")
def past() -> Dag:
    """The parents of every commit of the real history."""
    commits = read_history(DATA).commits
    return {str(commit.number): tuple(map(str, commit.parents)) for commit in commits}


@pytest.fixture(scope="module")
def merges() -> list[PastMerge]:
    return read_merges(DATA)


def test_merge_bases_of_every_real_merge_are_those_of_git(past: Dag, merges: list[PastMerge]):
    number = graph.generations(past.__getitem__, past).__getitem__
    assert len(merges) == 3016
    for merge in merges:
        found = graph.merge_bases(past.__getitem__, str(merge.left), str(merge.right), number=number)
        assert found == {str(base) for base in merge.bases}, merge


def test_merge_bases_need_no_numbers(past: Dag, merges: list[PastMerge]):
    several = [merge for merge in merges if len(merge.bases) > 1]
    assert len(several) == 14
    for merge in several + merges[::60]:
        found = graph.merge_bases(past.__getitem__, str(merge.left), str(merge.right))
        assert found == {str(base) for base in merge.bases}, merge


def test_merge_bases_end_their_walk_at_the_answer(past: Dag):
    """The last two commits of a long history are settled within a few look-ups of parents."""
    number = graph.generations(past.__getitem__, past).__getitem__
    asked: list[str] = []
    line = max(past, key=int)
    assert graph.merge_bases(_counting(past, asked), line, past[line][0], number=number) == {past[line][0]}
    assert len(asked) < 10


@pytest.mark.parametrize(
    ("left", "right", "bases"),
    [
        ("left", "right", {"a", "b"}),
        ("left", "left", {"left"}),
        ("a", "ab", {"a"}),
        ("ab", "root", {"root"}),
        ("a", "b", {"root"}),
    ],
)
def test_merge_bases_of_a_criss_cross(left: str, right: str, bases: set[str]):
    assert graph.merge_bases(CRISS_CROSS.__getitem__, left, right) == bases
    assert graph.merge_bases(CRISS_CROSS.__getitem__, right, left) == bases


def test_unrelated_commits_have_no_merge_base():
    parents = {"a": (), "b": (), "c": ("b",)}
    assert graph.merge_bases(parents.__getitem__, "a", "c") == set()


def test_merge_bases_follow_all_parents_of_an_octopus():
    parents = {"root": (), "a": ("root",), "b": ("root",), "c": ("root",), "octopus": ("a", "b", "c"), "d": ("c",)}
    assert graph.merge_bases(parents.__getitem__, "octopus", "d") == {"c"}
    assert graph.merge_bases(parents.__getitem__, "octopus", "b") == {"b"}


def test_generations_grow_from_parent_to_child():
    assert graph.generations(CRISS_CROSS.__getitem__, ["left", "ba"]) == {
        "root": 0,
        "a": 1,
        "b": 1,
        "ab": 2,
        "ba": 2,
        "left": 3,
    }


def test_ancestors_include_the_tips():
    assert graph.ancestors(CRISS_CROSS.__getitem__, ["ab"]) == {"ab", "a", "b", "root"}


@pytest.mark.parametrize(
    ("ancestor", "commit", "answer"),
    [("root", "left", True), ("a", "right", True), ("left", "left", True), ("left", "root", False), ("a", "b", False)],
)
def test_is_ancestor(ancestor: str, commit: str, answer: bool):
    number = graph.generations(CRISS_CROSS.__getitem__, CRISS_CROSS).__getitem__
    assert graph.is_ancestor(CRISS_CROSS.__getitem__, ancestor, commit) is answer
    assert graph.is_ancestor(CRISS_CROSS.__getitem__, ancestor, commit, number=number) is answer


@st.composite
def dags(draw: st.DrawFn) -> Dag:
    """Up to 24 commits with up to three parents each, all of them commits before; names say nothing of the order."""
    count = draw(st.integers(1, 24))
    names = draw(st.permutations([f"c{i:02d}" for i in range(count)]))
    parents: Dag = {}
    for place, name in enumerate(names):
        nearby = names[max(0, place - 5) : place]
        parents[name] = tuple(draw(st.lists(st.sampled_from(nearby), unique=True, max_size=3))) if nearby else ()
    return parents


@settings(max_examples=150, deadline=None)
@given(dags(), st.data())
def test_merge_bases_are_the_common_ancestors_below_no_other(parents: Dag, data: st.DataObject):
    left, right = (data.draw(st.sampled_from(sorted(parents))) for _ in range(2))
    above = {commit: graph.ancestors(parents.__getitem__, [commit]) for commit in parents}
    common = above[left] & above[right]
    best = {base for base in common if not any(base in above[other] for other in common - {base})}
    number = graph.generations(parents.__getitem__, parents).__getitem__
    assert graph.merge_bases(parents.__getitem__, left, right) == best
    assert graph.merge_bases(parents.__getitem__, left, right, number=number) == best
    assert graph.is_ancestor(parents.__getitem__, left, right, number=number) == (left in above[right])


@settings(max_examples=150, deadline=None)
@given(dags(), st.data())
def test_log_shows_children_first_then_the_newest_whatever_the_clocks_say(parents: Dag, data: st.DataObject):
    dates = {commit: data.draw(st.integers(0, 9)) for commit in sorted(parents)}
    tips = data.draw(st.lists(st.sampled_from(sorted(parents)), min_size=1, max_size=3))
    number = graph.generations(parents.__getitem__, parents)
    shown = list(graph.log_order(parents.__getitem__, tips, date=dates.__getitem__, number=number.__getitem__))
    assert sorted(shown) == sorted(graph.ancestors(parents.__getitem__, tips))
    place = {commit: i for i, commit in enumerate(shown)}
    assert all(place[commit] < place[parent] for commit in shown for parent in parents[commit])
    assert shown == list(_plain_log(parents, tips, dates, number))


def test_log_looks_no_further_than_its_next_answer():
    """The first of 10,000 commits in a row costs a handful of look-ups, and each further one about as many."""
    parents = {f"{i}": (f"{i - 1}",) if i else () for i in range(10_000)}
    asked: list[str] = []
    log = graph.log_order(_counting(parents, asked), ["9999"], date=int, number=int)
    assert next(log) == "9999"
    assert len(asked) <= 2
    assert list(islice(log, 10)) == [str(i) for i in range(9998, 9988, -1)]
    assert len(asked) <= 24


def _counting(parents: Dag, asked: list[str]) -> graph.Parents:
    def look_up(commit: str) -> Sequence[str]:
        asked.append(commit)
        return parents[commit]

    return look_up


def _plain_log(parents: Dag, tips: Sequence[str], dates: dict[str, int], number: dict[str, int]) -> Iterator[str]:
    """Kahn's algorithm over the whole ancestry, with the commits that are ready in a heap."""
    reachable = graph.ancestors(parents.__getitem__, tips)
    children = {commit: sum(parents[child].count(commit) for child in reachable) for commit in reachable}
    ready = [(-dates[c], -number[c], c) for c in reachable if not children[c]]
    heapq.heapify(ready)
    while ready:
        _, _, commit = heapq.heappop(ready)
        yield commit
        for parent in parents[commit]:
            children[parent] -= 1
            if not children[parent]:
                heapq.heappush(ready, (-dates[parent], -number[parent], parent))
