"""Export of refs as files: in full, by changes, restarted, verified, refused."""

import json
import os
from pathlib import Path

import pytest
from imported import contents, files_in, listing

from lakespark import transfer
from lakespark.errors import (
    BadRequestException,
    CorruptFileError,
    DirtyBranchError,
    MissingFileError,
    ObjectNotFoundException,
    RefNotFoundError,
    TargetNotEmptyError,
    UnsafeDownloadError,
)
from lakespark.storage import parse_location

RECORD = ".lakespark-export.json"


def put(branch, message, files):
    """Commit files (None is a deletion)."""
    for path, body in files.items():
        if body is None:
            branch.object(path).delete()
        else:
            branch.object(path).upload(body)
    return branch.commit(message)


@pytest.fixture
def v1(repo, main):
    """A tag on a first commit of a few files, one of them of several chunks."""
    files = {"a/1": b"one", "a/2": b"two", "a/deep/3": b"three", "ab": b"x", "ü b": b"", "big": os.urandom(9 << 20)}
    put(main, "first", files)
    return repo.tag("v1").create("main")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def test_a_ref_becomes_files_under_its_paths(main, v1, out):
    done = transfer.export(v1, out)
    assert files_in(out) == contents(main)
    size = sum(map(len, files_in(out).values()))
    assert done == (6, size, 0, 0, v1.get_commit().id)


def test_a_prefix_is_a_folder_and_its_files_lie_at_the_top(v1, out):
    done = transfer.export(v1, out, "a")
    assert files_in(out) == {"1": b"one", "2": b"two", "deep/3": b"three"}
    assert done.files == 3


def test_an_object_store_is_a_target_like_a_folder(main, v1, bucket):
    store, url = bucket
    transfer.export(v1, f"{url}/exports/v1")
    keys = {file.key for file in store.list("exports/v1")}
    assert keys == {f"exports/v1/{path}" for path in [*contents(main), RECORD]}
    assert all(store.get(f"exports/v1/{path}") == body for path, body in contents(main).items())


def test_an_export_that_is_repeated_writes_nothing(v1, out):
    transfer.export(v1, out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.name != RECORD and path.is_file()}
    again = transfer.export(v1, out)
    assert (again.files, again.size_bytes, again.unchanged) == (0, 0, 6)
    assert before == {path: path.stat().st_mtime_ns for path in before}


@pytest.mark.parametrize("place", ["folder", "memory"])
def test_an_export_that_was_interrupted_goes_on_where_it_stopped(main, v1, out, bucket, place):
    target = out if place == "folder" else f"{bucket[1]}/out"

    def interrupt(now):
        if now.files == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        transfer.export(v1, target, parallelism=1, on_progress=interrupt)
    done = transfer.export(v1, target)
    assert (done.files, done.unchanged) == (3, 3)
    found = files_in(out) if place == "folder" else {path: bucket[0].get(f"out/{path}") for path in contents(main)}
    assert found == contents(main)


def test_a_file_that_was_altered_since_is_written_again(main, v1, out):
    transfer.export(v1, out)
    (out / "a" / "1").write_text("ONE")
    (out / "a" / "2").unlink()
    assert transfer.export(v1, out).files == 2
    assert files_in(out) == contents(main)


def test_a_target_with_other_files_is_refused_and_left_alone(v1, out):
    out.mkdir()
    (out / "mine").write_text("mine")
    with pytest.raises(TargetNotEmptyError, match="other files"):
        transfer.export(v1, out)
    assert files_in(out) == {"mine": b"mine"}
    transfer.export(v1, out, overwrite=True)
    assert files_in(out)["mine"] == b"mine"
    assert len(files_in(out)) == 7


def test_a_target_with_another_commit_is_refused_unless_it_may_be_overwritten(main, v1, out):
    transfer.export(v1, out)
    put(main, "second", {"a/1": b"ONE"})
    with pytest.raises(TargetNotEmptyError, match="an export of commit"):
        transfer.export(main, out)
    assert files_in(out)["a/1"] == b"one"
    done = transfer.export(main, out, overwrite=True)
    assert (done.files, done.unchanged) == (1, 5)
    assert files_in(out) == contents(main)


