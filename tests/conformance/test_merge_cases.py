"""Merges: the three-way table row by row, decisions by path, what is refused and what is empty.

What depends on an engine runs on both. Contents are letters.
"""

import itertools
import re

import pyarrow as pa
import pytest
from letters import ABSENT, address, commit_letters, identity, is_pure, letters_at, linked, make, sides

from lakespark.errors import (
    BadRequestException,
    DirtyBranchError,
    InvalidPathError,
    InvalidResolutionError,
    MergeConflictError,
    NothingToMergeError,
    RefNotFoundError,
)

TABLE = """
base source destination  result conflict
-    -      -            -
-    -      A            A
-    A      -            A
-    A      A            A
-    A      B            !      added/added
A    -      -            -
A    -      A            -
A    -      B            !      removed/changed
A    A      -            -
A    A      A            A
A    A      B            B
A    B      -            !      changed/removed
A    B      A            B
A    B      B            B
A    B      C            !      changed/changed
"""
"""Every pattern of equal and different values, up to the names of the values."""

ROWS = {tuple(line.split()[:3]): line.split()[3:] for line in TABLE.strip().splitlines()[1:]}
CASES = list(itertools.product("-ABC", repeat=3))


def canonical(case):
    """The pattern of a case, and what its letters are called there."""
    letters = dict(zip(dict.fromkeys(value for value in case if value != ABSENT), "ABC", strict=False))
    return tuple(letters.get(value, value) for value in case), letters


def expected(case, strategy=None):
    """What a merge makes of a case: a letter, or ``!`` for a conflict that no strategy decides."""
    pattern, letters = canonical(case)
    result = ROWS[pattern][0]
    if result == "!" and strategy is not None:
        return case[1] if strategy == "source-wins" else case[2]
    return {called: letter for letter, called in letters.items()}.get(result, result)


# -- the table -------------------------------------------------------------------------------------------------


def test_the_table_has_every_pattern():
    """Five values to compare, fifteen patterns with and without absence; every case is one of them."""
    assert {canonical(case)[0] for case in CASES} == set(ROWS)
    assert len(ROWS) == 15


def three_way(repository, operation):
    """A way to apply source to destination over base, for all cases at once, and the branch for it to be done on."""
    cases = {"".join(case): case for case in CASES}
    if operation == "revert":  # of the commit that made base out of source
        source = repository.branch("source").create("main")
        commit_letters(source, {path: case[1] for path, case in cases.items()})
        destination = repository.branch("destination").create(source)
        base = commit_letters(destination, {path: case[0] for path, case in cases.items()})
        commit_letters(destination, {path: case[2] for path, case in cases.items()})
        return destination, lambda **how: destination.revert(base, **how).id
    _, source, destination = sides(repository, cases)
    if operation == "merge":
        return destination, lambda **how: source.merge_into(destination, **how)
    return destination, lambda **how: destination.cherry_pick(source, **how).id


@pytest.mark.parametrize("operation", ["merge", "cherry-pick", "revert"])
def test_every_row_of_the_three_way_table(lake, operation):
    """Without a strategy all conflicts are reported and nothing is changed; a strategy decides just those."""
    repository = make(lake)
    destination, apply = three_way(repository, operation)
    head = destination.head
    with pytest.raises(MergeConflictError) as raised:
        apply()
    rows = {row["path"]: row for row in raised.value.conflicts.to_pylist()}
    assert {path: row["conflict"] for path, row in rows.items()} == {
        "".join(case): ROWS[canonical(case)[0]][1] for case in CASES if expected(case) == "!"
    }
    assert list(rows) == sorted(rows)
    for path, row in rows.items():
        for side, letter in zip(("base", "source", "destination"), path, strict=True):
            found = [row[f"{side}_{name}"] for name in ("identity", "size_bytes", "physical_address")]
            is_there = letter != ABSENT
            assert found == ([identity(letter), ord(letter), address(path, letter)] if is_there else [None] * 3)
    assert destination.head == head
    for strategy in ("source-wins", "dest-wins"):
        destination.move_to(head)
        result = apply(strategy=strategy)
        assert destination.head.id == result
        wanted = {"".join(case): expected(case, strategy) for case in CASES}
        assert letters_at(destination) == {path: letter for path, letter in wanted.items() if letter != ABSENT}
        assert is_pure(destination)


