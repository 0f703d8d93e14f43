"""Tables: the log writer, compaction and checkpoints, with delta-rs as the judge."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakespark
from lakespark.errors import CorruptFileError, MissingFileError, StorageError
from lakespark.storage import open_store
from lakespark.tables import ledger as ledgers
from lakespark.tables.delta_log import CHECKPOINT_ENTRIES, LEVEL_FACTOR, DeltaLog
from lakespark.tables.delta_schema import schema_string
from lakespark.tables.ledger_rows import LEDGER_SCHEMA
from lakespark.tables.staging import STAGING_SCHEMA
from lakespark.testing.faults import FaultyStore

SCHEMA = pa.schema([("entry", pa.int64()), ("value", pa.int64()), ("writer", pa.string())])
_names = itertools.count()


def memory_store():
    return open_store(f"memory://tables-{next(_names)}")


def table_at(store, root="table"):
    log = DeltaLog(store, root, SCHEMA)
    log.load()
    if log.version < 0:
        log.create()
    return log


def rows_of(value, writer="ann"):
    return pa.Table.from_pylist([{"value": value, "writer": writer}], schema=SCHEMA)


def append(log, value, writer="ann"):
    """Append one row as the next entry, whoever else writes; the entry's number."""
    file = log.write_file(rows_of(value, writer))
    while not log.put_rows(file, log.version + 1):
        log.refresh()
    number = log.version
    while log.compact(lambda _: None):
        pass
    log.checkpoint_if_due()
    return number


def all_rows(log):
    rows = [row for file in log.files.values() for row in log.read_rows(file).to_pylist()]
    return sorted(rows, key=lambda row: (row["entry"], row.get("position", 0)))


def judged_rows(folder):
    """Every row of a Delta table as delta-rs reads it, and the table."""
    table = DeltaTable(str(folder))
    found = QueryBuilder().register("t", table).execute("select * from t")
    return pa.table(found).to_pylist(), table


def assert_judge_agrees(folder, log):
    """delta-rs sees our version, our files and our rows; ``entry`` where the file says it, null where the log does."""
    rows, table = judged_rows(folder)
    assert table.version() == log.version
    assert {uri.rsplit("/", 1)[1] for uri in table.file_uris()} == set(log.files)

    def bare(found):
        return sorted(repr({name: value for name, value in row.items() if name != "entry"}) for row in found)

    ours = all_rows(log)
    assert bare(rows) == bare(ours)
    numbered = {repr(row) for row in ours}
    assert all(repr(row) in numbered for row in rows if row["entry"] is not None)
    return table


# -- the log ---------------------------------------------------------------------------------------------------


def test_many_small_appends_keep_few_files_and_their_entry_numbers(tmp_path):
    store = open_store(str(tmp_path))
    log = table_at(store)
    numbers, most = {}, 0
    for value in range(2000):
        numbers[append(log, value)] = value
        most = max(most, len(log.files))
    assert most <= 3 * LEVEL_FACTOR  # three levels hold 16 ** 3 entries
    again = table_at(store)
    assert again.version == log.version
    assert again.files == log.files
    assert {row["entry"]: row["value"] for row in all_rows(again)} == numbers
    table = assert_judge_agrees(tmp_path / "table", again)
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    checkpoints = list((tmp_path / "table/_delta_log").glob("*.checkpoint.parquet"))
    assert len(checkpoints) >= 2000 // CHECKPOINT_ENTRIES


def test_opening_reads_the_checkpoint_and_what_came_after(tmp_path):
    log = table_at(open_store(str(tmp_path)))
    for value in range(2 * CHECKPOINT_ENTRIES):
        append(log, value)
    store = FaultyStore(open_store(str(tmp_path)))
    assert table_at(store).files == log.files
    assert len(store.calls) <= CHECKPOINT_ENTRIES + LEVEL_FACTOR
    assert "table/_delta_log/00000000000000000001.json" not in {call.key for call in store.calls}


@pytest.mark.parametrize("damage", ["lost", "truncated", "garbage"])
def test_a_damaged_checkpoint_is_not_needed(tmp_path, damage):
    log = table_at(open_store(str(tmp_path)))
    for value in range(CHECKPOINT_ENTRIES + 5):
        append(log, value)
    (checkpoint,) = (tmp_path / "table/_delta_log").glob("*.checkpoint.parquet")
    if damage == "lost":
        checkpoint.unlink()
    else:
        checkpoint.write_bytes(checkpoint.read_bytes()[:100] if damage == "truncated" else b"garbage")
    assert all_rows(table_at(open_store(str(tmp_path)))) == all_rows(log)


