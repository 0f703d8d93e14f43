"""The option ``durable``: what a local folder has acknowledged outlasts a power loss, and in which order it syncs."""

from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from simulated_disk import SimulatedDisk, write_files

import lakespark
from lakespark.errors import CorruptFileError, StateUnknownError, StorageError
from lakespark.storage import open_store
from lakespark.storage.disk import SyncedDisk
from lakespark.testing.stores import StoreContract


class TestDurableStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return open_store(str(tmp_path / "with space" / "é#?"), durable=True)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    return SimulatedDisk(tmp_path / "disk", tmp_path / "pins", monkeypatch)


@pytest.fixture
def events(monkeypatch):
    """What is done to files and folders, in order, each by its number in the file system."""
    recorded = []
    real = {name: getattr(os, name) for name in ("fsync", "link", "replace")}

    def fsync(descriptor):
        status = os.fstat(descriptor)
        recorded.append(("sync folder" if stat.S_ISDIR(status.st_mode) else "sync file", status.st_ino))
        real["fsync"](descriptor)

    def naming(name):
        def call(source, target):
            recorded.append((name, Path(source).stat().st_ino))
            real[name](source, target)

        return call

    monkeypatch.setattr(os, "fsync", fsync)
    for name in ("link", "replace"):
        monkeypatch.setattr(os, name, naming(name))
    return recorded


def stream(store, key):
    writer = store.open_writer(key)
    for _ in range(3):
        writer.write(b"part")
    writer.close()


WRITES = [
    pytest.param(lambda store, key: store.put(key, b"1"), "replace", id="put"),
    pytest.param(lambda store, key: store.put_if_absent(key, b"1"), "link", id="put_if_absent"),
    pytest.param(stream, "replace", id="stream"),
]


# -- the order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("write", "naming"), WRITES)
def test_contents_are_synced_before_the_name_and_the_name_before_the_answer(tmp_path, events, write, naming):
    write(open_store(str(tmp_path), durable=True), "file")
    number = (tmp_path / "file").stat().st_ino
    assert events == [("sync file", number), (naming, number), ("sync folder", tmp_path.stat().st_ino)]


def test_a_file_put_over_another_is_synced_in_the_same_order(tmp_path, events):
    store = open_store(str(tmp_path), durable=True)
    store.put("file", b"1")
    events.clear()
    store.put("file", b"2")
    number = (tmp_path / "file").stat().st_ino
    assert events == [("sync file", number), ("replace", number), ("sync folder", tmp_path.stat().st_ino)]


@pytest.mark.parametrize(("write", "naming"), WRITES)
def test_new_folders_are_synced_up_to_one_that_was_there(tmp_path, events, write, naming):
    store = open_store(str(tmp_path / "new" / "lake"), durable=True)
    write(store, "a/b/file")
    folders = ("new/lake/a/b", "new/lake/a", "new/lake", "new", ".")
    synced = [("sync folder", (tmp_path / folder).stat().st_ino) for folder in folders]
    assert [kind for kind, _ in events[:2]] == ["sync file", naming]
    assert events[2:] == synced
    events.clear()
    write(store, "a/b/other")
    assert events[2:] == synced[:1]
    events.clear()
    write(store, "a/c/other")
    assert events[2:] == [("sync folder", (tmp_path / "new/lake/a/c").stat().st_ino), synced[1]]


def test_a_folder_that_another_process_made_is_synced_as_well(tmp_path, events):
    (tmp_path / "a").mkdir()
    open_store(str(tmp_path), durable=True).put("a/file", b"1")
    assert events[2:] == [("sync folder", path.stat().st_ino) for path in (tmp_path / "a", tmp_path)]


def test_a_folder_that_was_removed_and_made_again_is_synced_again(tmp_path, events):
    store = open_store(str(tmp_path), durable=True)
    store.put("a/file", b"1")
    store.delete("a/file")
    (tmp_path / "a").rmdir()
    events.clear()
    store.put("a/file", b"1")
    assert events[2:] == [("sync folder", path.stat().st_ino) for path in (tmp_path / "a", tmp_path)]


def test_folders_are_remembered_up_to_a_bound(tmp_path, events, monkeypatch):
    monkeypatch.setattr("lakespark.storage.disk._REMEMBERED_FOLDERS", 2)
    store = open_store(str(tmp_path), durable=True)
    for number in range(4):
        store.put(f"{number}/file", b"1")
    events.clear()
    store.put("0/file", b"1")
    assert [kind for kind, _ in events] == ["sync file", "replace", "sync folder", "sync folder"]


