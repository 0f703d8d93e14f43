"""fsck on the ledger, what is derived from it, and the staging tables."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsck_cases import DAMAGES, body_of, build, checked, damage, entries, errors, head, range_of

import lakespark
from lakespark import digest
from lakespark.errors import UnsupportedFormatError
from lakespark.model import Operation, RefChange, RefState
from lakespark.tables import ledger as ledgers
from lakespark.tables import ledger_rows
from lakespark.tables.delta_log import DeltaLog
from lakespark.tables.ledger_snapshot import parse_snapshot
from lakespark.tables.log_entry import sealed, stripped


@pytest.fixture
def repo(tmp_path):
    return build(lakespark.Lake(tmp_path / "lake", user="ann"), tmp_path / "ns")


@pytest.fixture
def namespace(repo):
    return repo.opened.store.location.path


# -- the ledger ------------------------------------------------------------------------------------------------


def ledger_log(repo):
    log = DeltaLog(repo.opened.store, ledgers.ROOT, ledger_rows.LEDGER_SCHEMA)
    log.load()
    return log


def entry_key(number):
    return f"{ledgers.ROOT}/_delta_log/{number:020d}.json"


def without_snapshot(repo):
    repo.opened.store.delete(ledgers.SNAPSHOT)


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


def test_a_log_entry_altered_in_its_time_states_one_digest_and_has_another(repo):
    store, key = repo.opened.store, entry_key(2)
    body = store.get(key)
    stated = json.loads(body.splitlines()[0])["commitInfo"]["sha256"]
    store.put(key, body.replace(b'"timestamp":1', b'"timestamp":2', 1))
    (finding,) = errors(repo)
    assert finding.expected == stated != finding.found
    assert finding.found in finding.problem


def test_a_log_that_lost_its_end_is_told_by_the_snapshot(repo):
    for number in range(9):
        repo.tag(f"t{number}").create("main")
    snapshot = parse_snapshot(body_of(repo, ledgers.SNAPSHOT))
    for number in range(snapshot.version, ledger_log(repo).version + 1):
        repo.opened.store.delete(entry_key(number))
    finding = errors(repo)[0]
    assert (finding.kind, finding.name) == ("missing", entry_key(snapshot.version))


def rewrite_ledger(repo, change):
    """Change the rows of the file of the commit on dev, with every digest of a file and of an entry made right."""
    store = repo.opened.store
    log, commit = ledger_log(repo), repo.ref("dev").get_commit()
    number = head(repo, "dev").number >> 20
    (file,) = [file for file in log.files.values() if file.first <= number <= file.last]
    rows = pq.read_table(pa.BufferReader(store.get(f"{ledgers.ROOT}/{file.name}"))).to_pylist()
    for row in rows:
        change(row)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=ledger_rows.LEDGER_SCHEMA), sink)
    body = sink.getvalue().to_pybytes()
    store.put(f"{ledgers.ROOT}/{file.name}", body)
    actions = [json.loads(line) for line in stripped(store.get(entry_key(number))).splitlines()]
    actions[0]["commitInfo"].pop("rows", None)
    for action in actions:
        if "add" in action:
            action["add"]["size"] = len(body)
            action["add"]["tags"]["sha256"] = digest.hash_bytes(body)
    entry = "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()
    store.put(entry_key(number), sealed(entry))
    return commit.id


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


def test_rows_that_no_live_file_holds_are_inconsistent(repo):
    """A compaction that removes a file and adds none in its place."""
    without_snapshot(repo)
    log = ledger_log(repo)
    file = log.files[max(log.files, key=lambda name: log.files[name].first)]
    assert log._put(log.version + 1, log._entry_body("OPTIMIZE", (), [file], data_change=False))
    assert ("inconsistent", entry_key(file.first)) in {(finding.kind, finding.name) for finding in errors(repo)}


def test_rows_that_two_live_files_hold_are_inconsistent(repo):
    """A compaction that leaves one of the files that it has merged."""
    without_snapshot(repo)
    log = ledger_log(repo)
    first, second = sorted(log.files.values(), key=lambda file: file.first)[:2]
    rows = pa.concat_tables([log.read_rows(first), log.read_rows(second)])
    merged = log.write_file(rows)._replace(first=first.first, last=second.last)
    assert log._put(log.version + 1, log._entry_body("OPTIMIZE", (merged,), [first], data_change=False))
    problems = [finding.problem for finding in errors(repo)]
    assert any("both hold rows of entry" in problem and merged.name in problem for problem in problems)


@pytest.mark.parametrize(
    ("stated", "problem"),
    [({"size": 1}, "another size"), ({"stats": '{"numRecords":99}'}, "another number of rows")],
)
def test_a_file_that_is_not_what_its_log_entry_says_is_inconsistent(repo, stated, problem):
    store, number = repo.opened.store, 2
    actions = [json.loads(line) for line in stripped(store.get(entry_key(number))).splitlines()]
    (add,) = [action["add"] for action in actions if "add" in action]
    add.update(stated)
    store.put(entry_key(number), sealed("\n".join(json.dumps(a, separators=(",", ":")) for a in actions).encode()))
    (finding,) = errors(repo)
    assert (finding.kind, finding.name) == ("inconsistent", f"{ledgers.ROOT}/{add['path']}")
    assert problem in finding.problem


def test_an_unknown_feature_is_refused_by_its_name(repo):
    log = ledger_log(repo)
    rows = ledger_rows.operation_rows(Operation("upgrade", ()), user="ann", at=0, write_id="w")
    table = ledger_rows.to_table([*rows, ledger_rows.feature_row("columns-v9")])
    assert log.put_rows(log.write_file(table), log.version + 1)
    with pytest.raises(UnsupportedFormatError, match="columns-v9"):
        checked(repo)


# -- what is derived -------------------------------------------------------------------------------------------


def test_a_damaged_snapshot_is_a_note(repo):
    repo.opened.store.put(ledgers.SNAPSHOT, b"nonsense")
    report = checked(repo)
    assert report.is_clean
    (note,) = report.notes
    assert (note.subject, note.name) == ("snapshot", ledgers.SNAPSHOT)
    assert "derived" in note.mend


def test_a_snapshot_that_says_something_else_is_an_error(repo, monkeypatch):
    ledger = repo.opened.ledger
    ledger.refresh()
    ledger._refs["main"] = ledger.ref("old")
    ledger._write_snapshot()
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject, finding.name) == ("inconsistent", "snapshot", ledgers.SNAPSHOT)


def test_a_checkpoint_is_compared_with_the_log(tmp_path):
    """With 300 operations there is one; wrong, it is named; useless, it is a note; without old entries it is needed."""
    repo = build(lakespark.Lake(tmp_path / "lake", user="ann"), tmp_path / "ns")
    folder = tmp_path / "ns" / ledgers.ROOT / "_delta_log"
    for _ in range(270):
        repo.tag("t").create("main")
        repo.tag("t").delete()
        if (folder / "_last_checkpoint").exists():
            break
    assert checked(repo).findings == ()
    whole = (folder / "_last_checkpoint").read_bytes()
    (folder / "_last_checkpoint").write_bytes(b"{}")
    report = checked(repo)
    assert report.is_clean
    assert [note.subject for note in report.notes] == ["checkpoint"]
    (folder / "_last_checkpoint").write_bytes(whole)
    version = json.loads(whole)["version"]
    for number in range(version):
        (folder / f"{number:020d}.json").unlink()
    assert checked(repo).findings == ()
    for file in folder.glob("*.checkpoint.parquet"):
        file.unlink()
    assert {finding.kind for finding in errors(repo)} >= {"missing"}


# -- staging ---------------------------------------------------------------------------------------------------


def staging_log(repo, branch):
    repo.opened.ledger.refresh()
    root = f"_lakespark/staging/{repo.opened.ledger.ref(branch).token}"
    log = DeltaLog(repo.opened.store, root, ledger_rows.LEDGER_SCHEMA)
    log.load()
    return root, log


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_staging_file_is_named_with_its_branch(repo, how):
    root, log = staging_log(repo, "main")
    (file,) = log.files.values()
    found = damage(repo, f"{root}/{file.name}", how)
    (finding,) = errors(repo)
    assert (finding.subject, finding.name) == ("table file", f"{root}/{file.name}")
    assert (finding.expected, finding.found) == (file.sha256, found)
    assert finding.refs == ("main",)


def test_a_missing_staging_table_is_named_with_its_branch(repo):
    root, log = staging_log(repo, "main")
    for number in range(log.version + 1):
        repo.opened.store.delete(f"{root}/_delta_log/{number:020d}.json")
    (finding,) = errors(repo)
    assert (finding.kind, finding.subject, finding.name, finding.refs) == ("missing", "staging table", root, ("main",))


def test_a_sealed_table_that_lost_its_end_is_told_by_the_watermark(repo):
    (sealed_token,) = repo.opened.ledger.ref("dev").sealed
    root = f"_lakespark/staging/{sealed_token.token}"
    repo.opened.store.delete(f"{root}/_delta_log/{sealed_token.watermark:020d}.json")
    (finding,) = errors(repo)
    assert (finding.kind, finding.name, finding.refs) == ("missing", root, ("dev",))
    assert (finding.expected, finding.found) == (str(sealed_token.watermark), str(sealed_token.watermark - 1))


def test_staged_rows_that_cannot_be_are_inconsistent(repo):
    from lakespark.tables.staging import staged_rows, staged_table

    _, log = staging_log(repo, "main")
    for rows in (
        staged_rows([{"op": "rename", "path": "a"}], user="ann"),
        staged_table(entries("x", identity=["0" * 64]), user="ann"),
    ):
        assert log.put_rows(log.write_file(rows), log.version + 1)
    problems = [finding.problem for finding in errors(repo)]
    assert len(problems) == 2
    assert any("'rename'" in problem for problem in problems)
    assert any("'x': its identity" in problem for problem in problems)
