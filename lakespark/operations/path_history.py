"""Which commits changed a path, or what is below a prefix, against their first parents, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from lakespark import graph
from lakespark.algebra import inspection as inspection_sql
from lakespark.engine import Engine, Frame
from lakespark.entries import ENTRY_SCHEMA
from lakespark.model import CommitRecord
from lakespark.operations import resolve, trees
from lakespark.operations.opened import OpenRepository
from lakespark.tree.metarange import Metarange, RangeRef, read_ranges_at

BATCH_ENTRIES = 2_000_000
"""In process, so many entries are compared in one query."""
RangesOfPaths = tuple[RangeRef | None, ...]
"""The range that holds each of several paths, or None where none does."""
_READ_AHEAD = 48
_LOOKS_KEPT = 4096
_PARALLEL_READS = 16
_SIDE_COLUMNS = inspection_sql.SIDE_COLUMNS
_SIDE_SCHEMA = pa.schema([("commit_id", pa.string()), *(ENTRY_SCHEMA.field(name) for name in _SIDE_COLUMNS)])
_SIDES_SCHEMA = pa.schema([("commit_id", pa.string()), ("side", pa.string()), ("range_number", pa.int64())])


class Touched(NamedTuple):
    """The ranges in which a commit's tree (``after``) and that of its first parent (``before``) differ."""

    commit_id: str
    before: tuple[RangeRef, ...]
    after: tuple[RangeRef, ...]

    @property
    def entries(self) -> int:
        """Number of entries in these ranges."""
        return sum(ref.count for ref in self.before + self.after)


def commits_of(repository: OpenRepository, reference: str | None = None) -> list[CommitRecord]:
    """The commits that a ref reaches, or all, the newest first."""
    repository.ledger.refresh()
    reached = None
    if reference is not None:
        start = resolve.resolve(repository, reference).commit_id
        reached = graph.ancestors(lambda commit: resolve.parents(repository, commit), [start])
    commits = reversed(repository.ledger.commits())
    return [record for record in commits if reached is None or record.commit.id in reached]


def read_ahead(commits: Iterable[CommitRecord], read: Callable[[CommitRecord], object]) -> Iterator[CommitRecord]:
    """The commits in their order, each after ``read``, which reads for some commits ahead and in parallel."""
    with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="lakespark") as pool:
        waiting = iter(commits)
        while chunk := list(islice(waiting, _READ_AHEAD)):
            for _ in pool.map(read, chunk):
                pass
            yield from chunk


class RangesAt:
    """The ranges that hold some paths in one commit after the other. Safe to share between threads."""

    def __init__(self, repository: OpenRepository, paths: Sequence[str]) -> None:
        self._repository = repository
        self._paths = paths
        self._nothing: RangesOfPaths = (None,) * len(paths)
        self._read = lru_cache(_LOOKS_KEPT)(lambda ref: read_ranges_at(repository.store, ref, paths))

    def after(self, record: CommitRecord) -> RangesOfPaths:
        """Those of the commit's tree."""
        return self._read(record.metarange)

    def changed(self, record: CommitRecord) -> Iterator[tuple[str, RangeRef | None, RangeRef | None]]:
        """The paths whose range differs from that of the first parent's tree, with that and their own."""
        before = self._nothing
        for parent in record.commit.parents[:1]:
            before = self.after(resolve.commit_record(self._repository, parent))
        for path, old, new in zip(self._paths, before, self.after(record), strict=True):
            if (old and old.range_id) != (new and new.range_id):
                yield path, old, new


class PathFilter:
    """Which commits changed one of some paths, or something below a prefix, against their first parents."""

    def __init__(self, repository: OpenRepository, paths: Sequence[str], prefixes: Sequence[str]) -> None:
        self._repository = repository
        self._paths = paths
        self._prefixes = prefixes
        self._ranges = RangesAt(repository, paths)
        self._identity = lru_cache(_LOOKS_KEPT)(self._read_identity)

    def read_ahead(self, commits: Iterable[CommitRecord]) -> Iterator[CommitRecord]:
        """The commits in their order, after reading what ``is_changed`` looks at."""
        return read_ahead(commits, self._read)

    def is_changed(self, record: CommitRecord) -> bool:
        """Whether the commit changed one of them."""
        return (bool(self._paths) and self._changed_path(record)) or (
            bool(self._prefixes) and self._changed_below(record)
        )

    def _read(self, record: CommitRecord) -> None:
        if self._paths:
            self._ranges.after(record)
        if self._prefixes:
            self._repository.tree(record)

    def _changed_path(self, record: CommitRecord) -> bool:
        return any(
            self._identity(before, path) != self._identity(after, path)
            for path, before, after in self._ranges.changed(record)
        )

    def _changed_below(self, record: CommitRecord) -> bool:
        repository = self._repository
        before, after = _trees_of(repository, record)
        run = repository.local_engine
        return before.id != after.id and any(
            run.collect(trees.changes_between(run, before, after, prefix)).num_rows for prefix in self._prefixes
        )

    def _read_identity(self, ref: RangeRef | None, path: str) -> str | None:
        if ref is None:
            return None
        (entry,) = self._repository.local_engine.reader.entry_in_each([ref], path, ("identity",))
        return None if entry is None else entry["identity"]


