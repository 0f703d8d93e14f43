"""An operation that is repeated under its idempotency key answers with what it did the first time."""

from __future__ import annotations

import itertools
import shutil

import pytest

import lakespark
from lakespark.errors import (
    BadRequestException,
    ImportManagerException,
    NothingToCommitError,
    StateUnknownError,
    StorageError,
)
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


def test_a_repeated_branch_is_not_made_again_even_when_it_has_moved_or_is_gone(store):
    repo = handle(store)
    main, dev = repo.branch("main"), repo.branch("dev").create("main", idempotency_key="branch-1")
    main.commit("more", allow_empty=True)
    dev.create("main", idempotency_key="branch-1")
    assert [commit.message for commit in dev.log()] == ["Repository created"]
    dev.delete()
    handle(store).branch("dev").create("gone", idempotency_key="branch-1")
    assert [branch.id for branch in repo.branches()] == ["main"]


@pytest.mark.parametrize("verb", ["revert", "cherry_pick"])
def test_a_repeated_revert_or_cherry_pick_is_the_first_one_and_needs_its_ref_no_more(store, verb):
    repo = handle(store)
    main, other = repo.branch("main"), repo.branch("other").create("main")
    if verb == "revert":
        main, other = other, main
    for path in ("a", "b"):
        other.object(path).upload("1")
        other.commit(path)
    repo.tag("b").create(other)
    target = other if verb == "revert" else main
    first = getattr(target, verb)("b", idempotency_key="step-1")
    target.object("staged").upload("1")  # the branch is not even clean
    repo.tag("b").delete()
    assert getattr(handle(store).branch(target.id), verb)("b", idempotency_key="step-1") == first
    assert next(target.log()).id == first.id
    with pytest.raises(BadRequestException, match=f"'step-1' was used before, for {verb.replace('_', '-')}"):
        target.commit("staged", idempotency_key="step-1")


def test_two_that_race_to_revert_under_one_key_land_once(store):
    main = handle(store).branch("main")
    main.object("a").upload("1")
    main.commit("a")
    mine, landed = race(store, lambda repo: repo.branch("main").revert("main", message="rival's", idempotency_key="1"))
    assert mine.branch("main").revert("main", message="mine", idempotency_key="1") == landed[0]
    assert [commit.message for commit in main.log()] == ["rival's", "a", "Repository created"]


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


def race(store, work):
    """A branch ``main`` of a process that, when it has decided, loses to ``work`` of another one; what that came to."""
    landed = []

    def on_call(call):
        if call.method == "put_if_absent" and "ledger" in call.key and not landed:
            landed.append(None)
            landed[0] = work(handle(store))

    return handle(FaultyStore(store, on_call=on_call)), landed


def test_two_merges_that_race_under_one_key_land_once(store):
    dev = handle(store).branch("dev").create("main")
    dev.object("a").upload("1")
    dev.commit("a")
    mine, landed = race(store, lambda repo: repo.ref("dev").merge_into("main", message="rival's", idempotency_key="1"))
    result = mine.ref("dev").merge_into("main", message="mine", idempotency_key="1")
    assert (result, result.commit.message, result.is_repeated) == (landed[0], "rival's", True)
    assert handle(store).branch("main").get_commit().id == result


def test_of_two_operations_on_two_refs_that_race_under_one_key_one_lands(store):
    """Neither touches what the other expects of its ref: the key alone stands between them."""
    handle(store).branch("dev").create("main")
    mine, landed = race(store, lambda repo: repo.branch("dev").commit("rival's", allow_empty=True, idempotency_key="1"))
    with pytest.raises(BadRequestException, match="'1' was used before, for commit of 'dev'"):
        mine.branch("main").commit("mine", allow_empty=True, idempotency_key="1")
    assert handle(store).branch("dev").get_commit().id == landed[0].id
    assert [info.idempotency_key for info, _ in handle(store).operations()] == ["1", None, None]


def test_two_that_merge_many_and_race_under_one_key_land_once(store):
    for name in ("north", "south"):
        branch = handle(store).branch(name).create("main")
        branch.object(name).upload("1")
        branch.commit(name)
    sources = ["north", "south"]
    mine, landed = race(
        store, lambda repo: repo.branch("main").merge_all(sources, message="rival's", idempotency_key="1")
    )
    results = mine.branch("main").merge_all(sources, message="mine", idempotency_key="1")
    assert results == landed[0]
    assert [(result.commit.message, result.is_repeated) for result in results] == [("rival's", True)] * 2


