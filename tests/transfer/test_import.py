"""Import without copying, from stores and in the background: one commit, or nothing."""

import datetime as dt
import hashlib
import os
import threading

import pytest
from imported import NAMES, contents, failure, listing

from lakespark.errors import (
    BadRequestException,
    DirtyBranchError,
    ImportManagerException,
    ObjectNotFoundException,
    RefNotFoundError,
)
from lakespark.operations.imports.store_reader import etag_checksum


def test_a_prefix_is_linked_as_one_commit_and_reads_as_its_files(main, source, tmp_path):
    before = main.get_commit().id
    status = main.import_data("load", {"ticket": "7"}).prefix(source, "raw").run()
    assert contents(main) == {f"raw/{name}": name.encode() for name in NAMES}
    assert (status.completed, status.ingested_objects, status.error) == (True, len(NAMES), None)
    assert status.commit == main.get_commit()
    assert status.metarange_id == status.commit.meta_range_id
    assert (status.commit.message, status.commit.metadata) == ("load", {"ticket": "7"})
    assert status.commit.parents == (before,)
    assert not list((tmp_path / "lake" / "demo").glob("data/**/*"))
    assert list(main.uncommitted()) == []


def test_contents_of_local_files_are_not_read(main, source):
    huge = source / "huge"
    with huge.open("wb") as file:
        file.truncate(1 << 38)  # to read it would take longer than the tests may
    main.import_data().prefix(source, "").run()
    info, status = main.object("huge").stat(), huge.stat()
    assert info.checksum == f"stat:{status.st_mtime_ns // 1_000_000}-{1 << 38}"
    assert (info.mtime, info.size_bytes) == (int(status.st_mtime), 1 << 38)


def test_an_import_is_one_operation_that_says_where_from(repo, main, source):
    main.import_data().prefix(source, "raw").run()
    (operation, changes), *_ = repo.operations()
    assert (operation.verb, operation.user) == ("import", "ann")
    assert operation.details == {"sources": source.as_uri()}
    assert [change.name for change in changes] == ["main"]


def test_a_prefix_replaces_what_is_below_its_destination_and_nothing_else(main, source):
    for path in ("raw/old", "raw/a.txt", "rawer/kept", "kept"):
        main.object(path).upload("old")
    main.commit("before")
    main.import_data().prefix(source, "raw/").run()
    assert contents(main) == {"kept": b"old", "rawer/kept": b"old"} | {f"raw/{n}": n.encode() for n in NAMES}


def test_an_object_and_a_listing_add_to_what_is_there(main, source):
    main.object("raw/old").upload("old")
    main.commit("before")
    rows = listing((str(source / "deep/er/c"), 9, "etag:1"))
    main.import_data().object(source / "a.txt", "raw/one").listing(rows, "raw", base=str(source)).run()
    assert contents(main) == {"raw/old": b"old", "raw/one": b"a.txt", "raw/deep/er/c": b"deep/er/c"}


def test_several_sources_make_one_commit(main, source, bucket):
    store, url = bucket
    store.put("k/1", b"one")
    main.import_data().prefix(source, "files").prefix(f"{url}/k", "memory").object(f"{url}/k/1", "single").run()
    assert [commit.message for commit in main.log()] == ["Import 7 objects", "Repository created"]
    assert contents(main)["memory/1"] == contents(main)["single"] == b"one"


def test_importing_the_same_again_is_up_to_date_and_makes_no_commit(repo, main, source):
    first = main.import_data().prefix(source, "raw").run()
    before = len(list(repo.operations()))
    again = main.import_data("again").prefix(source, "raw").run()
    assert (first.is_up_to_date, again.is_up_to_date) == (False, True)
    assert again.commit == first.commit
    assert len(list(repo.operations())) == before


def test_a_file_that_changed_is_a_change_and_one_that_is_gone_is_removed(repo, main, source):
    main.import_data().prefix(source, "").run()
    (source / "a.txt").write_text("changed!")
    (source / "a%20b").unlink()
    main.import_data().prefix(source, "").run()
    changes = {change.path: change.type for change in repo.ref("main~1").diff(main, type="two_dot")}
    assert changes == {"a.txt": "changed", "a%20b": "removed"}
    assert main.object("a.txt").reader().read() == b"changed!"


