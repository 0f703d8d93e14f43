"""Repositories that cannot be made or found, commit prefixes of two commits, and tables that cannot be staged."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from refusals import everything, refused

import lakespark
from lakespark import digest
from lakespark.errors import (
    AmbiguousRefError,
    BadRequestException,
    InvalidEntriesError,
    NamespaceInUseError,
    NameTakenError,
    RepositoryNotFoundError,
    StorageError,
)

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
