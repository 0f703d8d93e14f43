"""Merges that people made: the 600 with one best base and the 14 with several give the expected results."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from lakespark import Branch, Lake, Reference, Repository, graph
from lakespark.errors import MergeConflictError
from lakespark.testing.history import (
    CONFLICT,
    History,
    MergeCase,
    MergedPath,
    Tree,
    checksum_of,
    entries_of,
    read_history,
    read_several_bases,
    read_three_way,
    resolutions_for,
)

DATA = Path(__file__).parents[1] / "data" / "git-lfs-history"


@pytest.fixture(scope="module")
def history() -> History:
    return read_history(DATA)


def test_every_merge_with_one_base_gives_the_expected_tree(lake: Lake):
    """All 600 merges as one, each below a folder of its own."""
    paths = [
        path._replace(path=f"{case.merge:05d}/{path.path}") for case in read_three_way(DATA) for path in case.paths
    ]
    assert len(paths) == 22_053
    repo = lake.repository("history").create(range_entries=1000)
    main = repo.branch("main")
    commit_tree(main, {path.path: path.base for path in paths if path.base is not None})
    source = repo.branch("source").create("main")
    destination = repo.branch("destination").create("main")
    commit_tree(source, {path.path: path.source for path in paths if path.source is not None})
    commit_tree(destination, {path.path: path.destination for path in paths if path.destination is not None})
    conflicts = {path.path: path for path in paths if path.expected == CONFLICT}
    assert len(conflicts) == 326

    with pytest.raises(MergeConflictError) as caught:
        source.merge_into(destination)
    found = {row["path"]: row for row in caught.value.conflicts.to_pylist()}
    assert {name: sides_of(row) for name, row in found.items()} == {
        name: (path.base, path.source, path.destination) for name, path in conflicts.items()
    }

    merged = source.merge_into(destination, strategy="source-wins")
    assert merged.conflicts["path"].to_pylist() == sorted(conflicts)
    assert tree_of(repo.commit(merged)) == checksums(paths, conflict=lambda path: path.source)


def sides_of(row: Mapping[str, Any]) -> tuple[str | None, ...]:
    """What base, source and destination have in a row of conflicts, as identities of the history."""
    addresses = (row[f"{side}_physical_address"] for side in ("base", "source", "destination"))
    return tuple(identity_at(address) for address in addresses)


def identity_at(address: str | None) -> str | None:
    return None if address is None else ":".join(address.rsplit("/", 2)[1:])


def checksums(paths: Iterable[MergedPath], *, conflict: Any) -> dict[str, str]:
    """The expected tree, with a side's value where there is a conflict."""
    values = ((path.path, conflict(path) if path.expected == CONFLICT else path.expected) for path in paths)
    return {name: checksum_of(value) for name, value in values if value is not None}


def tree_of(reference: Reference) -> dict[str, str]:
    found: pa.Table = reference.objects_table()
    return dict(zip(found["path"].to_pylist(), found["checksum"].to_pylist(), strict=True))


def commit_tree(
    branch: Branch, tree: Tree, message: str = "", date: int = 0, before: Iterable[str] | None = None
) -> str:
    """Commit a whole tree on a branch; built in process, since only the merges are under test."""
    if before is None:
        before = branch.objects_table()["path"].to_pylist()
    branch.delete_objects(sorted(set(before) - tree.keys()))
    branch.stage(entries_of(tree))
    return branch.commit(message, date=date, allow_empty=True, engine="duckdb").id


class Ancestry(NamedTuple):
    """The commits that decide a merge, by their places: oldest first, and at the end destination and source.

    Beside these two they are the best bases of any two of them, again and again. ``parents`` are the nearest
    ancestors among them, so that the best bases of any two are the real ones.
    """

    parents: tuple[tuple[int, ...], ...]
    bases: tuple[int, ...]


def test_every_merge_with_several_bases_gives_the_expected_tree(lake: Lake, history: History):
    """The 14 merges, those of equal ancestry as one, over the trees of their bases, of the bases of these and so on."""
    repo = lake.repository("history").create(range_entries=100)
    groups: dict[Ancestry, list[tuple[MergeCase, list[int]]]] = {}
    for case in read_several_bases(DATA):
        commits = deciding_commits(history, case)
        groups.setdefault(ancestry_of(history, case, commits), []).append((case, commits))
    assert sum(map(len, groups.values())) == 14
    assert sum(check_merges(repo, history, ancestry, cases) for ancestry, cases in groups.items()) == 7


