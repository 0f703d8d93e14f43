"""The trees of commits: metaranges and ranges, each file once however many commits share it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakespark import digest
from lakespark.entries import ENTRY_SCHEMA, is_ascending
from lakespark.errors import CorruptFileError
from lakespark.model import CommitRecord, FileRef
from lakespark.operations.fsck.entries import cuts, wrong_entries
from lakespark.operations.fsck.report import Finding
from lakespark.operations.fsck.run import RESTORE, Found, Run
from lakespark.tree.metarange import Metarange, RangeRef, is_cut, parse_metarange, parse_parquet
from lakespark.tree.range_files import hash_range

OBJECT_COLUMNS = ("path", "physical_address", "size_bytes", "checksum")


class Tree(NamedTuple):
    """A metarange's file and the id that it must have."""

    file: FileRef
    id: str


class Part(NamedTuple):
    """A range as a metarange names it, and the metarange's threshold."""

    ref: RangeRef
    threshold: str


class CheckedRange(NamedTuple):
    """What a range holds, and what is wrong with it."""

    part: Part
    entries: int
    objects: pa.Table
    problems: list[Finding]


@dataclass
class Trees:
    """What the trees of the commits consist of. ``parts`` has every range once."""

    commits: dict[Tree, list[str]] = field(default_factory=dict)
    parts: dict[Part, None] = field(default_factory=dict)


def check_metaranges(run: Run, records: Iterable[CommitRecord]) -> tuple[Trees, list[Found]]:
    """The trees of commits, and what is wrong with their metaranges."""
    trees, found = Trees(), []
    for record in records:
        tree = Tree(record.metarange, record.commit.meta_range_id)
        trees.commits.setdefault(tree, []).append(record.commit.id)
    for tree, (metarange, problems) in zip(
        trees.commits, run.each(lambda tree: _read_metarange(run, tree), trees.commits), strict=True
    ):
        run.count(metaranges=1)
        found += [Found(problem, commits=tuple(trees.commits[tree])) for problem in problems]
        trees.parts.update((part, None) for part in _parts(metarange))
    return trees, found


def check_ranges(run: Run, trees: Trees, *, keeps_objects: bool) -> Iterator[CheckedRange]:
    """Each range with what is wrong with it, and its objects if they are wanted."""
    return run.each(lambda part: _check_range(run, part, keeps_objects=keeps_objects), trees.parts)


def files_with(run: Run, trees: Trees, addresses: pa.Array) -> Iterator[tuple[str, str]]:
    """File and address for each range that holds one of some physical addresses. Reads every range again."""
    for checked in check_ranges(run, trees, keeps_objects=True):
        held = checked.objects.filter(pc.is_in(checked.objects["physical_address"], addresses))
        yield from ((checked.part.ref.file, address) for address in held["physical_address"].to_pylist())


def commits_with(run: Run, trees: Trees, files: frozenset[str]) -> dict[str, list[str]]:
    """The commits that hold each of some range files. Reads the metaranges again: this is for bad days."""
    commits: dict[str, list[str]] = {file: [] for file in files}
    if not files:
        return commits
    for tree, (metarange, _) in zip(
        trees.commits, run.each(lambda tree: _read_metarange(run, tree), trees.commits), strict=True
    ):
        for part in _parts(metarange):
            if part.ref.file in files:
                commits[part.ref.file] += trees.commits[tree]
    return commits


def _parts(metarange: Metarange | None) -> list[Part]:
    return [Part(ref, metarange.threshold) for ref in metarange.ranges] if metarange else []


# -- metaranges ------------------------------------------------------------------------------------------------


def _read_metarange(run: Run, tree: Tree) -> tuple[Metarange | None, list[Finding]]:
    """A metarange, if its contents are what the id says, and what is wrong with it."""
    key = tree.file.file
    body, problem = _read(run, "metarange", tree.file)
    if body is None:
        return None, [problem] if problem else []
    try:
        metarange = parse_metarange(body, key)
        computed = metarange.id
    except (CorruptFileError, TypeError, ValueError) as error:
        return None, [problem or Finding("unreadable", "metarange", key, str(error), tree.id, mend=RESTORE)]
    if problem is not None:
        is_same = computed == tree.id
        holds = "it lists the right ranges all the same" if is_same else f"it holds the tree {computed}, not {tree.id}"
        return metarange if is_same else None, [problem._replace(problem=f"{problem.problem}; {holds}")]
    if computed != tree.id:
        return None, [Finding("altered", "metarange", key, "it holds another tree", tree.id, computed, mend=RESTORE)]
    return metarange, [
        Finding("inconsistent", "metarange", key, wrong, mend=RESTORE) for wrong in _wrong_order(metarange)
    ]