def test_files_without_an_md5_are_never_taken_for_those_of_another_commit(repo, main, tmp_path, out):
    """Sizes alone do not tell: the same path, the same size, other contents."""
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
        main.import_data(name).listing(listing((str(tmp_path / name), 3, f"etag:{name}"), path=["file"])).run()
    transfer.export(repo.ref("main~1"), out)
    assert files_in(out) == {"file": b"old"}
    assert transfer.export(repo.ref("main~1"), out).unchanged == 1
    assert transfer.export(main, out, since="main~1").files == 1
    assert files_in(out) == {"file": b"new"}
    assert transfer.export(main, out, since="main~1").unchanged == 1


# -- since -------------------------------------------------------------------------------------------------


@pytest.fixture
def v2(repo, main, v1):
    put(main, "second", {"a/1": b"ONE!", "a/2": None, "new": b"new", "a/deep/3": None})
    return repo.tag("v2").create("main")


def test_since_an_earlier_ref_only_changes_are_written(v1, v2, out):
    transfer.export(v1, out)
    (out / "ab").write_text("not looked at")
    done = transfer.export(v2, out, since=v1)
    assert (done.files, done.size_bytes, done.unchanged, done.deleted) == (2, 7, 0, 0)
    assert files_in(out)["a/1"] == b"ONE!"
    assert files_in(out)["new"] == b"new"
    assert files_in(out)["a/2"] == b"two"
    assert files_in(out)["ab"] == b"not looked at"


def test_with_delete_what_is_gone_is_deleted_with_its_empty_folders(main, v1, v2, out):
    transfer.export(v1, out)
    done = transfer.export(v2, out, since="v1", delete=True)
    assert done.deleted == 2
    assert files_in(out) == contents(main)
    assert not (out / "a" / "deep").exists()


def test_by_changes_below_a_prefix(v1, v2, out):
    transfer.export(v1, out, "a")
    done = transfer.export(v2, out, "a", since=v1, delete=True)
    assert (done.files, done.deleted) == (1, 2)
    assert files_in(out) == {"1": b"ONE!"}


def test_changes_that_were_exported_are_up_to_date(main, v1, v2, out):
    transfer.export(v1, out)
    for _ in range(2):
        done = transfer.export(v2, out, since="v1", delete=True)
    assert (done.files, done.unchanged, done.deleted) == (0, 2, 0)
    assert files_in(out) == contents(main)


def test_a_file_that_becomes_a_folder_and_the_other_way_round(repo, main, out):
    put(main, "1", {"x": b"file", "y/z": b"below"})
    transfer.export(main, out)
    put(main, "2", {"x": None, "x/z": b"below", "y/z": None, "y": b"file"})
    with pytest.raises(UnsafeDownloadError, match="stands in"):
        transfer.export(main, out, since="main~1")
    for _ in range(2):
        transfer.export(main, out, since="main~1", delete=True)
        assert files_in(out) == {"x/z": b"below", "y": b"file"}


def test_a_target_that_does_not_hold_the_earlier_ref_is_refused(repo, main, v1, v2, out):
    put(main, "third", {"more": b"more"})
    transfer.export(v1, out)
    with pytest.raises(TargetNotEmptyError, match="changed since"):
        transfer.export(main, out, since=v2)
    with pytest.raises(TargetNotEmptyError, match="prefix ''"):
        transfer.export(v2, out, "a", since=v1)
    record = json.loads((out / RECORD).read_text())
    (out / RECORD).write_text(json.dumps(record | {"is_complete": False}))
    with pytest.raises(TargetNotEmptyError, match="not complete"):
        transfer.export(v2, out, since=v1)


def test_a_copy_that_was_made_by_other_means_can_be_brought_up_to_date(main, v1, v2, out):
    transfer.export(v1, out)
    (out / RECORD).unlink()
    transfer.export(v2, out, since=v1, delete=True)
    assert files_in(out) == contents(main)


def test_deleting_needs_an_earlier_ref(v1, out):
    with pytest.raises(BadRequestException, match="needs since"):
        transfer.export(v1, out, delete=True)


# -- refusals ----------------------------------------------------------------------------------------------

UNSAFE = {
    "leaving": ["../x", "ok/../../x"],
    "absolute": ["/etc/x"],
    "an empty part": ["a//b"],
    "a folder": ["dir/"],
    "a dot": ["./x"],
}


@pytest.mark.parametrize("name", UNSAFE)
@pytest.mark.parametrize("place", ["folder", "memory"])
def test_paths_that_would_leave_the_target_are_all_named_and_nothing_is_written(main, out, bucket, name, place):
    put(main, "odd", dict.fromkeys([*UNSAFE[name], "fine"], b"x"))
    with pytest.raises(UnsafeDownloadError) as caught:
        transfer.export(main, out if place == "folder" else f"{bucket[1]}/out")
    assert all(repr(path) in str(caught.value) for path in UNSAFE[name])
    assert "fine" not in str(caught.value)
    assert not out.exists()
    assert list(bucket[0].list("")) == []


