"""Which paths of which commits, branches and tags hold one physical object."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from lakespark.algebra import inspection as inspection_sql
from lakespark.engine import Engine
from lakespark.errors import BadRequestException, InvalidUriError
from lakespark.model import RefState
from lakespark.operations import staged
from lakespark.operations.opened import OpenRepository
from lakespark.operations.path_history import BATCH_ENTRIES, commits_of, read_ahead
from lakespark.operations.resolve import commit_record
from lakespark.storage import parse_location
from lakespark.tree.metarange import RangeRef

_ADDRESS_COLUMNS = ("path", "physical_address")


class Holder(NamedTuple):
    """A commit, branch or tag that has an object at a path.

    ``commit_id``: the commit itself, or the ref's. ``uncommitted``: staged on the branch.
    """

    path: str
    kind: str
    name: str
    commit_id: str
    uncommitted: bool = False


def locate(repository: OpenRepository, engine: Engine, physical_address: str) -> list[Holder]:
    """Branches and tags by name, then commits, the newest first. Reads every range of every commit once."""
    addresses = _addresses(repository, physical_address)
    paths = _paths_by_commit(repository, engine, addresses)
    found = []
    for name, state in sorted(repository.ledger.refs().items()):
        committed = [Holder(path, state.kind, name, state.commit_id) for path in paths.get(state.commit_id, [])]
        found += committed if state.kind == "tag" else _on_branch(repository, name, state, committed, addresses)
    found += [Holder(path, "commit", commit_id, commit_id) for commit_id, held in paths.items() for path in held]
    return found


def _addresses(repository: OpenRepository, given: str) -> pa.Table:
    """The ways in which an entry may have written the address."""
    if not given:
        raise BadRequestException("which object is to be located? Give a physical address: a key or a full URL")
    ways = {given}
    if "://" in given or given.startswith("/"):
        with contextlib.suppress(InvalidUriError):  # of a store that cannot be opened, and an address all the same
            url = parse_location(given).url
            ways |= {url, repository.relative_address(url)}
    return pa.table({"physical_address": sorted(ways)})


def _paths_by_commit(repository: OpenRepository, engine: Engine, addresses: pa.Table) -> dict[str, list[str]]:
    ranges: dict[str, RangeRef] = {}
    commits: dict[str, list[str]] = {}
    records = commits_of(repository)
    for record in read_ahead(records, repository.tree):
        for ref in repository.tree(record).ranges:
            ranges.setdefault(ref.file, ref)
            commits.setdefault(ref.file, []).append(record.commit.id)
    paths: dict[str, list[str]] = {}
    for file, path in _hits(engine, list(ranges.values()), addresses):
        for commit_id in commits[file]:
            paths.setdefault(commit_id, []).append(path)
    return {record.commit.id: sorted(paths[record.commit.id]) for record in records if record.commit.id in paths}


def _hits(engine: Engine, ranges: Sequence[RangeRef], addresses: pa.Table) -> Iterator[tuple[str, str]]:
    """File and path of the entries at the address."""
    wanted = engine.frame(addresses)
    for batch in [ranges] if engine.name == "spark" else _batches(ranges):
        entries = engine.read_numbered(batch, _ADDRESS_COLUMNS)
        rows = engine.collect(engine.query(inspection_sql.AT_ADDRESS, entries=entries, addresses=wanted)).to_pylist()
        yield from ((batch[row["range_number"]].file, row["path"]) for row in rows)


def _batches(ranges: Sequence[RangeRef]) -> Iterator[Sequence[RangeRef]]:
    start = size = 0
    for number, ref in enumerate(ranges):
        size += ref.count
        if size >= BATCH_ENTRIES:
            yield ranges[start : number + 1]
            start, size = number + 1, 0
    if start < len(ranges):
        yield ranges[start:]


def _on_branch(
    repository: OpenRepository, name: str, state: RefState, committed: list[Holder], addresses: pa.Table
) -> list[Holder]:
    """What the branch holds with what is staged there."""
    view = staged.view(repository, state)
    if not view.rows().num_rows:
        return committed
    run = repository.local_engine
    tree = repository.tree(commit_record(repository, state.commit_id))
    held = pa.table({"path": pa.array([holder.path for holder in committed], pa.string())})
    frames = {"held": held, "changes": staged.changes(run, view, tree), "addresses": addresses}
    rows = run.collect(run.query(inspection_sql.HELD, **frames)).to_pylist()
    return [Holder(row["path"], "branch", name, state.commit_id, row["uncommitted"]) for row in rows]