def test_a_repeated_merge_of_many_does_not_need_its_sources(store):
    """They have moved on or are gone, as after a load that merges its branches and deletes them."""
    repo = handle(store)
    repo.branch("old").create("main")
    for name in ("north", "south"):
        branch = repo.branch(name).create("main")
        branch.object(name).upload("1")
        branch.commit(name)
    sources = ["old", "north", "south", "north@"]
    first = repo.branch("main").merge_all(sources, idempotency_key="load-1")
    repo.branch("north").object("more").upload("1")
    repo.branch("north").commit("more")
    repo.branch("south").delete()
    again = handle(store).branch("main").merge_all(sources, idempotency_key="load-1")
    assert again == first
    assert [result and result.is_repeated for result in again] == [None, True, True, None]
    assert [result and result.bases for result in again] == [result and result.bases for result in first]
    with pytest.raises(BadRequestException, match="'load-1' was used before, for a merge of 4 sources, not of 3"):
        repo.branch("main").merge_all(sources[:3], idempotency_key="load-1")


def test_a_key_has_at_most_255_characters(store):
    main = handle(store).branch("main")
    main.commit("load", allow_empty=True, idempotency_key="x" * 255)
    with pytest.raises(BadRequestException, match=r"at most 255 characters, not 256"):
        main.commit("load", allow_empty=True, idempotency_key="x" * 256)
    with pytest.raises(BadRequestException, match="at most 255 characters"):
        main.import_data(idempotency_key="x" * 256)
    assert len(list(main.log())) == 2


def test_an_operation_is_logged_with_its_key(store):
    repo = handle(store)
    repo.branch("main").commit("load", allow_empty=True, idempotency_key="load-1")
    for looked_at in (repo, handle(store)):
        assert [info.idempotency_key for info, _ in looked_at.operations()] == ["load-1", None]
        assert looked_at.inspect().operations()["idempotency_key"].to_pylist() == ["load-1", None]


@pytest.fixture
def raw(tmp_path):
    """A folder of two files."""
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "one").write_text("1")
    (folder / "two").write_text("22")
    return folder


def test_a_repeated_import_is_the_first_one_and_looks_for_nothing(store, raw):
    main = handle(store).branch("main")
    first = main.import_data("load", idempotency_key="load-1").prefix(raw, "raw").run()
    assert (first.ingested_objects, first.is_repeated) == (2, False)
    main.object("b").upload("2")  # the branch is not even clean
    shutil.rmtree(raw)
    again = handle(store).branch("main").import_data("other", idempotency_key="load-1").prefix(raw, "raw").run()
    assert (again.completed, again.step, again.is_repeated, again.is_up_to_date) == (True, "done", True, True)
    assert (again.commit, again.metarange_id) == (first.commit, first.metarange_id)
    assert [entry.path for entry in main.objects()] == ["b", "raw/one", "raw/two"]


def test_an_import_that_changed_nothing_uses_up_no_key(store, raw):
    main = handle(store).branch("main")
    main.import_data().prefix(raw, "raw").run()
    same = main.import_data(idempotency_key="load-1").prefix(raw, "raw").run()
    assert (same.is_up_to_date, same.is_repeated) == (True, False)
    (raw / "three").write_text("333")
    more = main.import_data(idempotency_key="load-1").prefix(raw, "raw").run()
    assert (more.is_up_to_date, more.is_repeated) == (False, False)
    assert main.import_data(idempotency_key="load-1").prefix(raw, "raw").run().commit == more.commit


def test_two_imports_that_race_under_one_key_land_once(store, raw):
    def rivals(repo):
        return repo.branch("main").import_data("rival's", idempotency_key="load-1").prefix(raw, "raw").run()

    mine, landed = race(store, rivals)
    status = mine.branch("main").import_data("mine", idempotency_key="load-1").prefix(raw, "raw").run()
    assert (status.commit, status.commit.message, status.is_repeated) == (landed[0].commit, "rival's", True)


def test_a_key_of_another_operation_is_refused_before_an_import_looks(store, tmp_path):
    main = handle(store).branch("main")
    main.commit("load", allow_empty=True, idempotency_key="load-1")
    with pytest.raises(ImportManagerException, match="'load-1' was used before, for commit of 'main'"):
        main.import_data(idempotency_key="load-1").prefix(tmp_path / "nowhere", "raw").run()