def of_path(repository: OpenRepository, commits: Sequence[CommitRecord], path: str) -> Frame:
    """What the commits changed at one path: an in-process frame of ``algebra.inspection.HISTORY``.

    Looks into a file once, however many commits have it.
    """
    touched = list(_touched_at(repository, commits, path))
    ranges = {ref.file: ref for one in touched for ref in one.before + one.after}
    run = repository.local_engine
    found = run.reader.entry_in_each(list(ranges.values()), path, _SIDE_COLUMNS[1:])
    entries = dict(zip(ranges, found, strict=True))

    def side(commit_id: str, refs: tuple[RangeRef, ...]) -> list[dict[str, Any]]:
        return [{"commit_id": commit_id, **entry} for ref in refs if (entry := entries[ref.file]) is not None]

    left = [row for one in touched for row in side(one.commit_id, one.before)]
    right = [row for one in touched for row in side(one.commit_id, one.after)]
    return run.query(
        inspection_sql.HISTORY,
        left=pa.Table.from_pylist(left, schema=_SIDE_SCHEMA),
        right=pa.Table.from_pylist(right, schema=_SIDE_SCHEMA),
        namespace=namespace(repository, run),
    )


def of_prefix(
    repository: OpenRepository, engine: Engine, commits: Sequence[CommitRecord], prefix: str
) -> Iterator[Frame]:
    """What the commits changed below a prefix: frames of ``algebra.inspection.HISTORY``.

    One frame on Spark; in process one or more, each over so many entries, so that memory is bounded.
    """
    largest = BATCH_ENTRIES if engine.name == "duckdb" else None
    for batch in _batches(_touched(repository, commits, prefix), largest):
        yield _compared(engine, batch, prefix, namespace(repository, engine))


def namespace(repository: OpenRepository, engine: Engine) -> Frame:
    """The frame ``namespace`` of ``algebra.inspection``."""
    location = repository.store.location
    percent = "%25" if location.scheme == "file" else "%"
    return engine.frame(pa.table({"url": [location.url], "percent": [percent]}))


def _touched_at(repository: OpenRepository, commits: Sequence[CommitRecord], path: str) -> Iterator[Touched]:
    ranges = RangesAt(repository, [path])
    for record in read_ahead(commits, ranges.after):
        for _, before, after in ranges.changed(record):
            yield Touched(record.commit.id, (before,) if before else (), (after,) if after else ())


def _touched(repository: OpenRepository, commits: Sequence[CommitRecord], prefix: str) -> Iterator[Touched]:
    for record in read_ahead(commits, repository.tree):
        before, after = _trees_of(repository, record)
        touched = Touched(record.commit.id, *trees.differing(before, after, prefix))
        if touched.before or touched.after:
            yield touched


def _trees_of(repository: OpenRepository, record: CommitRecord) -> tuple[Metarange, Metarange]:
    """The tree of a commit's first parent, empty where there is none, and its own."""
    tree = repository.tree(record)
    for parent in record.commit.parents[:1]:
        return repository.tree(resolve.commit_record(repository, parent)), tree
    return Metarange(tree.threshold, ()), tree


def _batches(touched: Iterator[Touched], largest: int | None) -> Iterator[list[Touched]]:
    batch: list[Touched] = []
    size = 0
    for one in touched:
        batch.append(one)
        size += one.entries
        if largest is not None and size >= largest:
            yield batch
            batch, size = [], 0
    yield batch


def _compared(engine: Engine, batch: Sequence[Touched], prefix: str, place: Frame) -> Frame:
    ranges = list({ref.file: ref for one in batch for ref in one.before + one.after}.values())
    numbers = {ref.file: number for number, ref in enumerate(ranges)}
    rows = [
        {"commit_id": one.commit_id, "side": side, "range_number": numbers[ref.file]}
        for one in batch
        for side, refs in (("before", one.before), ("after", one.after))
        for ref in refs
    ]
    sides = engine.frame(pa.Table.from_pylist(rows, schema=_SIDES_SCHEMA))
    entries = trees.below(engine, engine.read_numbered(ranges, _SIDE_COLUMNS), [prefix] if prefix else [])
    left, right = (
        engine.query(inspection_sql.OF_COMMITS % side, entries=entries, sides=sides) for side in ("before", "after")
    )
    return engine.query(inspection_sql.HISTORY, left=left, right=right, namespace=place)
