"""The scheduler of storage calls: what it leaves out comes to nothing new."""

from __future__ import annotations

import itertools
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakespark.storage import open_store
from lakespark.testing.schedules import explore

_names = itertools.count()
CALLS = st.lists(
    st.tuples(st.sampled_from(["get", "put", "put_if_absent", "delete", "list"]), st.sampled_from(["d/a", "d/b"])),
    max_size=4,
)


def actor_of(number, calls):
    """An operation that makes the calls; it writes what it has read so far, and its number."""

    def actor(store):
        def operation():
            seen = f"{number}"
            for method, key in calls:
                if method in ("put", "put_if_absent"):
                    seen += f" {getattr(store, method)(key, seen.encode())}"
                elif method == "list":
                    seen += f" {sorted(file.key for file in store.list('d'))}"
                else:
                    seen += f" {getattr(store, method)(key)}"
            return seen

        return operation

    return actor


def results(operations, **options):
    """Every outcome that schedules come to, with what is in the store then; and how many schedules ran."""
    store, found = open_store(f"memory://schedules-{next(_names)}"), set()

    def note(store, outcomes):
        files = tuple(sorted((file.key, store.get(file.key)) for file in store.list("")))
        found.add((tuple(outcome.value for outcome in outcomes), files))

    explored = explore(store, [actor_of(*numbered) for numbered in enumerate(operations)], note, **options)
    return found, explored


@settings(max_examples=30, deadline=None)
@given(st.lists(CALLS, min_size=2, max_size=2))
def test_what_is_left_out_comes_to_nothing_new(operations):
    everything, all_orders = results(operations, touch=lambda *_: True)
    found, explored = results(operations)
    assert found == everything
    assert explored.schedules <= all_orders.schedules


def test_every_order_is_taken():
    writes = [[("put", "d/a")] * 3] * 2
    _, explored = results(writes)
    assert explored == (20, 0)
    _, explored = results([[("put", "d/a")] * 3, [("put", "d/b")] * 3])
    assert explored.schedules == 1


def test_what_a_check_raises_comes_with_its_schedule():
    def check(store, outcomes):
        assert store.get("d/a") != b"1"

    store = open_store(f"memory://schedules-{next(_names)}")
    actors = [actor_of(number, [("put", "d/a")]) for number in range(2)]
    with pytest.raises(AssertionError) as raised:
        explore(store, actors, check)
    assert raised.value.__notes__ == ["schedule 1:\n  0: put d/a\n  1: put d/a"]


def test_an_error_is_an_outcome():
    def fails(store):
        def operation():
            raise OSError(store.get("d/a"))

        return operation

    kinds = set()
    explore(
        open_store(f"memory://schedules-{next(_names)}"),
        [fails, actor_of(1, [])],
        lambda _, outcomes: kinds.update(type(outcome.error) for outcome in outcomes),
    )
    assert kinds == {OSError, type(None)}


def explored(*actors, check=lambda store, outcomes: None, **options):
    return explore(open_store(f"memory://schedules-{next(_names)}"), actors, check, **options)


def operating(operation):
    """An actor whose operation is given the store."""
    return lambda store: lambda: operation(store)


def test_operations_that_keep_each_other_from_ending_are_a_livelock():
    def wait_for_ever(store):
        while store.get("d/a") is None:
            pass

    with pytest.raises(AssertionError, match="livelock: the operations have not ended after 300 calls") as raised:
        explored(operating(wait_for_ever), actor_of(1, [("get", "d/b")]), most_calls=300)
    (note,) = raised.value.__notes__
    assert note.splitlines()[:3] == ["schedule 1:", "  ... 100 calls before", "  0: get d/a"]


def test_an_operation_that_waits_for_ever_is_named_with_its_place():
    never = threading.Event()

    def sleep_for_ever(store):
        store.get("d/a")
        never.wait()

    with pytest.raises(
        AssertionError, match=r"operation 1 has neither ended nor called its store for 0\.1 s"
    ) as raised:
        explored(actor_of(0, [("get", "d/a")]), operating(sleep_for_ever), patience_s=0.1)
    never.set()
    assert "in sleep_for_ever" in str(raised.value)
    assert raised.value.__notes__[0].startswith("schedule 1:\n  0: get d/a\n  1: get d/a")


def test_a_thread_that_dies_is_no_outcome():
    def exits(store):
        store.get("d/a")
        raise SystemExit(3)

    with pytest.raises(AssertionError, match=r"the thread of operation 1 died of SystemExit\(3\)"):
        explored(actor_of(0, [("get", "d/a")]), operating(exits))


def test_operations_that_do_other_calls_the_second_time_are_refused():
    """What is left out is only known of operations that depend on nothing but their turns."""
    runs = itertools.count()

    def moody(store):
        if next(runs):
            store.put("d/a", b"")
        else:
            store.delete("d/a")

    with pytest.raises(AssertionError, match="the operations depend on more than their turns"):
        explored(operating(moody), actor_of(1, [("put", "d/a")]))


def test_a_handle_can_be_used_after_its_schedule():
    """As pytest does, which shows the arguments of what failed: that would wait for a turn that never comes."""
    handles = []

    def keeps_its_store(store):
        handles.append(store)
        store.get("d/a")

    explored(operating(keeps_its_store), actor_of(1, [("put", "d/a")]))
    assert {store.get("d/a") for store in handles} == {None}


def test_what_raises_leaves_no_thread_behind():
    def check(store, outcomes):
        raise ValueError

    before = threading.active_count()
    for most_calls in (1, 100):
        with pytest.raises((AssertionError, ValueError)):
            explored(actor_of(0, [("get", "d/a")]), actor_of(1, [("get", "d/a")]), check=check, most_calls=most_calls)
    assert threading.active_count() == before
