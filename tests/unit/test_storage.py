"""Stores: the contract on memory and local folders, locations, and what the store says when it fails."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from lakespark.errors import InvalidUriError, StorageError
from lakespark.storage import Location, Store, open_store, parse_location
from lakespark.testing.faults import FaultyStore
from lakespark.testing.stores import StoreContract

_names = itertools.count()


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return open_store(f"memory://storage-{next(_names)}/lake")


class TestMemoryStoreWithoutAPrefix(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return open_store(f"memory://storage-{next(_names)}")


class TestLocalStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path) -> Store:
        return open_store(str(tmp_path / "with space" / "50%41" / "é#?"))


class TestFaultyStoreWithoutFaults(StoreContract):
    @pytest.fixture
    def store(self, tmp_path) -> Store:
        return FaultyStore(open_store(str(tmp_path)))


def test_memory_stores_of_one_name_share_their_files():
    name = f"storage-{next(_names)}"
    open_store(f"memory://{name}/a").put("b/file", b"1")
    assert open_store(f"memory://{name}").get("a/b/file") == b"1"
    assert open_store(f"memory://{name}/a/b").get("file") == b"1"
    assert open_store(f"memory://{name}/b").get("file") is None


def test_looking_into_a_folder_that_is_not_there_does_not_make_it(tmp_path):
    store = open_store(str(tmp_path / "lake"))
    assert store.get("file") is None
    assert store.size("file") is None
    assert list(store.list("folder")) == []
    store.delete("file")
    with pytest.raises(FileNotFoundError):
        store.get_range("file", 0, 1)
    assert not (tmp_path / "lake").exists()


def test_a_store_at_a_file_says_so_and_leaves_it(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    store = open_store(str(file))
    for act in (
        lambda: store.get("key"),
        lambda: store.get_range("key", 0, 1),
        lambda: list(store.list("key")),
        lambda: store.put("key", b"1"),
        lambda: store.put_if_absent("key", b"1"),
        lambda: store.open_writer("key"),
    ):
        with pytest.raises(StorageError, match=f"cannot [a-z ]+ {file}/key: Not a directory"):
            act()
    assert file.read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match=f"cannot write {tmp_path}/file/below/key: Not a directory"):
        open_store(str(tmp_path / "file" / "below")).put("key", b"1")


def test_a_failing_write_names_the_file(tmp_path):
    store = open_store(str(tmp_path))
    store.put("taken", b"1")
    for act in (lambda: store.put("taken/key", b"1"), lambda: store.put_if_absent("taken/key", b"1")):
        with pytest.raises(StorageError, match=f"cannot write {tmp_path}/taken/key"):
            act()
    with pytest.raises(StorageError, match=f"cannot read {tmp_path}/taken/key"):
        store.get("taken/key")
    with pytest.raises(StorageError, match=f"cannot write {tmp_path}/taken/key"):
        store.open_writer("taken/key")


def test_injected_faults_strike_before_or_after_the_effect():
    store = FaultyStore(open_store(f"memory://storage-{next(_names)}"))
    store.fail(1)
    store.put("a", b"1")
    with pytest.raises(StorageError, match="injected, before"):
        store.put("b", b"1")
    assert store.get("b") is None
    store.fail(0, "after")
    with pytest.raises(StorageError, match="injected, after"):
        store.put("b", b"1")
    assert store.get("b") == b"1"
    store.fail(1, lasting=True)
    assert store.get("a") == b"1"
    for _ in range(2):
        with pytest.raises(StorageError):
            store.get("a")
    assert [call.method for call in store.calls] == ["get", "get", "get"]
    store.heal()
    assert store.get("a") == b"1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data/lake", Location("file", "", "/data/lake")),
        ("/data/lake/", Location("file", "", "/data/lake")),
        ("/data/a lake/50%/%41#?", Location("file", "", "/data/a lake/50%/%41#?")),
        ("file:///data/lake", Location("file", "", "/data/lake")),
        ("file:///data/a lake", Location("file", "", "/data/a lake")),
        ("file:///data/a%20lake/50%25", Location("file", "", "/data/a lake/50%")),
        ("local:///data/lake", Location("file", "", "/data/lake")),
        ("memory://name/lake/", Location("memory", "name", "lake")),
        ("memory://name", Location("memory", "name", "")),
        ("s3://bucket/a/b/", Location("s3", "bucket", "a/b")),
        ("s3://bucket", Location("s3", "bucket", "")),
        ("s3a://bucket/a%20b c", Location("s3", "bucket", "a%20b c")),
        ("gs://bucket/lake", Location("gs", "bucket", "lake")),
    ],
)
def test_a_location_is_read_from_its_text(text, expected):
    assert parse_location(text) == expected


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_location("lake") == Location("file", "", f"{tmp_path}/lake")
    assert parse_location(Path("lake")) == Location("file", "", f"{tmp_path}/lake")


@pytest.mark.parametrize("name", ["plain", "a b", "50%", "%41", "a%20b", "é", "#", "?", "a+b", "[x]", "a;b"])
def test_a_local_location_reads_back_from_each_of_its_forms(tmp_path, name):
    """Path, text, our URL and ``Path.as_uri`` name the same folder."""
    folder = tmp_path / name
    location = parse_location(folder)
    assert str(location) == str(folder)
    assert parse_location(str(location)) == location
    assert parse_location(location.url) == location
    assert parse_location(folder.as_uri()) == location


def test_a_child_stands_below_its_location():
    assert parse_location("s3://bucket").child("lake").url == "s3://bucket/lake"
    assert parse_location("s3://bucket/lake").child("a/b").url == "s3://bucket/lake/a/b"
    assert str(parse_location("/lake").child("a")) == "/lake/a"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it names no folder"),
        ("file://", "it names no folder"),
        ("ftp://host/lake", "schemes are file, memory, s3"),
        ("http://host/lake", "schemes are"),
        ("://lake", "schemes are"),
        ("s3://", "it names no bucket"),
        ("s3:///lake", "it names no bucket"),
        ("gs:///lake", "it names no bucket"),
    ],
)
def test_a_location_that_names_no_place_is_refused(text, problem):
    with pytest.raises(InvalidUriError, match=problem):
        parse_location(text)