def test_the_loser_of_a_put_syncs_the_name_that_the_winner_may_not_have_synced_yet(tmp_path, events):
    store = open_store(str(tmp_path), durable=True)
    open_store(str(tmp_path)).put("entry", b"the winner's")
    assert events.pop()[0] == "replace"
    assert not store.put_if_absent("entry", b"mine")
    assert events[-1] == ("sync folder", tmp_path.stat().st_ino)


def test_a_discarded_stream_syncs_nothing(tmp_path, events):
    writer = open_store(str(tmp_path), durable=True).open_writer("file")
    writer.write(b"half")
    writer.discard()
    assert events == []


# -- whole lakes -----------------------------------------------------------------------------------------------


class Acknowledged:
    """What a caller was told, as questions to a repository; asked of what every power loss leaves."""

    def __init__(self, disk, folder):
        self.facts = []
        self.losses = 0
        self._disk = disk
        self._folder = folder
        self._checked = {}
        folder.mkdir()

    def check(self):
        """Lose the power now, in both ways, and look at what is left unless it is what was left before."""
        for names_survive in (False, True) if self.facts else ():
            files = self._disk.left_after_power_loss(names_survive=names_survive)
            known = (len(self.facts), {path: body for path, body in files.items() if "/.unfinished-" not in path})
            if self._checked.get(names_survive) != known:
                self._checked[names_survive] = known
                self._look_at(files)

    def _look_at(self, files):
        self.losses += 1
        place = self._folder / str(self.losses)
        write_files(files, place)
        assert [repo.id for repo in lakespark.Lake(place / "lake").repositories()] == ["analytics"]
        repo = lakespark.Repository.open(place / "lake" / "analytics")
        assert repo.fsck(objects=True).errors == ()
        for fact in self.facts:
            assert fact(repo)

    def object(self, ref, path, body):
        """The object was acknowledged."""
        self.facts.append(lambda repo: repo.ref(ref).object(path).reader().read() == body)


@pytest.mark.exhaustive
def test_what_was_acknowledged_outlasts_a_power_loss_at_any_moment(tmp_path, disk):
    told = Acknowledged(disk, tmp_path / "left")
    disk.before_sync = told.check
    lake = lakespark.Lake(disk.folder / "lake", durable=True)
    repo = lake.repository("analytics").create()
    main = repo.branch("main")
    created = main.head.id
    told.facts.append(lambda left: left.ref(created).get_commit().id == created)
    main.object("uploaded").upload(b"one")
    told.object("main", "uploaded", b"one")
    with main.object("streamed").writer() as writer:
        for part in (b"t", b"w", b"o"):
            writer.write(part)
    told.object("main", "streamed", b"two")
    first = main.commit("first").get_commit().id
    told.object(first, "streamed", b"two")
    dev = repo.branch("dev").create("main")
    dev.object("on/dev").upload(b"three")
    second = dev.commit("on dev").get_commit().id
    told.object(second, "on/dev", b"three")
    main.object("staged").upload(b"four")
    told.object("main", "staged", b"four")
    main.commit("staged")
    merged = dev.merge_into("main")
    told.facts.append(lambda left: left.branch("main").head.id == merged)
    main.object("dropped").upload(b"five")
    main.reset_changes()
    told.facts.append(lambda left: list(left.branch("main").uncommitted()) == [])
    repo.tag("v1").create("main")
    told.object("v1", "on/dev", b"three")
    told.check()
    assert disk.syncs > 60
    assert told.losses > 60


def test_uploads_of_threads_outlast_a_power_loss(tmp_path, disk):
    """Compactions and new folders, which one thread makes and others find made, included."""
    lake = lakespark.Lake(disk.folder / "lake", durable=True)
    main = lake.repository("analytics").create().branch("main")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: main.object(f"object/{number}").upload(b"%d" % number), range(100)))
    write_files(disk.left_after_power_loss(), tmp_path / "left")
    left = lakespark.Repository.open(tmp_path / "left" / "lake" / "analytics")
    assert left.fsck(objects=True).errors == ()
    assert len(list(left.branch("main").objects())) == 100


