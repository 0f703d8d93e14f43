"""The rows of the ledger: their schema, and values of the model to rows and back.

An operation is one row of kind ``operation`` and, in the same log entry, a row for every commit that it makes
(``commit``), every ref that it changes (``branch`` or ``tag``), and where it sets them, settings and protocol
features (``setting``, ``feature``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from lakespark.model import (
    Commit,
    CommitRecord,
    FileRef,
    Operation,
    RefChange,
    RefState,
    Sealed,
    SettingChange,
)

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_REF_STATE = pa.struct(
    [
        ("commit_id", pa.string()),
        ("token", pa.string()),
        ("sealed", pa.list_(pa.struct([("token", pa.string()), ("watermark", pa.int64())]))),
        ("hidden", pa.bool_()),
    ]
)
_COMMIT = pa.struct(
    [
        ("id", pa.string()),
        ("committer", pa.string()),
        ("message", pa.string()),
        ("creation_date", pa.int64()),
        ("metadata", _TEXT_MAP),
        ("parents", pa.list_(pa.string())),
        ("metarange_id", pa.string()),
        ("metarange_file", pa.string()),
        ("metarange_sha256", pa.string()),
    ]
)
LEDGER_SCHEMA = pa.schema(
    [
        ("entry", pa.int64()),
        ("position", pa.int32()),
        ("kind", pa.string()),
        ("write_id", pa.string()),
        ("user", pa.string()),
        ("at", pa.int64()),
        ("name", pa.string()),
        ("value", pa.string()),
        ("value_before", pa.string()),
        ("details", _TEXT_MAP),
        ("idempotency_key", pa.string()),
        ("before", _REF_STATE),
        ("after", _REF_STATE),
        ("commit", _COMMIT),
    ]
)
"""``name`` is the operation's verb, the ref, the setting or the feature; ``value`` the setting's value, null where the
operation takes it away, and ``value_before`` the one that it had, null where it had none.
"""

_NUMBER_BITS = 20

Row = dict[str, Any]


def operation_rows(operation: Operation, *, user: str, at: int, write_id: str, key: str | None = None) -> list[Row]:
    """The rows of one operation, without their entry number."""
    head = {"kind": "operation", "name": operation.verb, "user": user, "at": at, "details": dict(operation.details)}
    rows = [{**head, "write_id": write_id, "idempotency_key": key}]
    rows += [{"kind": "commit", "name": record.commit.id, "commit": commit_row(record)} for record in operation.commits]
    rows += [ref_row(change) for change in operation.changes]
    rows += [setting_row(change) for change in operation.settings]
    return rows


def setting_row(change: SettingChange) -> Row:
    """The row of one setting's change."""
    return {"kind": "setting", "name": change.name, "value": change.after, "value_before": change.before}


def feature_row(name: str) -> Row:
    """A row that requires a protocol feature of every client."""
    return {"kind": "feature", "name": name, "value": "required"}


def ref_row(change: RefChange) -> Row:
    """The row of one ref change."""
    state = change.after or change.before
    if state is None:
        raise ValueError(f"a change of {change.name} from nothing to nothing")
    return {
        "kind": state.kind,
        "name": change.name,
        "before": _state_row(change.before),
        "after": _state_row(change.after),
    }


def commit_row(record: CommitRecord) -> Row:
    """The struct of one commit."""
    commit = record.commit
    return {
        "id": commit.id,
        "committer": commit.committer,
        "message": commit.message,
        "creation_date": commit.creation_date,
        "metadata": dict(commit.metadata),
        "parents": list(commit.parents),
        "metarange_id": commit.meta_range_id,
        "metarange_file": record.metarange.file,
        "metarange_sha256": record.metarange.sha256,
    }


def to_table(rows: Iterable[Row]) -> pa.Table:
    """Rows as a table; ``position`` is their order unless they carry one."""
    placed = [{"position": position, **row} for position, row in enumerate(rows)]
    return pa.Table.from_pylist(placed, schema=LEDGER_SCHEMA)


def commit_record(row: Mapping[str, Any]) -> CommitRecord:
    """A commit's record from its row (columns entry, position and commit)."""
    struct = row["commit"]
    commit = Commit(
        id=struct["id"],
        parents=tuple(struct["parents"]),
        committer=struct["committer"],
        message=struct["message"],
        creation_date=struct["creation_date"],
        meta_range_id=struct["metarange_id"],
        metadata=dict(struct["metadata"]),
    )
    metarange = FileRef(struct["metarange_file"], struct["metarange_sha256"])
    return CommitRecord(commit, metarange, (row["entry"] << _NUMBER_BITS) + row["position"])


def commit_place(record: CommitRecord) -> tuple[int, int]:
    """Entry and position of a commit's row."""
    return record.number >> _NUMBER_BITS, record.number & ((1 << _NUMBER_BITS) - 1)


def ref_change(row: Mapping[str, Any]) -> RefChange:
    """A ref change from its row."""
    return RefChange(row["name"], _state(row["kind"], row["before"]), _state(row["kind"], row["after"]))


def setting_change(row: Mapping[str, Any]) -> SettingChange:
    """A setting's change from its row."""
    return SettingChange(row["name"], row["value_before"], row["value"])


def _state_row(state: RefState | None) -> Row | None:
    if state is None:
        return None
    return {
        "commit_id": state.commit_id,
        "token": state.token,
        "sealed": [sealed._asdict() for sealed in state.sealed],
        "hidden": state.hidden,
    }


def _state(kind: Any, row: Mapping[str, Any] | None) -> RefState | None:
    if row is None:
        return None
    sealed = tuple(Sealed(item["token"], item["watermark"]) for item in row["sealed"])
    return RefState(kind, row["commit_id"], row["token"], sealed, row["hidden"])
