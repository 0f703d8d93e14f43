"""fsck on the log entries and the files of a table, and on its checkpoint."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsck_cases import (
    DAMAGES,
    build,
    checked,
    damage,
    entry_key,
    errors,
    ledger_log,
    rewrite_entry,
    rewrite_file,
    without_snapshot,
)

import lakespark
from lakespark.tables import ledger as ledgers
from lakespark.tables.log_entry import entry_body


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_of_the_ledger_is_named_by_its_digest(repo, how):
    file = sorted(ledger_log(repo).files.values(), key=lambda file: file.first)[1]
    found = damage(repo, f"{ledgers.ROOT}/{file.name}", how)
    for _ in range(2):
        finding = errors(repo)[0]
        assert finding.kind == ("missing" if found is None else "altered")
        assert (finding.subject, finding.name) == ("table file", f"{ledgers.ROOT}/{file.name}")
        assert (finding.expected, finding.found) == (file.sha256, found)
        assert finding.refs == ("dev", "main", "old", "v1")
        without_snapshot(repo)


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_damaged_log_entry_in_the_middle_is_named(repo, how, with_snapshot):
    if not with_snapshot:
        without_snapshot(repo)
    found = damage(repo, entry_key(2), how)
    finding = next(finding for finding in errors(repo) if finding.subject == "log entry")
    assert finding.kind == ("missing" if found is None else "altered")
    assert finding.name == entry_key(2)
    assert finding.refs == ("dev", "main", "old", "v1")


@pytest.mark.exhaustive
def test_every_byte_of_a_log_entry_is_covered_by_its_digest(repo):
    store, key = repo.opened.store, entry_key(2)
    body = store.get(key)
    for at in range(0, len(body), 7):
        store.put(key, body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        (finding,) = [finding for finding in errors(repo) if finding.subject == "log entry"]
        assert (finding.kind, finding.name) == ("altered", key), at
    store.put(key, body)
    assert errors(repo) == ()


def test_a_log_entry_altered_in_its_time_states_one_digest_and_has_another(repo_anywhere):
    store, key = repo_anywhere.opened.store, entry_key(2)
    body = store.get(key)
    stated = json.loads(body.splitlines()[0])["commitInfo"]["sha256"]
    store.put(key, body.replace(b'"timestamp":1', b'"timestamp":2', 1))
    (finding,) = errors(repo_anywhere)
    assert finding.expected == stated != finding.found
    assert finding.found in finding.problem


def test_rows_that_no_live_file_holds_are_inconsistent(repo):
    """A compaction that removes a file and adds none in its place."""
    without_snapshot(repo)
    log = ledger_log(repo)
    file = log.files[max(log.files, key=lambda name: log.files[name].first)]
    assert log._put(log.version + 1, entry_body("OPTIMIZE", (), [file], data_change=False))
    assert ("inconsistent", entry_key(file.first)) in {(finding.kind, finding.name) for finding in errors(repo)}


def test_rows_that_two_live_files_hold_are_inconsistent(repo):
    """A compaction that leaves one of the files that it has merged."""
    without_snapshot(repo)
    log = ledger_log(repo)
    first, second = sorted(log.files.values(), key=lambda file: file.first)[:2]
    rows = pa.concat_tables([log.read_rows(first), log.read_rows(second)])
    merged = log.write_file(rows)._replace(first=first.first, last=second.last)
    assert log._put(log.version + 1, entry_body("OPTIMIZE", (merged,), [first], data_change=False))
    problems = [finding.problem for finding in errors(repo)]
    assert any("both hold rows of entry" in problem and merged.name in problem for problem in problems)


def compact(log, merged, removed):
    """Put an entry in which one file takes the place of others."""
    added = [] if merged is None else [merged]
    assert log._put(log.version + 1, entry_body("OPTIMIZE", added, removed, data_change=False))


def test_an_entry_that_removes_what_was_not_live_is_inconsistent(repo):
    without_snapshot(repo)
    log = ledger_log(repo)
    file = next(iter(log.files.values()))
    compact(log, None, [file._replace(name=f"{'0' * 32}.parquet")])
    (finding,) = errors(repo)
    assert (finding.kind, finding.name) == ("inconsistent", entry_key(log.version + 1))
    assert f"it removes {'0' * 32}.parquet, which was not live" in finding.problem


def test_a_file_that_is_said_to_hold_rows_of_other_entries_is_inconsistent(repo):
    """Each entry adds a file of its own rows; only a compaction's holds those of several."""
    without_snapshot(repo)
    rewrite_entry(repo, ledger_log(repo), 2, lambda add: add["tags"].update(lastEntry="3"))
    assert any("is said to hold other entries' rows" in finding.problem for finding in errors(repo))


