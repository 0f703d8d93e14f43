"""The log: commits in order, from where, how far, and which of them changed some paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakespark import graph
from lakespark.model import CommitRecord
from lakespark.operations import resolve
from lakespark.operations.opened import OpenRepository

if TYPE_CHECKING:
    from lakespark.operations.path_history import PathFilter


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
    commit_ids = _ordered(repository, start.commit_id, first_parent=query.first_parent)
    records = (resolve.commit_record(repository, commit_id) for commit_id in commit_ids)
    wanted = _path_filter(repository, query)
    shown = 0
    for record in records if wanted is None else wanted.read_ahead(records):
        if query.limit is not None and shown >= query.limit:
            return
        is_late = query.since is None or record.commit.creation_date >= query.since
        if is_late and (wanted is None or wanted.is_changed(record)):
            yield record
            shown += 1
        if record.commit.id == stop:
            return


def _path_filter(repository: OpenRepository, query: LogQuery) -> PathFilter | None:
    """What looks into trees for the query, or None if nothing has to."""
    if not (query.objects or query.prefixes):
        return None
    from lakespark.operations.path_history import PathFilter  # noqa: PLC0415 - a plain log needs no engine

    return PathFilter(repository, query.objects, query.prefixes)


def _ordered(repository: OpenRepository, start: str, *, first_parent: bool) -> Iterator[str]:
    def parents(commit: str) -> Sequence[str]:
        return resolve.parents(repository, commit)[: 1 if first_parent else None]

    def date(commit: str) -> int:
        return resolve.commit_record(repository, commit).commit.creation_date

    return graph.log_order(parents, [start], date=date, number=lambda commit: resolve.number(repository, commit))
