"""A store that fails at each of its calls in turn: the state is old or new, and the same work can be done again."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pytest

import lakespark
from lakespark.errors import StateUnknownError, StorageError
from lakespark.operations import creation, staged
from lakespark.operations.fsck.check import fsck
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store
from lakespark.tables import delta_log
from lakespark.tables.catalog import Catalog
from lakespark.tables.delta_log import LEVEL_FACTOR
from lakespark.testing.faults import FaultyStore

_names = itertools.count()


def new_store():
    return open_store(f"memory://faults-{next(_names)}")


def copy_of(store):
    """A new memory store with the same files."""
    copy = new_store()
    for file in store.list(""):
        copy.put(file.key, store.get(file.key))
    return copy


def repository_at(store, user="ann"):
    return lakespark.Repository(None, None, OpenRepository(store, user=user, options={}))


def state_of(store):
    """The refs and what is staged on them, as a handle finds them that never failed."""
    opened = OpenRepository(store, user="ann", options={})
    opened.ledger.refresh()
    state = {}
    for name, ref in opened.ledger.refs().items():
        rows = staged.view(opened, ref).rows().to_pylist() if ref.kind == "branch" else []
        state[name] = (ref.commit_id, [(row["op"], row["path"], row["checksum"]) for row in rows])
    return state


def seen_of(store):
    """What a user sees: every branch with its objects and its messages."""
    repo = repository_at(store)
    return {
        branch.id: ([(o.path, o.checksum) for o in branch.objects()], [commit.message for commit in branch.log()])
        for branch in repo.branches(hidden=True)
    }


@pytest.fixture(scope="module")
def template():
    """A repository with two branches that have changed, one of them with staged objects."""
    store = new_store()
    repo = lakespark.Lake(store.location.url).repository("analytics").create(storage_namespace=store.location.url)
    main = repo.branch("main")
    main.object("a").upload("1")
    main.commit("first")
    dev = repo.branch("dev").create("main")
    dev.object("b").upload("2")
    dev.commit("on dev")
    spare = repo.branch("spare").create("main")
    spare.object("s1").upload("1")
    return store


@pytest.fixture(scope="module")
def full_template(template):
    """The same, where the next but one entry of the ledger and of the staging of ``spare`` is compacted."""
    store = copy_of(template)
    repo = repository_at(store)
    repo.opened.ledger.refresh()
    for number in range(LEVEL_FACTOR - 3 - repo.opened.ledger.version):
        repo.tag(f"t{number}").create("main")
    for number in range(LEVEL_FACTOR - 3):
        repo.branch("spare").object(f"s{number}").upload(str(number))
    return store


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Give up on a failing store after two tries: the tries between them show nothing new."""
    monkeypatch.setattr(delta_log, "_SETTLE_TRIES", 2)


@dataclass(frozen=True)
class Work:
    """One operation, and what another writer does between the handle's last look and it."""

    act: Callable[[lakespark.Repository], object]
    meanwhile: Callable[[lakespark.Repository], object]


def upload(repo):
    repo.branch("spare").object("new").upload("contents", metadata={"k": "v"})


def stream(repo):
    with repo.branch("spare").object("new").writer() as writer:
        writer.write(b"con")
        writer.write(b"tents")


def exclusive(repo):
    repo.branch("spare").object("new").upload("contents", mode="x")


def undo_commit(repo):
    """Take back the newest commit of ``dev``."""
    commit = next(info for info, _ in repo.operations(ref="dev") if info.verb == "commit")
    repo.undo(commit.id)


def stage_in_bulk(repo):
    numbers = [f"{number}" for number in range(20)]
    entries = {
        "path": [f"bulk/{number}" for number in numbers],
        "physical_address": [repo.branch("main").object("a").stat().physical_address] * len(numbers),
        "size_bytes": [1] * len(numbers),
        "checksum": [f"etag:{number}" for number in numbers],
    }
    repo.branch("spare").stage(pa.table(entries))


