"""Many sources merged as one operation: what so many merges would have come to, or nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakespark
from lakespark import graph
from lakespark.engine.duckdb import DuckDBEngine, Query
from lakespark.errors import (
    BadRequestException,
    DirtyBranchError,
    MergeConflictError,
    NothingToMergeError,
    StorageError,
)
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location, open_store
from lakespark.testing.faults import FaultyStore

_names = itertools.count()
DATE = 1_700_000_000


def new_repository(**settings):
    url = f"memory://merge-many-{next(_names)}"
    lakespark.Lake(url).repository("analytics").create(storage_namespace=url, **settings)
    return lakespark.Repository(None, None, OpenRepository(open_store(url), user="ann", options={}))


@pytest.fixture
def repo():
    return new_repository()


def commit(branch, **contents):
    for path, text in contents.items():
        branch.object(path).upload(text)
    return branch.commit(f"{', '.join(contents)}", date=DATE)


def paths(branch):
    return [entry.path for entry in branch.objects()]


def test_each_source_gets_a_merge_commit_and_all_are_one_operation(repo):
    main = repo.branch("main")
    for name in "abc":
        commit(repo.branch(f"dev-{name}").create("main"), **{name: name})
    before = len(list(repo.operations()))
    results = main.merge_all(["dev-a", repo.branch("dev-b"), "dev-c"])
    assert len(list(repo.operations())) == before + 1
    assert paths(main) == ["a", "b", "c"]
    merges = list(main.log(first_parent=True))[:3]
    assert [merge.id for merge in merges] == list(reversed(results))
    assert [merge.message for merge in merges] == [f"Merge 'dev-{name}' into 'main'" for name in "cba"]
    assert merges[0].parents == (results[1], repo.branch("dev-c").get_commit().id)
    assert not list(repo.branch("dev-a").diff("main~2", type="two_dot"))


def test_a_source_that_has_been_merged_is_passed_over(repo):
    main = repo.branch("main")
    dev = repo.branch("dev").create("main")
    commit(dev, a="1")
    repo.branch("old").create("main")
    results = main.merge_all(["old", "dev", "dev@"])
    assert [result is None for result in results] == [True, False, True]
    with pytest.raises(NothingToMergeError, match="has all of these sources already"):
        main.merge_all(["dev", "old"])


def test_of_sources_that_cannot_all_be_merged_none_is(repo):
    main = repo.branch("main")
    commit(repo.branch("one").create("main"), a="1", b="1")
    commit(repo.branch("two").create("main"), a="2")
    head = main.get_commit().id
    with pytest.raises(MergeConflictError, match=r"source 2, 'two': .*nothing was merged") as raised:
        main.merge_all(["one", "two"])
    assert raised.value.conflicts["path"].to_pylist() == ["a"]
    assert main.get_commit().id == head
    results = main.merge_all(["one", "two"], strategy="source-wins")
    assert results[1].conflicts["path"].to_pylist() == ["a"]
    assert main.object("a").reader().read() == b"2"


def test_the_first_source_that_cannot_be_merged_is_the_one_that_is_named(repo):
    main = repo.branch("main")
    for name in ("one", "two"):
        commit(repo.branch(name).create("main"), a=name)
    for sources, error in ((["one", "two", "main"], MergeConflictError), (["one", "main", "two"], BadRequestException)):
        with pytest.raises(error):
            main.merge_all(sources)
    assert len(list(main.log())) == 1


def test_where_both_sides_made_one_change_the_branch_keeps_its_own_entry(repo):
    """Among sources that are merged together, as in a merge alone; the tree's file serves again."""
    main = repo.branch("main")
    for name in ("apart", "same", "other"):
        commit(repo.branch(name).create("main"), **{"both" if name == "same" else name: "1"})
    commit(main, both="1", start="1")
    mine = main.object("both").stat().physical_address
    first, second, _ = main.merge_all(["apart", "same", "other"])
    assert main.object("both").stat().physical_address == mine
    records = [repo.opened.ledger.commit(merge.commit.id) for merge in (first, second)]
    assert records[0].metarange == records[1].metarange


def test_what_is_refused(repo):
    main = repo.branch("main")
    dev = repo.branch("dev").create("main")
    commit(dev, a="1")
    for sources in ([], "dev"):
        with pytest.raises(BadRequestException, match="give a list of one or more sources"):
            main.merge_all(sources)
    with pytest.raises(BadRequestException, match="cannot merge branch 'main' into itself"):
        main.merge_all(["dev", "main"])
    main.object("x").upload("1")
    with pytest.raises(DirtyBranchError):
        main.merge_all(["dev"])
    assert len(list(main.log())) == 1


def test_a_repeated_call_is_the_first_one(repo):
    main = repo.branch("main")
    commit(repo.branch("one").create("main"), a="1")
    commit(repo.branch("two").create("main"), b="1")
    first = main.merge_all(["one", "main~0", "two"], idempotency_key="nightly-1")
    assert first[1] is None
    commit(repo.branch("two"), c="1")
    again = main.merge_all(["one", "main~2", "two~1"], idempotency_key="nightly-1")
    assert again == first
    assert [result.bases for result in again if result] == [result.bases for result in first if result]
    assert paths(main) == ["a", "b"]


STEPS = st.lists(
    st.tuples(st.sampled_from(["commit", "merge"]), st.integers(0, 4), st.integers(0, 4), st.integers(0, 3)),
    max_size=14,
)