@pytest.mark.parametrize("column", ["entry", "position"])
def test_a_compacted_file_with_rows_of_no_place_is_unreadable(repo, column):
    without_snapshot(repo)
    log = ledger_log(repo)
    first, second = sorted(log.files.values(), key=lambda file: file.first)[:2]
    rows = pa.concat_tables([log.read_rows(first), log.read_rows(second)])
    rows = rows.set_column(rows.schema.get_field_index(column), column, pa.nulls(rows.num_rows, pa.int64()))
    merged = log.write_file(rows)._replace(first=first.first, last=second.last)
    compact(log, merged, [first, second])
    assert errors(repo)[0].kind == "unreadable"
    assert errors(repo)[0].name == f"{ledgers.ROOT}/{merged.name}"


def test_a_compacted_file_with_rows_of_entries_that_it_is_not_said_to_hold_is_inconsistent(repo):
    without_snapshot(repo)
    log = ledger_log(repo)
    first, second, third = sorted(log.files.values(), key=lambda file: file.first)[:3]
    rows = pa.concat_tables([log.read_rows(file) for file in (first, third)])
    merged = log.write_file(rows)._replace(first=first.first, last=second.last)
    compact(log, merged, [first, second])
    finding = next(finding for finding in errors(repo) if finding.name == f"{ledgers.ROOT}/{merged.name}")
    assert finding.kind == "inconsistent"
    assert (finding.expected, finding.found) == ("[]", str([third.first]))


def test_a_file_that_is_not_of_its_table_is_unreadable(repo):
    log = ledger_log(repo)
    file = sorted(log.files.values(), key=lambda file: file.first)[2]
    rewrite_file(repo, log, file, lambda rows: rows.drop_columns("kind"))
    finding = errors(repo)[0]
    assert (finding.kind, finding.subject, finding.name) == ("unreadable", "table file", f"{ledgers.ROOT}/{file.name}")


@pytest.mark.parametrize(
    ("stated", "problem"),
    [({"size": 1}, "another size"), ({"stats": '{"numRecords":99}'}, "another number of rows")],
)
def test_a_file_that_is_not_what_its_log_entry_says_is_inconsistent(repo, stated, problem):
    add = rewrite_entry(repo, ledger_log(repo), 2, lambda add: add.update(stated))
    (finding,) = errors(repo)
    assert (finding.kind, finding.name) == ("inconsistent", f"{ledgers.ROOT}/{add['path']}")
    assert problem in finding.problem


@pytest.fixture(scope="module")
def checkpointed(tmp_path_factory):
    """A namespace whose ledger has so many entries that there is a checkpoint."""
    folder = tmp_path_factory.mktemp("checkpointed")
    repo = build(lakespark.Lake(folder / "lake", user="ann"), folder / "ns")
    while not (folder / "ns" / ledgers.ROOT / "_delta_log" / "_last_checkpoint").exists():
        repo.tag("t").create("main")
        repo.tag("t").delete()
    return folder / "ns"


@pytest.fixture
def checkpoint(checkpointed, tmp_path):
    """A copy of it: the repository, the folder of its log, the version of the checkpoint and its file."""
    shutil.copytree(checkpointed, tmp_path / "ns")
    folder = tmp_path / "ns" / ledgers.ROOT / "_delta_log"
    version = json.loads((folder / "_last_checkpoint").read_bytes())["version"]
    repo = lakespark.Repository.open(tmp_path / "ns", user="ann")
    return repo, folder, version, folder / f"{version:020d}.checkpoint.parquet"


def test_a_checkpoint_that_cannot_be_read_is_a_note(checkpoint):
    repo, folder, _, _ = checkpoint
    assert checked(repo).findings == ()
    (folder / "_last_checkpoint").write_bytes(b"{}")
    report = checked(repo)
    assert report.is_clean
    assert [note.subject for note in report.notes] == ["checkpoint"]


def test_entries_before_the_checkpoint_are_not_needed_with_it(checkpoint):
    repo, folder, version, file = checkpoint
    for number in range(version):
        (folder / f"{number:020d}.json").unlink()
    assert checked(repo).findings == ()
    file.unlink()
    assert {finding.kind for finding in errors(repo)} >= {"missing"}


def test_a_checkpoint_of_a_version_that_the_log_does_not_have_is_inconsistent(checkpoint):
    repo, folder, version, file = checkpoint
    file.rename(folder / f"{version + 1000:020d}.checkpoint.parquet")
    (folder / "_last_checkpoint").write_text(json.dumps({"version": version + 1000, "size": 1}))
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject) == ("inconsistent", "checkpoint")
    assert f"it is of version {version + 1000}" in finding.problem


def test_a_checkpoint_that_names_other_files_than_the_log_is_inconsistent(checkpoint):
    repo, _, _, file = checkpoint
    actions = pq.read_table(file)
    place = actions["add"].to_pylist().index(next(add for add in actions["add"].to_pylist() if add and add["path"]))
    pq.write_table(pa.concat_tables([actions[:place], actions[place + 1 :]]), file)
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject) == ("inconsistent", "checkpoint")
    assert "other files than the log" in finding.problem
