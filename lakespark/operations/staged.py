"""What a branch has staged: the rows of its tokens, folded to changes, and the look-up of one path."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakespark.algebra import staged as staged_sql
from lakespark.engine import Engine, Frame
from lakespark.entries import IDENTITY_COLUMNS, is_ascending
from lakespark.errors import MissingFileError
from lakespark.model import RefState, Sealed
from lakespark.names import prefix_end
from lakespark.operations import trees
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import branch_state
from lakespark.tables.staging import StagedPart, StagedRow
from lakespark.tree.metarange import Metarange, RangeRef

_TRIES = 5


@dataclass(frozen=True)
class StagedView:
    """What the tokens of one state of a branch hold, oldest first, each above the watermark that is committed."""

    state: RefState
    parts: tuple[StagedPart, ...]

    @property
    def watermark(self) -> int:
        """How far the current token was read for this view."""
        return self.parts[-1].version

    def rows(self) -> pa.Table:
        """Every staged row with ``number`` in the order of writing."""
        rows = pa.concat_tables([part.rows() for part in self.parts])
        return rows.append_column("number", pa.array(np.arange(rows.num_rows)))

    def look_up(self, path: str) -> StagedRow | None:
        """The newest row that covers a path, or None."""
        for part in reversed(self.parts):
            found = part.look_up(path)
            if found is not None:
                return found
        return None


def view(repository: OpenRepository, state: RefState) -> StagedView:
    """The staged rows of a state of a branch, followed to their newest. Raises MissingFileError."""
    above = [(sealed.token, sealed.watermark) for sealed in state.sealed] + [(state.token, 0)]
    return StagedView(
        state, tuple(repository.ledger.background.each(lambda at: repository.staging(at[0]).read(at[1]), above))
    )


def newest_view(repository: OpenRepository, branch: str) -> StagedView:
    """The staged rows of a branch now. A missing staging table has the ref read again: it may be stale."""
    for _ in range(_TRIES):
        state = branch_state(repository, branch)
        try:
            return view(repository, state)
        except MissingFileError:
            if branch_state(repository, branch) == state:
                raise
    return view(repository, branch_state(repository, branch))


def taken_in(repository: OpenRepository, staged: StagedView, commit_id: str) -> RefState:
    """The branch at a commit that stands for all that the view holds: it stages under a fresh token.

    The old one is sealed with the view's watermark: what came later stays uncommitted.
    """
    sealed = (Sealed(staged.state.token, staged.watermark),)
    return replace(staged.state, commit_id=commit_id, token=repository.new_staging(), sealed=sealed)


def changes(engine: Engine, staged: StagedView, base: Metarange) -> Frame:
    """Staged rows to changes: for each path that staging covers, ``op`` (put or delete) and the entry."""
    rows = staged.rows()
    if _is_plain(rows):
        return engine.frame(rows)
    prefixes = rows.filter(pc.match_substring(rows["op"], "-prefix"))
    if not prefixes.num_rows:
        return engine.keep(engine.query(staged_sql.NEWEST, staged=engine.frame(rows)))
    deleted = prefixes.filter(pc.equal(prefixes["op"], "delete-prefix"))["path"].to_pylist()
    committed = engine.read_ranges(_ranges_below(base, deleted), ("path",))
    if deleted:
        committed = trees.below(engine, committed, deleted)
    return engine.keep(engine.query(staged_sql.NEWEST_WITH_PREFIXES, staged=engine.frame(rows), committed=committed))


def reach(staged: StagedView, base: Metarange) -> tuple[tuple[RangeRef, ...], int | None]:
    """Where in the tree what is staged lies, and how many paths it covers at most: None where prefixes say."""
    rows = staged.rows()
    if pc.any(pc.match_substring(rows["op"], "-prefix")).as_py():
        return base.ranges, None
    if not rows.num_rows:
        return (), 0
    ends = pc.min_max(rows["path"]).as_py()
    return base.between(ends["min"], f"{ends['max']}\0"), rows.num_rows


def uncommitted(engine: Engine, staged: StagedView, base: Metarange, prefix: str = "") -> Frame:
    """What really differs from the committed state, in order of path, with who wrote it and when."""
    found = engine.keep(trees.below(engine, changes(engine, staged, base), [prefix] if prefix else []))
    committed = trees.entries_at(engine, base, found, IDENTITY_COLUMNS)
    return engine.query(staged_sql.UNCOMMITTED, changes=found, committed=committed)


def _is_plain(rows: pa.Table) -> bool:
    """Whether the rows are puts and deletes of ascending paths, and so changes as they stand."""
    if not is_ascending(rows["path"]):
        return False
    return bool(pc.all(pc.is_in(rows["op"], pa.array(["put", "delete"]))).as_py()) or not rows.num_rows


def _ranges_below(base: Metarange, prefixes: list[str]) -> list[RangeRef]:
    found = {ref.file: ref for prefix in prefixes for ref in base.between(prefix, prefix_end(prefix))}
    return list(found.values())
