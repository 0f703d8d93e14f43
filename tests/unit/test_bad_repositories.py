"""Repositories that cannot be made or found, or that others put files into; handles that are older than the log;
commit prefixes of two commits; tables that cannot be staged.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from refusals import everything, refused

import lakespark
from lakespark import digest
from lakespark.errors import (
    AmbiguousRefError,
    BadRequestException,
    CorruptFileError,
    InvalidEntriesError,
    NamespaceInUseError,
    NameTakenError,
    RepositoryNotFoundError,
    StorageError,
    UnsupportedFormatError,
)
from lakespark.storage import open_store
from lakespark.tables import delta_log

_names = itertools.count()
LONG = "x" * 1025


@pytest.fixture(scope="module")
def lake():
    return lakespark.Lake(f"memory://bad-repositories-{next(_names)}/lake", user="ann")


@pytest.fixture(scope="module")
def repo(lake):
    repo = lake.repository("analytics").create()
    repo.branch("main").object("a").upload("1")
    repo.branch("main").commit("first")
    return repo


# -- repositories ----------------------------------------------------------------------------------------------


def test_an_unknown_repository_is_named_with_its_lake(lake, repo):
    with refused(repo, RepositoryNotFoundError, f"'nope' not found in the lake at {lake.location}"):
        lake.repository("nope").branch("main").get_commit()
    with refused(repo, BadRequestException, "which lake is repository 'analytics' in.* Pass lake="):
        lakespark.repository("analytics")
    place = f"memory://bad-repositories-{next(_names)}"
    with refused(repo, RepositoryNotFoundError, f"no repository at {place}: it has no _lakespark/format.json"):
        lakespark.Repository.open(place)


def test_a_taken_repository_name_is_refused_with_its_place(lake, repo):
    with refused(repo, NameTakenError, "'analytics' exists already, at .*lake/analytics"):
        lake.repository("analytics").create()
    with refused(repo, NameTakenError, "'analytics' exists already"):
        lake.repository("analytics").create(f"memory://bad-repositories-{next(_names)}")
    assert lake.repository("analytics").create(exist_ok=True).branch("main").head == repo.branch("main").head


def test_a_namespace_in_use_is_refused_with_its_owner(lake, repo):
    place = str(repo.opened.store.location)
    with refused(repo, NamespaceInUseError, f"{place} belongs to repository 'analytics' of the lake at .*: choose"):
        lake.repository("other").create(place)
    other = lakespark.Lake(f"memory://bad-repositories-{next(_names)}")
    with refused(repo, NamespaceInUseError, "belongs to repository 'analytics'"):
        other.repository("analytics").create(place)
    assert [r.id for r in lake.repositories()] == ["analytics"]
    assert list(other.repositories()) == []


def test_settings_that_no_repository_can_have_are_refused(lake):
    for how, message in (
        ({"range_entries": 0}, "range_entries must be 1 or more"),
        ({"default_branch": "a b"}, "'a b'"),
    ):
        with pytest.raises(BadRequestException, match=message):
            lake.repository("never").create(**how)
    assert "never" not in [r.id for r in lake.repositories()]


def test_a_lake_that_is_a_file_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    for act in (
        lambda: list(lakespark.Lake(file).repositories()),
        lambda: lakespark.Lake(file).repository("abc").create(),
        lambda: lakespark.Lake(tmp_path / "lake").repository("abc").create(str(file / "below")),
        lambda: lakespark.Repository.open(file),
    ):
        with pytest.raises(StorageError, match=f"{file}.*: Not a directory"):
            act()
    assert file.read_text() == "mine"
    assert list(lakespark.Lake(tmp_path / "lake").repositories()) == []


# -- namespaces that others have been at ------------------------------------------------------------------------


@pytest.fixture
def begun(tmp_path):
    """A lake and a namespace whose creation, under the name "analytics", ended before it had a format file."""
    lake = lakespark.Lake(tmp_path / "lake", user="ann")
    repo = lakespark.Lake(tmp_path / "lake", user="ann").repository("analytics").create(tmp_path / "ns")
    commit_id = repo.branch("main").get_commit().id
    repo.opened.store.delete("_lakespark/format.json")
    for file in open_store(str(tmp_path / "lake")).list("_lakespark"):  # the lake's row is written last
        open_store(str(tmp_path / "lake")).delete(file.key)
    return lake, tmp_path / "ns", commit_id


def test_a_creation_that_crashed_is_named_and_finished_by_repeating_it(begun):
    lake, place, commit_id = begun
    with pytest.raises(RepositoryNotFoundError, match="interrupted, create it again with the same name and lake"):
        lakespark.Repository.open(place)
    with pytest.raises(NamespaceInUseError, match=f"{place} belongs to repository 'analytics' of the lake at .*/lake"):
        lake.repository("other").create(place)
    assert list(lake.repositories()) == []
    main = lake.repository("analytics").create(place).branch("main")
    assert main.get_commit().id == commit_id
    main.object("a").upload("1")
    main.commit("goes on")
    assert [commit.message for commit in main.log()] == ["goes on", "Repository created"]


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (b"settings of something else", CorruptFileError, "_lakespark/format.json cannot be read"),
        (b'{"version": 7}', UnsupportedFormatError, "has format version 7"),
        (
            json.dumps({"format": "lakespark", "version": 1, "repository_id": "lost"}).encode(),
            NamespaceInUseError,
            "has _lakespark/format.json, but no ledger",
        ),
    ],
)
def test_a_namespace_with_the_format_file_of_something_else_is_left_as_it_is(tmp_path, body, error, message):
    store = open_store(str(tmp_path / "ns"))
    store.put("_lakespark/format.json", body)
    lake = lakespark.Lake(tmp_path / "lake", user="ann")
    with pytest.raises(error, match=message):
        lake.repository("analytics").create(tmp_path / "ns")
    assert [file.key for file in store.list("")] == ["_lakespark/format.json"]
    assert store.get("_lakespark/format.json") == body
    assert list(lake.repositories()) == []


STRANGE = ("notes.txt", "ledger/copy of ledger.parquet", "ranges/old/x.csv", "staging/readme", "metaranges/x.tmp")
IN_LOGS = ("notes.txt", "00000000000000000001.json.tmp", ".00000000000000000001.json.crc", "x.json", "1.json")


def test_files_of_other_programs_inside_the_namespace_disturb_nobody(tmp_path):
    """Some were there before the repository; fsck names those that no Delta or Spark program would write."""
    lake = lakespark.Lake(tmp_path / "lake", user="ann")
    store = open_store(str(tmp_path / "ns"))
    logs = [f"_lakespark/ledger/_delta_log/{name}" for name in IN_LOGS]
    for key in (*logs, *(f"_lakespark/{name}" for name in STRANGE)):
        store.put(key, b"?")
    repo = lake.repository("analytics").create(tmp_path / "ns")
    main = repo.branch("main")
    main.object("a").upload("1")
    token = repo.opened.ledger.ref("main").token
    for name in IN_LOGS:
        store.put(f"_lakespark/staging/{token}/_delta_log/{name}", b"?")
    main.commit("first")
    dev = repo.branch("dev").create("main")
    dev.object("b").upload("2")
    dev.commit("second")
    dev.merge_into(main)
    fresh = lakespark.Repository.open(tmp_path / "ns")
    assert [found.path for found in fresh.branch("main").objects()] == ["a", "b"]
    report = repo.fsck(objects=True)
    assert report.is_clean
    assert {f"_lakespark/{name}" for name in STRANGE} <= {note.name for note in report.notes}
    assert all(store.get(f"_lakespark/{name}") == b"?" for name in STRANGE)


# -- handles that are older than the log -----------------------------------------------------------------------


@pytest.fixture
def aged(tmp_path, monkeypatch):
    """A repository, and a handle of it that has slept while others wrote and the logs were cleaned up behind them."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_ENTRIES", 20)
    place = tmp_path / "ns"
    lakespark.Lake(tmp_path / "lake", user="ann").repository("analytics").create(place)
    old = lakespark.Repository.open(place, user="ann")
    old.branch("main").object("before").upload("1")
    others = lakespark.Repository.open(place, user="bob")
    for number in range(40):
        others.branch(f"b{number:02}").create("main")
        others.branch("main").object(f"f{number:02}").upload("1")
    token = others.opened.ledger.ref("main").token
    for table in ("ledger", f"staging/{token}"):
        log = place / "_lakespark" / table / "_delta_log"
        long_ago = time.time() - (delta_log.LOG_RETENTION_DAYS + 10) * 86400
        for file in log.glob("*"):
            os.utime(file, (long_ago, long_ago))
        DeltaTable(log.parent).cleanup_metadata()
        assert not (log / f"{3:020}.json").exists()
    asleep = delta_log.LOG_RETENTION_DAYS * 86400
    now = time.monotonic
    monkeypatch.setattr(delta_log.time, "monotonic", lambda: now() + asleep)
    return old, place


