"""Merge, revert and cherry-pick: the three-way table row by row, decisions by path, and cases that break other systems.

What depends on an engine runs on both. Contents are letters; an object of contents A at a path is linked, not read.
"""

import itertools
import re
from dataclasses import replace

import pyarrow as pa
import pytest

from lakespark import Lake
from lakespark.entries import ENTRY_COLUMNS
from lakespark.errors import (
    BadRequestException,
    DirtyBranchError,
    InvalidPathError,
    InvalidResolutionError,
    MergeConflictError,
    NothingToMergeError,
    RefNotFoundError,
)
from lakespark.model import Operation, RefChange
from lakespark.operations.commit import new_record
from lakespark.operations.resolve import branch_state, commit_record
from lakespark.testing import trees
from lakespark.tree.metarange import Metarange

ABSENT = "-"
RANGE_ENTRIES = 3

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

_numbers = itertools.count()


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


def linked(path, letter):
    """Entry columns of an object with a letter as its contents."""
    return {
        "path": path,
        "physical_address": address(path, letter),
        "size_bytes": ord(letter),
        "checksum": f"x:{letter}",
    }


def address(path, letter):
    return f"data/{letter}/{path.encode().hex()}"


def identity(letter):
    return trees.Entry("", ord(letter), f"x:{letter}", "application/octet-stream", ()).identity


def commit_letters(branch, letters, **described):
    """Make the branch hold just these letters by path (``-`` is nothing), and commit."""
    wanted = {path: letter for path, letter in letters.items() if letter != ABSENT}
    now = letters_at(branch)
    gone = [path for path in now if path not in wanted]
    new = [linked(path, letter) for path, letter in wanted.items() if now.get(path) != letter]
    if new:
        branch.stage(pa.Table.from_pylist(new))
    branch.delete_objects(gone)
    return branch.commit(described.pop("message", "letters"), engine="duckdb", allow_empty=True, **described)


def letters_at(reference):
    """The letter at each path."""
    rows = reference.objects_table().select(["path", "checksum"]).to_pylist()
    return {row["path"]: row["checksum"].removeprefix("x:") for row in rows}


def make(lake, name="merges"):
    return lake.repository(name).create(range_entries=RANGE_ENTRIES)


@pytest.fixture
def repository():
    """A repository in memory, for what no engine has a part in."""
    return make(Lake(f"memory://merges-{next(_numbers)}/lake", user="ann"))


def sides(repository, cases, prefix=""):
    """Branches base, source and destination, by path and case (base, source, destination letter)."""
    base = repository.branch(f"{prefix}base").create("main")
    commit_letters(base, {path: case[0] for path, case in cases.items()})
    found = [base]
    for number, name in ((1, "source"), (2, "destination")):
        found.append(repository.branch(prefix + name).create(base))
        commit_letters(found[-1], {path: case[number] for path, case in cases.items()}, message=name)
    return found


def is_pure(reference):
    """Whether the metarange id is that of the contents, worked out without the library."""
    rows = reference.objects_table().to_pylist(maps_as_pydicts="strict")
    columns = ("physical_address", "size_bytes", "checksum", "content_type")
    entries = {row["path"]: trees.Entry(*(row[name] for name in columns), ()) for row in rows}
    threshold = trees.threshold_for(RANGE_ENTRIES)
    ranges = tuple(trees.Range(0, run) for run in trees.cut(entries, threshold))
    return trees.Tree(0, threshold, ranges).id == reference.get_commit().meta_range_id


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


# -- revert and cherry-pick ------------------------------------------------------------------------------------


def test_revert_undoes_one_commit_and_keeps_the_others(repository):
    main = repository.branch("main")
    commit_letters(main, {"a": "A", "b": "A"})
    wrong = commit_letters(main, {"a": "B", "c": "B"}, message="wrong")
    commit_letters(main, {"a": "B", "c": "B", "d": "C"})
    head = main.head.id
    reverted = main.revert(wrong)
    assert letters_at(main) == {"a": "A", "b": "A", "d": "C"}
    assert reverted.parents == (head,)
    assert "wrong" in reverted.message
    main.revert(reverted.id)
    assert letters_at(main) == {"a": "B", "c": "B", "d": "C"}
    with pytest.raises(NothingToMergeError):
        main.cherry_pick(wrong)
    main.revert(wrong, message="again", allow_empty=True)
    assert letters_at(main) == {"a": "A", "b": "A", "d": "C"}


