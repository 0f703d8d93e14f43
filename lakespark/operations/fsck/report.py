"""What a check of a repository found: the public values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

FindingKind = Literal["missing", "altered", "unreadable", "inconsistent", "unknown"]
SHOWN_REFS = 10


class Finding(NamedTuple):
    """One thing that is wrong, or, if ``is_error`` is false, worth knowing.

    ``kind``: ``missing``, ``altered`` (its digest is another), ``unreadable`` (the store or the format refuses),
    ``inconsistent`` (what it says cannot be), ``unknown`` (not lakespark's). ``name``: the key of the file below the
    storage namespace, or the id of the commit, the name of the ref, the address of the object. ``expected`` and
    ``found``: digests, or what else was compared. ``refs``: the branches and tags that it touches. ``mend``: what
    helps, if anything is known to.
    """

    kind: FindingKind
    subject: str
    name: str
    problem: str
    expected: str | None = None
    found: str | None = None
    refs: tuple[str, ...] = ()
    mend: str = ""
    is_error: bool = True

    def __str__(self) -> str:
        more = f" and {len(self.refs) - SHOWN_REFS:,} more" if len(self.refs) > SHOWN_REFS else ""
        parts = [f"{self.kind} {self.subject} {self.name}: {self.problem}"]
        if self.expected is not None or self.found is not None:
            parts.append(f"expected {self.expected or 'none'}, found {self.found or 'none'}")
        if self.refs:
            parts.append(f"touches {', '.join(self.refs[:SHOWN_REFS])}{more}")
        if self.mend:
            parts.append(self.mend)
        return "; ".join(parts)


class FsckCounts(NamedTuple):
    """How much was checked. Each file counts once, however many commits share it."""

    refs: int = 0
    commits: int = 0
    log_entries: int = 0
    table_files: int = 0
    metaranges: int = 0
    ranges: int = 0
    entries: int = 0
    staged_rows: int = 0
    objects: int = 0
    object_bytes: int = 0


OnFsckProgress = Callable[[FsckCounts], None]
"""Called with what has been checked so far, by the thread that called ``fsck``."""


@dataclass(frozen=True)
class FsckReport:
    """What a check found. ``version``: the ledger entry up to which it looked; -1 without a ledger."""

    storage_namespace: str
    version: int
    checked: FsckCounts
    findings: tuple[Finding, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong. Notes do not count."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What is wrong."""
        return tuple(finding for finding in self.findings if finding.is_error)

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What is not wrong, but worth knowing: unknown files, and derived files that are of no use."""
        return tuple(finding for finding in self.findings if not finding.is_error)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {
            "is_clean": self.is_clean,
            "storage_namespace": self.storage_namespace,
            "version": self.version,
            "checked": self.checked._asdict(),
            "findings": [finding._asdict() for finding in self.findings],
        }
