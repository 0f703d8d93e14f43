"""The rows of the ledger in their order: what the refs are, and whether every commit and ref change can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from lakespark import digest
from lakespark.errors import UnsupportedFormatError
from lakespark.model import Commit, CommitRecord, RefState
from lakespark.operations.fsck.report import Finding
from lakespark.operations.fsck.run import RESTORE, Found, Run
from lakespark.operations.fsck.tables import TableLog, read_files, read_log
from lakespark.tables import ledger_rows
from lakespark.tables.ledger import ROOT, SNAPSHOT
from lakespark.tables.ledger_snapshot import Snapshot, parse_snapshot
from lakespark.tables.ledger_state import KNOWN_FEATURES

_DELETE_SNAPSHOT = "delete it: it is derived, and made again"
_MOVE_REF = "move the branch to a commit that is whole, or make the tag anew"
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError)
Row = ledger_rows.Row
Value = TypeVar("Value")


@dataclass
class History:
    """The state that the rows of the ledger lead to, as far as they can be read."""

    log: TableLog
    refs: dict[str, RefState] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    commits: dict[str, CommitRecord] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    """Every token that was ever current."""
    keys: set[str] = field(default_factory=set)
    """Every idempotency key."""


def check_ledger(run: Run) -> tuple[History, list[Found]]:
    """The history of a repository, and what is wrong with it. Raises UnsupportedFormatError for unknown features."""
    log = read_log(run, ROOT)
    if log.version < 0:
        gone = Finding("missing", "ledger", ROOT, "its log has no entries", mend=RESTORE)
        return History(log), [Found(gone)]
    rows, found = _read_rows(run, log)
    snapshot, notes = _read_snapshot(run, log)
    history = History(log)
    if not log.is_whole and snapshot is not None:
        _take_over(history, snapshot)
    for row in rows:
        found += _follow(run, history, row, behind=-1 if log.is_whole or snapshot is None else snapshot.version)
    if log.is_whole and snapshot is not None:
        notes += _compare(snapshot, rows)
    every_ref = tuple(sorted(history.refs))
    found = [Found(finding, refs=every_ref) for finding in log.findings] + found + [Found(note) for note in notes]
    return history, found + _dangling_refs(history)


def _read_rows(run: Run, log: TableLog) -> tuple[list[Row], list[Found]]:
    rows: list[Row] = []
    found: list[Found] = []
    for file, table in read_files(run, log, ledger_rows.LEDGER_SCHEMA):
        if table is None:
            continue
        rows += table.to_pylist()
        entry = log.entries.get(file.last)
        if file.first == file.last and entry is not None and entry.rows is not None and log.is_whole:
            found += _compare_repeated(log, file.last, entry.rows, table)
    return sorted(rows, key=lambda row: (row["entry"], row["position"])), found


def _compare_repeated(log: TableLog, number: int, repeated: tuple[Row, ...], table: pa.Table) -> Iterator[Found]:
    """Whether the rows that a log entry repeats are those of its file."""
    try:
        is_same = ledger_rows.to_table(repeated).drop_columns("entry").equals(table.drop_columns("entry"))
    except (pa.ArrowException, *_MALFORMED):
        is_same = False
    if not is_same:
        problem = "the rows in it are not those of the file that it adds"
        yield Found(Finding("inconsistent", "log entry", log.entry_key(number), problem, mend=RESTORE))


def _apply(history: History, row: Row, *, behind: int = -1) -> None:
    """What a row does to the state; refs and settings up to the entry ``behind`` are known from a snapshot."""
    if row["kind"] == "commit":
        history.commits.setdefault(row["name"], ledger_rows.commit_record(row))
    elif row["entry"] <= behind:
        return
    elif row["kind"] in ("branch", "tag"):
        change = ledger_rows.ref_change(row)
        _set(history.refs, change.name, change.after)
    elif row["kind"] == "setting":
        setting = ledger_rows.setting_change(row)
        _set(history.settings, setting.name, setting.after)


def _set(values: dict[str, Value], name: str, value: Value | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def _follow(run: Run, history: History, row: Row, *, behind: int) -> list[Found]:
    """Apply a row; what is wrong with it."""
    try:
        found: list[Found] = []
        if row["kind"] == "commit":
            run.count(commits=1)
            found += _check_commit(history, row)
        elif row["kind"] in ("branch", "tag") and history.log.is_whole:
            found += _check_ref(history, row)
        elif row["kind"] == "setting" and history.log.is_whole:
            found += _check_setting(history, row)
        elif row["kind"] == "operation":
            found += _check_key(history, row)
        elif row["kind"] == "feature":
            _require_known(run, row["name"])
        _apply(history, row, behind=behind)
    except _MALFORMED as error:
        problem = f"row {row['position']} of entry {row['entry']} cannot be read: {error!r}"
        return [Found(Finding("unreadable", "ledger", ROOT, problem, mend=RESTORE))]
    return found


def _require_known(run: Run, feature: str) -> None:
    if feature not in KNOWN_FEATURES:
        raise UnsupportedFormatError(
            f"the repository at {run.store.location} needs the feature {feature!r}, "
            "which this lakespark does not know: upgrade lakespark"
        )


def _check_commit(history: History, row: Row) -> Iterator[Found]:
    commit = ledger_rows.commit_record(row).commit
    computed = _commit_id(commit)
    if computed != row["name"] or commit.id != row["name"]:
        problem = f"its record in entry {row['entry']} of the ledger is of another commit"
        altered = Finding("altered", "commit", row["name"], problem, row["name"], computed, mend=RESTORE)
        yield Found(altered, commits=(row["name"],))
    for parent in commit.parents:
        if parent not in history.commits:
            problem = f"commit {commit.id} names it as its parent, and the ledger has no record of it before"
            yield Found(Finding("missing", "commit", parent, problem, mend=RESTORE), commits=(commit.id,))


def _commit_id(commit: Commit) -> str:
    return digest.commit_id(
        committer=commit.committer,
        message=commit.message,
        metarange=commit.meta_range_id,
        creation_date=commit.creation_date,
        metadata=commit.metadata,
        parents=commit.parents,
    )


def _check_ref(history: History, row: Row) -> Iterator[Found]:
    change = ledger_rows.ref_change(row)
    known = history.refs.get(change.name)
    if known != change.before:
        problem = f"entry {row['entry']} of the ledger changes it from a state that it was not in"
        finding = Finding("inconsistent", row["kind"], change.name, problem, str(known), str(change.before))
        yield Found(finding, refs=(change.name,))
    token = change.after.token if change.after else ""
    if token and (change.before is None or change.before.token != token):
        if token in history.tokens:
            problem = f"entry {row['entry']} of the ledger makes the staging token {token} current a second time"
            yield Found(Finding("inconsistent", row["kind"], change.name, problem), refs=(change.name,))
        history.tokens.add(token)


def _check_setting(history: History, row: Row) -> Iterator[Found]:
    change = ledger_rows.setting_change(row)
    known = history.settings.get(change.name)
    if known != change.before:
        problem = f"entry {row['entry']} of the ledger changes it from a value that it did not have"
        yield Found(Finding("inconsistent", "setting", change.name, problem, str(known), str(change.before)))


def _check_key(history: History, row: Row) -> Iterator[Found]:
    key = row["idempotency_key"]
    if key in history.keys:
        problem = f"entry {row['entry']} of the ledger has it a second time"
        yield Found(Finding("inconsistent", "idempotency key", key, problem))
    if key is not None:
        history.keys.add(key)


def _dangling_refs(history: History) -> list[Found]:
    found = [
        Found(
            Finding("missing", "commit", state.commit_id, f"{state.kind} {name} points at it", mend=_MOVE_REF),
            refs=(name,),
        )
        for name, state in sorted(history.refs.items())
        if state.commit_id not in history.commits
    ]
    default = history.settings.get("default_branch")
    if history.log.is_whole and (default not in history.refs or history.refs[default].kind != "branch"):
        found.append(Found(Finding("missing", "branch", str(default), "the settings name it as the default branch")))
    return found


# -- the snapshot ----------------------------------------------------------------------------------------------


def _read_snapshot(run: Run, log: TableLog) -> tuple[Snapshot | None, list[Finding]]:
    body = run.get(SNAPSHOT, "snapshot")
    if body is None or isinstance(body, Finding):
        return None, [body] if body else []
    snapshot = parse_snapshot(body)
    if snapshot is None:
        problem = "it is not as it was written, and nobody reads it"
        return None, [Finding("altered", "snapshot", SNAPSHOT, problem, mend=_DELETE_SNAPSHOT, is_error=False)]
    if snapshot.version > log.version:
        log.is_whole = False
        problem = f"the snapshot is of entry {snapshot.version}, and the log ends before it"
        key = log.entry_key(log.version + 1)
        return snapshot, [Finding("missing", "log entry", key, problem, mend=RESTORE)]
    return snapshot, []


def _take_over(history: History, snapshot: Snapshot) -> None:
    """Start from what an intact snapshot says."""
    for row in snapshot.rows:
        _apply(history, {**row, "entry": row["entry"] or 0})


def _compare(snapshot: Snapshot, rows: list[Row]) -> list[Finding]:
    """Whether the snapshot says what the rows up to its version say."""
    said, is_so = History(TableLog(ROOT)), History(TableLog(ROOT))
    _take_over(said, snapshot)
    for row in rows:
        if row["entry"] > snapshot.version:
            break
        _apply(is_so, row)
    heads = {state.commit_id for state in is_so.refs.values()}
    commits = {name: record for name, record in is_so.commits.items() if name in heads}
    if (said.refs, said.settings, said.commits) == (is_so.refs, is_so.settings, commits):
        return []
    problem = f"it says something else than the log up to its entry {snapshot.version}"
    return [Finding("inconsistent", "snapshot", SNAPSHOT, problem, mend=_DELETE_SNAPSHOT)]
