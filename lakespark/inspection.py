"""The version metadata of a repository as tables, to query in SQL.

Times are in unix seconds, sizes in bytes, physical addresses full URLs. ``docs/sql.md`` shows what to ask them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.algebra import inspection as inspection_sql
from lakespark.algebra import overlay as overlay_sql
from lakespark.engine import Engine, Frame
from lakespark.entries import ENTRY_COLUMNS, ENTRY_SCHEMA
from lakespark.errors import BadRequestException
from lakespark.model import RefChange
from lakespark.names import check_path
from lakespark.operations import locating, path_history, staged, trees
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import commit_record, resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakespark.reference import Reference

_TEXT_MAP = pa.map_(pa.string(), pa.string())

COMMITS_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("number", pa.int64()),
        ("parents", pa.list_(pa.string())),
        ("first_parent", pa.string()),
        ("committer", pa.string()),
        ("message", pa.string()),
        ("creation_date", pa.int64()),
        ("metadata", _TEXT_MAP),
        ("meta_range_id", pa.string()),
    ]
)
"""``number`` grows from a commit to each of its children. The first commit has no ``first_parent``."""

REFS_SCHEMA = pa.schema(
    [("name", pa.string()), ("kind", pa.string()), ("commit_id", pa.string()), ("hidden", pa.bool_())]
)
"""``kind``: branch or tag. ``hidden``: the branch of a transaction that is under way or was left behind."""

OPERATIONS_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("verb", pa.string()),
        ("user", pa.string()),
        ("at", pa.int64()),
        ("details", _TEXT_MAP),
        ("ref", pa.string()),
        ("kind", pa.string()),
        ("before_commit_id", pa.string()),
        ("after_commit_id", pa.string()),
        ("id", pa.string()),
        ("undone_by", pa.string()),
        ("idempotency_key", pa.string()),
    ]
)
"""A row for each ref that an operation changed; ``ref`` is null in the row of one that changed none.

