"""Processes that work at once: what was acknowledged is there, once; of two that want one name, one wins."""

from __future__ import annotations

import pytest
import workers

import lakespark

pytestmark = pytest.mark.processes


@pytest.fixture
def lake(tmp_path):
    lakespark.Lake(tmp_path).repository(workers.REPOSITORY).create()
    return str(tmp_path)


def repository(lake):
    return lakespark.Lake(lake).repository(workers.REPOSITORY)


def contents(reference):
    return {o.path: reference.object(o.path).reader("r").read() for o in reference.objects()}


def check_commits(branch, sent):
    """Every acknowledged commit is in the history once, every acknowledged object in head, and nothing else."""
    *log, _first = [commit.id for commit in branch.log()]
    assert sorted(log) == sorted(commit_id for _, commit_id in sent if commit_id is not None)
    assert len(set(log)) == len(log)
    assert contents(branch.head) == {path: path for path, _ in sent}
    assert list(branch.uncommitted()) == []


def test_four_processes_commit_to_one_branch(lake):
    sent = workers.run(*[(workers.commit_each, lake, "main", f"writer-{w}", 25) for w in range(4)])
    assert [len(messages) for messages in sent] == [25] * 4
    check_commits(repository(lake).branch("main"), [message for messages in sent for message in messages])


def test_four_processes_commit_to_four_branches(lake):
    repo = repository(lake)
    for writer in range(4):
        repo.branch(f"writer-{writer}").create("main")
    sent = workers.run(*[(workers.commit_each, lake, f"writer-{w}", f"writer-{w}", 25) for w in range(4)])
    for writer, messages in enumerate(sent):
        assert len(messages) == 25
        assert all(commit_id is not None for _, commit_id in messages)
        check_commits(repo.branch(f"writer-{writer}"), messages)


def test_a_writer_and_a_committer_on_one_branch_lose_nothing(lake, tmp_path):
    """The last acknowledged state of every path is what the branch has, whichever commit took it in."""
    done = tmp_path / "done"
    written, committed = workers.run(
        (workers.write_until, lake, 40, str(done)), (workers.commit_often, lake, 30, str(done))
    )
    last = dict(written)
    branch = repository(lake).branch("main")
    expected = {path: value for path, value in last.items() if value is not None}
    assert len(committed) == 30
    assert contents(branch) == expected
    if list(branch.uncommitted()):
        committed.append(branch.commit("the rest").id)
    assert contents(branch.head) == expected
    *log, _first = [commit.id for commit in branch.log()]
    assert sorted(log) == sorted(committed)


def test_a_name_becomes_a_branch_or_a_tag_never_both(lake):
    barrier = workers.SPAWN.Barrier(2)
    branches, tags = workers.run(
        (workers.create_names, lake, "branch", 12, barrier), (workers.create_names, lake, "tag", 12, barrier)
    )
    assert [one + other for one, other in zip(branches, tags, strict=True)] == [1] * 12
    repo = repository(lake)
    assert {ref.id for ref in repo.branches()} == {"main"} | {f"n{n}" for n, won in enumerate(branches) if won}
    assert {ref.id for ref in repo.tags()} == {f"n{n}" for n, won in enumerate(tags) if won}


@pytest.mark.parametrize("namespaces", ["one", "two"])
def test_of_two_creations_of_one_repository_one_wins(tmp_path, namespaces):
    """In one storage namespace both help to make it, but only one may say that it was the one."""
    barrier = workers.SPAWN.Barrier(2)
    places = [None, None] if namespaces == "one" else [str(tmp_path / "a"), str(tmp_path / "b")]
    sent = workers.run(
        *[(workers.create_repositories, str(tmp_path / "lake"), (10, place, False), barrier) for place in places]
    )
    assert [one + other for one, other in zip(*sent, strict=True)] == [1] * 10
    for repo in lakespark.Lake(tmp_path / "lake").repositories():
        repo.branch("main").object("a").upload("1")
        assert [commit.message for commit in repo.branch("main").log()] == ["Repository created"]


def test_two_creations_that_do_not_mind_the_other_both_succeed(tmp_path):
    barrier = workers.SPAWN.Barrier(2)
    sent = workers.run(*[(workers.create_repositories, str(tmp_path), (6, None, True), barrier) for _ in range(2)])
    assert sent == [[True] * 6] * 2
    assert [repo.id for repo in lakespark.Lake(tmp_path).repositories()] == [f"repo-{n}" for n in range(6)]
