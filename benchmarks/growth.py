"""Does small work get slower as a history grows? ``python -m benchmarks.growth [commits|opening|history] [--most N]``.

``commits`` makes a long history of one-object commits and merges on one handle and gives medians around marks, and
the total over their number, compactions included. ``opening`` counts what a new handle does to open a repository
and stat one path after so many operations. ``history`` asks for the history of one path, which every hundredth of so
many commits of one object changed, among 100,000 entries; ``--folder`` keeps it, and takes the one that is there.
"""

import argparse
import random
import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lakespark
from benchmarks.local import entries, path_of, repository
from benchmarks.measure import fresh_folder, report, seconds
from lakespark.operations.opened import OpenRepository
from lakespark.storage import open_store
from lakespark.testing.faults import FaultyStore

WINDOW = 50


def commits(folder: Path, most: int) -> dict[str, Any]:
    """Medians of a commit and of a merge of one object, around 100 and around ``most`` commits."""
    repo = lakespark.Lake(folder / "lake").repository("benchmark").create()
    main = repo.branch("main")
    commit_times: list[float] = []
    merge_times: list[float] = []
    while 2 * len(commit_times) < most:
        number = len(commit_times)
        dev = repo.branch("dev")
        if number:
            dev.delete()
        dev.create("main")
        main.object(f"main/{number % 500}").upload(f"{number}")
        commit_times.append(seconds(lambda: main.commit("one object")))
        dev.object(f"dev/{number % 500}").upload(f"{number}")
        dev.commit("one object")
        merge_times.append(seconds(lambda dev=dev: dev.merge_into(main)))
    return {
        "commits": 3 * len(commit_times) + 1,
        **_medians("commit", commit_times),
        **_medians("merge", merge_times),
    }


def _medians(name: str, times: list[float]) -> dict[str, float]:
    return {
        f"{name}_ms_at_100": round(statistics.median(times[33 - 25 : 33 + 25]) * 1000, 2),
        f"{name}_ms_at_end": round(statistics.median(times[-WINDOW:]) * 1000, 2),
        f"{name}_ms_mean_of_all": round(statistics.fmean(times) * 1000, 2),
    }


def opening(folder: Path, most: int) -> dict[str, Any]:
    """Requests and milliseconds of a new handle that opens the repository and stats one path."""
    repo = lakespark.Lake(folder / "lake").repository("benchmark").create()
    repo.branch("main").object("a").upload("a")
    repo.branch("main").commit("a")
    figures: dict[str, Any] = {}
    operations = 2
    for mark in sorted({10, 1000, most}):
        while operations < mark:
            repo.branch("work").create("main")
            repo.branch("work").delete()
            operations += 2
        figures[f"after_{mark}"] = _open_and_stat(folder / "lake" / "benchmark")
    return figures


def _open_and_stat(namespace: Path) -> dict[str, float]:
    def work() -> FaultyStore:
        store = FaultyStore(open_store(str(namespace)))
        opened = OpenRepository(store, user="benchmark", options={})
        lakespark.Repository(None, None, opened).branch("main").object("a").stat()
        return store

    times = [seconds(work) for _ in range(21)]
    return {"requests": len(work().calls), "ms": round(statistics.median(times) * 1000, 2)}


def history(folder: Path, most: int) -> dict[str, Any]:
    """The history of one path, as a table and as a log, by a new handle each time."""
    count = 100_000
    if not (folder / "lake").exists():
        _grow(repository(folder, count).branch("main"), count, most)
    expected = -(-most // 100) + 1
    figures: dict[str, Any] = {"commits": most, "entries": count, "changes": expected}
    for name, look in (("table", _history_table), ("log", _filtered_log)):
        start = time.process_time()
        times = [seconds(lambda look=look: _check(look(_opened(folder)), expected)) for _ in range(3)]
        cpu = (time.process_time() - start) / len(times)
        figures |= {f"{name}_s": round(statistics.median(times), 2), f"{name}_cpu_s": round(cpu, 2)}
    return figures


def _grow(main: lakespark.Branch, count: int, most: int) -> None:
    rng = random.Random(1)
    for number in range(most):
        main.stage(entries([rng.randrange(1, count) if number % 100 else 0], version=f"{number + 1:05d}"))
        main.commit("one object")


def _opened(folder: Path) -> lakespark.Repository:
    return lakespark.Lake(folder / "lake").repository("benchmark")


def _history_table(repo: lakespark.Repository) -> int:
    return int(repo.inspect().history(path_of(0)).num_rows)


def _filtered_log(repo: lakespark.Repository) -> int:
    return sum(1 for _ in repo.branch("main").log(objects=[path_of(0)]))


def _check(found: int, expected: int) -> None:
    if found != expected:
        raise AssertionError(f"{found} commits changed the path, not {expected}")


BENCHMARKS = {"commits": (commits, 5_000), "opening": (opening, 10_000), "history": (history, 5_000)}


def main(argv: list[str]) -> int:
    """Run the named benchmarks, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], metavar="NAME")
    parser.add_argument("--most", type=int)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args(argv)
    for name in args.names or BENCHMARKS:
        work, most = BENCHMARKS[name]
        with nullcontext(args.folder) if args.folder else fresh_folder() as folder:
            report(name, work(folder, args.most or most))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
