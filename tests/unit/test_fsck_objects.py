"""fsck on the contents of objects, and on what lies around the tables."""

from __future__ import annotations

import hashlib
import json
import os

import pyarrow as pa
import pytest
from fsck_cases import body_of, build, checked, damage, errors

import lakespark
from lakespark.errors import RepositoryNotFoundError, StorageError, UnsupportedFormatError
from lakespark.operations.fsck.check import fsck
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store
from lakespark.testing.faults import FaultyStore

# -- objects ---------------------------------------------------------------------------------------------------


def contents_key(repo, ref, path):
    return repo.ref(ref).object(path).stat().physical_address.split("/ns/")[1]


@pytest.mark.parametrize("how", ["missing", "empty", "longer", "one bit"])
def test_damaged_contents_are_named_with_path_and_refs(repo_anywhere, how):
    key = contents_key(repo_anywhere, "main", "b")
    damage(repo_anywhere, key, how)
    assert errors(repo_anywhere) == ()
    (finding,) = errors(repo_anywhere, objects=True)
    assert finding.kind == ("missing" if how == "missing" else "altered")
    assert (finding.subject, finding.refs) == ("object", ("dev", "main", "v1"))
    assert finding.name.endswith(key)
    assert "'b'" in finding.problem
    if how == "one bit":
        assert finding.expected == hashlib.md5(b"two").hexdigest()
        assert finding.found == hashlib.md5(body_of(repo_anywhere, key)).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        lambda main: main.object("staged").upload("new"),
        lambda main: main.delete_objects(["staged"]),
        lambda main: main.reset_changes("object", "staged"),
        lambda main: main.reset_changes("common_prefix", "sta"),
    ],
    ids=["put", "delete", "reset", "reset-prefix"],
)
def test_uncommitted_contents_are_checked_until_they_are_replaced(repo, change):
    key = contents_key(repo, "main", "staged")
    damage(repo, key, "one bit")
    (finding,) = errors(repo, objects=True)
    assert (finding.kind, finding.refs) == ("altered", ("main",))
    change(repo.branch("main"))
    assert errors(repo, objects=True) == ()
    repo.branch("main").object("staged").upload("again")
    assert checked(repo, objects=True).checked.objects == 5


def test_contents_of_other_checksums_are_checked_by_their_size_or_digest(repo, tmp_path):
    file = tmp_path / "foreign.txt"
    file.write_bytes(b"12345")
    rows = {"path": ["s", "w"], "physical_address": [file.as_uri()] * 2, "size_bytes": [5, 5]}
    rows["checksum"] = [f"sha256:{hashlib.sha256(b'12345').hexdigest()}", "etag:1"]
    repo.branch("main").stage(pa.table(rows))
    assert errors(repo, objects=True) == ()
    file.write_bytes(b"54321")
    (finding,) = errors(repo, objects=True)
    assert (finding.kind, finding.expected) == ("altered", hashlib.sha256(b"12345").hexdigest())
    file.write_bytes(b"123456")
    assert {finding.found for finding in errors(repo, objects=True)} >= {"6 bytes"}
    file.unlink()
    assert {finding.kind for finding in errors(repo, objects=True)} == {"missing"}


def test_large_contents_are_read_in_pieces(repo):
    body = os.urandom(1 << 20) * 20
    repo.branch("main").object("large").upload(body)
    report = checked(repo, objects=True)
    assert report.is_clean
    assert report.checked.object_bytes > len(body)
    key = contents_key(repo, "main", "large")
    repo.opened.store.put(key, body[:-1] + bytes([body[-1] ^ 1]))
    assert [finding.kind for finding in errors(repo, objects=True)] == ["altered"]


def test_contents_that_the_store_does_not_give_are_named_and_the_rest_is_checked(repo, namespace):
    keys = [contents_key(repo, "main", path) for path in ("a", "b")]

    class Refusing(FaultyStore):
        def get_range(self, key, start, end):
            if key == keys[0]:
                raise StorageError(f"cannot read {key}: permission denied")
            return super().get_range(key, start, end)

    damage(repo, keys[1], "one bit")
    found = fsck(OpenRepository(Refusing(open_store(namespace)), user="ann", options={}), objects=True).errors
    assert sorted(finding.kind for finding in found) == ["altered", "unreadable"]
    assert {finding.refs for finding in found} == {("dev", "main", "v1")}
    assert any("permission denied" in finding.problem for finding in found)


# -- places ----------------------------------------------------------------------------------------------------


def test_a_missing_or_unreadable_format_file_is_named(repo):
    for body in (b"", b"{", b"[]", b"\0"):
        repo.opened.store.put("_lakespark/format.json", body)
        (finding,) = errors(repo)
        assert (finding.kind, finding.name) == ("unreadable", "_lakespark/format.json")
    repo.opened.store.delete("_lakespark/format.json")
    (finding,) = errors(repo)
    assert (finding.kind, finding.name) == ("missing", "_lakespark/format.json")
    (finding,) = lakespark.Lake(repo._lake.location).repository("analytics").fsck().errors
    assert finding.kind == "missing"


def test_a_format_file_of_another_repository_or_version_is_told(repo):
    store, key = repo.opened.store, "_lakespark/format.json"
    said = json.loads(store.get(key))
    store.put(key, json.dumps({**said, "repository_id": "other"}).encode())
    (finding,) = errors(repo)
    assert (finding.kind, finding.expected, finding.found) == ("inconsistent", said["repository_id"], "other")
    store.put(key, json.dumps({**said, "version": 99}).encode())
    with pytest.raises(UnsupportedFormatError, match="99"):
        checked(repo)