def test_the_judge_reads_what_is_written_on_top_of_its_checkpoint(tmp_path):
    log = table_at(open_store(str(tmp_path)))
    for value in range(20):
        append(log, value)
    DeltaTable(str(tmp_path / "table")).create_checkpoint()
    for value in range(20, 45):
        append(log, value)
    again = table_at(open_store(str(tmp_path)))
    assert [row["value"] for row in all_rows(again)] == list(range(45))
    assert_judge_agrees(tmp_path / "table", again)


def test_a_stale_handle_loses_and_wins_with_the_same_file_at_the_next_number():
    store = memory_store()
    one, other = table_at(store), table_at(store)
    append(one, 1)
    file = other.write_file(rows_of(2, "bob"))
    assert not other.put_rows(file, other.version + 1)
    assert other.version == 0
    entries = other.refresh()
    assert [entry.number for entry in entries] == [1]
    assert other.put_rows(file, other.version + 1)
    one.refresh()
    assert [(row["value"], row["writer"]) for row in all_rows(one)] == [(1, "ann"), (2, "bob")]


@pytest.mark.parametrize("place", ["memory", "local"])
def test_racing_writers_lose_and_double_nothing(tmp_path, place):
    """Threads with a handle each, compacting as they go."""
    store = memory_store() if place == "memory" else open_store(str(tmp_path))
    table_at(store)

    def write(writer):
        log = table_at(store)
        return [(append(log, value, writer), value, writer) for value in range(20)]

    with ThreadPoolExecutor(4) as pool:
        written = [row for rows in pool.map(write, "abcd") for row in rows]
    final = table_at(store)
    assert [(row["entry"], row["value"], row["writer"]) for row in all_rows(final)] == sorted(written)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_put_whose_response_is_lost_is_settled_by_reading_it_back(when):
    store = FaultyStore(memory_store())
    log = table_at(store)
    file = log.write_file(rows_of(1))
    store.fail(0, when)
    assert log.put_rows(file, 1)
    assert [call.method for call in store.calls][:2] == ["put_if_absent", "get"]
    assert all_rows(table_at(store)) == [{"entry": 1, "value": 1, "writer": "ann"}]


def test_a_lost_response_is_no_win_when_another_writer_has_the_number():
    """The put fails, and what is read back is another's entry."""
    memory = memory_store()
    store = FaultyStore(memory)
    log = table_at(store)
    file = log.write_file(rows_of(1))
    other = table_at(memory)
    store.on_call = lambda call: append(other, 2, "bob") if call.number == 0 else None
    store.fail(0, "after")
    assert not log.put_rows(file, 1)
    assert [row["writer"] for row in all_rows(table_at(memory))] == ["bob"]


def test_a_store_that_stays_down_before_the_entry_is_a_storage_error():
    """The last look found no entry: nothing is visible."""
    memory = memory_store()
    store = FaultyStore(memory)
    log = table_at(store)
    file = log.write_file(rows_of(1))

    def fail_puts(call):
        if call.method == "put_if_absent":
            raise StorageError("no space left")

    store.on_call = fail_puts
    with pytest.raises(StorageError, match="no space left"):
        log.put_rows(file, 1)
    assert all_rows(table_at(memory)) == []


def test_a_store_that_says_nothing_more_leaves_the_state_unknown():
    """The entry may be there: only StateUnknownError is honest."""
    memory = memory_store()
    store = FaultyStore(memory)
    log = table_at(store)
    file = log.write_file(rows_of(1))
    store.fail(0, "after", lasting=True)
    with pytest.raises(lakespark.errors.StateUnknownError, match=r"00001\.json.*look at the repository"):
        log.put_rows(file, 1)
    assert len(all_rows(table_at(memory))) == 1


def test_a_gap_in_the_log_is_named():
    store = memory_store()
    log = table_at(store)
    for value in range(5):
        append(log, value)
    store.delete("table/_delta_log/00000000000000000003.json")
    with pytest.raises(MissingFileError, match=r"00000000000000000003\.json is missing"):
        table_at(store)


