"""The version metadata of a repository as tables, to query in SQL.

Times are in unix seconds, sizes in bytes, physical addresses full URLs. ``docs/sql.md`` shows what to ask them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.algebra import inspection as inspection_sql
from lakespark.algebra import overlay as overlay_sql
from lakespark.engine import Engine, Frame
from lakespark.entries import ENTRY_COLUMNS, ENTRY_SCHEMA
from lakespark.errors import BadRequestException
from lakespark.names import check_path
from lakespark.operations import locating, path_history, staged, trees
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import commit_record, resolve
from lakespark.tree.metarange import RangeRef

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
    ]
)
"""A row for each ref that an operation changed; ``ref`` is null in the row of one that changed none.

A null commit id is a ref that did not exist.
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

    Each call looks at the repository anew, and what it gives never changes. Arrow tables come in order; DataFrames
    in none, and what is large is read when they are evaluated.
    """

    def __init__(self, repository: OpenRepository, spark: SparkSession | None = None) -> None:
        self._repository = repository
        self._spark = spark

    def commits(self) -> Any:
        """Every commit, reachable or not, the newest first: ``COMMITS_SCHEMA``."""
        commits = (record for record in path_history.commits_of(self._repository, None))
        rows = (
            {**record.commit._asdict(), "number": record.number, "first_parent": next(iter(record.commit.parents), None)}
            for record in commits
        )
        return self._from_rows(rows, COMMITS_SCHEMA)

    def refs(self) -> Any:
        """Branches and tags in order of name, with the commits that they are at now: ``REFS_SCHEMA``."""
        self._repository.ledger.refresh()
        rows = (
            {"name": name, "kind": state.kind, "commit_id": state.commit_id, "hidden": state.hidden}
            for name, state in sorted(self._repository.ledger.refs().items())
        )
        return self._from_rows(rows, REFS_SCHEMA)

    def operations(self) -> Any:
        """Every operation, the newest first: ``OPERATIONS_SCHEMA``."""
        self._repository.ledger.refresh()
        rows = (
            {**info._asdict(), **change}
            for info, changes in self._repository.ledger.operations()
            for change in [_ref_change(change) for change in changes] or [{}]
        )
        return self._from_rows(rows, OPERATIONS_SCHEMA)

    def entries(self, ref: str | Reference, prefix: str = "") -> Any:
        """The objects at a ref, uncommitted ones of a branch included, in order of path: ``ENTRIES_SCHEMA``."""
        run, at = self._engine, resolve(self._repository, str(ref))
        tree, changes = self._repository.tree(at.record), None
        if at.branch is not None:
            view = staged.newest_view(self._repository, at.expression)
            tree = self._repository.tree(commit_record(self._repository, view.state.commit_id))
            changes = staged.changes(run, view, tree) if view.rows().num_rows else None
        found = run.read_ranges(tree.with_prefix(prefix), ENTRY_COLUMNS)
        if changes is not None:
            found = run.query(overlay_sql.OVERLAY, base=found, changes=changes)
        found = trees.below(run, found, [prefix] if prefix else [])
        found = run.query(inspection_sql.ENTRIES, entries=found, namespace=self._namespace)
        return self._in_order(found, ENTRIES_SCHEMA)

    def changes(self, left: str | Reference, right: str | Reference, prefix: str = "") -> Any:
        """What to do to the left ref's commit to get the right one's, in order of path: ``CHANGES_SCHEMA``."""
        run = self._engine
        one, other = (self._repository.tree(resolve(self._repository, str(ref)).record) for ref in (left, right))
        sides = [run.read_ranges(ranges, _SIDE) for ranges in trees.differing(one, other, prefix)]
        before, after = (trees.below(run, side, [prefix] if prefix else []) for side in sides)
        found = run.query(inspection_sql.CHANGES, left=before, right=after, namespace=self._namespace)
        return self._in_order(found, CHANGES_SCHEMA)

    def uncommitted(self, branch: str | Reference, prefix: str = "") -> Any:
        """What differs on a branch from its commit, in order of path, who wrote it and when: ``UNCOMMITTED_SCHEMA``."""
        run, view = self._engine, staged.newest_view(self._repository, str(branch))
        tree = self._repository.tree(commit_record(self._repository, view.state.commit_id))
        changes = run.keep(trees.below(run, staged.changes(run, view, tree), [prefix] if prefix else []))
        committed = trees.entries_at(run, tree, changes, _SIDE)
        found = run.query(
            inspection_sql.UNCOMMITTED, changes=changes, committed=committed, namespace=self._namespace
        )
        return self._in_order(found, UNCOMMITTED_SCHEMA)

    def history(
        self, path: str | None = None, *, prefix: str | None = None, ref: str | Reference | None = None
    ) -> Any:
        """What each commit changed against its first parent, the newest commit first: ``HISTORY_SCHEMA``.

        At one path, below a prefix, or everywhere. ``ref``: only commits that it reaches.
        """
        if path is not None and prefix is not None:
            raise BadRequestException("history takes a path or a prefix, not both")
        commits = path_history.commits_of(self._repository, None if ref is None else str(ref))
        order = [record.commit.id for record in commits]
        if path is not None:
            found = path_history.of_path(self._repository, commits, check_path(path))
            return self._from_table(_by_commit(self._local.collect(found), order))
        frames = path_history.of_prefix(self._repository, self._engine, commits, prefix or "")
        if self._spark is not None:
            return next((_selected(frame, HISTORY_SCHEMA) for frame in frames), None) or self._from_rows(
                (), HISTORY_SCHEMA
            )
        parts = [self._local.collect(frame).cast(HISTORY_SCHEMA) for frame in frames]
        return _by_commit(pa.concat_tables([HISTORY_SCHEMA.empty_table(), *parts]), order)

    def locate(self, physical_address: str) -> Any:
        """Branches, tags and commits that hold an object, and where: ``LOCATIONS_SCHEMA``.

        ``physical_address``: relative to the storage namespace, or a full URL. Reads every range there is.
        """
        found = locating.locate(self._repository, self._engine, physical_address)
        return self._from_rows((holder._asdict() for holder in found), LOCATIONS_SCHEMA)
