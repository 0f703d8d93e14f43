"""Many sources merged as one operation: what so many merges would have come to, or nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakespark
from lakespark import graph
from lakespark.errors import BadRequestException, DirtyBranchError, MergeConflictError, NothingToMergeError
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store

_names = itertools.count()
DATE = 1_700_000_000


def new_repository():
    url = f"memory://merge-many-{next(_names)}"
    lakespark.Lake(url).repository("analytics").create(storage_namespace=url)
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


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sets(st.integers(1, 5), max_size=3), min_size=2, max_size=14), st.data())
def test_best_among_agrees_with_merge_bases(back, data):
    """Over drawn histories: ``back`` says for each commit how far before it its parents are."""
    parents = {str(n): sorted({str(n - d) for d in steps if n >= d}) for n, steps in enumerate(back)}
    left, right = (data.draw(st.sampled_from(sorted(parents))) for _ in range(2))
    merged = graph.ancestors(parents.__getitem__, [right])
    expected = graph.merge_bases(parents.__getitem__, left, right, number=int)
    assert graph.best_among(parents.__getitem__, left, merged, number=int) == expected