def test_a_checkpoint_that_a_power_loss_tore_is_done_without(tmp_path, disk, monkeypatch):
    """delta-rs writes it, and syncs nothing."""
    monkeypatch.setattr("lakespark.tables.delta_log.CHECKPOINT_ENTRIES", 8)
    repo = lakespark.Lake(disk.folder / "lake", durable=True).repository("analytics").create()
    tags = [repo.tag(f"v{number:02d}").create("main").id for number in range(20)]
    files = disk.left_after_power_loss(names_survive=True)
    log = "lake/analytics/_lakespark/ledger/_delta_log"
    assert files[f"{log}/_last_checkpoint"] == b""
    write_files(files, tmp_path / "left")
    left = lakespark.Repository.open(tmp_path / "left" / "lake" / "analytics")
    assert [tag.id for tag in left.tags()] == tags
    report = left.fsck()
    assert report.errors == ()
    assert "checkpoint" in {note.subject for note in report.notes}


def test_every_file_that_an_entry_names_was_synced_before_the_entry(tmp_path, events):
    main = lakespark.Lake(tmp_path, durable=True).repository("analytics").create().branch("main")
    events.clear()
    main.object("a").upload(b"one")
    main.commit("first")
    root = tmp_path / "analytics"
    files = {file.stat().st_ino: file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()}
    order = [(kind, files[number]) for kind, number in events if number in files]
    named = [path for kind, path in order if kind in ("link", "replace")]
    assert all(order.index(("sync file", path)) < order.index((kind, path)) for kind, path in order if kind == "link")
    data, staged = (next(path for path in named if path.startswith(start)) for start in ("data/", "_lakespark/staging"))
    landed = [path for path in named if path.startswith("_lakespark/ledger/_delta_log/")]
    trees = [path for path in named if path.startswith(("_lakespark/ranges/", "_lakespark/metaranges/"))]
    assert (len(landed), len(trees)) == (1, 2)
    assert order.index(("sync file", data)) < order.index(("sync file", staged))
    for path in (data, *trees):
        assert order.index(("sync file", path)) < order.index(("link", landed[0]))


# -- without the option ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"durable": False}, {"durable": None}])
def test_nothing_is_synced_unless_it_is_asked_for(tmp_path, disk, options):
    main = lakespark.Lake(disk.folder / "lake", **options).repository("analytics").create().branch("main")
    main.object("a").upload(b"one")
    main.commit("first")
    assert disk.syncs == 0
    assert disk.left_after_power_loss() == {}


def test_fsck_names_what_a_power_loss_tore_where_nothing_was_synced(tmp_path, disk):
    lake = lakespark.Lake(disk.folder / "lake", durable=True)
    lake.repository("analytics").create().branch("main").object("a").upload(b"one")
    lakespark.Lake(disk.folder / "lake").repository("analytics").branch("main").commit("not synced")
    write_files(disk.left_after_power_loss(names_survive=True), tmp_path / "left")
    place = tmp_path / "left" / "lake" / "analytics"
    with pytest.raises(CorruptFileError, match=r"log entry .*/ledger/_delta_log/0{19}1.json cannot be read"):
        lakespark.Repository.open(place).branch("main").get_commit()
    (finding,) = lakespark.Repository.open(place).fsck().errors
    assert finding.name == f"_lakespark/ledger/_delta_log/{1:020d}.json"
    assert (finding.kind, finding.subject) == ("altered", "log entry")


@pytest.mark.parametrize("location", ["memory://power-loss/lake", "s3://bucket/lake"])
def test_the_option_has_no_meaning_for_other_stores(location):
    assert open_store(location, durable=True).location.is_remote is (not location.startswith("memory"))


# -- disks that refuse -----------------------------------------------------------------------------------------


def refusing(monkeypatch, refused):
    """Have syncs of files or of folders fail."""

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) == (refused == "folders"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize(("write", "naming"), WRITES)
def test_contents_that_cannot_be_synced_get_no_name(tmp_path, monkeypatch, write, naming):
    refusing(monkeypatch, "files")
    with pytest.raises(StorageError, match=f"cannot write {tmp_path}/file: Input/output error"):
        write(open_store(str(tmp_path), durable=True), "file")
    assert list(tmp_path.iterdir()) == []


def test_an_entry_whose_name_cannot_be_synced_is_not_acknowledged(tmp_path, monkeypatch):
    main = lakespark.Lake(tmp_path, durable=True).repository("analytics").create().branch("main")
    main.object("a").upload(b"one")
    real = SyncedDisk.name_given

    def name_given(self, folder):
        if folder.endswith("/ledger/_delta_log"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(self, folder)

    monkeypatch.setattr(SyncedDisk, "name_given", name_given)
    with pytest.raises(StateUnknownError, match="is written, but cannot be synced to the disk \\(Input/output error"):
        main.commit("first")