def _wrong_order(metarange: Metarange) -> Iterator[str]:
    """Ranges out of order, and those that end where no range may."""
    for ref, after in pairwise(metarange.ranges):
        if not ref.min_path <= ref.max_path < after.min_path:
            yield f"the range {ref.file} is not before {after.file}"
        if not is_cut(ref.max_path, metarange.threshold):
            yield f"the range {ref.file} ends at {ref.max_path!r}, where none may end but the last"


# -- ranges ----------------------------------------------------------------------------------------------------


def _check_range(run: Run, part: Part, *, keeps_objects: bool) -> CheckedRange:
    rows, problems = _read_range(run, part)
    kept = (rows if keeps_objects and rows is not None else ENTRY_SCHEMA.empty_table()).select(OBJECT_COLUMNS)
    return CheckedRange(part, 0 if rows is None else rows.num_rows, kept, problems)


def _read_range(run: Run, part: Part) -> tuple[pa.Table | None, list[Finding]]:
    """The entries of a range, if its file is the one that was written, and what is wrong with it."""
    ref = part.ref
    body, problem = _read(run, "range", FileRef(ref.file, ref.file_sha256))
    if body is None:
        return None, [problem] if problem else []
    try:
        rows = parse_parquet(body, ref.file)
        rows = rows.select(ENTRY_SCHEMA.names).cast(ENTRY_SCHEMA).combine_chunks()
        if problem is not None:
            rows.validate(full=True)
        computed = hash_range(rows)
    except (CorruptFileError, pa.ArrowException, LookupError, ValueError) as error:
        return None, [problem or Finding("unreadable", "range", ref.file, str(error), ref.range_id, mend=RESTORE)]
    if problem is not None:
        is_same = computed == ref.range_id
        holds = "its paths and identities are the right ones all the same" if is_same else f"it holds range {computed}"
        return None, [problem._replace(problem=f"{problem.problem}; {holds}")]
    return rows, [
        Finding("inconsistent", "range", ref.file, wrong, expected, found, mend=RESTORE)
        for wrong, expected, found in _wrong_range(run, part, rows, computed)
    ]


def _wrong_range(run: Run, part: Part, rows: pa.Table, computed: str) -> Iterator[tuple[str, str | None, str | None]]:
    """What is wrong with the contents of a range, with what was expected and found."""
    ref = part.ref
    if computed != ref.range_id:
        yield "its entries give another range id", ref.range_id, computed
    if not rows.num_rows:
        yield "it has no entries", str(ref.count), "0"
        return
    for name, stated, found in (
        ("first path", ref.min_path, rows["path"][0].as_py()),
        ("last path", ref.max_path, rows["path"][-1].as_py()),
        ("number of entries", ref.count, rows.num_rows),
        ("sum of sizes", ref.bytes, pc.sum(rows["size_bytes"]).as_py()),
    ):
        if stated != found:
            yield f"the metarange gives another {name}", str(stated), str(found)
    if not is_ascending(rows["path"]):
        yield "its paths do not ascend", None, None
    problems = wrong_entries(run.opened, rows)
    yield from ((problem, None, None) for problem in problems)
    if not problems and cuts(run.opened, rows, part.threshold)[:-1].any():
        yield f"it goes on after a path at which a range must end (threshold {part.threshold})", None, None


def _read(run: Run, subject: str, ref: FileRef) -> tuple[bytes | None, Finding | None]:
    """The bytes of a file, and what is wrong with them."""
    body = run.get(ref.file, subject)
    if isinstance(body, Finding):
        return None, body._replace(expected=ref.sha256)
    if body is None:
        return None, Finding("missing", subject, ref.file, "the file is gone", ref.sha256, mend=RESTORE)
    found = digest.hash_bytes(body)
    if found == ref.sha256:
        return body, None
    return body, Finding("altered", subject, ref.file, "its SHA-256 differs", ref.sha256, found, mend=RESTORE)
