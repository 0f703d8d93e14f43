"""The contents of objects: there, as long as they were, and with the digest that their entries say."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from lakespark.errors import LakesparkError
from lakespark.operations.fsck.report import Finding
from lakespark.operations.fsck.run import Found, Run
from lakespark.operations.fsck.staging import StagedObject
from lakespark.operations.fsck.trees import OBJECT_COLUMNS, Trees, commits_with, files_with
from lakespark.storage import Store

_CHUNK_BYTES = 8 << 20
_OBJECTS_A_TASK = 32
_MD5 = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})")
_MEND = "restore the contents, or reset, delete or replace the path on the branches that hold it"


class ObjectProblem(NamedTuple):
    """What is wrong with the contents at an address."""

    physical_address: str
    finding: Finding


class Digest(NamedTuple):
    """A checksum of a known kind: how it is computed, and what it must be in hex."""

    start: Callable[[], Any]
    expected: str


def check_objects(run: Run, objects: Iterable[StagedObject]) -> Iterator[ObjectProblem]:
    """What is wrong with contents, each address, size and checksum once."""
    for number, size, problems in run.each(lambda batch: _check_batch(run, batch), _batches(_unseen(objects))):
        run.count(objects=number, object_bytes=size)
        yield from problems


def attribute_objects(
    run: Run, trees: Trees, staged: dict[str, list[StagedObject]], problems: Iterable[ObjectProblem]
) -> Iterator[Found]:
    """The findings on contents with who holds them. Reads the ranges again if there are any."""
    by_address = {problem.physical_address: problem.finding for problem in problems}
    if not by_address:
        return
    files: dict[str, set[str]] = {address: set() for address in by_address}
    for file, address in files_with(run, trees, pa.array(by_address)):
        files[address].add(file)
    commits = commits_with(run, trees, frozenset().union(*files.values()))
    for address, finding in by_address.items():
        branches = [name for name, objects in staged.items() if address in {o.physical_address for o in objects}]
        held_by = sorted({commit for file in files[address] for commit in commits[file]})
        yield Found(finding, commits=tuple(held_by), refs=tuple(branches))


def objects_of(rows: pa.Table) -> Iterator[StagedObject]:
    """The objects of a range's entries."""
    columns = (rows[name].to_pylist() for name in OBJECT_COLUMNS)
    return map(StagedObject, *columns)


def _unseen(objects: Iterable[StagedObject]) -> Iterator[StagedObject]:
    """Each of them once. Kept as hashes: there are as many as the repository has objects."""
    seen: set[int] = set()
    for found in objects:
        key = hash(found[1:])
        if key not in seen:
            seen.add(key)
            yield found


def _batches(objects: Iterator[StagedObject]) -> Iterator[list[StagedObject]]:
    while batch := list(islice(objects, _OBJECTS_A_TASK)):
        yield batch


def _check_batch(run: Run, batch: list[StagedObject]) -> tuple[int, int, list[ObjectProblem]]:
    """Number of objects, bytes that were read, and what is wrong."""
    problems, size = [], 0
    for stated in batch:
        found, read = _check_object(run, stated)
        size += read
        if found is not None:
            problems.append(ObjectProblem(stated.physical_address, found))
    return len(batch), size, problems


def _check_object(run: Run, stated: StagedObject) -> tuple[Finding | None, int]:
    name = run.opened.full_address(stated.physical_address)
    what = f"contents of {stated.path!r}"
    known = _digest(stated.checksum)
    try:
        store, key = run.opened.contents(stated.physical_address)
        if known is None:
            size, found, read = store.size(key), None, 0
        else:
            size, found = _read(store, key, stated.size_bytes, known)
            read = size or 0
    except LakesparkError as error:
        return Finding("unreadable", "object", name, f"{what}: {error}", mend="mend the access to it"), 0
    if size is None:
        return Finding("missing", "object", name, what, stated.checksum, mend=_MEND), 0
    if size != stated.size_bytes:
        is_more = known is not None and size > stated.size_bytes
        length = f"more than {stated.size_bytes} bytes" if is_more else f"{size} bytes"
        expected = f"{stated.size_bytes} bytes"
        return Finding("altered", "object", name, f"{what}: another size", expected, length, mend=_MEND), read
    if known is not None and found != known.expected:
        return Finding("altered", "object", name, f"{what}: another digest", known.expected, found, mend=_MEND), read
    return None, read


def _digest(checksum: str) -> Digest | None:
    """How contents are compared with a checksum; None for a kind that contents do not give."""
    if _MD5.fullmatch(checksum):
        return Digest(lambda: hashlib.md5(usedforsecurity=False), checksum)
    match = _SHA256.fullmatch(checksum)
    return Digest(hashlib.sha256, match[1]) if match else None


def _read(store: Store, key: str, size: int, known: Digest) -> tuple[int | None, str | None]:
    """Size and digest of contents, None if they are gone. No more is read than one byte past ``size``."""
    hashed, start = known.start(), 0
    try:
        while start <= size:
            chunk = store.get_range(key, start, min(start + _CHUNK_BYTES, size + 1))
            hashed.update(chunk)
            start += len(chunk)
            if not chunk:
                break
    except FileNotFoundError:
        return None, None
    return start, hashed.hexdigest()
