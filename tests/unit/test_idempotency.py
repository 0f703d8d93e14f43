"""An operation that is repeated under its idempotency key answers with what it did the first time."""

from __future__ import annotations

import itertools

import pytest

import lakespark
from lakespark.errors import BadRequestException, NothingToCommitError, StateUnknownError, StorageError
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store
from lakespark.testing.faults import FaultyStore

_names = itertools.count()


@pytest.fixture
def store():
    url = f"memory://idempotency-{next(_names)}"
    lakespark.Lake(url).repository("analytics").create(storage_namespace=url)
    return open_store(url)


def handle(store):
    """A handle of another process: it has seen nothing."""
    return lakespark.Repository(None, None, OpenRepository(store, user="ann", options={}))


def test_a_repeated_commit_is_the_first_one(store):
    main = handle(store).branch("main")
    main.object("a").upload("1")
    first = main.commit("load", idempotency_key="load-1")
    main.object("b").upload("2")
    assert main.commit("load", idempotency_key="load-1").id == first.id
    assert handle(store).branch("main").commit("another message", idempotency_key="load-1").id == first.id
    assert [change.path for change in main.uncommitted()] == ["b"]
    assert main.commit("load", idempotency_key="load-2").id != first.id
    assert [commit.message for commit in main.log()] == ["load", "load", "Repository created"]


def test_a_key_is_found_however_far_back_it_was_used(store):
    main = handle(store).branch("main")
    main.object("a").upload("1")
    first = main.commit("load", idempotency_key="load-1")
    for number in range(40):
        main.object("a").upload(str(number))
        main.commit("more")
    assert handle(store).branch("main").commit("load", idempotency_key="load-1").id == first.id


def test_a_repeated_merge_is_the_first_one(store):
    repo = handle(store)
    main, dev = repo.branch("main"), repo.branch("dev").create("main")
    dev.object("a").upload("1")
    dev.commit("a")
    first = dev.merge_into("main", idempotency_key="merge-1")
    dev.object("b").upload("2")
    dev.commit("b")
    again = handle(store).branch("dev").merge_into("main", idempotency_key="merge-1")
    assert again == first
    assert again.bases == first.bases
    assert [o.path for o in main.objects()] == ["a"]


def test_a_repeated_squash_is_the_first_one(store):
    dev = handle(store).branch("dev").create("main")
    dev.object("a").upload("1")
    dev.commit("a")
    first = dev.merge_into("main", squash=True, idempotency_key="merge-1")
    assert dev.merge_into("main", squash=True, idempotency_key="merge-1") == first


def test_a_repeated_tag_does_nothing_even_when_the_tag_is_gone(store):
    repo = handle(store)
    repo.tag("v1").create("main", idempotency_key="tag-1")
    repo.tag("v1").create("main", idempotency_key="tag-1")
    repo.tag("v1").delete()
    repo.tag("v1").create("main", idempotency_key="tag-1")
    assert [tag.id for tag in repo.tags()] == []


def test_a_key_is_for_one_operation_on_one_ref(store):
    repo = handle(store)
    main, dev = repo.branch("main"), repo.branch("dev").create("main")
    main.object("a").upload("1")
    main.commit("load", idempotency_key="load-1")
    dev.object("a").upload("1")
    with pytest.raises(BadRequestException, match=r"'load-1' was used before, for commit of 'main'"):
        dev.commit("load", idempotency_key="load-1")
    with pytest.raises(BadRequestException, match="'load-1' was used before"):
        repo.tag("v1").create("main", idempotency_key="load-1")
    assert [change.path for change in dev.uncommitted()] == ["a"]


def test_what_landed_nothing_uses_up_no_key(store):
    main = handle(store).branch("main")
    with pytest.raises(NothingToCommitError):
        main.commit("load", idempotency_key="load-1")
    main.object("a").upload("1")
    main.commit("load", idempotency_key="load-1")
    assert [commit.message for commit in main.log()] == ["load", "Repository created"]


def test_an_empty_key_is_refused(store):
    with pytest.raises(BadRequestException, match="an idempotency key is a text"):
        handle(store).branch("main").commit("load", allow_empty=True, idempotency_key="")


def test_two_that_race_under_one_key_land_once(store):
    """The second has decided when the first lands: it finds the key in the entry that it lost to."""
    rival = handle(store).branch("main")
    rival.object("a").upload("1")
    landed = []

    def on_call(call):
        if call.method == "put_if_absent" and "ledger" in call.key and not landed:
            landed.append(None)
            landed[0] = rival.commit("load", idempotency_key="load-1").id

    mine = handle(FaultyStore(store, on_call=on_call)).branch("main")
    assert mine.commit("load", idempotency_key="load-1").id == landed[0]
    assert [commit.message for commit in rival.log()] == ["load", "Repository created"]


def test_a_commit_whose_answer_was_lost_can_be_repeated(store):
    """Every storage call fails from one on, the failing one after it took effect; the repeated commit is the same."""
    faulty = FaultyStore(store)
    for number in itertools.count():
        main = handle(faulty).branch("main")
        main.object(f"a{number}").upload(str(number))
        main.get_commit()
        faulty.fail(number, "after", lasting=True)
        try:
            main.commit(f"load {number}", idempotency_key=f"load-{number}")
        except (StateUnknownError, StorageError):
            is_done = False
        else:
            is_done = True
        faulty.heal()
        repeated = handle(store).branch("main").commit(f"load {number}", idempotency_key=f"load-{number}")
        assert handle(store).branch("main").get_commit().id == repeated.id
        if is_done:
            break
    messages = [commit.message for commit in handle(store).branch("main").log()]
    assert messages == [*(f"load {n}" for n in reversed(range(number + 1))), "Repository created"]
