"""The log: commits in order, from where, how far, and which of them changed some paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakespark import graph
from lakespark.model import CommitRecord
from lakespark.operations import resolve
from lakespark.operations.opened import OpenRepository
from lakespark.tree.metarange import Metarange


@dataclass(frozen=True)
class LogQuery:
    """What a log shows.

    ``objects`` and ``prefixes``: only commits that changed one of these against their first parent.
    ``since``: only commits of that unix second or later. ``stop_at``: a ref expression; that commit is the last
    one shown. ``first_parent``: follow first parents only. ``limit``: at most so many.
    """

    objects: Sequence[str] = ()
    prefixes: Sequence[str] = ()
    since: int | None = None
    stop_at: str | None = None
    first_parent: bool = False
    limit: int | None = None


def log(repository: OpenRepository, reference: str, query: LogQuery) -> Iterator[CommitRecord]:
    """Commits reachable from a ref, a child always before its parents, otherwise the newest first."""
    start = resolve.resolve(repository, reference)
    stop = resolve.resolve(repository, query.stop_at).commit_id if query.stop_at else None
    shown = 0
    for record in _records(repository, start.commit_id, query):
        if query.limit is not None and shown >= query.limit:
            return
        if _is_shown(repository, record, query):
            yield record
            shown += 1
        if record.commit.id == stop:
            return


def changed_paths(repository: OpenRepository, record: CommitRecord, query: LogQuery) -> bool:
    """Whether a commit changed one of the query's objects or prefixes against its first parent."""
    tree = repository.tree(record)
    first = record.commit.parents[:1]
    before = repository.tree(resolve.commit_record(repository, first[0])) if first else Metarange(tree.threshold, ())
    if tree.id == before.id:
        return False
    return any(_changed_object(repository, before, tree, path) for path in query.objects) or any(
        _changed_prefix(repository, before, tree, prefix) for prefix in query.prefixes
    )


def _records(repository: OpenRepository, start: str, query: LogQuery) -> Iterator[CommitRecord]:
    """The commits in order, with their trees read ahead where the query looks into trees."""
    commit_ids = _ordered(repository, start, first_parent=query.first_parent)
    records = (resolve.commit_record(repository, commit_id) for commit_id in commit_ids)
    if not (query.objects or query.prefixes):
        return records
    from lakespark.operations.path_history import read_ahead  # noqa: PLC0415 - a plain log needs no engine

    return read_ahead(repository, records)


def _ordered(repository: OpenRepository, start: str, *, first_parent: bool) -> Iterator[str]:
    def parents(commit: str) -> Sequence[str]:
        return resolve.parents(repository, commit)[: 1 if first_parent else None]

    def date(commit: str) -> int:
        return resolve.commit_record(repository, commit).commit.creation_date

    return graph.log_order(parents, [start], date=date, number=lambda commit: resolve.number(repository, commit))


def _is_shown(repository: OpenRepository, record: CommitRecord, query: LogQuery) -> bool:
    if query.since is not None and record.commit.creation_date < query.since:
        return False
    return not (query.objects or query.prefixes) or changed_paths(repository, record, query)


def _changed_object(repository: OpenRepository, before: Metarange, after: Metarange, path: str) -> bool:
    old, new = before.find(path), after.find(path)
    if old is not None and new is not None and old.range_id == new.range_id:
        return False
    refs = [ref for ref in (old, new) if ref is not None]
    entries = repository.local_engine.reader.entry_in_each(refs, path, ("identity",))
    identities = {ref.file: entry["identity"] for ref, entry in zip(refs, entries, strict=True) if entry is not None}
    was, now = (None if ref is None else identities.get(ref.file) for ref in (old, new))
    return was != now


def _changed_prefix(repository: OpenRepository, before: Metarange, after: Metarange, prefix: str) -> bool:
    from lakespark.operations import trees  # noqa: PLC0415 - a plain log needs no engine

    run = repository.local_engine
    return bool(run.collect(trees.changes_between(run, before, after, prefix)).num_rows)
