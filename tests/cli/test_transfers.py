"""Files in and out: by the command line, and by ``lakespark.transfer`` as a library."""

import os
import threading

import pytest

import lakespark
from lakespark import transfer
from lakespark.errors import (
    BadRequestException,
    InvalidPathError,
    MissingFileError,
    ObjectNotFoundException,
    UnsafeDownloadError,
)
from lakespark.transfer.parallel import for_each

MAIN = "lakefs://demo/main"


@pytest.fixture
def branch(tmp_path):
    """The branch ``main`` of an empty repository."""
    return lakespark.Lake(tmp_path / "lake", user="ann").repository("demo").create().branch("main")


@pytest.fixture
def files(tmp_path):
    """A folder of 30 small files, one of 9 MiB and an empty one."""
    folder = tmp_path / "in"
    for number in range(30):
        file = folder / str(number % 3) / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"number {number}")
    (folder / "large").write_bytes(os.urandom(1 << 20) * 9)
    (folder / "empty").touch()
    return folder


def contents(folder):
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("parallelism", [1, 8])
def test_a_folder_goes_in_and_comes_out_as_it_was(branch, files, tmp_path, parallelism):
    moved = transfer.upload_folder(branch, files, "data", parallelism=parallelism)
    assert moved == (32, sum(len(body) for body in contents(files).values()))
    branch.commit("load")
    assert transfer.download_folder(branch, "data", tmp_path / "out", parallelism=parallelism) == moved
    assert contents(tmp_path / "out") == contents(files)


def test_the_files_of_a_folder_become_visible_together(branch, files):
    seen = []
    transfer.upload_folder(branch, files, on_progress=lambda now: seen.append((now.files, len(list(branch.objects())))))
    assert {visible for _, visible in seen} == {0}
    assert len(list(branch.objects())) == 32


def test_uploaded_files_have_the_checksum_and_identity_of_single_uploads(branch, files):
    transfer.upload_folder(branch, files, content_type="text/plain", metadata={"k": "v"})
    branch.commit("load")
    transfer.upload_file(branch, files / "large", "large", content_type="text/plain", metadata={"k": "v"})
    assert list(branch.uncommitted()) == []
    info = branch.object("large").stat()
    assert (info.content_type, info.metadata, info.size_bytes) == ("text/plain", {"k": "v"}, 9 << 20)


def test_progress_grows_up_to_the_totals(branch, files, tmp_path):
    for move in (
        lambda tell: transfer.upload_folder(branch, files, on_progress=tell),
        lambda tell: transfer.download_folder(branch, "", tmp_path / "out", on_progress=tell),
    ):
        seen = []
        moved = move(seen.append)
        assert seen == sorted(seen)
        assert seen[-1] == (*moved, *moved)
        assert len(seen) > 32


def test_nothing_is_staged_if_one_file_fails(branch, files):
    last = files / "2" / "8.txt"
    with pytest.raises(FileNotFoundError):
        transfer.upload_folder(branch, files, parallelism=1, on_progress=lambda _now: last.unlink(missing_ok=True))
    assert list(branch.objects()) == []


def test_what_is_neither_file_nor_folder_is_refused_by_name(branch, files):
    (files / "to-file").symlink_to(files / "empty")
    (files / "to-folder").symlink_to(files / "0")
    (files / "to-nothing").symlink_to(files / "not there")
    os.mkfifo(files / "pipe")
    with pytest.raises(BadRequestException) as caught:
        transfer.upload_folder(branch, files)
    assert all(name in str(caught.value) for name in ("to-folder", "to-nothing", "pipe"))
    assert "to-file" not in str(caught.value)
    assert list(branch.objects()) == []
    for name in ("to-folder", "to-nothing", "pipe"):
        (files / name).unlink()
    transfer.upload_folder(branch, files)
    assert branch.object("to-file").reader().read() == b""


def test_a_file_name_that_is_not_utf8_is_refused_before_anything_is_uploaded(branch, files):
    (files / os.fsdecode(b"\xff")).touch()
    with pytest.raises(InvalidPathError):
        transfer.upload_folder(branch, files)
    assert list(branch.objects()) == []


def test_a_folder_without_files_is_refused(branch, tmp_path):
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    with pytest.raises(BadRequestException, match="no file in it"):
        transfer.upload_folder(branch, tmp_path / "empty")


UNSAFE = {
    "leaving by ..": ["../x"],
    "leaving deeper": ["ok/../../x", "ok/y"],
    "absolute": ["/etc/x"],
    "an empty part": ["a//b"],
    "a folder": ["dir/"],
    "a dot": ["./x", "y/."],
    "a name too long for a file": ["n" * 256],
    "a file and a folder": ["a", "a/b"],
    "a file and a folder further up": ["a", "a/b/c/d"],
    "a file and a folder, deeper": ["x/a", "x/a/b"],
}


@pytest.mark.parametrize("name", UNSAFE)
def test_paths_that_cannot_be_files_are_all_named_and_nothing_is_written(branch, tmp_path, name):
    for path in [*UNSAFE[name], "fine", "also/fine"]:
        branch.object(path).upload(path)
    with pytest.raises(UnsafeDownloadError) as caught:
        transfer.download_folder(branch, "", tmp_path / "out")
    unsafe = [path for path in UNSAFE[name] if path != "ok/y"]
    assert all(repr(path) in str(caught.value) for path in unsafe)
    assert "fine" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "x").exists()