def test_a_merge_is_reverted_and_picked_by_parent_number(repository):
    _, source, destination = sides(repository, {"s": "ABA", "d": "AAB"})
    merge = source.merge_into(destination)
    other = repository.branch("other").create("base")
    for apply in (destination.revert, other.cherry_pick):
        with pytest.raises(BadRequestException, match="parent"):
            apply(merge)
        for number in (3, -1):
            with pytest.raises(RefNotFoundError, match="parent number"):
                apply(merge, number)
    other.cherry_pick(merge, 1)
    assert letters_at(other) == {"s": "B", "d": "A"}
    other.cherry_pick(merge, 2)
    assert letters_at(other) == {"s": "B", "d": "B"}
    destination.revert(merge, 1)
    assert letters_at(destination) == {"s": "A", "d": "B"}
    destination.revert(merge, 2)
    assert letters_at(destination) == {"s": "A", "d": "A"}
    with pytest.raises(NothingToMergeError):
        source.merge_into(destination)


def test_the_initial_commit_has_nothing_to_compare_with(repository):
    main = repository.branch("main")
    for apply in (main.revert, main.cherry_pick):
        with pytest.raises(BadRequestException, match="initial"):
            apply("main")


def test_a_revert_over_later_changes_reports_its_conflicts(repository):
    main = repository.branch("main")
    commit_letters(main, {"a": "A", "b": "A"})
    wrong = commit_letters(main, {"a": "B"})
    commit_letters(main, {"a": "C", "b": "C"})
    with pytest.raises(MergeConflictError) as raised:
        main.revert(wrong)
    rows = [(row["path"], row["conflict"]) for row in raised.value.conflicts.to_pylist()]
    assert rows == [("a", "changed/changed"), ("b", "added/added")]
    assert f"revert of {wrong}" in str(raised.value)


# -- cases that break other systems ----------------------------------------------------------------------------


def test_identical_contents_under_neighbouring_paths(lake):
    """An added path must not vanish because its neighbour holds the same; an add/add conflict must not be missed."""
    repository = make(lake)
    cases = {"a": "AAA", "a/": "-A-", "a/b": "--A", "a//b": "-A-", "b": "-AB", "b/": "-BB", "c": "A-A", "c0": "-A-"}
    _, source, destination = sides(repository, cases)
    with pytest.raises(MergeConflictError) as raised:
        source.merge_into(destination)
    assert raised.value.conflicts.select(["path", "conflict"]).to_pylist() == [{"path": "b", "conflict": "added/added"}]
    source.merge_into(destination, resolutions={"b": "source"})
    assert letters_at(destination) == {"a": "A", "a/": "A", "a/b": "A", "a//b": "A", "b": "A", "b/": "B", "c0": "A"}
    assert is_pure(destination)


def test_a_delete_stays_deleted_after_main_was_merged_into_both_sides(repository):
    """Compared with P, where F is not, B would look unchanged and A as if it had added F."""
    main, p = repository.branch("main"), {"x": "A"}
    commit_letters(main, p)
    a, b = repository.branch("a").create("main"), repository.branch("b").create("main")
    commit_letters(a, p | {"a": "A"})
    commit_letters(b, p | {"b": "A"})
    commit_letters(main, p | {"F": "A"})
    main.merge_into(a)
    main.merge_into(b)
    b.object("F").delete()
    b.commit("F is not wanted")
    result = a.merge_into(b)
    assert letters_at(b) == {"x": "A", "a": "A", "b": "A"}
    assert result.bases == (main.head.id,)


