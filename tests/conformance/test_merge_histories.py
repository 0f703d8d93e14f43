"""Merges that depend on the history: reverts and cherry-picks, and cases that break other systems.

What depends on an engine runs on both. Contents are letters.
"""

from dataclasses import replace

import pyarrow as pa
import pytest
from letters import ABSENT, RANGE_ENTRIES, address, commit_letters, identity, is_pure, letters_at, linked, make, sides

from lakespark.entries import ENTRY_COLUMNS
from lakespark.errors import (
    BadRequestException,
    InvalidResolutionError,
    MergeConflictError,
    NothingToCommitError,
    NothingToMergeError,
    RefNotFoundError,
)
from lakespark.model import Operation, RefChange
from lakespark.operations.commit import new_record
from lakespark.operations.resolve import branch_state, commit_record
from lakespark.testing import trees
from lakespark.tree.metarange import Metarange

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


def test_an_equal_put_is_no_change_and_yet_an_empty_commit_takes_its_address(repository):
    """As when the old object is to be given up: nothing but ``allow_empty`` brings the new one in by itself."""
    main = repository.branch("main")
    commit_letters(main, dict.fromkeys(("a", "b", "c", "d"), "A"))
    before = main.get_commit()
    main.object("c").copy("main", "c")
    main.stage(pa.Table.from_pylist([linked("b", "A") | {"physical_address": "data/elsewhere"}]))
    with pytest.raises(NothingToCommitError):
        main.commit("nothing")
    commit = main.commit("new address", allow_empty=True).get_commit()
    assert commit.meta_range_id == before.meta_range_id
    addresses = {row["path"]: row["physical_address"] for row in repository.ref("main@").objects_table().to_pylist()}
    assert addresses == {path: address(path, "A") for path in "acd"} | {"b": "data/elsewhere"}
    assert [*repository.ref("main~1").diff("main", type="two_dot")] == []


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
    results = {"AAA": "A", "ABA": "B", "AAB": "B", "A-A": ABSENT, "-A-": "A"}
    cases = {f"path-{number}": list(results)[number % 5] for number in range(40)}
    _, source, destination = sides(repository, cases)
    recut(repository, source if which == "source" else destination, 8000)
    before = {change.path for change in destination.diff(source)}
    assert before == {path for path, case in cases.items() if case[0] != case[1]}
    source.merge_into(destination)
    assert letters_at(destination) == {path: results[case] for path, case in cases.items() if results[case] != ABSENT}
    tree = repository.opened.tree(commit_record(repository.opened, destination.head.id))
    assert tree.threshold == trees.threshold_for(8000 if which == "destination" else RANGE_ENTRIES)
    assert is_pure(destination) == (which == "source")
    assert [*destination.diff(destination.head, type="two_dot")] == []
