"""Differences between two refs, and what is uncommitted on a branch, as tables."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.algebra import changes as changes_sql
from lakespark.engine import Engine
from lakespark.errors import BadRequestException
from lakespark.operations import bases, staged, trees
from lakespark.operations.opened import EngineName, OpenRepository
from lakespark.operations.resolve import commit_record, resolve
from lakespark.operations.three_way import Sides, compare, engine_for
from lakespark.tree.metarange import Metarange

DiffType = Literal["two_dot", "three_dot"]


def diff(
    repository: OpenRepository,
    left: str,
    right: str,
    *,
    kind: DiffType = "three_dot",
    prefix: str = "",
    engine: EngineName | None = None,
) -> pa.Table:
    """Rows ``path, type, size_bytes`` in order of path: what to do to the left to get the right.

    ``two_dot`` compares the two trees. ``three_dot`` compares the right with the merge base of both, as a merge
    of the right into the left would see it: ``conflict`` where both sides changed a path differently, nothing
    where they agree. The size is that of the object on the right.
    """
    one, other = resolve(repository, left), resolve(repository, right)
    left_tree, right_tree = repository.tree(one.record), repository.tree(other.record)
    if kind == "two_dot":
        found = trees.differing(left_tree, right_tree, prefix)
        run = repository.engine(engine, found[0] + found[1])
        changes = run.keep(trees.changes_between(run, left_tree, right_tree, prefix))
        entries = trees.entries_at(run, right_tree, changes, ("path", "size_bytes"))
        return _sorted(run, run.query(changes_sql.DIFF, changes=changes, entries=entries))
    if kind != "three_dot":
        raise BadRequestException(f"unknown diff type {kind!r}: use 'two_dot' or 'three_dot'")
    common = bases.merge_bases(repository, other.commit_id, one.commit_id)
    sides = Sides(common, right_tree, left_tree, (right, left))
    run = engine_for(repository, sides, engine)
    merged = trees.below(run, compare(repository, run, sides), [prefix] if prefix else [])
    entries = trees.entries_at(run, right_tree, merged, ("path", "size_bytes"))
    return _sorted(run, run.query(changes_sql.DIFF_THREE_WAY, merged=merged, entries=entries))


def uncommitted(repository: OpenRepository, branch: str, *, prefix: str = "") -> pa.Table:
    """Rows ``path, type, size_bytes, written_by, written_at`` in order of path."""
    before = staged.newest_view(repository, branch)
    tree: Metarange = repository.tree(commit_record(repository, before.state.commit_id))
    run = repository.local_engine
    return run.collect(staged.uncommitted(run, before, tree, prefix))


def grouped(rows: pa.Table, prefix: str, delimiter: str) -> pa.Table:
    """Rows of a diff with those behind a further delimiter replaced by one row ``prefix_changed`` a folder."""
    start = len(prefix)
    paths: list[str] = rows["path"].to_pylist()
    cuts = [path.find(delimiter, start) for path in paths]
    folders = list(dict.fromkeys(p[: cut + len(delimiter)] for p, cut in zip(paths, cuts, strict=True) if cut >= 0))
    objects = rows.filter(pa.array([cut < 0 for cut in cuts], pa.bool_()))
    prefixes = pa.table({"path": pa.array(folders, pa.string()), "type": pa.repeat("prefix_changed", len(folders))})
    return pa.concat_tables([objects, prefixes], promote_options="default").sort_by("path")


def above(rows: pa.Table, after: str) -> pa.Table:
    """The rows with paths above one."""
    return rows.filter(pc.greater(rows["path"], after)) if after else rows


def _sorted(engine: Engine, rows: object) -> pa.Table:
    table = engine.collect(rows)
    return table if engine.name == "duckdb" else table.take(pc.sort_indices(table["path"]))