def test_all_unsafe_paths_are_named_at_once(demo, tmp_path):
    for path in ("../x", "/abs", "a//b", "dir/", "folder/b.txt/c"):
        lakespark.Lake("lake").repository("demo").branch("main").object(path).upload("x")
    result = demo("fs", "download", "-r", f"{MAIN}/", "out", code=2)
    for path in ("../x", "/abs", "a//b", "dir/", "folder/b.txt", "folder/b.txt/c"):
        assert repr(path) in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_unsafe_is_what_lies_below_the_prefix(branch, tmp_path):
    branch.object("../up/file").upload("x")
    branch.object("../up/deep/file").upload("y")
    transfer.download_folder(branch, "../up", tmp_path / "out")
    assert contents(tmp_path / "out") == {"file": b"x", "deep/file": b"y"}


def test_what_stands_in_the_way_is_named_before_anything_is_written(branch, tmp_path):
    for path in ("folder", "file/below", "link/below", "fine"):
        branch.object(path).upload("new")
    out = tmp_path / "out"
    (out / "folder").mkdir(parents=True)
    (out / "file").write_text("old")
    (out / "link").symlink_to(tmp_path)
    with pytest.raises(UnsafeDownloadError) as caught:
        transfer.download_folder(branch, "", out)
    assert all(repr(path) in str(caught.value) for path in ("folder", "file/below", "link/below"))
    assert sorted(path.name for path in out.iterdir()) == ["file", "folder", "link"]
    assert not (tmp_path / "below").exists()


def test_a_prefix_is_a_folder_and_not_the_start_of_a_name(branch, tmp_path):
    for path in ("a/one", "ab/two", "a"):
        branch.object(path).upload(path)
    transfer.download_folder(branch, "a", tmp_path / "out")
    assert contents(tmp_path / "out") == {"one": b"a/one"}
    with pytest.raises(ObjectNotFoundException, match="lakefs://demo/main/nothing/"):
        transfer.download_folder(branch, "nothing", tmp_path / "out")


def test_a_download_replaces_a_file_whole_or_not_at_all(branch, tmp_path):
    branch.object("large").upload(b"new" * 4_000_000)
    target = tmp_path / "out" / "large"
    target.parent.mkdir()
    target.write_text("old")
    seen = []
    transfer.download_file(branch, "large", target, on_progress=lambda now: seen.append(target.read_bytes()[:3]))
    assert seen[0] == b"old"
    assert target.read_bytes() == b"new" * 4_000_000
    contents_file = next(file for file in (tmp_path / "lake" / "demo" / "data").rglob("*") if file.is_file())
    contents_file.unlink()
    with pytest.raises(MissingFileError, match="large"):
        transfer.download_file(branch, "large", target)
    assert [file.name for file in target.parent.iterdir()] == ["large"]
    assert target.stat().st_size == 12_000_000


def test_a_download_reads_one_state_of_a_branch(branch, tmp_path):
    for path in ("a", "b", "c"):
        branch.object(path).upload("old")
    written = threading.Event()

    def write_once(_now):
        if not written.is_set():
            written.set()
            for path in ("a", "b", "c"):
                branch.object(path).upload("new contents")

    transfer.download_folder(branch, "", tmp_path / "out", parallelism=1, on_progress=write_once)
    assert set(contents(tmp_path / "out").values()) == {b"old"}


def test_single_files_go_where_they_are_told(demo, tmp_path):
    demo("fs", "download", f"{MAIN}/folder/b.txt")
    assert (tmp_path / "b.txt").read_text() == "b\n"
    (tmp_path / "there").mkdir()
    demo("fs", "download", f"{MAIN}/folder/b.txt", "there")
    demo("fs", "download", f"{MAIN}/folder/b.txt", "new/")
    demo("fs", "download", f"{MAIN}/folder/b.txt", "other/name")
    assert contents(tmp_path / "there") == contents(tmp_path / "new") == {"b.txt": b"b\n"}
    assert (tmp_path / "other" / "name").read_text() == "b\n"
    demo("fs", "upload", "-s", "there/b.txt", MAIN)
    demo("fs", "upload", "-s", "there/b.txt", f"{MAIN}/up/")
    assert [item["path"] for item in demo.json("diff", MAIN)] == ["b.txt", "up/b.txt"]


def test_an_object_whose_name_is_no_file_name_needs_one(demo, tmp_path):
    lakespark.Lake("lake").repository("demo").branch("main").object("odd/..").upload("odd")
    result = demo("fs", "download", f"{MAIN}/odd/..", "out/", code=2)
    assert "name the file" in result.stderr
    demo("fs", "download", f"{MAIN}/odd/..", "named")
    assert (tmp_path / "named").read_text() == "odd"


def test_removing_a_folder_spares_names_that_only_start_so(demo):
    for path in ("folder", "folder.bak/x", "folder/deep/y"):
        demo.put(f"{MAIN}/{path}", "x")
    result = demo("fs", "rm", "-r", f"{MAIN}/folder")
    assert "removed 3 objects" in result.stderr
    assert [item["path"] for item in demo.json("fs", "ls", "-r", f"{MAIN}/")] == ["a.txt", "folder.bak/x"]


def test_the_first_failure_stops_the_rest():
    done = []

    def work(item):
        if item == 3:
            raise LookupError(item)
        done.append(item)

    with pytest.raises(LookupError):
        for_each(iter(range(1_000_000)), work, parallelism=1)
    assert done == [0, 1, 2]
    with pytest.raises(BadRequestException, match="parallelism"):
        for_each([], work, parallelism=0)


def test_work_is_shared_by_threads():
    together = threading.Barrier(4, timeout=30)
    for_each(range(4), lambda _item: together.wait(), parallelism=4)
    assert not together.broken
