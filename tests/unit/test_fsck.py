"""fsck: everything that refs reach is checked, what is wrong is named by its digest, and nothing is changed."""

from __future__ import annotations

import json

from fsck_cases import build, checked, damage, errors, head, range_of

import lakespark
from lakespark.operations.fsck.check import fsck
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store
from lakespark.tables.delta_log import LEVEL_FACTOR
from lakespark.testing.faults import FaultyStore

WRITES = {"put", "put_if_absent", "delete", "open_writer"}


def files_below(folder):
    """Every file and folder with its time of change and its number in the file system."""
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.rglob("*")}


# -- whole repositories ----------------------------------------------------------------------------------------


def test_a_whole_repository_is_clean_and_everything_is_counted(repo_anywhere):
    report = repo_anywhere.fsck(objects=True)
    assert report.is_clean
    assert report.findings == ()
    assert report.version == repo_anywhere.opened.ledger.version
    counts = report.checked
    assert (counts.refs, counts.commits, counts.metaranges, counts.ranges) == (4, 4, 4, 3)
    assert (counts.entries, counts.staged_rows) == (5, 5)
    assert (counts.objects, counts.object_bytes) == (5, len("onetwootherfourthree"))
    assert counts.log_entries > report.version
    assert checked(repo_anywhere).checked.objects == 0


def test_every_kind_of_change_leaves_a_clean_repository(tmp_path):
    """Deleted prefixes, resets, merges, reverts, cherry-picks, deleted branches, transactions, many versions."""
    repo = build(lakespark.Lake(tmp_path / "lake", user="ann"), tmp_path / "ns")
    main, dev = repo.branch("main"), repo.branch("dev")
    main.reset_changes()
    dev.merge_into(main)
    main.revert("main", parent_number=1)
    main.object("folder/x").upload("1")
    main.object("folder/y").upload("1")
    main.delete_objects(["b"])
    main.reset_changes("object", "folder/y")
    main.commit("more")
    repo.branch("old").cherry_pick("main")
    repo.branch("gone").create("dev")
    repo.branch("gone").object("q").upload("q")
    repo.branch("gone").delete()
    with main.transact("in one") as tx:
        tx.object("t").upload("t")
    dev.object("w").upload("w")
    dev.reset_changes("common_prefix", "")
    for number in range(2 * LEVEL_FACTOR + 3):
        repo.tag(f"t{number}").create("main")
        dev.object(f"many/{number}").upload(str(number))
    report = repo.fsck(objects=True)
    assert report.findings == ()
    assert report.checked.staged_rows > 2 * LEVEL_FACTOR


def test_nothing_is_changed(repo, namespace, tmp_path):
    """Neither on a clean nor on a damaged repository: no write is asked of the store, no file or folder is touched."""
    damage(repo, range_of(repo, "dev").file, "cut short")
    damage(repo, head(repo, "old").metarange.file, "missing")
    store = FaultyStore(open_store(namespace))
    before = files_below(tmp_path)
    report = fsck(OpenRepository(store, user="ann", options={}), objects=True)
    assert len(report.errors) == 2
    assert not [call for call in store.calls if call.method in WRITES]
    assert len({call.key for call in store.calls}) > 20
    assert files_below(tmp_path) == before


def test_each_file_is_read_once_however_many_commits_share_it(repo, namespace):
    for number in range(5):
        repo.branch("main").object("staged").upload(f"{number}")
        repo.branch("main").commit("again", allow_empty=True)
        repo.tag(f"again-{number}").create("main")
    store = FaultyStore(open_store(namespace))
    assert fsck(OpenRepository(store, user="ann", options={})).is_clean
    read = [call.key for call in store.calls if call.method == "get" and call.key.endswith(".parquet")]
    assert len(read) == len(set(read))


def test_progress_is_told_and_ends_with_the_counts_of_the_report(repo):
    told = []
    report = repo.fsck(objects=True, on_progress=told.append)
    assert told[-1] == report.checked
    assert [sum(counts) for counts in told] == sorted(sum(counts) for counts in told)
    assert len(told) > 10


# -- a store that fails ----------------------------------------------------------------------------------------


def test_what_the_store_does_not_give_is_named_and_the_rest_is_checked(repo, namespace):
    ref = range_of(repo, "dev")

    class Refusing(FaultyStore):
        def get(self, key):
            if key == ref.file:
                from lakespark.errors import StorageError

                raise StorageError(f"cannot read {key}: permission denied")
            return super().get(key)

    damage(repo, range_of(repo, "old").file, "missing")
    found = fsck(OpenRepository(Refusing(open_store(namespace)), user="ann", options={})).errors
    assert {(finding.kind, finding.refs) for finding in found} == {("unreadable", ("dev", "v1")), ("missing", ("old",))}
    assert any("permission denied" in finding.problem for finding in found)


# -- the report ------------------------------------------------------------------------------------------------


def test_a_report_is_plain_values_for_json(repo):
    damage(repo, range_of(repo, "dev").file, "missing")
    report = checked(repo)
    plain = json.loads(json.dumps(report.as_dict()))
    assert plain["is_clean"] is False
    assert plain["findings"][0]["refs"] == ["dev", "v1"]
    assert plain["checked"]["ranges"] == 3


def test_a_finding_in_words_names_ten_refs_and_counts_the_rest(repo):
    for number in range(12):
        repo.tag(f"t{number}").create("old")
    damage(repo, range_of(repo, "old").file, "missing")
    (finding,) = errors(repo)
    assert len(finding.refs) == 13
    assert str(finding).startswith(f"missing range {finding.name}: the file is gone")
    assert "and 3 more" in str(finding)
    assert "t9" not in str(finding)
