"""The staging tables that branches name: there, whole, and their rows well-formed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.model import RefState
from lakespark.operations.fsck.entries import wrong_entries
from lakespark.operations.fsck.report import Finding
from lakespark.operations.fsck.run import RESTORE, Found, Run
from lakespark.operations.fsck.tables import read_files, read_log
from lakespark.tables.staging import ROOT, STAGING_SCHEMA

_OPS = pa.array(["put", "delete", "reset", "delete-prefix", "reset-prefix"])
_OBJECT_COLUMNS = ("op", "path", "physical_address", "size_bytes", "checksum")


class Use(NamedTuple):
    """A branch's use of a staging token: it shows the rows of entries above the watermark."""

    branch: str
    token: str
    watermark: int


class StagedObject(NamedTuple):
    """An uncommitted object."""

    path: str
    physical_address: str
    size_bytes: int
    checksum: str


def check_staging(
    run: Run, refs: Mapping[str, RefState], *, with_objects: bool
) -> tuple[dict[str, list[StagedObject]], list[Found]]:
    """The uncommitted objects of each branch, if asked for, and what is wrong with the staging tables."""
    found: list[Found] = []
    staged: dict[str, list[StagedObject]] = {}
    known: dict[str, tuple[int, pa.Table]] = {}
    uses = {name: _uses(name, state) for name, state in sorted(refs.items()) if state.kind == "branch"}
    for branch, tokens in uses.items():
        visible: dict[str, StagedObject] = {}
        for use in tokens:
            if use.token not in known:
                users = tuple(name for name, all_uses in uses.items() if use.token in {u.token for u in all_uses})
                version, rows, problems = _check_table(run, use.token, keeps_rows=with_objects)
                known[use.token] = version, rows
                found += [Found(problem, refs=users) for problem in problems]
            version, rows = known[use.token]
            if 0 <= version < use.watermark:
                found.append(Found(_lost_entries(use, version), refs=(branch,)))
            _lay_over(visible, rows.filter(pc.greater(rows["entry"], use.watermark)))
        staged[branch] = list(visible.values())
    return staged, found


def _uses(branch: str, state: RefState) -> list[Use]:
    sealed = [Use(branch, sealed.token, sealed.watermark) for sealed in state.sealed]
    return [*sealed, Use(branch, state.token, 0)]


def _lost_entries(use: Use, version: int) -> Finding:
    problem = f"branch {use.branch} has committed it up to entry {use.watermark}"
    return Finding("missing", "staging table", f"{ROOT}/{use.token}", problem, str(use.watermark), str(version))


def _check_table(run: Run, token: str, *, keeps_rows: bool) -> tuple[int, pa.Table, list[Finding]]:
    """Version and rows of a token's table, and what is wrong with it."""
    root = f"{ROOT}/{token}"
    log = read_log(run, root)
    if log.version < 0:
        gone = Finding("missing", "staging table", root, "a branch names its token", mend=RESTORE)
        return -1, STAGING_SCHEMA.empty_table(), [gone]
    tables, problems = [STAGING_SCHEMA.empty_table()], []
    for file, table in read_files(run, log, STAGING_SCHEMA):
        if table is None:
            continue
        run.count(staged_rows=table.num_rows)
        problems += [
            Finding("inconsistent", "table file", f"{root}/{file.name}", problem, mend=RESTORE)
            for problem in _wrong_rows(run, table)
        ]
        if keeps_rows:
            tables.append(table.select(["entry", "position", *_OBJECT_COLUMNS]))
    kept = (
        pa.concat_tables(tables[1:]).sort_by([("entry", "ascending"), ("position", "ascending")])
        if tables[1:]
        else tables[0]
    )
    return log.version, kept, [*log.findings, *problems]


def _wrong_rows(run: Run, table: pa.Table) -> Iterator[str]:
    known = pc.is_in(table["op"], _OPS)
    if not pc.all(known, min_count=0).as_py():
        yield f"it has the unknown operation {table['op'][pc.index(known, value=False).as_py()].as_py()!r}"
    if table["path"].null_count:
        yield "it has a row without a path"
    yield from wrong_entries(run.opened, table.filter(pc.equal(table["op"], "put")))


def _lay_over(visible: dict[str, StagedObject], rows: pa.Table) -> None:
    """What later rows do to the objects that a branch shows."""
    columns = (rows[name].to_pylist() for name in _OBJECT_COLUMNS)
    for op, path, address, size, checksum in zip(*columns, strict=True):
        if op == "put":
            visible[path] = StagedObject(path, address, size, checksum)
        elif op in ("delete", "reset"):
            visible.pop(path, None)
        else:
            for covered in [known for known in visible if known.startswith(path)]:
                del visible[covered]
