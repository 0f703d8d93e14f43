"""Which branches and tags reach a commit, for all commits at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakespark.model import CommitRecord, RefState
from lakespark.operations.fsck.report import Finding
from lakespark.operations.fsck.run import Found


def reachable(commits: Mapping[str, CommitRecord], refs: Mapping[str, RefState]) -> list[CommitRecord]:
    """The commits that refs reach and the ledger has, the newest first."""
    pending = [state.commit_id for state in refs.values()]
    seen: dict[str, CommitRecord] = {}
    while pending:
        commit_id = pending.pop()
        record = commits.get(commit_id)
        if record is not None and commit_id not in seen:
            seen[commit_id] = record
            pending.extend(record.commit.parents)
    return sorted(seen.values(), key=lambda record: -record.number)


def attribute(
    found: Iterable[Found], records: Iterable[CommitRecord], refs: Mapping[str, RefState]
) -> tuple[Finding, ...]:
    """The findings with the names of the refs that they touch. ``records``: from each commit to its parents."""
    found = list(found)
    names = sorted(refs)
    bits: dict[str, int] = {}
    if any(one.commits for one in found):
        for number, name in enumerate(names):
            head = refs[name].commit_id
            bits[head] = bits.get(head, 0) | 1 << number
        for record in records:
            reached = bits.get(record.commit.id, 0)
            for parent in record.commit.parents:
                bits[parent] = bits.get(parent, 0) | reached
    return tuple(one.finding._replace(refs=_names(one, bits, names)) for one in found)


def _names(found: Found, bits: Mapping[str, int], names: list[str]) -> tuple[str, ...]:
    reached = 0
    for commit in found.commits:
        reached |= bits.get(commit, 0)
    by_commit = {name for number, name in enumerate(names) if reached >> number & 1} if reached else set()
    return tuple(sorted(by_commit.union(found.refs)))