FILES = ["before", *(f"f{number:02}" for number in range(40))]


def test_a_handle_older_than_the_log_reads_what_is_there_now(aged):
    old, _ = aged
    assert [found.path for found in old.branch("main").objects()] == FILES
    assert len(list(old.branches())) == 41


@pytest.mark.parametrize("mode", ["w", "x"])
def test_a_handle_older_than_the_log_loses_no_upload(aged, mode):
    old, place = aged
    old.branch("main").object("mine").upload("1", mode=mode)
    fresh = lakespark.Repository.open(place)
    assert [found.path for found in fresh.branch("main").objects()] == [*FILES, "mine"]
    old.branch("main").commit("all")
    assert [found.path for found in fresh.ref("main@").objects()] == [*FILES, "mine"]
    assert fresh.fsck(objects=True).is_clean


def test_a_handle_older_than_the_log_commits_and_branches_on_what_is_there_now(aged):
    old, place = aged
    with pytest.raises(NameTakenError):
        old.branch("b03").create("main")
    old.branch("mine").create("main")
    old.branch("main").commit("all")
    fresh = lakespark.Repository.open(place)
    assert [found.path for found in fresh.ref("main@").objects()] == FILES
    assert len(list(fresh.branches())) == 42
    assert fresh.fsck(objects=True).is_clean


