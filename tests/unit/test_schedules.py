"""The scheduler of storage calls: what it leaves out comes to nothing new."""

from __future__ import annotations

import itertools

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
