"""git decides merges of drawn histories, and lakespark must agree: bases, result and conflicting paths.

Each file holds its identity as its one line, so that git's line merges are merges on whole files. For git alone the
line names the path too: git 2.39 takes equal contents of two paths for a rename whatever ``merge.renames`` says.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable
from itertools import combinations, count
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

import lakespark
from lakespark.errors import MergeConflictError

pytestmark = pytest.mark.processes

PATHS = ("a", "b/c", "b/d", "e")
IDENTITIES = ("1", "2", "3", "4")
FIRST_SECOND = 1_400_000_000
Tree = dict[str, str]
_lakes = count()


class Drawn(NamedTuple):
    """A commit of a drawn history: its parents as places in the list, its tree, its date in unix seconds."""

    parents: tuple[int, ...]
    tree: Tree
    date: int


class Verdict(NamedTuple):
    """The result of a merge: its tree, or the paths in conflict."""

    tree: Tree | None
    conflicts: frozenset[str]


class Judged(NamedTuple):
    """What is known of the merge of two commits. ``bases`` as places in the history."""

    bases: frozenset[int]
    verdict: Verdict


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Drawn], list[int]]:
    """A history on two or three lines, and where each line ends: edits, merges, and merges both ways at once."""
    identities = st.sampled_from(IDENTITIES)
    trees = [draw(st.dictionaries(st.sampled_from(PATHS), identities))]
    parents: list[tuple[int, ...]] = [()]
    heads = [0] * draw(st.integers(2, 3))

    def add(tree: Tree, *above: int) -> int:
        trees.append(tree)
        parents.append(above)
        return len(trees) - 1

    def merged(into: int, other: int) -> int:
        """A merge as people resolve them: for most paths one side, for some of them anything."""
        tree = {}
        for path in PATHS:
            sides = [trees[into].get(path), trees[other].get(path)]
            value = draw(st.sampled_from([*sides, *sides, *sides, None, "1", "5"]))
            if value is not None:
                tree[path] = value
        return add(tree, into, other)

    for _ in range(draw(st.integers(2, 9))):
        line, other = draw(st.permutations(range(len(heads))))[:2]
        kind = draw(st.sampled_from(["edit", "edit", "edit", "merge", "cross"]))
        if kind == "edit" or heads[line] == heads[other]:
            changes = draw(st.dictionaries(st.sampled_from(PATHS), st.none() | identities, min_size=1, max_size=2))
            tree = {path: value for path, value in {**trees[heads[line]], **changes}.items() if value is not None}
            heads[line] = add(tree, heads[line])
        elif kind == "merge":
            heads[line] = merged(heads[line], heads[other])
        else:
            heads[line], heads[other] = merged(heads[line], heads[other]), merged(heads[other], heads[line])
    seconds = draw(st.permutations(range(len(trees)))) if draw(st.booleans()) else range(len(trees))
    history = [Drawn(*commit, FIRST_SECOND + at) for *commit, at in zip(parents, trees, seconds, strict=True)]
    return history, heads


def in_order(*commits: tuple[tuple[int, ...], Tree]) -> list[Drawn]:
    return [Drawn(parents, tree, FIRST_SECOND + place) for place, (parents, tree) in enumerate(commits)]


CRISS_CROSS = (
    in_order(
        ((), {"a": "1"}),
        ((0,), {"a": "2", "e": "1"}),
        ((0,), {"a": "3"}),
        ((1, 2), {"a": "2", "e": "1"}),
        ((2, 1), {"a": "3"}),
        ((3,), {"a": "2", "e": "1", "b/c": "1"}),
        ((4,), {"a": "3", "b/d": "1"}),
    ),
    [5, 6],
)
DELETED_AFTER_A_MERGE = (
    in_order(
        ((), {}),
        ((0,), {"e": "1"}),
        ((0,), {"a": "1"}),
        ((0,), {"a": "2", "b/c": "1"}),
        ((2, 1), {"a": "1", "e": "1"}),
        ((3, 1), {"a": "2", "b/c": "1", "e": "1"}),
        ((5,), {"a": "2", "b/c": "1"}),
    ),
    [4, 6],
)
DELETED_AND_LIKE_ANOTHER = (
    in_order(
        ((), {"b/c": "4", "a": "1", "e": "4"}),
        ((0,), {"b/c": "1", "a": "1", "e": "4"}),
        ((0,), {}),
        ((1, 2), {"a": "1", "e": "4"}),
        ((2, 1), {}),
    ),
    [3, 4],
)
CHANGED_AND_DELETED_IN_THE_BASES = (
    in_order(
        ((), {"a": "1", "e": "1"}),
        ((0,), {"a": "2", "e": "1"}),
        ((0,), {"e": "2"}),
        ((1, 2), {"a": "2", "e": "2"}),
        ((2, 1), {"a": "1", "e": "2"}),
    ),
    [3, 4],
)
CHANGED_BOTH_WAYS_IN_THE_BASES = (
    in_order(
        ((), {"a": "1"}),
        ((0,), {"a": "2", "b/c": "1"}),
        ((0,), {"a": "3", "b/c": "2"}),
        ((1, 2), {"a": "2", "b/c": "1"}),
        ((2, 1), {"a": "1"}),
    ),
    [3, 4],
)
THREE_BASES = (
    in_order(
        ((), {"a": "1", "e": "1"}),
        ((0,), {"a": "2", "e": "1"}),
        ((0,), {"a": "3", "e": "2"}),
        ((0,), {"a": "1"}),
        ((1, 2), {"a": "2", "e": "2"}),
        ((2, 1), {"a": "3", "e": "2"}),
        ((4, 3), {"a": "2"}),
        ((5, 3), {"a": "3", "e": "2"}),
    ),
    [6, 7],
)


@settings(max_examples=25, deadline=None)
@given(histories())
@example(CRISS_CROSS)
@example(DELETED_AFTER_A_MERGE)
@example(DELETED_AND_LIKE_ANOTHER)
@example(CHANGED_AND_DELETED_IN_THE_BASES)
@example(CHANGED_BOTH_WAYS_IN_THE_BASES)
@example(THREE_BASES)
def test_every_merge_is_as_git_decides_it(drawn: tuple[list[Drawn], list[int]]):
    history, heads = drawn
    pairs = list(combinations(dict.fromkeys(heads), 2))
    with tempfile.TemporaryDirectory() as folder:
        expected = git_judgement(Path(folder), history, pairs)
    repo = lakespark.Lake(f"memory://git-judge-{next(_lakes)}/lake").repository("judged").create()
    ids = record(repo, history)
    for pair in pairs:
        event(f"{len(expected[pair].bases)} bases, {'conflict' if expected[pair].verdict.conflicts else 'clean'}")
        assert judgement(repo, ids, pair) == expected[pair], pair


def record(repo: lakespark.Repository, history: list[Drawn]) -> list[str]:
    """The history in a repository, below its initial commit; the ids of its commits."""
    ids: list[str] = []
    for place, commit in enumerate(history):
        source = ids[commit.parents[0]] if commit.parents else "main"
        before = history[commit.parents[0]].tree if commit.parents else {}
        branch = repo.branch(f"b{place}").create(source)
        if len(commit.parents) > 1:
            resolutions = {path: entry(commit.tree[path]) if path in commit.tree else "deleted" for path in PATHS}
            merge = repo.commit(ids[commit.parents[1]])
            ids.append(
                merge.merge_into(
                    branch, message=str(place), date=commit.date, resolutions=resolutions, allow_empty=True
                )
            )
            continue
        branch.delete_objects([path for path in before if path not in commit.tree])
        branch.stage(entries(commit.tree))
        ids.append(branch.commit(str(place), date=commit.date, allow_empty=True).id)
    return ids


def judgement(repo: lakespark.Repository, ids: list[str], pair: tuple[int, int]) -> Judged:
    """What lakespark says of the merge of the second commit into the first."""
    place = {commit: number for number, commit in enumerate(ids)}
    destination, source = (ids[number] for number in pair)
    bases = frozenset(place[base.id] for base in repo.merge_bases(destination, source))
    branch = repo.branch(f"merge-{pair[0]}-{pair[1]}").create(destination)
    try:
        merged = repo.commit(source).merge_into(branch, allow_empty=True)
    except MergeConflictError as error:
        return Judged(bases, Verdict(None, frozenset(error.conflicts["path"].to_pylist())))
    found = repo.commit(merged).objects_table()
    tree = dict(zip(found["path"].to_pylist(), found["checksum"].to_pylist(), strict=True))
    return Judged(bases, Verdict(tree, frozenset()))


def entry(identity: str) -> dict[str, str | int]:
    return {"physical_address": f"s3://elsewhere/{identity}", "size_bytes": 1, "checksum": identity}


def entries(tree: Tree) -> pa.Table:
    rows = [{"path": path, **entry(identity)} for path, identity in sorted(tree.items())]
    names = ("path", "physical_address", "size_bytes", "checksum")
    return pa.table({name: pa.array([row[name] for row in rows]) for name in names}) if rows else _NO_ENTRIES


_NO_ENTRIES = pa.table(
    {
        "path": pa.array([], pa.string()),
        "physical_address": pa.array([], pa.string()),
        "size_bytes": pa.array([], pa.int64()),
        "checksum": pa.array([], pa.string()),
    }
)


def git_judgement(
    folder: Path, history: list[Drawn], pairs: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], Judged]:
    """What git says of the merges, in a repository with the same history."""
    git(folder, "init", "--quiet", "--bare", "--template=", ".")
    git(folder, "fast-import", "--quiet", "--export-marks=marks", stdin=fast_import(history))
    marks = dict(line.split() for line in (folder / "marks").read_text().splitlines())
    ids = [marks[f":{number}"] for number in range(1, len(history) + 1)]
    place = {commit: number for number, commit in enumerate(ids)}
    judged = {}
    for pair in pairs:
        destination, source = (ids[number] for number in pair)
        bases = git(folder, "merge-base", "--all", destination, source).split()
        judged[pair] = Judged(frozenset(place[base] for base in bases), git_verdict(folder, destination, source))
    return judged


def git_verdict(folder: Path, destination: str, source: str) -> Verdict:
    """The answer of ``git merge-tree`` without renames."""
    options = ("--write-tree", "--name-only", "--no-messages")
    answer = git(folder, "-c", "merge.renames=false", "merge-tree", *options, destination, source, may_conflict=True)
    tree, *conflicts = answer.splitlines()
    if conflicts:
        return Verdict(None, frozenset(conflicts))
    listed = git(folder, "ls-tree", "-r", tree).splitlines()
    blobs = {line.split("\t")[1]: line.split()[2] for line in listed}
    contents = git(folder, "cat-file", "--batch=%(objecttype)", stdin="".join(f"{blob}\n" for blob in blobs.values()))
    identities = [line.split()[0] for line in contents.splitlines() if line not in ("blob", "")]
    return Verdict(dict(zip(blobs, identities, strict=True)), frozenset())


def fast_import(history: list[Drawn]) -> str:
    """The history as a stream for ``git fast-import``; the mark of a commit is its place + 1."""
    lines = []
    for place, commit in enumerate(history):
        lines += [f"commit refs/heads/b{place}", f"mark :{place + 1}", f"committer A <a@b> {commit.date} +0000"]
        lines += [f"data {len(str(place))}", str(place)]
        lines += [f"{'merge' if later else 'from'} :{parent + 1}" for later, parent in enumerate(commit.parents)]
        lines += ["deleteall"]
        for path, identity in commit.tree.items():
            lines += [f"M 100644 inline {path}", f"data {len(identity) + len(path) + 2}", f"{identity} {path}", ""]
    return "\n".join([*lines, "done", ""])


def git(folder: Path, *arguments: str, stdin: str = "", may_conflict: bool = False) -> str:
    """Run git in a folder, with no configuration but its own; its output."""
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_DIR": str(folder)}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode in ((0, 1) if may_conflict else (0,)), done.stderr
    return done.stdout