def test_paths_that_cannot_be_files_beside_each_other_are_for_object_stores_only(main, out, bucket):
    put(main, "odd", {"a": b"1", "a/b": b"2"})
    with pytest.raises(UnsafeDownloadError, match="beside each other"):
        transfer.export(main, out)
    assert not out.exists()
    transfer.export(main, bucket[1])
    assert (bucket[0].get("a"), bucket[0].get("a/b")) == (b"1", b"2")


def test_a_path_that_was_removed_is_never_deleted_outside_of_the_target(main, tmp_path, out):
    put(main, "1", {"fine": b"1"})
    transfer.export(main, out)
    put(main, "2", {"../precious": b"x"})
    put(main, "3", {"../precious": None, "new": b"2"})
    (tmp_path / "precious").write_text("precious")
    (out / RECORD).unlink()
    with pytest.raises(UnsafeDownloadError, match="precious"):
        transfer.export(main, out, since="main~1", delete=True)
    assert (tmp_path / "precious").read_text() == "precious"
    assert files_in(out) == {"fine": b"1"}


def test_an_object_called_as_the_record_is_refused(main, out):
    put(main, "1", {RECORD: b"x"})
    with pytest.raises(BadRequestException, match="record"):
        transfer.export(main, out)


def test_the_repositorys_own_place_is_no_target(main, v1, tmp_path):
    lake = tmp_path / "lake"
    for place in (lake, lake / "demo", lake / "demo" / "data" / "x"):
        with pytest.raises(BadRequestException, match="own files"):
            transfer.export(v1, place)


def test_a_branch_with_uncommitted_changes_is_refused_and_its_commit_is_not(main, v1, out):
    main.object("dirty").upload("x")
    with pytest.raises(DirtyBranchError, match="dirty"):
        transfer.export(main, out)
    assert not out.exists()
    transfer.export(main.repository.ref("main@"), out)
    assert "dirty" not in files_in(out)


def test_nothing_to_export_is_an_error(main, v1, out):
    with pytest.raises(ObjectNotFoundException):
        transfer.export(v1, out, "nothing/here")
    with pytest.raises(RefNotFoundError):
        transfer.export(v1, out, since="v0")
    assert not out.exists()


# -- verification ------------------------------------------------------------------------------------------


def physical(branch, path):
    """The file that holds an object's contents."""
    return Path(parse_location(branch.object(path).stat().physical_address).path)


@pytest.mark.parametrize("path", ["a/1", "big"])
def test_contents_that_were_altered_are_not_exported(main, v1, out, path):
    with physical(main, path).open("r+b") as file:
        file.write(b"!")
    with pytest.raises(CorruptFileError, match=f"'{path}' are not what was recorded"):
        transfer.export(v1, out)
    assert path not in files_in(out)
    assert not list(out.rglob(".unfinished*"))


def test_contents_that_are_gone_are_named(main, v1, out):
    physical(main, "a/1").unlink()
    with pytest.raises(MissingFileError, match="a/1"):
        transfer.export(v1, out)


def test_a_foreign_object_that_its_owner_has_changed_is_noticed_by_its_size(main, source, out):
    main.import_data().prefix(source, "").run()
    (source / "a.txt").write_text("longer than before")
    with pytest.raises(CorruptFileError, match="have changed"):
        transfer.export(main, out)


def test_imported_objects_are_exported_like_others(main, source, out):
    main.import_data().prefix(source, "raw").run()
    transfer.export(main, out, "raw")
    assert files_in(out) == files_in(source)


def test_progress_grows_up_to_the_totals(v1, out):
    seen = []
    for _ in range(2):
        transfer.export(v1, out, on_progress=seen.append)
        assert seen == sorted(seen)
        assert (seen[-1].files, seen[-1].size_bytes) == (seen[-1].total_files, seen[-1].total_bytes)
        seen.clear()


def test_a_record_that_is_none_is_left_alone(v1, out):
    out.mkdir()
    (out / RECORD).write_text("a diary")
    with pytest.raises(TargetNotEmptyError, match="no record"):
        transfer.export(v1, out)
    assert (out / RECORD).read_text() == "a diary"