def test_a_merge_names_destination_and_source_as_parents_and_the_decided_conflicts(repository):
    _, source, destination = sides(repository, {"both": "ABC", "mine": "AAB", "theirs": "ABA"})
    parents = (destination.head.id, source.head.id)
    result = source.merge_into(destination, strategy="source-wins", message="m", metadata={"k": "v"}, committer="bob")
    commit = destination.get_commit()
    assert (commit.parents, commit.message, commit.metadata, commit.committer) == (parents, "m", {"k": "v"}, "bob")
    assert result.commit == commit
    assert result.bases == (repository.branch("base").head.id,)
    assert result.conflicts["path"].to_pylist() == ["both"]


# -- resolutions -----------------------------------------------------------------------------------------------

SITUATIONS = {
    "conflict": "ABC",
    "added": "-BC",
    "removed": "A-C",
    "source-only": "ABA",
    "source-deleted": "A-A",
    "destination-only": "AAC",
    "destination-deleted": "AA-",
    "no-side": "AAA",
    "both": "ABB",
    "nowhere": "---",
}
CHOICES = {"source": 1, "destination": 2, "base": 0}


def resolutions_of(paths):
    """A choice for each path, which its name says."""
    return {path: linked(path, "D") if path.endswith("entry") else path.rsplit("/", 1)[1] for path in paths}


def resolved(path, case):
    choice = path.rsplit("/", 1)[1]
    return case[CHOICES[choice]] if choice in CHOICES else {"deleted": ABSENT, "entry": "D"}[choice]


@pytest.mark.parametrize("form", ["mapping", "table"])
def test_resolutions_decide_their_paths_whatever_the_sides_did(lake, form):
    """Every choice for every situation in one merge; the rest of the paths are merged as ever."""
    choices = [*CHOICES, "deleted", "entry"]
    cases = {f"{name}/{choice}": case for name, case in SITUATIONS.items() for choice in choices}
    decided = resolutions_of(cases)
    cases |= {"undecided/source": "ABA", "undecided/destination": "AAC"}
    repository = make(lake)
    _, source, destination = sides(repository, cases)
    result = source.merge_into(destination, resolutions=decided if form == "mapping" else as_table(decided))
    wanted = {path: resolved(path, cases[path]) for path in decided}
    wanted |= {"undecided/source": "B", "undecided/destination": "C"}
    assert letters_at(destination) == {path: letter for path, letter in wanted.items() if letter != ABSENT}
    assert result.conflicts.num_rows == 0
    assert is_pure(destination)


def as_table(decided):
    """Resolutions as a table: choices, and entries in the columns of an entry."""
    rows = [
        {**choice, "resolution": None} if isinstance(choice, dict) else {"path": path, "resolution": choice}
        for path, choice in decided.items()
    ]
    columns = ("path", "resolution", "physical_address", "size_bytes", "checksum")
    return pa.table({name: [row.get(name) for row in rows] for name in columns})


def test_conflicts_without_a_resolution_are_reported_alone(repository):
    _, source, destination = sides(repository, {"a": "ABC", "b": "ABC"})
    with pytest.raises(MergeConflictError) as raised:
        source.merge_into(destination, resolutions={"a": "source"})
    assert raised.value.conflicts["path"].to_pylist() == ["b"]
    assert "b" in str(raised.value)
    result = source.merge_into(destination, resolutions={"a": "source"}, strategy="dest-wins")
    assert letters_at(destination) == {"a": "B", "b": "C"}
    assert result.conflicts["path"].to_pylist() == ["b"]


@pytest.mark.parametrize("operation", ["cherry_pick", "revert"])
def test_revert_and_cherry_pick_take_resolutions_too(repository, operation):
    base, source, destination = sides(repository, {"a": "ABC", "b": "ABA"})
    if operation == "cherry_pick":
        destination.cherry_pick(source, resolutions={"a": "base", "new": linked("new", "D")})
        assert letters_at(destination) == {"a": "A", "b": "B", "new": "D"}
    else:
        commit_letters(base, {"a": "C", "b": "B"})
        with pytest.raises(MergeConflictError):
            base.revert(source)
        base.revert(source, resolutions={"a": "source"})
        assert letters_at(base) == {"a": "A", "b": "A"}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"a": "theirs"}, InvalidResolutionError),
        ({"a": None}, InvalidResolutionError),
        ({"a": {"size_bytes": 1}}, InvalidResolutionError),
        ({"": "source"}, InvalidPathError),
        (pa.table({"path": ["a"]}), InvalidResolutionError),
        (pa.table({"path": ["a", "a"], "resolution": ["source", "source"]}), InvalidResolutionError),
        (pa.table({"path": ["a"], "resolution": ["ours"]}), InvalidResolutionError),
    ],
)
def test_a_wrong_resolution_is_named_and_changes_nothing(repository, wrong, error):
    _, source, destination = sides(repository, {"a": "ABC"})
    head = destination.head
    with pytest.raises(error):
        source.merge_into(destination, resolutions=wrong)
    assert destination.head == head