def check_merges(
    repo: Repository, history: History, ancestry: Ancestry, cases: Sequence[tuple[MergeCase, Sequence[int]]]
) -> int:
    """Merge cases of one ancestry, each below a folder of its own, and compare. The number of conflicts."""
    trees = [below_folders(history, cases, place) for place in range(len(ancestry.parents))]
    paths = [path._replace(path=f"{case.merge:05d}/{path.path}") for case, _ in cases for path in case.paths]
    conflicts = sorted(path.path for path in paths if path.expected == CONFLICT)
    ids = rebuild(repo, f"case-{cases[0][0].merge}", ancestry, trees)
    *_, destination, source = ids
    assert [base.id for base in repo.merge_bases(destination, source)] == [ids[base] for base in ancestry.bases]

    branch = repo.branch(f"merge-{cases[0][0].merge}").create(destination)
    merged = repo.commit(source).merge_into(branch, strategy="dest-wins")
    assert merged.conflicts["path"].to_pylist() == conflicts
    listed = {path.path for path in paths}
    unlisted = {path: checksum_of(identity) for path, identity in trees[-2].items() if path not in listed}
    assert tree_of(repo.commit(merged)) == unlisted | checksums(paths, conflict=lambda path: path.destination)
    return len(conflicts)


def below_folders(history: History, cases: Sequence[tuple[MergeCase, Sequence[int]]], place: int) -> Tree:
    """The trees that the cases have at one place of their ancestry, each below its folder."""
    trees = {case.merge: history.tree(commits[place]) for case, commits in cases}
    return {f"{merge:05d}/{path}": identity for merge, tree in trees.items() for path, identity in tree.items()}


def deciding_commits(history: History, case: MergeCase) -> list[int]:
    """The commits of the case's ancestry in the order of their places."""
    found = [case.source, case.destination]
    for place, commit in enumerate(found):  # grows while it is walked
        for other in found[:place]:
            bases = graph.merge_bases(parents_in(history), str(commit), str(other), number=int)
            found.extend(base for base in map(int, bases) if base not in found)
    oldest_first = sorted(found[2:], key=lambda commit: (history.commits[commit].time, commit))
    return [*oldest_first, case.destination, case.source]


def ancestry_of(history: History, case: MergeCase, commits: Sequence[int]) -> Ancestry:
    """How the deciding commits of a case hang together."""
    above = {commit: graph.ancestors(parents_in(history), [str(commit)]) - {str(commit)} for commit in commits}
    over = {commit: [other for other in commits if str(other) in above[commit]] for commit in commits}
    nearest = [[a for a in over[commit] if not any(str(a) in above[b] for b in over[commit])] for commit in commits]
    bases = [place for place, commit in enumerate(commits) if commit in case.bases]
    return Ancestry(tuple(tuple(map(commits.index, line)) for line in nearest), tuple(bases))


def parents_in(history: History) -> graph.Parents:
    return lambda commit: [str(parent) for parent in history.parents(int(commit))]


def rebuild(repo: Repository, name: str, ancestry: Ancestry, trees: Sequence[Tree]) -> list[str]:
    """Commits with this ancestry and these trees; of more than two parents the first are merged step by step."""
    ids: list[str] = []
    for place, (parents, tree) in enumerate(zip(ancestry.parents, trees, strict=True)):
        branch = repo.branch(f"{name}-{place}").create(ids[parents[0]] if parents else "main")
        if len(parents) < 2:
            ids.append(commit_tree(branch, tree, branch.id, place))
            continue
        for step, parent in enumerate(parents[1:]):
            there = trees[parents[0]] if step == 0 else tree
            merged = repo.commit(ids[parent]).merge_into(
                branch,
                message=f"{branch.id}.{step}",
                date=place,
                resolutions=resolutions_for(tree, there, trees[parent]),
                allow_empty=True,
                engine="duckdb",
            )
        ids.append(merged)
    return ids
