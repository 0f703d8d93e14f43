"""Trees in plain Python: entries, where ranges are cut, ids, and what a change rewrites.

Written from the rules alone, with nothing of the package under test in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple


class Entry(NamedTuple):
    """What stands at a path. ``metadata`` is sorted by key."""

    physical_address: str
    size_bytes: int
    checksum: str
    content_type: str
    metadata: tuple[tuple[str, str], ...]

    @property
    def identity(self) -> str:
        """What makes two entries of one path the same: neither the address nor the time."""
        texts = [text for pair in self.metadata for text in pair]
        return hash_of(self.size_bytes, self.checksum, self.content_type, len(self.metadata), *texts)


class Range(NamedTuple):
    """A run of entries in order of path. Equal ``file`` numbers stand for one file."""

    file: int
    entries: tuple[tuple[str, Entry], ...]

    @property
    def id(self) -> str:
        """Hash of the paths and identities."""
        return hash_of(*(text for path, entry in self.entries for text in (path, entry.identity)))


class Tree(NamedTuple):
    """The ranges of a commit in order of path. Equal ``file`` numbers stand for one metarange file."""

    file: int
    threshold: str
    ranges: tuple[Range, ...]

    @property
    def id(self) -> str:
        """Hash of the threshold and the range ids."""
        return hash_of(self.threshold, len(self.ranges), *(part.id for part in self.ranges))

    @property
    def entries(self) -> dict[str, Entry]:
        """All entries by path, in order of path."""
        return {path: entry for part in self.ranges for path, entry in part.entries}

    @property
    def identities(self) -> dict[str, str]:
        """The identity of each path."""
        return {path: entry.identity for path, entry in self.entries.items()}


Changes = Mapping[str, Entry | None]
"""New entries by path; ``None`` deletes."""


def hash_of(*fields: str | int) -> str:
    """SHA-256 over each field as its length in bytes, a colon, and its bytes."""
    raw = [str(field).encode() for field in fields]
    return hashlib.sha256(b"".join(str(len(field)).encode() + b":" + field for field in raw)).hexdigest()


def threshold_for(mean_entries: int) -> str:
    """The threshold below which one path in ``mean_entries`` has its MD5."""
    return f"{min(2**128 // mean_entries, 2**128 - 1):032x}"


def is_cut(path: str, threshold: str) -> bool:
    """Whether a range ends at this path."""
    return hashlib.md5(path.encode(), usedforsecurity=False).hexdigest() < threshold


def after_changes(entries: Mapping[str, Entry], changes: Changes) -> dict[str, Entry]:
    """Entries with changes laid over them, in order of path."""
    laid = {**entries, **changes}
    return {path: laid[path] for path in sorted(laid) if laid[path] is not None}  # type: ignore[misc]


def cut(entries: Mapping[str, Entry], threshold: str) -> Iterator[tuple[tuple[str, Entry], ...]]:
    """The runs that ranges hold: each ends at a cut path, the last one at the last path."""
    paths = sorted(entries)
    ends = [number + 1 for number, path in enumerate(paths) if is_cut(path, threshold) or path == paths[-1]]
    for start, end in pairwise([0, *ends]):
        yield tuple((path, entries[path]) for path in paths[start:end])


def untouched(tree: Tree, changes: Changes) -> list[Range]:
    """The ranges that changes leave alone.

    A change touches the range whose stretch of paths it falls into: from behind the range before to its own last
    path, or to the end of all paths if it is the last and does not end with a cut. Deleting a cut path touches
    the range behind it too.
    """
    kept = []
    previous = ""
    for part in tree.ranges:
        last = part.entries[-1][0]
        is_open = part is tree.ranges[-1] and not is_cut(last, tree.threshold)
        is_hit = any(previous < path and (is_open or path <= last) for path in changes)
        has_lost_start = previous in changes and changes[previous] is None
        if not is_hit and not has_lost_start:
            kept.append(part)
        previous = last
    return kept
