"""The operations log: what was done to a repository, read from the rows of its ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import pyarrow as pa

from lakespark.model import OperationInfo, RefChange
from lakespark.tables import ledger_rows

_NEWEST_FIRST = [("entry", "descending"), ("position", "ascending")]


def operations(tables: Iterable[pa.Table]) -> Iterator[tuple[OperationInfo, tuple[RefChange, ...]]]:
    """Operations with their ref changes, the newest first, from tables of rows of which the newest come first."""
    undone_by: dict[str, str] = {}
    for table in tables:
        for _, rows in groupby(table.sort_by(_NEWEST_FIRST).to_pylist(), key=lambda row: row["entry"]):
            info, changes = operation(list(rows))
            info = info._replace(undone_by=undone_by.get(info.id))
            if info.undoes is not None and info.undone_by is None:
                undone_by[info.undoes] = info.id
            yield info, changes


def operation(rows: list[ledger_rows.Row]) -> tuple[OperationInfo, tuple[RefChange, ...]]:
    """An operation from all the rows of its entry, of which its own is the first."""
    head = rows[0]
    info = OperationInfo(
        number=head["entry"],
        verb=head["name"],
        user=head["user"],
        at=head["at"],
        details=dict(head["details"] or ()),
        id=head["write_id"],
        commits=tuple(row["name"] for row in rows if row["kind"] == "commit"),
        settings=tuple(ledger_rows.setting_change(row) for row in rows if row["kind"] == "setting"),
        idempotency_key=head.get("idempotency_key"),
    )
    return info, tuple(ledger_rows.ref_change(row) for row in rows if row["kind"] in ("branch", "tag"))
