"""Files that are gone, cut short or altered under the repository's feet: named, and never read as empty."""

from __future__ import annotations

import json

import pytest

import lakespark
from lakespark.errors import (
    CorruptFileError,
    MissingFileError,
    RepositoryNotFoundError,
    StorageError,
    UnsupportedFormatError,
)
from lakespark.model import Operation
from lakespark.storage import open_store
from lakespark.tables import ledger as ledgers
from lakespark.tables import ledger_rows
from lakespark.tables.delta_log import LEVEL_FACTOR, DeltaLog
from lakespark.tables.ledger import Ledger


@pytest.fixture
def namespace(tmp_path):
    """A repository in a folder: two commits on main, branches dev and old, and one object staged."""
    repo = lakespark.Lake(tmp_path / "lake", user="ann").repository("analytics").create(tmp_path / "ns")
    main = repo.branch("main")
    main.object("a").upload("one")
    main.object("b").upload("two")
    main.commit("first")
    dev = repo.branch("dev").create("main")
    dev.object("a").upload("other")
    dev.commit("on dev")
    old = repo.branch("old").create("main~1")
    old.object("z").upload("four")
    old.commit("on old")
    main.object("staged").upload("three")
    return tmp_path / "ns"


def without_snapshot(namespace):
    """The namespace with nothing but the log to tell the state of its ledger."""
    (namespace / ledgers.SNAPSHOT).unlink()
    return namespace


def opened(namespace):
    """A new handle, which has cached nothing."""
    return lakespark.Repository.open(namespace, user="ann")