WORK = {
    "upload": Work(upload, lambda repo: repo.branch("spare").object("other").upload("x")),
    "stream": Work(stream, lambda repo: repo.branch("spare").object("other").upload("x")),
    "exclusive upload": Work(exclusive, lambda repo: repo.branch("spare").object("other").upload("x")),
    "stage in bulk": Work(stage_in_bulk, lambda repo: repo.branch("spare").object("other").upload("x")),
    "delete an object": Work(
        lambda repo: repo.branch("spare").object("s1").delete(),
        lambda repo: repo.branch("main").object("x").upload("x"),
    ),
    "reset": Work(lambda repo: repo.branch("spare").reset_changes(), lambda repo: repo.tag("other").create("dev")),
    "commit": Work(
        lambda repo: repo.branch("spare").commit("mine", date=1),
        lambda repo: repo.branch("spare").object("z").upload("x"),
    ),
    "merge": Work(
        lambda repo: repo.branch("dev").merge_into("main", message="mine", date=1),
        lambda repo: repo.branch("other").create("main"),
    ),
    "revert": Work(
        lambda repo: repo.branch("main").revert("main", message="mine", date=1),
        lambda repo: repo.branch("other").create("main"),
    ),
    "create a branch": Work(
        lambda repo: repo.branch("new").create("dev"), lambda repo: repo.branch("other").create("main")
    ),
    "create a tag": Work(lambda repo: repo.tag("new").create("dev"), lambda repo: repo.branch("other").create("main")),
    "delete a branch": Work(lambda repo: repo.branch("dev").delete(), lambda repo: repo.branch("other").create("main")),
    "undo a commit": Work(
        undo_commit,
        lambda repo: repo.branch("dev").object("z").upload("x"),
    ),
    "restore a branch": Work(
        lambda repo: repo.branch("spare").restore(),
        lambda repo: repo.branch("spare").delete(),
    ),
    "move a branch": Work(
        lambda repo: repo.branch("spare").move_to("dev"), lambda repo: repo.branch("other").create("main")
    ),
}


def prepared(template, work):
    """A handle that has looked around, on a repository that somebody else has changed since."""
    files = copy_of(template)
    store = FaultyStore(files)
    repo = repository_at(store)
    for branch in ("main", "spare"):
        repo.branch(branch).object("none").exists()
    work.meanwhile(repository_at(files, user="bob"))
    return files, store, repo


def measured(template, work):
    """State before and after the work, and how many storage calls it makes."""
    files, store, repo = prepared(template, work)
    old = state_of(files)
    store.heal()
    work.act(repo)
    calls = len(store.calls)
    new = state_of(files)
    assert new != old
    return old, new, calls


def attempt(work, repo, files, old, new):
    """Do the work on a failing store. Whether it is done, which the error, or that there is none, must say."""
    try:
        work.act(repo)
    except StateUnknownError:
        found = state_of(files)
        assert found in (old, new)
        return found == new
    except StorageError:
        assert state_of(files) == old
        return False
    assert state_of(files) == new
    return True


def assert_sound(files):
    """Everything that refs reach is there and what it should be."""
    report = fsck(OpenRepository(files, user="ann", options={}), objects=True)
    assert report.is_clean, report.findings


@pytest.mark.exhaustive
@pytest.mark.parametrize("when", ["before", "after", "torn", "late"])
@pytest.mark.parametrize("name", WORK)
def test_work_that_fails_at_any_call_can_be_done_again(template, name, when):
    """Each storage call in turn, in each way; then once more with the same handle, and then what was late lands."""
    work = WORK[name]
    old, new, calls = measured(template, work)
    for number in range(calls):
        files, store, repo = prepared(template, work)
        store.fail(number, when)
        done = attempt(work, repo, files, old, new)
        assert_sound(files)
        store.heal()
        if not done:
            work.act(repo)
            assert state_of(files) == new, f"call {number} of {calls} failed {when}"
        store.land()
        assert state_of(files) == new, f"call {number} of {calls} landed late"
        assert_sound(files)
    assert seen_of(store) == seen_of(files)  # by the handle that failed, and by one that never did