def history(steps):
    """A repository with five branches that have changed, and merged each other, in the way that ``steps`` says."""
    repo = new_repository()
    branches = [repo.branch(f"b{number}").create("main") for number in range(5)]
    for number, (kind, one, other, path) in enumerate(steps):
        if kind == "commit":
            branches[one].object(f"p{path}").upload(str(number % 3))
            branches[one].commit("changed", date=DATE + number, allow_empty=True)
        elif one != other:
            try:
                branches[other].merge_into(branches[one], strategy="source-wins", date=DATE + number)
            except NothingToMergeError:
                continue
    return repo


@pytest.mark.exhaustive
@settings(max_examples=60, deadline=None)
@given(STEPS, st.permutations(range(5)))
def test_commits_are_those_of_so_many_merges(steps, order):
    """Dates being equal, even the ids are: contents, parents and messages are the same."""
    repo = history(steps)
    one_by_one = []
    for number in order:
        try:
            one_by_one.append(
                repo.branch(f"b{number}").merge_into("main", strategy="dest-wins", date=DATE, message="merged")
            )
        except NothingToMergeError:
            one_by_one.append(None)
    repo.branch("again").create("main" if not any(one_by_one) else f"{next(filter(None, one_by_one))}^1")
    sources = [f"b{number}" for number in order]
    try:
        at_once = repo.branch("again").merge_all(sources, strategy="dest-wins", date=DATE, message="merged")
    except NothingToMergeError:
        at_once = [None] * 5
    assert at_once == one_by_one
    assert [r and r.bases for r in at_once] == [r and r.bases for r in one_by_one]


CHANGES = st.dictionaries(
    st.sampled_from([f"{letter}{n}" for letter in "abc" for n in range(9)]), st.integers(0, 3), max_size=6
)


@pytest.mark.exhaustive
@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 2, 5000]), CHANGES, st.lists(st.tuples(CHANGES, st.integers(0, 3)), min_size=2, max_size=8))
def test_sources_that_change_different_paths_come_to_what_so_many_merges_do(mean, first, sources):
    """From bases of different times, with paths deleted (0) and set, some of them by several sources."""
    repo = new_repository(range_entries=mean)
    main = repo.branch("main")
    bases = [change(main, first | {"before": 1})]
    for number, (changes, back) in enumerate(sources):
        change(repo.branch(f"b{number}").create(bases[-1 - back % len(bases)]), changes | {f"own{number}": 1})
        bases.append(change(main, {f"main{number}": 1}) if back == 3 else bases[-1])
    names = [f"b{number}" for number in range(len(sources))]
    again = repo.branch("again").create("main")
    one_by_one = [
        repo.branch(name).merge_into("main", strategy="source-wins", date=DATE, message="m") for name in names
    ]
    assert again.merge_all(names, strategy="source-wins", date=DATE, message="m") == one_by_one
    assert paths(again) == paths(main)
    assert repo.fsck(objects=True).is_clean


def change(branch, changes):
    """A commit that deletes paths (0) or sets them to a number; its id."""
    for path, value in changes.items():
        if value:
            branch.object(path).upload(str(value))
        elif branch.object(path).exists():
            branch.object(path).delete()
    return branch.commit("changed", date=DATE, allow_empty=True).id


def test_many_sources_are_compared_with_few_statements(repo, monkeypatch):
    """Where they change different paths: a merge alone takes half a dozen statements."""
    main = repo.branch("main")
    for number in range(40):
        commit(repo.branch(f"dev-{number}").create("main"), **{f"own/{number}": "1"})
    commit(main, start="1")
    statements = []
    collect = DuckDBEngine.collect

    def counted(engine, frame):
        statements.extend([1] if isinstance(frame, Query) else [])
        return collect(engine, frame)

    monkeypatch.setattr(DuckDBEngine, "collect", counted)
    assert all(main.merge_all([f"dev-{number}" for number in range(40)]))
    assert len(paths(main)) == 41
    assert len(statements) < 40


@pytest.mark.parametrize(
    "failing", [None, "get _lakespark/ranges", "put _lakespark/ranges", "put _lakespark/metaranges"]
)
def test_far_away_files_are_read_and_written_beside_the_merges(repo, failing):
    """The commits are the same; if one of the files fails, nothing was merged, and the next call merges all."""
    main = repo.branch("main")
    names = [f"dev-{number:02d}" for number in range(30)]
    for name in names:
        commit(repo.branch(name).create("main"), **{f"own/{name}": "1"})
    head = commit(main, start="1").id
    calls = itertools.count()

    def fail_late(call):
        if failing and f"{call.method} {call.key}".startswith(failing) and next(calls) == 25:
            raise StorageError("cannot write: full")

    store = FaultyStore(repo.opened.store, on_call=fail_late)
    store.location = Location("s3", "bucket", "lake")
    far = lakespark.Repository(None, None, OpenRepository(store, user="ann", options={})).branch("main")
    if failing:
        with pytest.raises(StorageError, match="full"):
            far.merge_all(names, date=DATE, message="merged")
        assert main.get_commit().id == head
    found = far.merge_all(names, date=DATE, message="merged")
    assert found == repo.branch("again").create(head).merge_all(names, date=DATE, message="merged")
    assert repo.fsck(objects=True).is_clean


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sets(st.integers(1, 5), max_size=3), min_size=2, max_size=14), st.data())
def test_best_among_agrees_with_merge_bases(back, data):
    """Over drawn histories: ``back`` says for each commit how far before it its parents are."""
    parents = {str(n): sorted({str(n - d) for d in steps if n >= d}) for n, steps in enumerate(back)}
    left, right = (data.draw(st.sampled_from(sorted(parents))) for _ in range(2))
    merged = graph.ancestors(parents.__getitem__, [right])
    expected = graph.merge_bases(parents.__getitem__, left, right, number=int)
    assert graph.best_among(parents.__getitem__, left, merged, number=int) == expected
