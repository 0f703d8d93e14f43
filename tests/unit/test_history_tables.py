"""The tables of the real history, read as values that agree with each other."""

from pathlib import Path

import pytest

from lakespark.testing.history import (
    CONFLICT,
    History,
    MergeCase,
    entries_of,
    entry_of,
    read_history,
    read_merges,
    read_several_bases,
    read_three_way,
    resolutions_for,
)

DATA = Path(__file__).parents[1] / "data" / "git-lfs-history"


@pytest.fixture(scope="module")
def history() -> History:
    return read_history(DATA)


def test_the_tables_are_complete(history: History):
    assert len(history.commits) == 11_444
    assert sum(len(history.changes(commit.number)) for commit in history.commits) == 72_224
    merges = [commit for commit in history.commits if len(commit.parents) > 1]
    assert [(m.merge, (m.left, m.right)) for m in read_merges(DATA)] == [(c.number, c.parents) for c in merges]


def test_commits_are_numbered_parents_first(history: History):
    assert [commit.number for commit in history.commits] == list(range(11_444))
    assert all(parent < commit.number for commit in history.commits for parent in commit.parents)


def test_trees_on_the_way_are_those_of_the_first_parents(history: History):
    wanted = {0, 1, 245, 825, 7730, 11_443}
    seen = 0
    for commit, tree, before in history.with_trees():
        if commit.number in wanted:
            assert tree == history.tree(commit.number)
            assert list(before) == [history.tree(parent) for parent in commit.parents]
            seen += 1
    assert seen == len(wanted)


@pytest.mark.parametrize("read", [read_three_way, read_several_bases])
def test_cases_hold_what_the_trees_of_their_commits_hold(history: History, read):
    for case in read(DATA)[::14]:
        check_case(history, case)


def check_case(history: History, case: MergeCase) -> None:
    source, destination = history.tree(case.source), history.tree(case.destination)
    bases = [history.tree(base) for base in case.bases]
    for path in case.paths:
        assert (path.source, path.destination) == (source.get(path.path), destination.get(path.path))
        assert path.base is None or path.base == bases[0].get(path.path)
        assert path.expected in {source.get(path.path), destination.get(path.path), CONFLICT}
    unlisted = (source.keys() | destination.keys()) - {path.path for path in case.paths}
    assert all(source.get(path) == destination.get(path) for path in unlisted)


def test_resolutions_say_where_a_merge_differs_from_its_sides():
    tree = {"same": "1", "theirs": "2", "ours": "1", "new": "100644:3"}
    destination = {"same": "1", "theirs": "1", "ours": "1", "gone": "1"}
    source = {"same": "1", "theirs": "2", "ours": "2", "gone": "1", "dropped": "1"}
    assert resolutions_for(tree, destination, source) == {
        "theirs": "source",
        "ours": "destination",
        "gone": "deleted",
        "dropped": "destination",
        "new": entry_of("100644:3"),
    }


def test_entries_are_in_order_of_path_and_tell_their_identity():
    rows = entries_of({"b": "100755:2", "a": "100644:1"}).to_pylist()
    assert [(row["path"], row["checksum"], row["size_bytes"]) for row in rows] == [
        ("a", "git:100644:1", 1),
        ("b", "git:100755:2", 1),
    ]
    assert entries_of({}).num_rows == 0
