"""An import on a store that fails at each of its calls in turn: nothing or all of it, and a repeat completes it."""

import itertools

import pyarrow as pa
import pytest

import lakespark
from lakespark.errors import ImportManagerException, StateUnknownError, StorageError
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store
from lakespark.tables import delta_log
from lakespark.testing.faults import FaultyStore

_names = itertools.count()
ROWS = pa.table(
    {
        "address": [f"s3://bucket/{number:03d}" for number in range(60)],
        "size": list(range(60)),
        "checksum": [f"etag:{number}" for number in range(60)],
    }
)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Give up on a failing store after two tries."""
    monkeypatch.setattr(delta_log, "_SETTLE_TRIES", 2)


def prepared():
    """A repository of small ranges with an object on main, on a store that can fail, and a handle that works."""
    url = f"memory://import-faults-{next(_names)}"
    repo = lakespark.Lake(url).repository("demo").create(storage_namespace=url, range_entries=20)
    repo.branch("main").object("kept").upload("x")
    repo.branch("main").commit("before")
    store = FaultyStore(open_store(url))
    failing = lakespark.Repository(None, None, OpenRepository(store, user="ann", options={}))
    failing.branch("main").object("kept").exists()
    return store, failing.branch("main"), repo.branch("main")


def count(branch):
    return len(list(branch.objects()))


def attempt(branch):
    """The failure of an import, or None."""
    try:
        branch.import_data("mine").listing(ROWS).run()
    except ImportManagerException as error:
        if not isinstance(error.__cause__, StorageError | StateUnknownError):
            raise
        return error.__cause__
    return None


@pytest.mark.exhaustive
def test_an_import_that_fails_at_any_call_is_all_or_nothing_and_can_be_repeated():
    store, failing, _ = prepared()
    store.heal()
    failing.import_data("mine").listing(ROWS).run()
    calls = len(store.calls)
    assert calls > 8
    for number, when in itertools.product(range(calls), ("before", "after")):
        store, failing, main = prepared()
        store.fail(number, when)
        problem = attempt(failing)
        assert count(main) in ((61,) if problem is None else (1, 61))
        assert isinstance(problem, StateUnknownError | None) or count(main) == 1
        store.heal()
        failing.import_data("mine").listing(ROWS).run()
        assert count(main) == count(failing) == 61
        assert [commit.message for commit in main.log()] == ["mine", "before", "Repository created"]
        assert list(main.uncommitted()) == []


def test_a_commit_that_comes_in_between_is_kept():
    store, failing, main = prepared()
    seen = []

    def other_commits(call):
        if call.method == "put" and "metaranges" in call.key and not seen:
            seen.append(call)
            main.object("theirs").upload("y")
            main.commit("theirs")

    store.on_call = other_commits
    failing.import_data("mine").listing(ROWS).run()
    assert [commit.message for commit in main.log()] == ["mine", "theirs", "before", "Repository created"]
    assert count(main) == 62
