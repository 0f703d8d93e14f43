"""A real history as plain values: commits, trees, merge bases and merges, read from a folder of tables.

The folder holds ``commits.tsv.gz``, ``changes.tsv.gz``, ``merge_bases.tsv.gz``, ``three_way.jsonl.gz`` and
``several_bases.jsonl.gz``; the README beside them says what their columns are. Commits are numbers from 0, parents
before children; a tree is a dict from path to identity.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

CONFLICT = "conflict"
"""Stands for an expected identity where both sides changed a path in different ways."""

Tree = dict[str, str]


class PastCommit(NamedTuple):
    """One commit: its number, its time in unix seconds, its parents, first parent first."""

    number: int
    time: int
    parents: tuple[int, ...]


class PastMerge(NamedTuple):
    """A merge with all best common ancestors of its two parents."""

    merge: int
    left: int
    right: int
    bases: frozenset[int]


class MergedPath(NamedTuple):
    """What each side of a merge has at a path, None for nothing; ``expected`` may be ``CONFLICT``.

    ``base`` is None too where there are several bases.
    """

    path: str
    base: str | None
    source: str | None
    destination: str | None
    expected: str | None


class MergeCase(NamedTuple):
    """A merge with the expected result for each path that any side changed."""

    merge: int
    bases: tuple[int, ...]
    source: int
    destination: int
    paths: tuple[MergedPath, ...]


class History:
    """Commits in order, and what each changed against its first parent (identity None: deleted)."""

    def __init__(self, commits: Sequence[PastCommit], changes: Mapping[int, Mapping[str, str | None]]) -> None:
        self.commits = commits
        self._changes = changes

    def parents(self, number: int) -> tuple[int, ...]:
        """Parents of a commit, first parent first."""
        return self.commits[number].parents

    def changes(self, number: int) -> Mapping[str, str | None]:
        """What a commit changed against its first parent."""
        return self._changes.get(number, {})

    def tree(self, number: int) -> Tree:
        """The whole tree of a commit, by its line of first parents."""
        line = [number]
        while parents := self.parents(line[-1]):
            line.append(parents[0])
        tree: Tree = {}
        for commit in reversed(line):
            _apply(tree, self.changes(commit))
        return tree

    def with_trees(self) -> Iterator[tuple[PastCommit, Tree, tuple[Tree, ...]]]:
        """Every commit in order with its tree and those of its parents, which must not be changed.

        A tree is let go when the last child has been seen, so that few of them are held at a time.
        """
        waiting = Counter(parent for commit in self.commits for parent in commit.parents)
        trees: dict[int, Tree] = {}
        for commit in self.commits:
            before = tuple(trees[parent] for parent in commit.parents)
            tree = dict(before[0]) if before else {}
            _apply(tree, self.changes(commit.number))
            yield commit, tree, before
            if waiting[commit.number]:
                trees[commit.number] = tree
            for parent in commit.parents:
                waiting[parent] -= 1
                if not waiting[parent]:
                    del trees[parent]


def read_history(folder: str | os.PathLike[str]) -> History:
    """The commits and changes of a folder of tables."""
    commits = [PastCommit(int(number), int(at), _numbers(line)) for number, at, line in _rows(folder, "commits.tsv.gz")]
    changes: dict[int, dict[str, str | None]] = {}
    for number, path, identity in _rows(folder, "changes.tsv.gz"):
        changes.setdefault(int(number), {})[path] = identity or None
    return History(commits, changes)


def read_merges(folder: str | os.PathLike[str]) -> list[PastMerge]:
    """Every merge with its best merge bases."""
    rows = _rows(folder, "merge_bases.tsv.gz")
    return [PastMerge(int(merge), int(a), int(b), frozenset(_numbers(bases))) for merge, a, b, bases in rows]


def read_three_way(folder: str | os.PathLike[str]) -> list[MergeCase]:
    """Merges with one best base."""
    return [
        MergeCase(
            case["merge"],
            (case["base"],),
            case["source"],
            case["destination"],
            tuple(MergedPath(*path) for path in case["paths"]),
        )
        for case in _lines(folder, "three_way.jsonl.gz")
    ]


def read_several_bases(folder: str | os.PathLike[str]) -> list[MergeCase]:
    """Merges with several best bases."""
    return [
        MergeCase(
            case["merge"],
            tuple(case["bases"]),
            case["source"],
            case["destination"],
            tuple(MergedPath(path, None, *rest) for path, *rest in case["paths"]),
        )
        for case in _lines(folder, "several_bases.jsonl.gz")
    ]


def checksum_of(identity: str) -> str:
    """The checksum that stands for an identity of the history."""
    return f"git:{identity}"


def entry_of(identity: str) -> dict[str, Any]:
    """An entry for an identity: a made-up address, one byte long."""
    address = f"s3://git-lfs-history/{identity.replace(':', '/')}"
    return {"physical_address": address, "size_bytes": 1, "checksum": checksum_of(identity), "mtime": 0}


def entries_of(tree: Mapping[str, str]) -> pa.Table:
    """Entries for ``Branch.stage``, one a path."""
    return pa.Table.from_pylist([{"path": path, **entry_of(tree[path])} for path in sorted(tree)], schema=_STAGED)


def resolutions_for(tree: Tree, destination: Tree, source: Tree) -> dict[str, Any]:
    """What makes a merge of two trees end in ``tree``: a resolution for every path on which the three differ."""
    found: dict[str, Any] = {}
    for path in tree.keys() | destination.keys() | source.keys():
        wanted, there, here = tree.get(path), destination.get(path), source.get(path)
        if wanted == there == here:
            continue
        if wanted == there:
            found[path] = "destination"
        elif wanted == here:
            found[path] = "source"
        else:
            found[path] = "deleted" if wanted is None else entry_of(wanted)
    return found


_STAGED = pa.schema(
    [
        ("path", pa.string()),
        ("physical_address", pa.string()),
        ("size_bytes", pa.int64()),
        ("checksum", pa.string()),
        ("mtime", pa.int64()),
    ]
)


def _apply(tree: Tree, changes: Mapping[str, str | None]) -> None:
    for path, identity in changes.items():
        if identity is None:
            tree.pop(path, None)
        else:
            tree[path] = identity


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def _rows(folder: str | os.PathLike[str], name: str) -> Iterator[list[str]]:
    with gzip.open(Path(folder) / name, "rt", encoding="utf-8", newline="\n") as lines:
        next(lines)
        for line in lines:
            yield line.removesuffix("\n").split("\t")


def _lines(folder: str | os.PathLike[str], name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(Path(folder) / name, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
