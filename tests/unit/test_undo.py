"""The operations log and undo: what was is again, what was staged meanwhile stays, and what came after is named."""

from __future__ import annotations

import itertools
import threading
from dataclasses import asdict

import pyarrow as pa
import pytest
from refusals import refused

import lakespark
from lakespark.errors import (
    AmbiguousRefError,
    BranchProtectedError,
    DirtyBranchError,
    ForbiddenException,
    MissingFileError,
    NameTakenError,
    OperationNotFoundError,
    RefMovedError,
    RefNotFoundError,
    describe,
)
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store
from lakespark.testing.faults import FaultyStore

_names = itertools.count()


@pytest.fixture
def store():
    return open_store(f"memory://undo-{next(_names)}")


@pytest.fixture
def repo(store):
    """Branches main and dev that have both changed since they parted, a tag, and something staged on each branch."""
    repo = (
        lakespark.Lake(store.location.url, user="ann").repository("demo").create(storage_namespace=store.location.url)
    )
    main = repo.branch("main")
    main.object("a").upload("1")
    main.object("b").upload("1")
    main.commit("first")
    repo.tag("v1").create("main")
    dev = repo.branch("dev").create("main")
    dev.object("a").upload("2")
    dev.commit("on dev")
    main.object("b").upload("2")
    main.commit("on main")
    repo.branch("spare").create("main~1")
    repo.branch("spare").object("c").upload("staged")
    repo.branch("spare").delete_objects("a")
    return repo


def opened_at(store, user="bob"):
    """Another handle on the same repository."""
    return lakespark.Repository(None, None, OpenRepository(store, user=user, options={}))


def seen(repo):
    """All that a user sees: heads, objects, what is uncommitted, tags and rules."""
    branches = {
        branch.id: (
            branch.head.id,
            [(item.path, item.checksum) for item in branch.objects()],
            [(change.type, change.path, change.size_bytes) for change in branch.uncommitted()],
        )
        for branch in repo.branches(hidden=True)
    }
    return branches, {tag.id: tag.get_commit().id for tag in repo.tags()}, repo.protection_rules()


def newest(repo, verb=None, **query):
    """The newest operation, or the newest of a verb."""
    return next(info for info, _ in repo.operations(**query) if verb in (None, info.verb))


# -- undo and redo ---------------------------------------------------------------------------------------------


def import_one(repo):
    listing = pa.table({"address": ["s3://elsewhere/x"], "size": [3], "checksum": ["etag:x"]})
    repo.branch("main").import_data("found").listing(listing, "in/").run()


def transact(repo):
    with repo.branch("main").transact("all at once", tag="done") as tx:
        tx.object("t").upload("t")


WORK = {
    "commit": lambda repo: repo.branch("spare").commit("mine"),
    "empty commit": lambda repo: repo.branch("main").commit("mine", allow_empty=True),
    "merge": lambda repo: repo.branch("dev").merge_into("main"),
    "squash merge": lambda repo: repo.branch("dev").merge_into("main", squash=True),
    "merge of many": lambda repo: repo.branch("main").merge_all(["dev", "v1"]),
    "revert": lambda repo: repo.branch("main").revert("main"),
    "cherry-pick": lambda repo: repo.branch("main").cherry_pick("dev"),
    "move": lambda repo: repo.branch("spare").move_to("dev"),
    "move to where it is": lambda repo: repo.branch("spare").move_to("spare"),
    "import": import_one,
    "transaction": transact,
    "create a branch": lambda repo: repo.branch("new").create("dev"),
    "delete a branch": lambda repo: repo.branch("dev").delete(),
    "create a tag": lambda repo: repo.tag("v2").create("dev"),
    "delete a tag": lambda repo: repo.tag("v1").delete(),
    "protect": lambda repo: repo.protect("release-*"),
    "change a rule": lambda repo: repo.protect("old", ["commit"]),
    "unprotect": lambda repo: repo.unprotect("old"),
}


@pytest.mark.parametrize("name", WORK)
def test_undo_and_redo_lead_to_just_what_was(repo, store, name):
    repo.protect("old")
    if name == "transaction":  # the hidden branch comes into being before what is undone here
        with pytest.raises(RuntimeError), repo.branch("main").transact(delete_branch_on_error=False):
            raise RuntimeError
    before = seen(repo)
    WORK[name](repo)
    after = seen(repo)
    done = newest(repo)
    undone = repo.undo(done.id)
    hidden = {name: state for name, state in seen(repo)[0].items() if name.startswith("tx-")}
    assert seen(repo) == (before[0] | hidden, *before[1:])
    redone = repo.undo(undone.id)
    assert seen(repo) == after
    again = repo.undo(done.id)
    assert seen(repo) == (before[0] | hidden, *before[1:]) == seen(opened_at(store))
    relations = {info.id: (info.undoes, info.undone_by) for info, _ in repo.operations(4)}
    assert relations == {
        done.id: (None, again.id),
        undone.id: (done.id, redone.id),
        redone.id: (undone.id, None),
        again.id: (done.id, None),
    }