def test_an_entry_cut_short_anywhere_is_named_and_never_taken_for_less():
    store = memory_store()
    log = table_at(store)
    append(log, 1)
    for number in (0, 1):
        key = f"table/_delta_log/{number:020d}.json"
        whole = store.get(key)
        lines = [at for at, byte in enumerate(whole) if byte == ord("\n")]
        for size in (*range(0, len(whole), 9), *lines, *(at + 1 for at in lines), len(whole) - 1):
            store.put(key, whole[:size])
            with pytest.raises(CorruptFileError, match=f"{number:020d}.json cannot be read"):
                table_at(store)
        store.put(key, whole)
    assert len(all_rows(table_at(store))) == 1


def test_a_data_file_altered_in_any_way_is_named():
    store = memory_store()
    log = table_at(store)
    append(log, 1)
    (file,) = log.files.values()
    key = f"table/{file.name}"
    whole = store.get(key)
    for body in (b"", whole[:-1], whole[:40], whole + b"x", *(_flipped(whole, at) for at in range(0, len(whole), 7))):
        store.put(key, body)
        with pytest.raises(CorruptFileError, match=f"{file.name} is not what was written"):
            log.read_rows(file)
    store.delete(key)
    with pytest.raises(MissingFileError, match=f"{file.name} is missing"):
        log.read_rows(file)


def _flipped(body, at):
    return body[:at] + bytes([body[at] ^ 0x10]) + body[at + 1 :]


def test_a_schema_of_other_types_is_refused():
    with pytest.raises(TypeError, match="no Delta type for duration"):
        schema_string(pa.schema([("value", pa.duration("s"))]))


# -- the judge on whole repositories ---------------------------------------------------------------------------


def test_delta_rs_reads_the_ledger_and_staging_of_a_repository_in_use(tmp_path):
    repo = lakespark.Lake(tmp_path / "lake", user="ann").repository("analytics").create()
    main = repo.branch("main")
    for number in range(25):
        main.object(f"f/{number}").upload(str(number), metadata={"n": str(number)})
        main.commit(f"commit {number}", metadata={"ticket": str(number)})
        repo.tag(f"t{number}").create("main")
    for number in range(40):
        main.object(f"g/{number}").upload(str(number))
    main.object("f/3").delete()
    main.reset_changes("common_prefix", "g/1")
    repo.branch("dev").create("main").object("x").upload("1")
    repo.branch("dev").commit("on dev")
    for number in range(CHECKPOINT_ENTRIES):
        repo.branch(f"b{number}").create("main")
    repo.branch("b5").delete()

    namespace = tmp_path / "lake/analytics/_lakespark"
    ledger = DeltaLog(repo.opened.store, ledgers.ROOT, LEDGER_SCHEMA)
    ledger.load()
    assert list((namespace / "ledger/_delta_log").glob("*.checkpoint.parquet"))
    assert len(ledger.files) <= 2 * LEVEL_FACTOR
    assert_judge_agrees(namespace / "ledger", ledger)
    rows, _ = judged_rows(namespace / "ledger")
    assert sum(row["kind"] == "commit" for row in rows) == 1 + 25 + 1
    assert {row["name"] for row in rows if row["kind"] == "tag"} == {f"t{number}" for number in range(25)}

    token = repo.opened.ledger.ref("main").token
    staging = DeltaLog(repo.opened.store, f"_lakespark/staging/{token}", STAGING_SCHEMA)
    staging.load()
    assert len(staging.files) <= 2 * LEVEL_FACTOR
    assert_judge_agrees(namespace / "staging" / token, staging)
    assert [row["op"] for row in all_rows(staging)] == ["put"] * 40 + ["delete", "reset-prefix"]


def test_delta_rs_reads_the_catalog_of_a_lake(tmp_path):
    lake = lakespark.Lake(tmp_path, user="ann")
    for number in range(LEVEL_FACTOR + 4):
        lake.repository(f"repo-{number:02d}").create()
    lake.repository("repo-03").delete()
    rows, table = judged_rows(tmp_path / "_lakespark/repositories")
    assert len(table.file_uris()) <= LEVEL_FACTOR
    assert sum(row["op"] == "attach" for row in rows) == LEVEL_FACTOR + 4
    names = [f"repo-{number:02d}" for number in range(LEVEL_FACTOR + 4) if number != 3]
    assert [repo.id for repo in lakespark.Lake(tmp_path).repositories()] == names
