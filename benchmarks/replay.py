"""Replay a real history into a repository: ``python -m benchmarks.replay``.

Every commit of the history becomes one commit with the recorded parents, date and tree, made through the public
API: changes are staged and committed, merges are made with ``resolutions=``. Commits lie on as many branches as the
history needs: a branch is made where a line of commits leaves another, and deleted when its last commit has all its
children. The first commit of the history stands on the repository's own initial commit. Prints a line of JSON.
"""

import argparse
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakespark
from benchmarks.measure import fresh_folder, report
from lakespark.testing.history import (
    History,
    PastCommit,
    Tree,
    checksum_of,
    entries_of,
    read_history,
    resolutions_for,
)

HISTORY = Path(__file__).parents[1] / "tests" / "data" / "git-lfs-history"
VERIFIED = 24
MARKS = (100, 1_000, 5_000, 11_000)
WINDOW = 100
"""Latencies are medians over so many commits up to a mark."""


class Replay:
    """A history on its way into a repository."""

    def __init__(self, repo: lakespark.Repository, history: History) -> None:
        self.repo = repo
        self.history = history
        self.ids: dict[int, str] = {}
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []
        self.operations = 0
        self._branches: dict[int, str] = {}
        self._children = Counter(parent for commit in history.commits for parent in commit.parents)

    def run(self, limit: int, verified: set[int]) -> dict[int, Tree]:
        """Replay the first ``limit`` commits; the trees of those to verify."""
        wanted = {}
        for commit, tree, before in self.history.with_trees():
            if commit.number >= limit:
                break
            work = self._merge(commit, tree, before) if len(before) > 1 else self._commit(commit)
            start, cpu_start = time.perf_counter(), time.process_time()
            branch = self._branch_at(commit.parents[0] if commit.parents else None, commit.number)
            self.ids[commit.number] = work(branch)
            self._leave(commit, branch)
            self.seconds.append(time.perf_counter() - start)
            self.cpu_seconds.append(time.process_time() - cpu_start)
            if commit.number in verified:
                wanted[commit.number] = dict(tree)
        return wanted

    def _branch_at(self, parent: int | None, number: int) -> lakespark.Branch:
        """A branch whose head is the parent: the one that led there, or a new one."""
        if parent is None:
            return self.repo.branch("main")
        name = self._branches.pop(parent, None)
        if name is not None:
            return self.repo.branch(name)
        self.operations += 1
        return self.repo.branch(f"line-{number}").create(self.ids[parent])

    def _leave(self, commit: PastCommit, branch: lakespark.Branch) -> None:
        """Count the children that are there, and delete branches that no commit will follow."""
        self.operations += 1
        self._branches[commit.number] = branch.id
        for parent in commit.parents:
            self._children[parent] -= 1
            if not self._children[parent] and (name := self._branches.get(parent)) not in (None, "main"):
                del self._branches[parent]
                self.repo.branch(name).delete()
                self.operations += 1

    def _commit(self, commit: PastCommit) -> Any:
        changes = self.history.changes(commit.number)
        deleted = [path for path, identity in changes.items() if identity is None]
        entries = entries_of({path: identity for path, identity in changes.items() if identity is not None})

        def work(branch: lakespark.Branch) -> str:
            branch.delete_objects(deleted)
            branch.stage(entries)
            return branch.commit(str(commit.number), date=commit.time, allow_empty=not changes).id

        return work

    def _merge(self, commit: PastCommit, tree: Tree, before: tuple[Tree, ...]) -> Any:
        source = self.ids[commit.parents[1]]
        resolutions = resolutions_for(tree, *before)

        def work(branch: lakespark.Branch) -> str:
            return self.repo.commit(source).merge_into(
                branch, message=str(commit.number), date=commit.time, resolutions=resolutions, allow_empty=True
            )

        return work


def check_parents(replay: Replay) -> int:
    """How many commits have exactly the recorded parents; raises SystemExit for one that has not."""
    number_of = {commit_id: number for number, commit_id in replay.ids.items()}
    if len(number_of) != len(replay.ids):
        raise SystemExit("two commits of the history have one id")
    for number, commit_id in replay.ids.items():
        commit = replay.repo.commit(commit_id).get_commit()
        parents = tuple(number_of[parent] for parent in commit.parents if parent in number_of)
        if parents != replay.history.parents(number):
            raise SystemExit(f"commit {number} has parents {parents}")
    return len(number_of)


def check_trees(replay: Replay, wanted: dict[int, Tree]) -> int:
    """How many trees equal the source; raises SystemExit for one that does not."""
    for number, tree in wanted.items():
        found: pa.Table = replay.repo.commit(replay.ids[number]).objects_table()
        have = dict(zip(found["path"].to_pylist(), found["checksum"].to_pylist(), strict=True))
        if have != {path: checksum_of(identity) for path, identity in tree.items()}:
            raise SystemExit(f"the tree of commit {number} is not that of the history")
    return len(wanted)


def files_of(folder: Path) -> tuple[int, int]:
    """Number and bytes of the files below a folder."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def medians_ms(seconds: list[float]) -> dict[str, float]:
    """Median milliseconds a commit, the branches made and deleted for it included, up to each mark."""
    marks = [mark for mark in MARKS if mark <= len(seconds)]
    return {str(mark): round(statistics.median(seconds[mark - WINDOW : mark]) * 1000, 2) for mark in marks}


def replay_into(lake: Path, options: argparse.Namespace) -> None:
    history = read_history(options.history)
    limit = min(options.limit or len(history.commits), len(history.commits))
    verified = {round(step * (limit - 1) / (VERIFIED - 1)) for step in range(VERIFIED)}
    repo = lakespark.Lake(lake, user="replay", engine=options.engine).repository("replay").create()
    replay = Replay(repo, history)
    start = time.perf_counter()
    wanted = replay.run(limit, verified)
    seconds = time.perf_counter() - start
    reopened = lakespark.Lake(lake, engine=options.engine).repository("replay")
    replay.repo = reopened
    files, size = files_of(lake / "replay")
    figures = {
        "commits": limit,
        "operations": replay.operations,
        "seconds": round(seconds, 2),
        "commits_per_second": round(limit / seconds, 1),
        "cpu_seconds": round(sum(replay.cpu_seconds), 2),
        "median_ms_at_commit": medians_ms(replay.seconds),
        "median_cpu_ms_at_commit": medians_ms(replay.cpu_seconds),
        "files": files,
        "bytes_written": size,
        "parents_verified": check_parents(replay),
        "trees_verified": check_trees(replay, wanted),
    }
    report("replay", figures)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=__doc__.splitlines()[0])
    parser.add_argument("--history", type=Path, default=HISTORY, help="folder of the tables (default: the git-lfs one)")
    parser.add_argument(
        "--lake", type=Path, help="an empty folder to keep the repository in (default: a temporary one)"
    )
    parser.add_argument("--limit", type=int, help="replay only the first so many commits")
    parser.add_argument("--engine", default="duckdb", choices=["duckdb", "auto"], help="default: duckdb")
    options = parser.parse_args()
    if options.lake:
        replay_into(options.lake, options)
    else:
        with fresh_folder() as folder:
            replay_into(folder / "lake", options)


if __name__ == "__main__":
    main()