def test_names_that_are_no_paths_are_listed_and_the_rest_is_imported(main, source):
    (source / os.fsdecode(b"bad-\xff")).write_text("x")
    long = "d" * 200
    deep = source.joinpath(*[long] * 6)
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    (source / "to-nothing").symlink_to(source / "not there")
    (source / "to-folder").symlink_to(source)
    os.mkfifo(source / "pipe")
    status = main.import_data().prefix(source, "").run()
    reasons = {row["address"].rsplit("/", 1)[-1]: row["reason"] for row in status.skipped.to_pylist()}
    assert set(reasons) == {r"bad-\xff", "file", "to-nothing", "to-folder", "pipe"}
    assert "UTF-8" in reasons[r"bad-\xff"]
    assert "1,024 bytes" in reasons["file"]
    assert set(contents(main)) == set(NAMES)
    assert status.ingested_objects == len(NAMES)


def test_a_prefix_is_a_folder_and_not_the_start_of_a_name(main, bucket):
    store, url = bucket
    for key in ("a/one", "ab/two", "a-/three"):
        store.put(key, key.encode())
    main.import_data().prefix(f"{url}/a", "").run()
    assert contents(main) == {"one": b"a/one"}
    assert main.object("one").stat().physical_address == f"{url}/a/one"


def test_a_whole_bucket_with_odd_keys_reads_back(main, bucket):
    store, url = bucket
    keys = ["a b", "ü/%41", "x=1/y#?", "back\\slash", "a:b"]
    for key in keys:
        store.put(key, key.encode())
    main.import_data().prefix(url, "in").run()
    assert contents(main) == {f"in/{key}": key.encode() for key in keys}


def test_an_empty_object_that_is_a_folder_of_others_is_left_out(main, bucket):
    store, url = bucket
    for key, body in (("dir", b""), ("dir/a", b"1"), ("empty", b""), ("dir-2", b"")):
        store.put(key, body)
    status = main.import_data().prefix(url, "").run()
    assert set(contents(main)) == {"dir/a", "empty", "dir-2"}
    assert status.skipped["address"].to_pylist() == [f"{url}/dir"]


def test_etags_of_single_part_uploads_to_s3_are_md5s_and_others_carry_their_kind():
    md5 = hashlib.md5(b"x").hexdigest()
    assert etag_checksum(md5, "s3") == md5
    assert etag_checksum(md5.upper(), "s3") == md5
    assert etag_checksum(f"{md5}-2", "s3") == f"etag:{md5}-2"
    assert etag_checksum(md5, "gs") == f"etag:{md5}"
    assert etag_checksum(None, "s3") is None


def test_objects_of_a_store_have_its_etag_as_checksum(main, bucket):
    store, url = bucket
    store.put("k", b"1")
    main.import_data().object(f"{url}/k", "k").run()
    etag = store.stat("k").etag
    assert main.object("k").stat().checksum == f"etag:{etag}"


def test_a_place_without_objects_is_an_error_and_removes_nothing(main, source, tmp_path, bucket):
    main.import_data().prefix(source, "raw").run()
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "nowhere", f"{bucket[1]}/nothing"):
        assert isinstance(failure(main.import_data().prefix(place, "raw")), ObjectNotFoundException)
    assert isinstance(failure(main.import_data().object(source / "nothing", "x")), ObjectNotFoundException)
    assert isinstance(failure(main.import_data().object(source / "sub dir", "x")), ObjectNotFoundException)
    assert len(contents(main)) == len(NAMES)


def test_the_repositorys_own_files_are_not_imported(main, tmp_path):
    main.object("a").upload("a")
    main.commit("a")
    own = main.object("a").stat().physical_address
    lake = tmp_path / "lake"
    for place in (lake, lake / "demo", lake / "demo" / "data"):
        assert isinstance(failure(main.import_data().prefix(place, "x")), BadRequestException)
    rows = listing((own, 1, "etag:1"))
    for manager in (main.import_data().object(own, "x"), main.import_data().listing(rows)):
        assert "stage()" in str(failure(manager))
    assert len(list(main.log())) == 2