def test_an_undone_transaction_comes_back_as_its_hidden_branch_with_its_commit(repo):
    transact(repo)
    merged = newest(repo)
    repo.undo(merged.id)
    (hidden,) = [branch for branch in repo.branches(hidden=True) if branch.id.startswith("tx-")]
    assert hidden.get_commit().message == "all at once"
    assert hidden.object("t").reader().read() == b"t"
    assert not repo.branch("main").object("t").exists()
    repo.undo(newest(repo).id)
    assert repo.branch("main").object("t").exists()
    assert [branch.id for branch in repo.branches(hidden=True)] == ["dev", "main", "spare"]


def test_steps_back_to_the_beginning_and_forward_again(repo):
    """Each operation undone, the newest first; then each undo undone, the newest first: heads are where they were."""
    first, undone, heads = [*repo.branch("main").log()][-1].id, [], [heads_of(repo)]
    for info, changes in list(repo.operations())[:-1]:
        if info.verb == "branch-create":
            repo.branch(changes[0].name).reset_changes()
        undone.append(repo.undo(info.id))
        heads.append(heads_of(repo))
    assert heads[-1] == {"main": first}
    assert [change.path for change in repo.branch("main").uncommitted()] == ["a", "b"]
    for info, expected in zip(reversed(undone), reversed(heads[:-1]), strict=True):
        repo.undo(info.id)
        assert heads_of(repo) == expected


def heads_of(repo):
    return {ref.id: ref.get_commit().id for ref in (*repo.branches(), *repo.tags())}


def test_what_was_staged_since_stays_on_top_of_what_was_undone(repo):
    spare = repo.branch("spare")
    spare.commit("takes c, drops a")
    spare.object("c").upload("newer")
    spare.object("d").upload("new")
    repo.undo(newest(repo).id)
    assert {change.path: change.type for change in spare.uncommitted()} == {"a": "removed", "c": "added", "d": "added"}
    assert spare.object("c").reader().read() == b"newer"
    spare.reset_changes("object", "c")
    assert not spare.object("c").exists()
    spare.commit("again")
    assert [item.path for item in spare.head.objects()] == ["b", "d"]
    assert list(spare.uncommitted()) == []


def test_a_reset_after_an_undo_also_discards_what_the_commit_had_taken_in(repo):
    spare = repo.branch("spare")
    spare.commit("mine")
    repo.undo(newest(repo).id)
    spare.reset_changes()
    assert list(spare.uncommitted()) == []
    assert [item.path for item in spare.objects()] == ["a", "b"]


def test_what_is_staged_while_the_undo_runs_stays(store, repo):
    """Another writer's uploads are acknowledged at every moment of an undo: all of them are there afterwards."""
    repo.branch("spare").commit("mine")
    commit = newest(repo)
    names = []
    writer = opened_at(store).branch("spare")

    def upload(call):
        if threading.current_thread() is threading.main_thread() and len(names) < 40:
            names.append(f"while-{call.number}")
            writer.object(names[-1]).upload(call.method)

    faulty = FaultyStore(store, on_call=upload)
    opened_at(faulty).undo(commit.id)
    assert len(names) > 3
    uncommitted = {change.path for change in repo.branch("spare").uncommitted()}
    assert uncommitted == {"a", "c", *names}


def test_a_write_of_a_slow_writer_to_a_token_that_comes_back_is_there_once(store, repo):
    """Its row lies in the old token past the watermark and, copied, in the new one: still one object."""
    slow = FaultyStore(store)
    overtaken = []

    def overtake(call):
        if call.key.startswith("_lakespark/staging") and "_delta_log" in call.key and not overtaken:
            overtaken.append(call)
            repo.branch("spare").commit("mine")

    slow.on_call = overtake
    opened_at(slow).branch("spare").object("late").upload("late")
    assert overtaken
    repo.undo(newest(repo).id)
    changes = [(change.type, change.path) for change in repo.branch("spare").uncommitted()]
    assert changes == [("removed", "a"), ("added", "c"), ("added", "late")]