# -- commit prefixes -------------------------------------------------------------------------------------------


def test_an_ambiguous_commit_prefix_lists_its_candidates(lake):
    """Two commits whose ids share four digits, found by trying dates."""
    repo = lake.repository("ambiguous").create()
    main = repo.branch("main")
    first = main.commit("first", date=0, allow_empty=True).get_commit()

    def id_at(date):
        return digest.commit_id(
            committer="ann", message="second", metarange=first.meta_range_id, creation_date=date, metadata={},
            parents=[first.id],
        )  # fmt: skip

    date = next(date for date in itertools.count() if id_at(date)[:4] == first.id[:4])
    second = main.commit("second", date=date, allow_empty=True)
    assert second.id == id_at(date)
    with refused(repo, AmbiguousRefError, f"{first.id[:4]}.* is ambiguous: .*give more digits") as raised:
        repo.ref(first.id[:4]).get_commit()
    assert raised.value.candidates == tuple(sorted([first.id, second.id]))
    length = next(n for n in range(5, 64) if first.id[:n] != second.id[:n])
    assert repo.ref(first.id[:length]).get_commit() == first


# -- staged tables ---------------------------------------------------------------------------------------------

GOOD = {"path": ["x", "y"], "physical_address": ["s3://b/x", "s3://b/y"], "size_bytes": [1, 2], "checksum": ["c", "d"]}
TABLES = {
    "no path column": ({**GOOD, "path": None}, "lacks path"),
    "no columns": (dict.fromkeys(GOOD), "lacks path, physical_address, size_bytes, checksum"),
    "an unknown column": ({**GOOD, "colour": ["r", "g"]}, "has unknown colour: .* may have mtime"),
    "two paths": ({**GOOD, "path": ["x", "x"]}, "stands more than once .2 in all.: 'x'"),
    "a negative size": ({**GOOD, "size_bytes": [1, -2]}, "a negative one .1 in all.: 'y'"),
    "no size": ({**GOOD, "size_bytes": [None, 2]}, "have no size_bytes.*: 'x'"),
    "no path": ({**GOOD, "path": ["x", None]}, "have no path .1 in all."),
    "no address": ({**GOOD, "physical_address": [None, "s3://b/y"]}, "have no physical_address .1 in all.: 'x'"),
    "an empty checksum": ({**GOOD, "checksum": ["", "d"]}, "have no checksum .1 in all.: 'x'"),
    "an empty path": ({**GOOD, "path": ["", "y"]}, "have an empty path .1 in all.: ''"),
    "a long path": ({**GOOD, "path": [LONG, "y"]}, "longer than 1,024 bytes"),
    "NUL": ({**GOOD, "path": ["a\0b", "y"]}, "holds a NUL"),
    "text as size": ({**GOOD, "size_bytes": ["1", "two"]}, "column 'size_bytes' is string, not int64"),
    "half a byte": ({**GOOD, "size_bytes": [1.5, 2.0]}, "column 'size_bytes' is double, not int64"),
    "numbers as metadata": ({**GOOD, "metadata": [1, 2]}, "column 'metadata' is int64"),
    "bytes not UTF-8": ({**GOOD, "path": [b"\xff", b"y"]}, "'path'.*UTF|UTF-8"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_entries_that_cannot_be_staged_is_refused(repo, name):
    columns, message = TABLES[name]
    table = pa.table({name: values for name, values in columns.items() if values is not None})
    with refused(repo, InvalidEntriesError, message):
        repo.branch("main").stage(table)


def test_an_empty_table_of_entries_stages_nothing(repo):
    before = everything(repo)
    table = pa.table({name: pa.array([], pa.int64() if name == "size_bytes" else pa.string()) for name in GOOD})
    assert repo.branch("main").stage(table) == 0
    assert everything(repo) == before


def test_handles_show_themselves_without_reading_anything(tmp_path):
    """By name where it is known, else by storage namespace: a debugger may show a handle at any moment."""
    lakespark.Lake(tmp_path / "lake").repository("analytics").create(tmp_path / "ns")
    named, unnamed = lakespark.Repository.open(tmp_path / "ns"), lakespark.Repository.open(tmp_path / "ns")
    assert named.id == "analytics"
    shutil.rmtree(tmp_path / "ns")
    assert repr(named.tag("v1")) == "Tag(repository='analytics', id='v1')"
    place = str(tmp_path / "ns")
    assert repr(unnamed) == f"Repository(id={place!r})"
    assert repr(unnamed.branch("main").object("a")) == (
        f"WriteableObject(repository={place!r}, reference='main', path='a')"
    )