def criss_cross(repository, cases):
    """Two bases, merged into each other on both sides; the ends as the cases say.

    A case is a letter each in: the root, base one, base two, source, destination.
    """
    root = repository.branch("root").create("main")
    commit_letters(root, {path: case[0] for path, case in cases.items()}, date=100)
    one, two = repository.branch("one").create(root), repository.branch("two").create(root)
    commit_letters(one, {path: case[1] for path, case in cases.items()}, date=200)
    commit_letters(two, {path: case[2] for path, case in cases.items()}, date=300)
    source, destination = repository.branch("source").create(one), repository.branch("destination").create(two)
    for branch, other, number in ((source, "two", 3), (destination, "one", 4)):
        repository.ref(other).merge_into(branch, strategy="dest-wins", allow_empty=True, engine="duckdb")
        commit_letters(branch, {path: case[number] for path, case in cases.items()})
    return source, destination


CRISS_CROSS = {
    "unchanged": ("AAAAA", "A"),
    "one-side-changed-early": ("ABABB", "B"),
    "then-the-source-changed-it": ("ABACB", "C"),
    "then-the-destination-changed-it": ("ABABC", "C"),
    "then-both-changed-it": ("ABACD", "!"),
    "bases-conflict-sides-agree": ("ABCBB", "B"),
    "bases-conflict-sides-as-the-bases": ("ABCBC", "!"),
    "bases-conflict-one-side-elsewhere": ("ABCDC", "!"),
    "bases-conflict-both-deleted": ("ABC--", "-"),
    "bases-added-differently": ("-BCBC", "!"),
    "bases-added-the-same": ("-BBBC", "C"),
    "added-by-one-base-deleted-later": ("-B-B-", "-"),
    "deleted-by-one-base": ("A-A--", "-"),
    "deleted-and-brought-back": ("A-A-B", "B"),
    "modify-delete-source-as-the-root": ("AB-AC", "C"),
    "modify-delete-sides-as-the-bases": ("AB-B-", "!"),
    "modify-delete-destination-as-the-root": ("AB-BA", "B"),
}
"""Letters in root, both bases, source and destination, and the result. The base of a path is the merge of both bases
over the root: a value equal to nothing where they conflict, the root's where one deleted what the other changed."""


def test_criss_cross_histories(lake):
    """Each path as if it were alone in the history; all the conflicts are reported at once."""
    repository = make(lake)
    cases = {name: case for name, (case, _) in CRISS_CROSS.items()}
    source, destination = criss_cross(repository, cases)
    conflicts = {name for name, (_, result) in CRISS_CROSS.items() if result == "!"}
    assert len(repository.merge_bases(source, destination)) == 2
    with pytest.raises(MergeConflictError) as raised:
        source.merge_into(destination)
    assert set(raised.value.conflicts["path"].to_pylist()) == conflicts
    diff = {change.path: change.type for change in destination.diff(source)}
    assert {path for path, kind in diff.items() if kind == "conflict"} == conflicts
    source.merge_into(destination, strategy="source-wins")
    wanted = {name: cases[name][3] if result == "!" else result for name, (_, result) in CRISS_CROSS.items()}
    assert letters_at(destination) == {path: letter for path, letter in wanted.items() if letter != ABSENT}


def test_the_base_of_several_bases_can_be_chosen(repository):
    """Also where only a base of the bases has it; a path on which the bases are in conflict has none."""
    names = ("modify-delete-sides-as-the-bases", "bases-conflict-sides-as-the-bases", "then-both-changed-it")
    source, destination = criss_cross(repository, {name: CRISS_CROSS[name][0] for name in names})
    early, conflicting, late = names
    with pytest.raises(MergeConflictError) as raised:
        source.merge_into(destination)
    bases = {row["path"]: row["base_physical_address"] for row in raised.value.conflicts.to_pylist()}
    assert bases == {early: address(early, "A"), conflicting: None, late: address(late, "B")}
    with pytest.raises(InvalidResolutionError, match=conflicting):
        source.merge_into(destination, resolutions=dict.fromkeys(names, "base"))
    source.merge_into(destination, resolutions={early: "base", late: "base", conflicting: "deleted"})
    assert letters_at(destination) == {early: "A", late: "B"}