def test_an_unknown_strategy_is_refused(repository):
    _, source, destination = sides(repository, {"a": "ABA"})
    with pytest.raises(BadRequestException, match="ours"):
        source.merge_into(destination, strategy="ours")


# -- what is refused, what is empty ----------------------------------------------------------------------------


def test_squash_makes_a_commit_with_one_parent(repository):
    """Which the merge base knows nothing of: a later merge compares with the old one."""
    base, source, destination = sides(repository, {"a": "ABA", "b": "AAB"})
    head = destination.head
    result = source.merge_into(destination, squash=True)
    assert letters_at(destination) == {"a": "B", "b": "B"}
    assert result.commit.parents == (head.id,)
    assert [commit.id for commit in repository.merge_bases(source, destination)] == [base.head.id]
    commit_letters(source, {"a": "C", "b": "A"})
    with pytest.raises(MergeConflictError):
        source.merge_into(destination, squash_merge=True)


def test_what_is_merged_already_is_nothing_to_merge(repository):
    """The same commit, an ancestor, and a branch that was merged; each by name, id and expression."""
    _, source, destination = sides(repository, {"a": "ABA"})
    source.merge_into(destination)
    head = destination.head
    for done in (source, source.head, "source~1", "main", "destination@", "destination~1", head.id, head.id[:12]):
        with pytest.raises(NothingToMergeError, match="destination"):
            repository.ref(str(done)).merge_into(destination)
    assert destination.head == head
    result = source.merge_into(destination, allow_empty=True)
    assert result.commit.parents == (head.id, source.head.id)
    assert letters_at(destination) == {"a": "B"}


def test_a_source_that_changed_nothing_is_nothing_to_merge(repository):
    """Commits that leave the tree as it was, and a change that was taken back."""
    base, source, destination = sides(repository, {"a": "ABC"})
    commit_letters(source, {"a": "A"})
    with pytest.raises(NothingToMergeError, match="changed nothing"):
        source.merge_into(destination)
    result = source.merge_into(destination, allow_empty=True)
    assert result.bases == (base.head.id,)
    assert letters_at(destination) == {"a": "C"}


def test_a_source_that_made_the_same_changes_is_merged(repository):
    """The contents stay, the histories join: the next merge compares with this one."""
    _, source, destination = sides(repository, {"a": "ABB", "b": "A--", "c": "-CC"})
    tree = destination.get_commit().meta_range_id
    result = source.merge_into(destination)
    assert result.commit.meta_range_id == tree
    assert [commit.id for commit in repository.merge_bases(source, destination)] == [source.head.id]


def test_a_dirty_destination_is_refused_with_paths_and_who_and_when(repository):
    _, source, destination = sides(repository, {"a": "ABA", "b": "AAA"})
    destination.object("b").delete()
    destination.object("new").upload("new")
    for merge in (
        lambda: source.merge_into(destination),
        lambda: destination.revert(destination),
        lambda: destination.cherry_pick(source),
    ):
        with pytest.raises(DirtyBranchError) as raised:
            merge()
        message = str(raised.value)
        assert re.search(r"\bb \(removed by ann at \d{4}-\d\d-\d\dT", message)
        assert re.search(r"\bnew \(added by ann at \d{4}-\d\d-\d\dT", message)
    assert letters_at(repository.ref("destination@")) == {"a": "A", "b": "A"}


def test_what_is_uncommitted_on_the_source_is_ignored(repository):
    _, source, destination = sides(repository, {"a": "ABA"})
    source.object("new").upload("new")
    source.object("a").delete()
    source.merge_into(destination)
    assert letters_at(destination) == {"a": "B"}
    assert [change.path for change in source.uncommitted()] == ["a", "new"]


def test_a_branch_is_not_merged_into_itself(repository):
    for how in ({}, {"allow_empty": True}, {"resolutions": {"a": "deleted"}}):
        with pytest.raises(BadRequestException, match="into itself"):
            repository.branch("main").merge_into("main", **how)


@pytest.mark.parametrize("name", ["none", "v1", "main~1", "main@"])
def test_the_destination_is_a_branch(repository, name):
    repository.tag("v1").create("main")
    with pytest.raises((RefNotFoundError, BadRequestException)):
        repository.branch("main").merge_into(name)