def test_an_interrupted_creation_is_a_note_that_says_how_to_go_on(tmp_path):
    lake = lakespark.Lake(tmp_path / "lake", user="ann")
    repo = lake.repository("analytics").create(tmp_path / "ns")
    repo.opened.store.delete("_lakespark/format.json")
    report = checked(repo)
    assert report.is_clean
    (note,) = report.notes
    assert "create it again" in note.mend


def test_where_there_is_nothing_there_is_nothing_to_check(tmp_path):
    store = open_store(str(tmp_path / "none"))
    with pytest.raises(RepositoryNotFoundError):
        fsck(OpenRepository(store, user="ann", options={}))


def test_a_row_of_the_lake_that_leads_to_another_repository_is_told(tmp_path):
    lake = lakespark.Lake(tmp_path / "lake", user="ann")
    lake.repository("analytics").create(tmp_path / "ns")
    assert lake.repository("analytics").fsck().findings == ()
    lake.catalog.attach("other", str(tmp_path / "ns"))
    (finding,) = lake.repository("other").fsck().errors
    assert (finding.kind, finding.subject, finding.expected, finding.found) == (
        "inconsistent",
        "lake",
        "other",
        "analytics",
    )


def test_a_row_of_the_lake_that_leads_elsewhere_is_told(tmp_path):
    lake = lakespark.Lake(tmp_path / "lake", user="ann")
    repo = lake.repository("analytics").create(tmp_path / "ns")
    repo.branch("main").get_commit()
    lake.catalog.detach("analytics")
    lake.catalog.attach("analytics", str(tmp_path / "other"))
    (finding,) = repo.fsck().errors
    assert (finding.kind, finding.subject, finding.name) == ("inconsistent", "lake", "analytics")
    assert (finding.expected, finding.found) == (str(tmp_path / "ns"), str(tmp_path / "other"))


def test_a_lake_that_cannot_be_read_is_told_and_the_repository_is_checked(tmp_path):
    repo = build(lakespark.Lake(tmp_path / "lake", user="ann"), tmp_path / "ns")
    (file,) = (tmp_path / "lake" / "_lakespark" / "repositories").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    damage(repo, "_lakespark/format.json", "missing")
    assert [(finding.kind, finding.subject) for finding in repo.fsck().errors] == [
        ("missing", "format file"),
        ("altered", "lake"),
    ]


def test_files_of_other_programs_are_notes(repo_anywhere):
    store = repo_anywhere.opened.store
    ours = (
        "_lakespark/ranges/0f/part-00000.snappy.parquet",
        "_lakespark/ranges/0f/._SUCCESS.crc",
        "_lakespark/ranges/0f/_SUCCESS",
        "_lakespark/probe",
    )
    strange = (
        "_lakespark/notes.txt",
        "_lakespark/ledger/extra.parquet",
        "_lakespark/ranges/x.csv",
        "_lakespark/staging/readme",
        "_lakespark/probe.txt",
    )
    for key in (*ours, *strange):
        store.put(key, b"?")
    report = checked(repo_anywhere)
    assert report.is_clean
    assert {note.name for note in report.notes} == set(strange)
    assert {(note.kind, note.is_error) for note in report.notes} == {("unknown", False)}


def test_keys_that_only_s3_can_have_are_notes_and_folder_markers_are_not(s3_server):
    bucket = s3_server.make_bucket()
    repo = build(lakespark.Lake(f"s3://{bucket}/lake", user="ann", **s3_server.options), f"s3://{bucket}/ns")
    for key in ("_lakespark/", "_lakespark/ledger/_delta_log/", "_lakespark//x", "_lakespark/a b é"):
        s3_server.client().put_object(Bucket=bucket, Key=f"ns/{key}", Body=b"" if key.endswith("/") else b"?")
    report = checked(repo)
    assert report.is_clean
    assert {note.name for note in report.notes} == {"_lakespark//x", "_lakespark/a b é"}


def test_a_folder_that_the_store_does_not_list_is_a_note_and_the_rest_is_checked(repo, namespace):
    class Refusing(FaultyStore):
        def list(self, prefix, after=None):
            if prefix == "_lakespark":
                raise StorageError("cannot list _lakespark: invalid path")
            return super().list(prefix, after)

    damage(repo, "_lakespark/format.json", "missing")
    report = fsck(OpenRepository(Refusing(open_store(namespace)), user="ann", options={}))
    assert [finding.subject for finding in report.errors] == ["format file"]
    assert [(note.kind, note.name) for note in report.notes] == [("unreadable", "_lakespark")]


def test_leftovers_that_nobody_names_are_no_findings(repo_anywhere):
    """Contents, ranges and table files of writers that were killed before their operation landed."""
    store = repo_anywhere.opened.store
    token = repo_anywhere.opened.ledger.ref("main").token
    for key in (
        f"data/{token}/w/{'1' * 32}",
        f"_lakespark/ranges/{'1' * 32}/000000.parquet",
        f"_lakespark/metaranges/{'1' * 32}.parquet",
        f"_lakespark/ledger/{'1' * 32}.parquet",
        f"_lakespark/staging/{token}/{'1' * 32}.parquet",
    ):
        store.put(key, b"half")
    assert checked(repo_anywhere, objects=True).findings == ()