KEYED = {
    "commit": lambda repo: repo.branch("spare").commit("mine", date=1, idempotency_key="k"),
    "merge": lambda repo: repo.branch("dev").merge_into("main", message="mine", date=1, idempotency_key="k"),
    "revert": lambda repo: repo.branch("main").revert("main", message="mine", date=1, idempotency_key="k"),
    "create a branch": lambda repo: repo.branch("new").create("dev", idempotency_key="k"),
    "create a tag": lambda repo: repo.tag("new").create("dev", idempotency_key="k"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("when", ["before", "after", "late"])
@pytest.mark.parametrize("name", KEYED)
def test_a_call_that_is_repeated_under_its_key_lands_once(template, name, when):
    """The store goes down at each call in turn, and what was late lands before another handle repeats the call."""
    work = Work(KEYED[name], WORK[name].meanwhile)
    _, new, calls = measured(template, work)
    for number in range(calls):
        files, store, repo = prepared(template, work)
        store.fail(number, when, lasting=True)
        with contextlib.suppress(StateUnknownError, StorageError):
            work.act(repo)
        store.heal()
        store.land()
        for _ in range(2):
            work.act(repository_at(files))
            assert state_of(files) == new, f"call {number} of {calls} failed {when}"
        assert_sound(files)


@pytest.mark.parametrize("name", ["upload", "create a tag"])
def test_a_failing_compaction_does_not_fail_the_work(full_template, name):
    """It is derived work, after the entry that counts: neither it nor the snapshot may fail its caller."""
    work = WORK[name]
    _, new, _ = measured(full_template, work)
    _, store, repo = prepared(full_template, work)
    store.heal()
    work.act(repo)
    derived = derived_calls(store.calls)
    assert len(derived) > LEVEL_FACTOR
    for call in [*derived[::9], *derived[-3:]]:
        for when in ("before", "after"):
            files, store, repo = prepared(full_template, work)
            store.fail(call.number, when)
            work.act(repo)
            assert state_of(files) == new
            store.heal()
            repo.branch("late").create("main")
            assert state_of(files).keys() == {*new, "late"}


def derived_calls(calls):
    """What comes after the put of the work's own entry, up to and with the compaction's, and a snapshot."""
    landed = [call.number for call in calls if call.method == "put_if_absent"][-2]
    return [call for call in calls[landed + 1 :] if call.method != "get" or not call.key.endswith(".json")]


@pytest.mark.parametrize("name", ["upload", "exclusive upload", "commit", "merge", "create a branch"])
def test_work_on_a_store_that_goes_down_is_done_or_not(template, name):
    """Every call from the k-th on fails; afterwards another handle finds old or new, and does the same work."""
    work = WORK[name]
    old, new, calls = measured(template, work)
    for number in range(0, calls, 1 + calls // 4):
        files, store, repo = prepared(template, work)
        store.fail(number, lasting=True)
        if not attempt(work, repo, files, old, new):
            work.act(repository_at(files))
            assert state_of(files) == new


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_creation_that_fails_at_any_call_can_be_repeated(when):
    def create(store, *, exist_ok):
        def open_namespace(_namespace):
            return OpenRepository(store, user="ann", options={})

        new = creation.NewRepository("analytics", "lake", store.location.url, "main", {"k": "v"}, None)
        creation.create(Catalog(store, user="ann"), open_namespace, new, exist_ok=exist_ok)

    store = FaultyStore(new_store())
    create(store, exist_ok=False)
    calls = len(store.calls)
    wanted = seen_of(store)
    for number in range(calls):
        store = FaultyStore(new_store())
        store.fail(number, when)
        try:
            create(store, exist_ok=False)
            failed = False
        except StorageError:
            failed = True
        store.heal()
        create(store, exist_ok=not failed)
        assert seen_of(store) == wanted
        assert Catalog(store, user="ann").repositories() == {"analytics": store.location.url}


def test_a_write_between_reading_and_sealing_goes_into_the_next_commit():
    """A thread uploads while the commit of the same handle is under way: its write is not sealed unread."""
    memory = new_store()
    lakespark.Lake(memory.location.url).repository("analytics").create(storage_namespace=memory.location.url)
    store = FaultyStore(memory)
    main = repository_at(store).branch("main")
    main.object("a").upload("1")
    uploaded = []

    def upload_once(call):
        if "/ranges/" in call.key and call.method == "put" and not uploaded:
            uploaded.append(call)
            main.object("b").upload("2")

    store.on_call = upload_once
    main.commit("first")
    assert uploaded
    store.on_call = None
    for handle in (main, repository_at(memory).branch("main")):
        assert [o.path for o in handle.objects()] == ["a", "b"]
        assert [c.path for c in handle.uncommitted()] == ["b"]
    main.commit("second")
    assert [o.path for o in main.head.objects()] == ["a", "b"]


OVERTAKEN = {
    "upload": lambda branch: branch.object("new").upload("mine"),
    "exclusive upload": lambda branch: branch.object("new").upload("mine", mode="x"),
    "delete": lambda branch: branch.delete_objects(["first"]),
}


@pytest.mark.parametrize("commits", [1, 2, 3])
@pytest.mark.parametrize("name", OVERTAKEN)
def test_a_write_that_commits_have_overtaken_is_not_lost(name, commits):
    """Between reading the token and appending to it others commit: the token is sealed, or referred to no more."""
    memory = new_store()
    lakespark.Lake(memory.location.url).repository("analytics").create(storage_namespace=memory.location.url)
    other = repository_at(memory, user="bob").branch("main")
    other.object("first").upload("0")
    other.commit("first")
    store = FaultyStore(memory)
    main = repository_at(store).branch("main")
    overtaken = []

    def overtake(call):
        if call.key.startswith("_lakespark/staging") and call.method == "put" and not overtaken:
            overtaken.append(call)
            for number in range(commits):
                other.object(f"other/{number}").upload(str(number))
                other.commit(f"other {number}")

    store.on_call = overtake
    OVERTAKEN[name](main)
    assert overtaken
    others = [f"other/{number}" for number in range(commits)]
    expected = others if name == "delete" else ["first", "new", *others]
    for handle in (main, other):
        assert sorted(o.path for o in handle.objects()) == sorted(expected)
        assert [change.path for change in handle.uncommitted()] == ["first" if name == "delete" else "new"]
    other.commit("last")
    assert sorted(o.path for o in main.head.objects()) == sorted(expected)
    assert list(main.uncommitted()) == []


def test_an_exclusive_upload_is_decided_again_when_another_thread_came_first():
    memory = new_store()
    lakespark.Lake(memory.location.url).repository("analytics").create(storage_namespace=memory.location.url)
    store = FaultyStore(memory)
    main = repository_at(store).branch("main")
    done = []

    def upload_once(call):
        if call.key.startswith("_lakespark/staging") and call.method == "put" and not done:
            done.append(call)
            main.object("a").upload("theirs")

    store.on_call = upload_once
    with pytest.raises(lakespark.errors.ObjectExistsException):
        main.object("a").upload("mine", mode="x")
    assert main.object("a").reader().read() == b"theirs"


@pytest.mark.exhaustive
def test_opening_and_reading_a_branch_costs_the_same_whatever_the_history():
    """Storage calls of a new handle that lists a branch with one uncommitted object."""
    memory = new_store()
    lakespark.Lake(memory.location.url).repository("analytics").create(storage_namespace=memory.location.url)
    repo = repository_at(memory)
    main = repo.branch("main")
    main.object("a").upload("1")
    main.commit("first")
    main.object("b").upload("1")
    for operations in (10, 300, 1000):
        for _ in range((operations - repo.opened.ledger.version) // 2):
            repo.tag("t").create("main")
            repo.tag("t").delete()
        store = FaultyStore(memory)
        found = repository_at(store).branch("main")
        assert [o.path for o in found.objects()] == ["a", "b"]
        assert found.get_commit().message == "first"
        assert len(store.calls) <= 2 * LEVEL_FACTOR + 20