@pytest.mark.exhaustive
def test_uploads_and_undos_at_once_lose_nothing(store, repo):
    """Two threads upload, one commits, undoes and redoes: each acknowledged object is there in the end."""
    names, stop = [], threading.Event()

    def upload(number):
        branch = opened_at(store, f"writer-{number}").branch("spare")
        for count in itertools.count():
            branch.object(f"{number}/{count}").upload(str(count))
            names.append(f"{number}/{count}")
            if stop.is_set():
                return

    threads = [threading.Thread(target=upload, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for number in range(6):
        repo.branch("spare").commit(f"commit {number}", allow_empty=True)
        undone = repo.undo(newest(repo, "commit", ref="spare").id)
        if number % 2:
            repo.undo(undone.id)
    stop.set()
    for thread in threads:
        thread.join()
    found = [item.path for item in repo.branch("spare").objects() if "/" in item.path]
    assert found == sorted(names)


def test_an_undo_is_landed_once_by_one_of_two_who_try(store, repo):
    commit = newest(repo, "commit", ref="dev")
    other = opened_at(store)
    faulty = FaultyStore(store)
    first = []

    def overtake(call):
        if call.method == "put_if_absent" and call.key.startswith("_lakespark/ledger") and not first:
            first.append(other.undo(commit.id))

    faulty.on_call = overtake
    with pytest.raises(RefMovedError, match="was undone already, by"):
        opened_at(faulty).undo(commit.id)
    assert [info.undoes for info, _ in repo.operations(ref="dev")][:2] == [commit.id, None]


# -- refusals --------------------------------------------------------------------------------------------------


def test_what_came_after_is_named_and_has_to_be_undone_first(repo):
    dev = repo.branch("dev")
    first = newest(repo, ref="dev")
    dev.object("x").upload("x")
    dev.commit("second")
    second = newest(repo)
    dev.merge_into("main")
    merged = newest(repo)
    with refused(repo, RefMovedError, f"cannot undo {first.id[:12]} .commit by ann.: changed since were dev by ") as no:
        repo.undo(first.id)
    assert no.value.operations == (second.id,)
    assert describe(no.value)["operations"] == [second.id]
    repo.undo(second.id)
    repo.undo(first.id)
    assert dev.head.id == repo.ref("v1").get_commit().id
    assert repo.branch("main").head.id == repo.operation(merged.id)[1][0].after.commit_id


def test_all_that_came_after_is_told_but_only_some_of_it_named(repo):
    for number in range(7):
        repo.branch("main").commit(str(number), allow_empty=True)
    first = [info for info, _ in repo.operations(ref="main") if info.verb == "commit"][-1]
    with refused(repo, RefMovedError, "and 3 more. Undo these first, the newest first") as no:
        repo.undo(first.id)
    assert len(no.value.operations) == 8


def test_what_was_undone_is_not_undone_twice(repo):
    done = newest(repo, "commit", ref="dev")
    undone = repo.undo(done.id)
    with refused(repo, RefMovedError, f"was undone already, by {undone.id[:12]}; undo that one to redo it") as no:
        repo.undo(done.id)
    assert no.value.operations == (undone.id,)


def test_a_name_that_was_given_to_something_else_stands_in_the_way(repo):
    repo.branch("spare").delete()
    deleted = newest(repo)
    repo.tag("spare").create("dev")
    with refused(repo, RefMovedError, r"changed since were spare by \w{12} .tag-create by ann."):
        repo.undo(deleted.id)
    repo.undo(newest(repo).id)
    repo.undo(deleted.id)
    assert [change.path for change in repo.branch("spare").uncommitted()] == ["a", "c"]


def test_the_creation_of_a_branch_with_uncommitted_changes_is_not_undone(repo):
    created = newest(repo, "branch-create", ref="spare")
    with refused(repo, DirtyBranchError, "branch 'spare' has 2 uncommitted changes"):
        repo.undo(created.id)


def test_the_deletion_of_a_branch_with_uncommitted_changes_is_undone_but_not_done_again_by_undo(repo):
    repo.branch("spare").delete()
    restored = repo.undo(newest(repo).id)
    with refused(repo, DirtyBranchError, "branch 'spare' has 2 uncommitted changes"):
        repo.undo(restored.id)


def test_the_creation_of_the_repository_is_not_undone(repo):
    with refused(repo, ForbiddenException, "the creation of the repository cannot be undone"):
        repo.undo("0")


def test_a_staging_table_that_was_collected_cannot_come_back(store, repo):
    spare = repo.branch("spare")
    spare.commit("mine")
    commit = newest(repo)
    token = repo.operation(commit.id)[1][0].before.token
    for file in list(store.list(f"_lakespark/staging/{token}")):
        store.delete(file.key)
    with pytest.raises(MissingFileError, match=r"cannot undo .* was collected .*Revert it, or move the branch"):
        opened_at(store).undo(commit.id)
    assert opened_at(store).branch("spare").head.id == spare.head.id


def test_a_protected_branch_is_not_moved_by_an_undo(repo):
    merged = repo.branch("dev").merge_into("main")
    done = newest(repo)
    repo.protect("main")
    with refused(repo, BranchProtectedError, "branch 'main' is protected by the rule 'main'"):
        repo.undo(done.id)
    repo.branch("main").revert(str(merged), 1)
    repo.unprotect("main")
    repo.undo(newest(repo, "revert").id)
    repo.undo(done.id)
    assert repo.branch("main").get_commit().message == "on main"


# -- deleted branches ------------------------------------------------------------------------------------------


def test_a_deleted_branch_is_restored_with_what_was_staged_and_staging_goes_on(store, repo):
    before = seen(repo)
    spare = repo.branch("spare")
    spare.delete()
    assert seen(repo.branch("spare").restore().repository) == before
    spare.object("e").upload("more")
    opened_at(store).branch("spare").commit("all of it")
    assert [item.path for item in spare.head.objects()] == ["b", "c", "e"]
    spare.delete()
    spare.restore()
    assert [item.path for item in spare.objects()] == ["b", "c", "e"]


def test_restoring_needs_a_branch_that_was_deleted(repo):
    with refused(repo, NameTakenError, "cannot restore 'dev': a branch of that name exists"):
        repo.branch("dev").restore()
    with refused(repo, RefNotFoundError, "cannot restore branch 'nobody': no branch of that name was deleted"):
        repo.branch("nobody").restore()
    repo.tag("v1").delete()
    with refused(repo, RefNotFoundError, "cannot restore branch 'v1'"):
        repo.branch("v1").restore()


def test_a_branch_of_a_transaction_is_not_restored_by_undoing_its_merge(repo):
    with repo.branch("main").transact("work") as tx:
        tx.object("t").upload("t")
    with refused(repo, RefNotFoundError, "no branch of that name was deleted"):
        repo.branch(tx.id).restore()


# -- the log ---------------------------------------------------------------------------------------------------


def test_every_operation_says_who_what_and_what_it_changed(store, repo):
    bob = opened_at(store)
    head = repo.branch("dev").head.id
    bob.branch("dev").merge_into("main", message="from bob")
    (info, changes), *_ = repo.operations()
    assert (info.verb, info.user, info.details, info.undoes, info.undone_by) == (
        "merge",
        "bob",
        {"source": "dev"},
        None,
        None,
    )
    assert [(change.name, change.before.commit_id != change.after.commit_id) for change in changes] == [("main", True)]
    assert info.commits == (repo.branch("main").head.id,)
    assert repo.branch("main").get_commit().parents[1] == head
    bob.protect("main")
    (info, changes), *_ = repo.operations()
    assert (info.verb, changes, info.commits) == ("protect", (), ())
    assert [asdict(setting) for setting in info.settings] == [
        {"name": "protection.main", "before": None, "after": "staging_write,commit"}
    ]


def test_the_log_is_cut_and_filtered(store, repo):
    opened_at(store).tag("by-bob").create("dev")
    assert [info.verb for info, _ in repo.operations(2)] == ["tag-create", "branch-create"]
    assert [info.verb for info, _ in repo.operations(ref="dev")] == ["commit", "branch-create"]
    assert [info.verb for info, _ in repo.operations(user="bob")] == ["tag-create"]
    assert list(repo.operations(user="bob", ref="main")) == []
    numbers = [info.number for info, _ in repo.operations()]
    assert numbers == sorted(numbers, reverse=True)


def test_an_operation_is_found_by_its_id_its_first_digits_and_its_number(repo):
    for info, changes in repo.operations():
        for name in (info.id, info.id[:10], str(info.number)):
            assert repo.operation(name) == (info, changes)


@pytest.mark.parametrize("name", ["", "abc", "99", "f" * 32, "main", "-1", "A" * 8, "0" * 33])
def test_an_operation_that_is_not_there_is_named(repo, name):
    with refused(repo, OperationNotFoundError, f"operation {name!r} not found"):
        repo.undo(name)


def test_a_name_that_fits_two_operations_is_refused_with_both(repo, monkeypatch):
    ids = iter(["1234" + "0" * 28, "12345" + "0" * 27, "f" * 32])
    monkeypatch.setattr("lakespark.tables.ledger._write_id", lambda: next(ids))
    repo.tag("one").create("dev")
    repo.tag("two").create("dev")
    with refused(repo, AmbiguousRefError, "operation '1234' is ambiguous") as no:
        repo.undo("1234")
    assert len(no.value.candidates) == 2
    repo.undo("12345")
    assert [tag.id for tag in repo.tags()] == ["one", "v1"]


def test_the_log_reads_the_same_after_compactions_and_from_a_new_handle(store, repo):
    for number in range(40):
        repo.tag(f"t{number}").create("main")
    logged = list(repo.operations())
    assert list(opened_at(store).operations()) == logged
    assert len({info.id for info, _ in logged}) == len(logged)
    first = next(info for info, changes in logged if changes[0].name == "t0")
    repo.undo(first.id)
    assert next(info.undone_by for info, _ in opened_at(store).operations() if info.id == first.id) is not None