A null commit id is a ref that did not exist. ``undone_by``: id of the operation that has undone it and stands.
``idempotency_key``: its caller's name for it, null if it has none.
"""

ENTRIES_SCHEMA = ENTRY_SCHEMA

CHANGES_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("type", pa.string()),
        ("before_identity", pa.string()),
        ("before_size_bytes", pa.int64()),
        ("before_physical_address", pa.string()),
        ("after_identity", pa.string()),
        ("after_size_bytes", pa.int64()),
        ("after_physical_address", pa.string()),
    ]
)
"""``type``: added, removed or changed. A side that has no object is null."""

UNCOMMITTED_SCHEMA = pa.schema([*CHANGES_SCHEMA, ("written_by", pa.string()), ("written_at", pa.int64())])

HISTORY_SCHEMA = pa.schema([pa.field("commit_id", pa.string()), *CHANGES_SCHEMA])
"""``before`` is the first parent of the commit, ``after`` the commit."""

LOCATIONS_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("commit_id", pa.string()),
        ("uncommitted", pa.bool_()),
    ]
)
"""``kind``: branch, tag or commit, and ``name`` which. ``uncommitted``: staged on the branch."""

_SIDE = inspection_sql.SIDE_COLUMNS


class Inspection:
    """The metadata of a repository as Arrow tables, or as DataFrames of a SparkSession.

    Each call looks at the repository anew, and what it gives does not change any more. Arrow tables come in order,
    DataFrames in none; what may be large, a DataFrame reads when it is evaluated.
    """

    def __init__(self, repository: OpenRepository, spark: SparkSession | None = None) -> None:
        self._repository = repository
        self._engine: Engine = repository.local_engine if spark is None else _spark_engine(spark, repository)

    def commits(self) -> Any:
        """Every commit, reachable or not, the newest first: ``COMMITS_SCHEMA``."""
        rows = [
            {**commit._asdict(), "number": record.number, "first_parent": commit.parents[0] if commit.parents else None}
            for record in path_history.commits_of(self._repository)
            for commit in (record.commit,)
        ]
        return self._from_rows(rows, COMMITS_SCHEMA)

    def refs(self) -> Any:
        """Branches and tags in order of name, with the commits that they are at: ``REFS_SCHEMA``."""
        self._repository.ledger.refresh()
        rows = [
            {"name": name, "kind": state.kind, "commit_id": state.commit_id, "hidden": state.hidden}
            for name, state in sorted(self._repository.ledger.refs().items())
        ]
        return self._from_rows(rows, REFS_SCHEMA)

    def operations(self) -> Any:
        """Every operation, the newest first: ``OPERATIONS_SCHEMA``."""
        self._repository.ledger.refresh()
        rows = [
            {**info._asdict(), **ref}
            for info, changes in self._repository.ledger.operations()
            for ref in [_changed_ref(change) for change in changes] or [{}]
        ]
        return self._from_rows(rows, OPERATIONS_SCHEMA)

    def entries(self, ref: str | Reference, prefix: str = "") -> Any:
        """The objects at a ref, uncommitted ones of a branch included, in order of path: ``ENTRIES_SCHEMA``."""
        run, at = self._engine, resolve(self._repository, str(ref))
        view = None if at.branch is None else staged.newest_view(self._repository, at.expression)
        record = at.record if view is None else commit_record(self._repository, view.state.commit_id)
        tree = self._repository.tree(record)
        found = run.read_ranges(tree.with_prefix(prefix), ENTRY_COLUMNS)
        if view is not None and view.rows().num_rows:
            found = run.query(overlay_sql.OVERLAY, base=found, changes=staged.changes(run, view, tree))
        return self._by_path(inspection_sql.ENTRIES, ENTRIES_SCHEMA, entries=self._below(found, prefix))

    def changes(self, left: str | Reference, right: str | Reference, prefix: str = "") -> Any:
        """What to do to the left ref's commit to get the right one's, in order of path: ``CHANGES_SCHEMA``."""
        trees_of = [self._repository.tree(resolve(self._repository, str(ref)).record) for ref in (left, right)]
        before, after = (
            self._below(self._engine.read_ranges(ranges, _SIDE), prefix)
            for ranges in trees.differing(trees_of[0], trees_of[1], prefix)
        )
        return self._by_path(inspection_sql.CHANGES, CHANGES_SCHEMA, left=before, right=after)

    def uncommitted(self, branch: str | Reference, prefix: str = "") -> Any:
        """What a branch has staged that its commit has not, in order of path: ``UNCOMMITTED_SCHEMA``."""
        run, view = self._engine, staged.newest_view(self._repository, str(branch))
        tree = self._repository.tree(commit_record(self._repository, view.state.commit_id))
        changes = run.keep(self._below(staged.changes(run, view, tree), prefix))
        committed = trees.entries_at(run, tree, changes, _SIDE)
        return self._by_path(inspection_sql.UNCOMMITTED, UNCOMMITTED_SCHEMA, changes=changes, committed=committed)

    def history(self, path: str | None = None, *, prefix: str | None = None, ref: str | Reference | None = None) -> Any:
        """What each commit changed against its first parent, the newest commit first: ``HISTORY_SCHEMA``.

        At one path, below a prefix, or anywhere. ``ref``: only commits that it reaches.
        """
        if path is not None and prefix is not None:
            raise BadRequestException("history is that of a path or of a prefix, not of both")
        commits = path_history.commits_of(self._repository, None if ref is None else str(ref))
        if path is None and self._engine.name == "spark":
            frames = path_history.of_prefix(self._repository, self._engine, commits, prefix or "")
            return next(frame.select(*HISTORY_SCHEMA.names) for frame in frames)
        run = self._repository.local_engine
        found: Iterable[Frame] = (
            path_history.of_prefix(self._repository, run, commits, prefix or "")
            if path is None
            else [path_history.of_path(self._repository, commits, check_path(path))]
        )
        rows = pa.concat_tables(run.collect(frame).cast(HISTORY_SCHEMA) for frame in found)
        return self._given(_newest_first(rows, [record.commit.id for record in commits]))

    def locate(self, physical_address: str) -> Any:
        """The branches, tags and commits that hold an object, and at which path: ``LOCATIONS_SCHEMA``.

        ``physical_address``: a full URL, or relative to the storage namespace. Reads every range that there is.
        """
        found = locating.locate(self._repository, self._engine, physical_address)
        return self._from_rows([holder._asdict() for holder in found], LOCATIONS_SCHEMA)

    def _below(self, rows: Frame, prefix: str) -> Frame:
        return trees.below(self._engine, rows, [prefix] if prefix else [])

    def _by_path(self, sql: str, schema: pa.Schema, **frames: Frame) -> Any:
        """A query of ``algebra.inspection`` over frames, given away."""
        run = self._engine
        found = run.query(sql, namespace=path_history.namespace(self._repository, run), **frames)
        if run.name == "spark":
            return found
        return run.collect(run.query("select * from {found} order by path", found=found)).cast(schema)

    def _from_rows(self, rows: list[dict[str, Any]], schema: pa.Schema) -> Any:
        return self._given(pa.Table.from_pylist(rows, schema=schema))

    def _given(self, table: pa.Table) -> Any:
        """A table as what the caller asked for."""
        return self._engine.frame(table)


def _spark_engine(spark: SparkSession, repository: OpenRepository) -> Engine:
    from lakespark.engine.spark import SparkEngine  # noqa: PLC0415 - needs pyspark

    return SparkEngine(spark, repository.store, lasting=True)


def _changed_ref(change: RefChange) -> dict[str, str | None]:
    states = [state for state in (change.before, change.after) if state is not None]
    return {
        "ref": change.name,
        "kind": states[-1].kind,
        "before_commit_id": None if change.before is None else change.before.commit_id,
        "after_commit_id": None if change.after is None else change.after.commit_id,
    }


def _newest_first(history: pa.Table, commit_ids: list[str]) -> pa.Table:
    """The rows in the order of the commits, then of their paths."""
    place = pc.index_in(history["commit_id"], pa.array(commit_ids, pa.string()))
    return history.append_column("place", place).sort_by([("place", "ascending"), ("path", "ascending")]).drop("place")
