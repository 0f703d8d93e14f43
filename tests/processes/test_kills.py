"""Processes that are killed: the repository opens, is old or new, and takes the same work again."""

from __future__ import annotations

import functools
import hashlib
import re
import shutil

import pytest
import workers

import lakespark
from lakespark.operations import staged
from lakespark.storage import open_store

pytestmark = pytest.mark.processes

_PART = re.compile("part-[0-9a-f]{16}")


def state_of(folder):
    """Refs with what is staged on them, random file names made one; None where there is no repository yet."""
    opened = workers.opened(open_store(str(folder)))
    if not opened.ledger.exists():
        return None
    state = {}
    for name, ref in opened.ledger.refs().items():
        rows = staged.view(opened, ref).rows().to_pylist() if ref.kind == "branch" else []
        found = [(row["op"], _PART.sub("part", row["path"]), row["checksum"]) for row in rows]
        state[name] = (ref.commit_id, found)
    return state


@pytest.fixture
def template(tmp_path):
    """A namespace with something to commit on ``main`` and something to merge from ``dev`` into ``work``."""
    namespace = tmp_path / "template"
    repo = lakespark.Lake(tmp_path / "lake").repository(workers.REPOSITORY).create(str(namespace))
    main = repo.branch("main")
    main.object("a").upload("1")
    main.commit("first")
    repo.branch("work").create("main")
    dev = repo.branch("dev").create("main")
    dev.object("b").upload("2")
    dev.commit("second")
    main.object("c").upload("3")
    return namespace


def test_a_process_killed_at_any_storage_call_leaves_old_or_new(template, tmp_path):
    """And the work that was lost can be done on what it has left."""
    (sent,) = workers.run((workers.kill_at_each_call, str(template), str(tmp_path / "copies")))
    old = state_of(template)
    assert {name for name, _, got_through in sent if got_through} == set(workers.WORK)
    for name, work in workers.WORK.items():
        copies = [copy for other, copy, _ in sent if other == name]
        states = {copy: state_of(copy) for copy in copies}
        lost = [copy for copy, state in states.items() if state == (None if name == "create" else old)]
        assert 3 <= len(lost) < len(copies)
        for copy in lost:
            work(open_store(copy))
            states[copy] = state_of(copy)
        if name == "create":
            check_created(copies)
        else:
            assert all(state == states[copies[-1]] for state in states.values())


def check_created(copies):
    """Creations that were killed half way are finished by repeating them."""
    for copy in copies:
        workers.create(open_store(copy))
        main = lakespark.Repository.open(copy).branch("main")
        main.object("a").upload("1")
        main.commit("first")
        assert [commit.message for commit in main.log()] == ["first", "Repository created"]


def after(state, verb, name, number):
    """What one piece of work makes of a state: a branch, its head, its part of ``main``, and the names it made."""
    branch, head, merged, names = state
    if verb == "put":
        body = workers.contents_of(name, number).encode()
        return {**branch, name: hashlib.md5(body).hexdigest()}, head, merged, names
    if verb == "delete":
        return {**branch, name: None}, head, merged, names
    if verb == "commit":
        return branch, branch, merged, names
    if verb == "merge":
        return branch, head, head, names
    return branch, head, merged, names | {name}


def test_processes_killed_at_random_moments_leave_old_or_new(tmp_path):
    """Two victims at a time on one repository, each with a branch of its own that it merges into ``main``."""
    lake, seeds, kills = str(tmp_path), (1, 2), 20
    repo = lakespark.Lake(lake).repository(workers.REPOSITORY).create()
    for seed in seeds:
        repo.branch(f"w{seed}").create("main")
    sent = workers.run(*[(workers.kill_at_random, lake, seed, kills) for seed in seeds])
    for seed, victims in zip(seeds, sent, strict=True):
        assert len(victims) == kills
        nothing = dict.fromkeys(workers.paths_of(f"w{seed}"))
        state = (nothing, nothing, nothing, set())
        for begun, acknowledged, found in victims:
            state = functools.reduce(lambda state, work: after(state, *work), begun[:acknowledged], state)
            cut_off = begun[acknowledged:]
            assert len(cut_off) <= 1
            assert found == state or [found] == [after(state, *work) for work in cut_off]
            state = found
    for name in ("main", "w1", "w2"):
        commits = [commit.id for commit in repo.branch(name).log()]
        assert len(commits) == len(set(commits))
        for o in repo.branch(name).objects():
            assert hashlib.md5(repo.branch(name).object(o.path).reader().read()).hexdigest() == o.checksum
    assert workers.run((finish_the_work, lake, "w1")) == [["done"]]
    assert [o.path for o in repo.branch("main").objects(prefix="w1/")] == ["w1/last"]


def finish_the_work(lake, branch, connection):
    target = workers.branch_of(lake, branch)
    target.delete_objects([o.path for o in target.objects()])
    target.object(f"{branch}/last").upload("1")
    target.commit("last")
    target.merge_into("main")
    connection.send("done")


def test_a_victims_copy_can_be_worked_on_by_others(template, tmp_path):
    """A process killed with half a file written leaves it under a name that nobody reads."""
    copy = tmp_path / "copy"
    shutil.copytree(template, copy)
    before = state_of(copy)
    for folder in (copy / "_lakespark/ledger/_delta_log", copy / "_lakespark/ranges", copy / "data"):
        (folder / ".unfinished-0123").write_bytes(b"half")
    assert state_of(copy) == before
    repo = lakespark.Repository.open(copy)
    repo.branch("main").commit("goes on")
    assert repo.branch("main").get_commit().message == "goes on"