def test_a_branch_with_uncommitted_changes_is_refused(main, source):
    main.object("dirty").upload("x")
    assert isinstance(failure(main.import_data().prefix(source, "")), DirtyBranchError)
    assert [info.path for info in main.objects()] == ["dirty"]


def test_an_unknown_branch_is_refused(repo, source):
    assert isinstance(failure(repo.branch("nope").import_data().prefix(source, "")), RefNotFoundError)


def test_an_import_in_the_background_can_be_waited_for(main, source):
    manager = main.import_data("load").prefix(source, "")
    assert manager.import_id is None
    started = manager.start()
    assert manager.import_id == started
    status = manager.wait(dt.timedelta(milliseconds=10))
    assert status == manager.status()
    assert status.update_time.tzinfo is not None


def held(main, source, release):
    """An import that is under way until it is released."""
    reached = threading.Event()

    def hold(_status):
        reached.set()
        release.wait(30)

    manager = main.import_data(on_status=hold).prefix(source, "")
    manager.start()
    reached.wait(30)
    return manager


def test_an_import_that_is_under_way_takes_nothing_more(main, source):
    release = threading.Event()
    manager = held(main, source, release)
    assert not manager.status().completed
    for call in (manager.start, lambda: manager.prefix(source, "x"), lambda: manager.object(source / "a.txt", "y")):
        with pytest.raises(ImportManagerException, match="under way"):
            call()
    release.set()
    assert manager.wait().completed


def test_a_cancelled_import_changes_nothing(main, source):
    release = threading.Event()
    manager = held(main, source, release)
    canceller = threading.Thread(target=manager.cancel)
    canceller.start()
    while not manager._run.is_cancelled.is_set():
        canceller.join(0.001)
    release.set()
    canceller.join()
    assert manager.status().error.kind == "import-manager"
    assert len(list(main.log())) == 1
    with pytest.raises(ImportManagerException, match="cancelled"):
        manager.wait()


def test_an_import_that_is_complete_cannot_be_cancelled(main, source):
    manager = main.import_data().prefix(source, "")
    manager.run()
    with pytest.raises(ImportManagerException, match="complete already"):
        manager.cancel()
    assert len(list(main.log())) == 2


def test_a_manager_that_was_not_started_has_no_status(main, source):
    manager = main.import_data().prefix(source, "")
    for call in (manager.wait, manager.status, manager.cancel):
        with pytest.raises(ImportManagerException, match="none was started"):
            call()
    with pytest.raises(BadRequestException, match="nothing to import"):
        main.import_data().start()


def test_a_failed_import_says_why_in_its_status(main, tmp_path):
    manager = main.import_data().prefix(tmp_path / "nowhere", "")
    manager.start()
    with pytest.raises(ImportManagerException, match="nowhere"):
        manager.wait()
    assert (manager.status().completed, manager.status().commit) == (True, None)
    assert manager.status().error.kind == "object-not-found"


def test_progress_grows_to_the_number_of_objects(main, bucket):
    store, url = bucket
    for number in range(2500):
        store.put(f"k/{number:04d}", b"1")
    seen = []
    main.import_data(on_status=lambda now: seen.append(now.ingested_objects)).prefix(url, "").run()
    assert seen == [1000, 2000, 2500, 2500]


def test_two_imports_at_once_both_land(repo, source, bucket):
    store, url = bucket
    store.put("k", b"1")
    managers = [repo.branch("main").import_data(f"{n}").object(f"{url}/k", f"from-{n}/k") for n in range(4)]
    for manager in managers:
        manager.start()
    assert all(manager.wait().completed for manager in managers)
    assert [info.path for info in repo.branch("main").objects()] == [f"from-{n}/k" for n in range(4)]
    assert len(list(repo.branch("main").log())) == 5


def test_bad_destinations_are_refused_at_once(main, source):
    with pytest.raises(BadRequestException):
        main.import_data().object(source / "a.txt", "")
    with pytest.raises(BadRequestException):
        main.import_data().prefix(source, b"bytes")
    with pytest.raises(BadRequestException):
        main.import_data().prefix("ftp://host/x", "")
