"""fsck on what the rows of the ledger say, and on the snapshot that is derived from them."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from fsck_cases import (
    body_of,
    checked,
    damage,
    entry_key,
    errors,
    head,
    ledger_log,
    range_of,
    rewrite_file,
    without_snapshot,
)

from lakespark.errors import UnsupportedFormatError
from lakespark.model import Operation, RefChange, RefState, SettingChange
from lakespark.tables import ledger as ledgers
from lakespark.tables import ledger_rows
from lakespark.tables.ledger_snapshot import parse_snapshot
from lakespark.tables.log_entry import sealed, stripped


def rewrite_ledger(repo, change):
    """Change the rows of the commit on dev, with the digests of file and entry made right; that commit's id."""
    log, commit = ledger_log(repo), head(repo, "dev")
    number = commit.number >> 20
    (file,) = [file for file in log.files.values() if file.first <= number <= file.last]

    def changed(table):
        rows = table.to_pylist()
        for row in rows:
            change(row)
        return pa.Table.from_pylist(rows, schema=ledger_rows.LEDGER_SCHEMA)

    rewrite_file(repo, log, file, changed)
    return commit.commit.id


def forge(repo, *changes, settings=()):
    """Land an operation of ref changes that nobody would decide on."""
    repo.opened.ledger.operate(lambda: Operation("forge", changes, settings=settings))


def test_an_edited_message_is_told_by_the_commit_id(repo):
    def edit(row):
        if row["kind"] == "commit":
            row["commit"]["message"] = "nothing to see here"

    without_snapshot(repo)
    commit_id = rewrite_ledger(repo, edit)
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject, finding.name) == ("altered", "commit", commit_id)
    assert finding.expected == commit_id != finding.found
    assert finding.refs == ("dev", "v1")


def test_a_commit_whose_record_says_another_id_is_named(repo):
    def edit(row):
        if row["kind"] == "commit":
            row["commit"]["id"] = "0" * 64

    without_snapshot(repo)
    commit_id = rewrite_ledger(repo, edit)
    assert ("altered", commit_id) in {(finding.kind, finding.name) for finding in errors(repo)}


def test_a_row_that_cannot_be_is_named_by_its_place(repo):
    def edit(row):
        if row["kind"] == "commit":
            row["commit"] = None

    without_snapshot(repo)
    rewrite_ledger(repo, edit)
    finding = errors(repo)[0]
    assert (finding.kind, finding.name) == ("unreadable", ledgers.ROOT)
    assert f"row 1 of entry {head(repo, 'dev').number >> 20} cannot be read" in finding.problem


def test_a_commit_whose_parent_is_unknown_is_named(repo):
    def edit(row):
        if row["kind"] == "commit":
            row["commit"]["parents"] = ["0" * 64]

    without_snapshot(repo)
    commit_id = rewrite_ledger(repo, edit)
    found = {(finding.kind, finding.name): finding for finding in errors(repo)}
    assert set(found) == {("altered", commit_id), ("missing", "0" * 64)}
    assert found["missing", "0" * 64].refs == ("dev", "v1")


def test_a_ref_changed_from_a_state_that_it_was_not_in_is_inconsistent(repo):
    def edit(row):
        if row["kind"] == "branch":
            row["before"]["commit_id"] = "0" * 64

    without_snapshot(repo)
    rewrite_ledger(repo, edit)
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject, finding.name) == ("inconsistent", "branch", "dev")


def test_a_setting_changed_from_a_value_that_it_did_not_have_is_inconsistent(repo):
    forge(repo, settings=(SettingChange("protect:*", "something", None),))
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject, finding.name) == ("inconsistent", "setting", "protect:*")
    assert (finding.expected, finding.found) == ("None", "something")


def test_an_idempotency_key_that_stands_twice_is_inconsistent(repo):
    log = ledger_log(repo)
    for number in range(2):
        change = RefChange(f"twice-{number}", None, RefState("tag", head(repo, "main").commit.id))
        rows = ledger_rows.operation_rows(
            Operation("tag-create", (change,)), user="ann", at=0, write_id="w", key="load-1"
        )
        assert log.put_rows(log.write_file(ledger_rows.to_table(rows)), log.version + 1)
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject, finding.name) == ("inconsistent", "idempotency key", "load-1")


