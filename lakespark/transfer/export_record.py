"""The record of an export at its target: which commit is there, and whether all of it is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from lakespark.errors import TargetNotEmptyError
from lakespark.storage import Store

NAME = ".lakespark-export.json"


@dataclass(frozen=True)
class ExportRecord:
    """What was exported to a place. ``was_empty``: every file there is of this export."""

    repository_id: str
    commit: str
    prefix: str
    was_empty: bool
    is_complete: bool

    def write(self, target: Store) -> None:
        """Put the record into the target."""
        target.put(NAME, json.dumps(asdict(self)).encode())

    def is_of(self, other: ExportRecord) -> bool:
        """Whether this is the record of the same export."""
        return self._subject() == other._subject()

    def _subject(self) -> tuple[str, str, str]:
        return self.repository_id, self.commit, self.prefix


def read_record(target: Store) -> ExportRecord | None:
    """The record in a target, or None. Raises TargetNotEmptyError if something else has its name."""
    body = target.get(NAME)
    if body is None:
        return None
    try:
        return ExportRecord(**json.loads(body))
    except (ValueError, TypeError):
        raise TargetNotEmptyError(f"{target.location.child(NAME)} is no record of an export: remove it first") from None


def is_empty(target: Store) -> bool:
    """Whether the target holds nothing at all."""
    return next(iter(target.list("")), None) is None


def check_target(target: Store, wanted: ExportRecord, *, since: str | None, overwrite: bool) -> ExportRecord:
    """The record to begin with, from what the target holds. Raises TargetNotEmptyError.

    In full: nothing, or this very export, unless ``overwrite``. ``since`` a commit: all of that commit, or this
    very export; a target without a record is taken to be as the caller says.
    """
    known = read_record(target)
    if known is not None and known.is_of(wanted):
        return known
    if since is None and is_empty(target):
        return wanted
    if overwrite or (since is not None and known is None):
        return _mixed(wanted)
    if since is None or known is None:
        holds = "other files" if known is None else f"an export of commit {known.commit[:12]}, prefix {known.prefix!r}"
        raise TargetNotEmptyError(
            f"cannot export to {target.location}: it holds {holds}. Choose an empty place, or let files there be "
            "overwritten; nothing was written"
        )
    if (known.repository_id, known.commit, known.prefix) != (wanted.repository_id, since, wanted.prefix):
        raise TargetNotEmptyError(
            f"cannot export to {target.location} what changed since {since[:12]}: it holds an export of commit "
            f"{known.commit[:12]}, prefix {known.prefix!r}; nothing was written"
        )
    if not known.is_complete:
        raise TargetNotEmptyError(
            f"cannot export to {target.location}: the export of commit {since[:12]} there is not complete: "
            "finish it first"
        )
    return _mixed(wanted)


def _mixed(wanted: ExportRecord) -> ExportRecord:
    return ExportRecord(wanted.repository_id, wanted.commit, wanted.prefix, was_empty=False, is_complete=False)