def test_equal_commits_staged_under_different_addresses_both_stay_readable(repository):
    """Contents, message, committer and second are the same, and so is the commit id; the first record counts."""
    one, two = repository.branch("one").create("main"), repository.branch("two").create("main")
    addresses = set()
    for branch in (one, two):
        branch.object("a").upload("the same")
        addresses.add(branch.object("a").stat().physical_address)
        branch.commit("equal", committer="ann", date=1700000000)
    assert len(addresses) == 2
    assert one.head == two.head
    for reference in (one, two, repository.commit(one.head.id)):
        assert reference.object("a").reader("r").read() == "the same"
        assert reference.object("a").stat().physical_address in addresses
    assert [*two.uncommitted()] == []
    assert len(list(two.log())) == 2


def test_a_path_that_looks_like_another_entry_is_a_path_of_its_own(lake):
    """A line feed and an encoded entry in a path: other ids, a diff, and a merge that keeps both."""
    repository = make(lake)
    disguised = f"a64:{identity('A')}\n1:b"
    _, source, destination = sides(repository, {"a": "--A", "b": "--A", disguised: "-A-"})
    ids = {branch.get_commit().meta_range_id for branch in (source, destination)}
    assert len(ids) == 2
    assert {change.path for change in source.diff(destination, type="two_dot")} == {"a", "b", disguised}
    source.merge_into(destination)
    assert letters_at(destination) == {"a": "A", "b": "A", disguised: "A"}
    assert is_pure(destination)


def test_equal_contents_have_equal_ids_and_share_files_after_any_history(repository):
    """Straight, and by way of other contents, a merge and a revert: nothing is rewritten that is there already."""
    letters = {f"path-{number}": "A" for number in range(30)}
    straight, winding = repository.branch("straight").create("main"), repository.branch("winding").create("main")
    commit_letters(straight, letters)
    commit_letters(winding, dict.fromkeys(list(letters)[::2], "B"))
    commit_letters(winding, {})
    straight.merge_into(winding)
    detour = commit_letters(winding, letters | {"path-3": "C", "z": "C"})
    winding.revert(detour)
    assert winding.get_commit().meta_range_id == straight.get_commit().meta_range_id
    opened = repository.opened
    found = [opened.tree(commit_record(opened, branch.head.id)).ranges for branch in (straight, winding)]
    assert found[0] == found[1]


def recut(repository, branch, mean):
    """Commit the same contents on a branch in ranges of another mean size."""
    opened = repository.opened
    state = branch_state(opened, branch.id)
    head = commit_record(opened, state.commit_id)
    run, threshold = opened.local_engine, trees.threshold_for(mean)
    rows = run.read_ranges(opened.tree(head).ranges, ENTRY_COLUMNS)
    tree = Metarange(threshold, tuple(run.write_ranges(rows, threshold, {})))
    record = new_record(opened, tree, (head,), message="recut", metadata=None, committer=None, date=None)
    change = RefChange(branch.id, state, replace(state, commit_id=record.commit.id))
    opened.ledger.operate(lambda: Operation("commit", (change,), (record,)))


@pytest.mark.parametrize("which", ["source", "destination"])
def test_where_thresholds_differ_the_destinations_counts(lake, which):
    """Diff and merge see contents only; a range that both sides have is not written again."""
    repository = make(lake)
    cases = {f"path-{number}": ("AAA", "ABA", "AAB", "A-A", "-A-")[number % 5] for number in range(40)}
    _, source, destination = sides(repository, cases)
    recut(repository, source if which == "source" else destination, 8000)
    before = {change.path for change in destination.diff(source)}
    assert before == {path for path, case in cases.items() if case[0] != case[1]}
    source.merge_into(destination)
    assert letters_at(destination) == {
        path: letter for path, case in cases.items() if (letter := expected(case)) != ABSENT
    }
    tree = repository.opened.tree(commit_record(repository.opened, destination.head.id))
    assert tree.threshold == trees.threshold_for(8000 if which == "destination" else RANGE_ENTRIES)
    assert is_pure(destination) == (which == "source")
    assert [*destination.diff(destination.head, type="two_dot")] == []
