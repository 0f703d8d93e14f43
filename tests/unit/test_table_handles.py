"""The handles that follow tables: staging parts and watermarks, the ledger's compare-and-swap."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import lakespark
from lakespark.errors import ContentionError, StorageError
from lakespark.model import Operation, RefChange, RefState
from lakespark.storage import open_store
from lakespark.tables import ledger as ledgers
from lakespark.tables.ledger import Ledger
from lakespark.tables.staging import StagingTable, new_token, staged_rows
from lakespark.testing.faults import FaultyStore

_names = itertools.count()


def memory_store():
    return open_store(f"memory://handles-{next(_names)}")


def put(table, path):
    rows = staged_rows([{"op": "put", "path": path}], user="ann")
    table.append(rows, table.write_file(rows))


# -- staging ---------------------------------------------------------------------------------------------------


def test_a_part_that_was_read_does_not_grow_with_the_table():
    """A commit seals its watermark with what it read, whatever other threads append meanwhile."""
    store = memory_store()
    table = StagingTable(store, new_token())
    table.create()
    put(table, "a")
    part = table.read(0)
    put(table, "b")
    assert part.version == 1
    assert part.rows()["path"].to_pylist() == ["a"]
    assert table.read(part.version).rows()["path"].to_pylist() == ["b"]


def test_a_batch_decided_on_a_state_is_refused_when_another_came_first():
    store = memory_store()
    table = StagingTable(store, new_token())
    table.create()
    version = table.read(0).version
    assert table.append_next(staged_rows([{"op": "put", "path": "a"}], user="ann"), version)
    assert not table.append_next(staged_rows([{"op": "put", "path": "a"}], user="bob"), version)
    other = StagingTable(store, table.token)
    seen = other.read(0).version
    put(table, "b")
    assert not other.append_next(staged_rows([{"op": "put", "path": "c"}], user="bob"), seen)
    assert table.read(0).rows()["written_by"].to_pylist() == ["ann", "ann"]


def test_a_refresh_that_failed_half_way_hides_no_rows():
    """The entries were seen, their rows were not: the next read must not take them for read."""
    memory = memory_store()
    writer = StagingTable(memory, new_token())
    writer.create()
    store = FaultyStore(memory)
    reader = StagingTable(store, writer.token)
    reader.refresh()
    for path in "abc":
        put(writer, path)
    store.heal()
    assert len(reader.read(0).rows()) == 3
    calls = len(store.calls)
    for number in range(calls):
        fresh = StagingTable(store, writer.token)
        store.heal()
        fresh.refresh()
        put(writer, f"d{number}")
        store.fail(number % 3)
        with pytest.raises(StorageError):
            fresh.refresh()
        store.heal()
        assert len(fresh.read(0).rows()) == 4 + number


# -- the ledger ------------------------------------------------------------------------------------------------


def repository(store=None):
    """A ledger of its own in memory with one branch."""
    store = store or memory_store()
    ledger = Ledger(store, user="ann")
    state = RefState("branch", "c0", "t0")
    ledger.create({"name": "x"}, Operation("repository-create", (RefChange("main", None, state),)))
    ledger.refresh()
    return store, ledger


def creation(name):
    return Operation("branch-create", (RefChange(name, None, RefState("branch", "c0", f"t-{name}")),))


def test_an_operation_is_decided_again_only_when_what_it_expects_was_touched():
    store, ledger = repository()
    other = Ledger(store, user="bob")
    decided = []

    def decide(name, meanwhile):
        def act():
            decided.append(name)
            if decided.count(name) == 1:
                other.operate(lambda: creation(meanwhile))
            if ledger.ref(name) is not None:
                raise lakespark.errors.NameTakenError(name)
            return creation(name)

        return act

    ledger.operate(decide("one", meanwhile="elsewhere"))
    assert decided == ["one"]
    with pytest.raises(lakespark.errors.NameTakenError):
        ledger.operate(decide("two", meanwhile="two"))
    assert decided == ["one", "two", "two"]
    ledger.refresh()
    assert set(ledger.refs()) == {"main", "one", "elsewhere", "two"}
    assert ledger.version == 3


def test_an_operation_that_always_loses_is_safe_to_repeat(monkeypatch):
    monkeypatch.setattr(ledgers, "_TRIES", 5)
    store, ledger = repository()
    other = Ledger(store, user="bob")
    other.refresh()

    def move(commit_id):
        before = other.ref("main")
        return Operation("move", (RefChange("main", before, RefState("branch", commit_id, f"t-{commit_id}")),))

    tries = itertools.count()

    def decide():
        mine = Operation("mine", (RefChange("main", ledger.ref("main"), RefState("branch", "mine", "t-mine")),))
        number = next(tries)
        other.operate(lambda: move(f"c{number}"))
        return mine

    with pytest.raises(ContentionError, match=r"mine lost to other writers 5 times .* try again"):
        ledger.operate(decide)
    ledger.refresh()
    assert "mine" not in {info.verb for info, _ in ledger.operations()}


@pytest.mark.parametrize(("repeated_bytes", "calls"), [(ledgers._REPEATED_BYTES, 3), (0, 5)])
def test_a_refresh_that_failed_half_way_decides_nothing(monkeypatch, repeated_bytes, calls):
    """An operation must not be decided on refs that lag behind the version of the handle."""
    monkeypatch.setattr(ledgers, "_REPEATED_BYTES", repeated_bytes)
    memory = memory_store()
    _, writer = repository(memory)
    for fail_at in range(8):
        store = FaultyStore(memory)
        ledger = Ledger(store, user="ann")
        ledger.refresh()
        name = f"late-{fail_at}"
        writer.operate(lambda name=name: creation(name))
        writer.operate(lambda name=name: creation(f"{name}-b"))
        store.fail(fail_at)
        try:
            ledger.refresh()
        except StorageError:
            assert fail_at < calls
        else:
            assert fail_at >= calls
        store.heal()
        assert ledger.ref(name) is not None
        assert set(ledger.refs()) == set(writer.refs())


def test_a_writer_alone_puts_at_once_and_one_in_company_looks_first():
    """Entries that came while it decided are read before the number of one of them is tried in vain."""
    memory = memory_store()
    _, bob = repository(memory)
    store = FaultyStore(memory)
    ann = Ledger(store, user="ann")
    ann.refresh()
    assert log_calls(store, lambda: ann.operate(lambda: creation("a"))) == ["get", "put_if_absent"]
    bob.operate(lambda: creation("b"))

    def decide():
        for name in ("c", "d"):
            bob.operate(lambda name=name: creation(name))
        return creation("e")

    assert log_calls(store, lambda: ann.operate(decide)) == [*["get"] * 2, *["get"] * 3, "put_if_absent"]
    assert log_calls(store, lambda: ann.operate(lambda: creation("f"))) == ["get", "put_if_absent"]


def test_a_loser_reads_the_winner_and_tries_the_next_number():
    """Only one that loses again and again looks how far the log has come."""
    memory = memory_store()
    _, bob = repository(memory)
    names = iter("bcdef")

    def let_bob_first(call):
        if call.method == "put_if_absent":
            for name in itertools.islice(names, 1):
                bob.operate(lambda name=name: creation(name))

    store = FaultyStore(memory)
    ann = Ledger(store, user="ann")
    ann.refresh()
    store.on_call = let_bob_first
    lost = ["put_if_absent", "get"]
    expected = ["get", *lost * 4, "get", *lost, "put_if_absent"]
    assert log_calls(store, lambda: ann.operate(lambda: creation("a"))) == expected
    assert set(ann.refs()) == {"main", *"abcdef"}


def log_calls(store, work):
    """What work asks of the ledger's log, but for listings."""
    store.heal()
    work()
    return [call.method for call in store.calls if "ledger/_delta_log" in call.key and call.method != "list"]


def test_threads_share_a_ledger():
    _, ledger = repository()
    barrier = threading.Barrier(8)

    def run(writer):
        barrier.wait()
        for number in range(10):
            ledger.operate(lambda number=number: creation(f"b-{writer}-{number}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))
    assert len(ledger.refs()) == 81
    verbs = [info.verb for info, _ in ledger.operations()]
    assert verbs.count("branch-create") == 80