def damage(file, how):
    """Spoil a file; the class of the error that must name it."""
    body = file.read_bytes()
    if how == "missing":
        file.unlink()
        return MissingFileError
    altered = {
        "empty": b"",
        "cut short": body[: len(body) // 2],
        "longer": body + b"\0",
        "one bit": body[: len(body) // 2] + bytes([body[len(body) // 2] ^ 1]) + body[len(body) // 2 + 1 :],
        "garbage": b"\0" * len(body),
    }[how]
    file.write_bytes(altered)
    return CorruptFileError


DAMAGES = ["missing", "empty", "cut short", "longer", "one bit", "garbage"]

READS = {
    "list": lambda repo: list(repo.branch("main").objects()),
    "list a head": lambda repo: list(repo.branch("main").head.objects()),
    "stat": lambda repo: repo.branch("main").object("a").stat(),
    "read": lambda repo: repo.branch("main").object("a").reader().read(),
    "exists": lambda repo: repo.ref("main~0").object("b").exists(),
    "diff": lambda repo: list(repo.branch("main").diff("dev")),
    "two-dot diff": lambda repo: list(repo.branch("main").diff("dev", type="two_dot")),
    "commit": lambda repo: repo.branch("main").commit("second"),
    "merge": lambda repo: repo.branch("main").merge_into("old"),
    "revert": lambda repo: repo.branch("dev").revert("main"),
}


def names_the_file(file):
    return str(file).replace(".", r"\.")


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_range_is_named_by_everything_that_reads_it(namespace, how):
    record = opened(namespace).opened
    record.ledger.refresh()
    head = record.ledger.commit(record.ledger.ref("main").commit_id)
    (ref,) = record.tree(head).ranges
    error = damage(namespace / ref.file, how)
    for name, read in READS.items():
        with pytest.raises(error, match=names_the_file(namespace / ref.file)) as raised:
            read(opened(namespace))
        assert raised.type is error, name
    assert [commit.message for commit in opened(namespace).branch("main").log()] == ["first", "Repository created"]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_metarange_is_named_by_everything_that_reads_it(namespace, how):
    record = opened(namespace).opened
    record.ledger.refresh()
    file = record.ledger.commit(record.ledger.ref("main").commit_id).metarange.file
    error = damage(namespace / file, how)
    for name, read in READS.items():
        with pytest.raises(error, match=names_the_file(namespace / file)) as raised:
            read(opened(namespace))
        assert raised.type is error, name
    assert len(list(opened(namespace).branch("main").log())) == 2


def table_files(namespace, folder):
    """Live data files of a table, oldest first."""
    log = DeltaLog(open_store(str(namespace)), folder, ledger_rows.LEDGER_SCHEMA)
    log.load()
    return [namespace / folder / file.name for file in sorted(log.files.values(), key=lambda file: file.first)]


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_data_file_of_the_ledger_is_named(namespace, how, number):
    file = table_files(without_snapshot(namespace), ledgers.ROOT)[number]
    error = damage(file, how)
    for read in (
        lambda repo: list(repo.branches()),
        lambda repo: repo.branch("main").get_commit(),
        lambda repo: repo.branch("main").object("new").upload("1"),
        lambda repo: repo.branch("new").create("main"),
    ):
        repo = opened(namespace)
        for _ in range(2):  # the second time as well: a handle that failed must not go on with half of the state
            with pytest.raises(error, match=names_the_file(file)):
                read(repo)


@pytest.mark.parametrize("how", ["empty", "cut short", "garbage"])
def test_a_damaged_log_entry_of_the_ledger_is_named(namespace, how):
    entries = sorted((without_snapshot(namespace) / ledgers.ROOT / "_delta_log").glob("*.json"))
    whole = entries[1].read_bytes()
    error = damage(entries[1], how)
    repo = opened(namespace)
    for _ in range(2):
        with pytest.raises(error, match=names_the_file(entries[1])):
            repo.branch("main").get_commit()
    entries[1].write_bytes(whole)
    assert repo.branch("main").get_commit().message == "first"


def test_a_missing_log_entry_is_named(namespace):
    entries = sorted((without_snapshot(namespace) / ledgers.ROOT / "_delta_log").glob("*.json"))
    damage(entries[1], "missing")
    with pytest.raises(MissingFileError, match=f"{names_the_file(entries[1])} is missing: the table has later ones"):
        opened(namespace).branch("main").get_commit()


def test_a_ledger_without_its_log_is_no_repository(namespace):
    for entry in (namespace / ledgers.ROOT / "_delta_log").iterdir():
        entry.unlink()
    with pytest.raises(RepositoryNotFoundError, match=f"no repository at {namespace}"):
        opened(namespace).branch("main").get_commit()


def staging_of(namespace, branch):
    record = opened(namespace).opened
    record.ledger.refresh()
    return f"_lakespark/staging/{record.ledger.ref(branch).token}"


STAGED_READS = {name: READS[name] for name in ("list", "stat", "commit")} | {
    "uncommitted": lambda repo: list(repo.branch("main").uncommitted()),
    "merge into it": lambda repo: repo.branch("dev").merge_into("main"),
    "exclusive upload": lambda repo: repo.branch("main").object("new").upload("1", mode="x"),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_staging_file_is_named_and_nothing_is_committed(namespace, how):
    (file,) = table_files(namespace, staging_of(namespace, "main"))
    error = damage(file, how)
    for name, read in STAGED_READS.items():
        repo = opened(namespace)
        for _ in range(2):
            with pytest.raises(error, match=names_the_file(file)) as raised:
                read(repo)
            assert raised.type is error, name
    assert opened(namespace).branch("main").head.get_commit().message == "first"


def test_a_damaged_staging_log_is_named(namespace):
    log = namespace / staging_of(namespace, "main") / "_delta_log"
    entry = sorted(log.glob("*.json"))[1]
    damage(entry, "cut short")
    for read in STAGED_READS.values():
        with pytest.raises(CorruptFileError, match=names_the_file(entry)):
            read(opened(namespace))


def test_a_missing_staging_table_is_an_error_never_an_empty_one(namespace):
    folder = staging_of(namespace, "main")
    (namespace / folder / "_delta_log").rename(namespace / "elsewhere")
    token = folder.rsplit("/", 1)[1]
    for name, read in STAGED_READS.items():
        with pytest.raises(MissingFileError, match=f"the staging table of token {token} is missing"):
            read(opened(namespace))
        assert opened(namespace).branch("main").head.get_commit().message == "first", name
    with pytest.raises(MissingFileError, match=token):
        opened(namespace).branch("main").object("new").upload("1")


# -- contents --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["missing", "empty", "cut short"])
def test_contents_that_are_gone_are_named_with_their_path(namespace, how):
    main = opened(namespace).branch("main")
    file = namespace / main.object("a").stat().physical_address.split(f"{namespace}/")[1]
    damage(file, how)
    with pytest.raises(MissingFileError, match=f"contents of 'a' are .*{names_the_file(file)}"):
        main.object("a").reader().read()
    assert [o.path for o in main.objects()] == ["a", "b", "staged"]
    assert main.object("b").reader().read() == b"two"


# -- the format ------------------------------------------------------------------------------------------------


def every_way_in(namespace):
    lake = lakespark.Lake(namespace.parent / "lake")
    return (
        lambda: lakespark.Repository.open(namespace),
        lambda: lake.repository("analytics").branch("main").get_commit(),
        lambda: lake.repository("analytics").branch("main").object("a").upload("1"),
        lambda: lake.repository("analytics").create(exist_ok=True),
    )


def test_an_unknown_format_version_is_refused_by_its_number(namespace):
    file = namespace / "_lakespark/format.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 99}))
    for enter in every_way_in(namespace):
        with pytest.raises(UnsupportedFormatError, match=f"{namespace} has format version 99; .* upgrade lakespark"):
            enter()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "1", "\0"])
def test_an_unreadable_format_file_is_named(namespace, text):
    file = namespace / "_lakespark/format.json"
    file.write_text(text)
    for enter in every_way_in(namespace):
        with pytest.raises(CorruptFileError, match=f"{names_the_file(file)} cannot be read"):
            enter()


def test_an_unknown_feature_is_refused_by_its_name_again_and_again(namespace):
    """Whoever has the repository open already meets it at the next look."""
    before = opened(namespace)
    before.branch("main").get_commit()
    rows = ledger_rows.operation_rows(Operation("upgrade", ()), user="ann", at=0, write_id="w")
    log = DeltaLog(open_store(str(namespace)), ledgers.ROOT, ledger_rows.LEDGER_SCHEMA)
    log.load()
    table = ledger_rows.to_table([*rows, ledger_rows.feature_row("columns-v9")])
    assert log.put_rows(log.write_file(table), log.version + 1)
    for repo in (before, opened(namespace)):
        for act in (
            lambda repo: repo.branch("main").get_commit(),
            lambda repo: repo.branch("main").object("a").upload("1"),
            lambda repo: repo.branch("new").create("main"),
        ):
            with pytest.raises(UnsupportedFormatError, match=r"feature 'columns-v9', .* upgrade lakespark"):
                act(repo)
    log.refresh()
    assert log.version == 6


# -- what is derived -------------------------------------------------------------------------------------------


@pytest.fixture
def busy(namespace):
    """The same after so many operations that there is a snapshot."""
    repo = opened(namespace)
    for number in range(2 * LEVEL_FACTOR):
        repo.tag(f"t{number}").create("main")
    assert (namespace / ledgers.SNAPSHOT).exists()
    return namespace


def state(namespace):
    ledger = Ledger(open_store(str(namespace)), user="ann")
    ledger.refresh()
    heads = {ref.commit_id: ledger.commit(ref.commit_id) for ref in ledger.refs().values()}
    operations = [info for info, _ in ledger.operations()]
    return ledger.version, ledger.refs(), ledger.settings(), heads, operations


def test_a_lost_snapshot_is_made_again_from_the_log(busy):
    whole = state(busy)
    (busy / ledgers.SNAPSHOT).unlink()
    assert state(busy) == whole
    repo = opened(busy)
    for number in range(LEVEL_FACTOR + 1):
        repo.tag(f"later-{number}").create("main")
    assert (busy / ledgers.SNAPSHOT).exists()
    assert len(state(busy)[1]) == len(whole[1]) + LEVEL_FACTOR + 1


@pytest.mark.exhaustive
def test_a_snapshot_altered_anywhere_is_as_good_as_lost(busy):
    """One bit flipped in pages and in the footer, and cut short."""
    whole, file = state(busy), busy / ledgers.SNAPSHOT
    body = file.read_bytes()
    for at in (*range(0, len(body), 211), *range(len(body) - 600, len(body), 23)):
        file.write_bytes(body[:at] + bytes([body[at] ^ (1 << at % 8)]) + body[at + 1 :])
        assert state(busy) == whole, f"byte {at} of {len(body)}"
    for at in (0, 1, 10, len(body) // 2, len(body) - 1):
        file.write_bytes(body[:at])
        assert state(busy) == whole


def test_an_old_snapshot_is_brought_up_to_date(busy):
    """A slower writer may put back an older one: the log after it says the rest."""
    old = (busy / ledgers.SNAPSHOT).read_bytes()
    repo = opened(busy)
    for number in range(2 * LEVEL_FACTOR):
        repo.tag(f"later-{number}").create("main")
        repo.tag(f"t{number}").delete()
    whole = state(busy)
    assert (busy / ledgers.SNAPSHOT).read_bytes() != old
    (busy / ledgers.SNAPSHOT).write_bytes(old)
    assert state(busy) == whole


def test_a_table_folder_that_became_a_file_is_a_storage_error(namespace):
    folder = namespace / "_lakespark/ledger"
    folder.rename(namespace / "elsewhere")
    folder.write_text("not a folder")
    with pytest.raises(StorageError, match=f"{folder}.*Not a directory"):
        opened(namespace).branch("main").get_commit()