@pytest.mark.parametrize("kind", [None, "tag"])
def test_a_default_branch_that_is_none_is_named(repo, kind):
    repo.opened.ledger.refresh()
    before = repo.opened.ledger.ref("main")
    forge(repo, RefChange("main", before, None))
    if kind is not None:
        forge(repo, RefChange("main", None, RefState(kind, before.commit_id)))
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject, finding.name) == ("missing", "branch", "main")


def test_a_ref_at_an_unknown_commit_is_named(repo):
    repo.opened.ledger.operate(lambda: Operation("forge", (RefChange("lost", None, RefState("tag", "0" * 64)),)))
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject, finding.name, finding.refs) == ("missing", "commit", "0" * 64, ("lost",))


def test_a_token_that_becomes_current_twice_is_inconsistent(repo):
    repo.opened.ledger.refresh()
    state = repo.opened.ledger.ref("old")
    repo.opened.ledger.operate(lambda: Operation("forge", (RefChange("twin", None, state),)))
    (finding,) = errors(repo)
    assert (finding.kind, finding.name) == ("inconsistent", "twin")
    assert state.token in finding.problem


def test_rows_in_a_log_entry_that_are_not_those_of_its_file_are_inconsistent(repo):
    store = repo.opened.store
    for number in range(2, ledger_log(repo).version + 1):
        body = stripped(store.get(entry_key(number)))
        if b"on dev" in body:
            store.put(entry_key(number), sealed(body.replace(b"on dev", b"on old")))
            break
    else:
        pytest.fail("no log entry repeats the rows of the commit")
    (finding,) = errors(repo)
    assert (finding.kind, finding.name) == ("inconsistent", entry_key(number))
    assert "not those of the file" in finding.problem


def test_a_ledger_whose_entry_is_lost_is_still_checked_from_the_snapshot(repo):
    """What the lost rows said of refs is known from there: damage elsewhere is found all the same."""
    for number in range(9):
        repo.tag(f"t{number}").create("main")
    ref = range_of(repo, "dev")
    damage(repo, ref.file, "missing")
    damage(repo, entry_key(3), "missing")
    found = {finding.subject: finding for finding in errors(repo)}
    assert found["range"].name == ref.file
    assert found["range"].refs == ("dev", "v1")


def test_a_ledger_that_is_gone_is_named(repo):
    for number in range(ledger_log(repo).version + 1):
        repo.opened.store.delete(entry_key(number))
    assert ("missing", "ledger") in {(finding.kind, finding.subject) for finding in errors(repo)}


def test_an_unknown_feature_is_refused_by_its_name(repo):
    log = ledger_log(repo)
    rows = ledger_rows.operation_rows(Operation("upgrade", ()), user="ann", at=0, write_id="w")
    table = ledger_rows.to_table([*rows, ledger_rows.feature_row("columns-v9")])
    assert log.put_rows(log.write_file(table), log.version + 1)
    with pytest.raises(UnsupportedFormatError, match="columns-v9"):
        checked(repo)


# -- the snapshot ----------------------------------------------------------------------------------------------


def test_a_log_that_lost_its_end_is_told_by_the_snapshot(repo):
    for number in range(9):
        repo.tag(f"t{number}").create("main")
    snapshot = parse_snapshot(body_of(repo, ledgers.SNAPSHOT))
    for number in range(snapshot.version, ledger_log(repo).version + 1):
        repo.opened.store.delete(entry_key(number))
    finding = errors(repo)[0]
    assert (finding.kind, finding.name) == ("missing", entry_key(snapshot.version))


def test_a_damaged_snapshot_is_a_note(repo):
    repo.opened.store.put(ledgers.SNAPSHOT, b"nonsense")
    report = checked(repo)
    assert report.is_clean
    (note,) = report.notes
    assert (note.subject, note.name) == ("snapshot", ledgers.SNAPSHOT)
    assert "derived" in note.mend


def move_a_ref(ledger):
    ledger._state.refs["main"] = dataclasses.replace(ledger.ref("main"), hidden=True)


def change_a_setting(ledger):
    ledger._state.settings["name"] = "another"


def forget_a_commit(ledger):
    ledger.commit(ledger.ref("old").commit_id)
    ledger.commit = lambda commit_id: None


@pytest.mark.parametrize("alter", [move_a_ref, change_a_setting, forget_a_commit])
def test_a_snapshot_that_says_something_else_is_an_error(repo, alter):
    ledger = repo.opened.ledger
    ledger.refresh()
    alter(ledger)
    ledger._write_snapshot()
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject, finding.name) == ("inconsistent", "snapshot", ledgers.SNAPSHOT)
