"""What small work costs on an object store: ``python -m benchmarks.requests [NAME|all] [--delay-ms N] [--sources N]``.

On an S3 server in a process of its own (that of the tests). Calls of the store are counted, each of which is one
request but for listings of more than 1,000 files and contents above 16 MB, and each waits ``--delay-ms``
(default 30) before it is sent, as if the store were that far away.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import lakespark
from benchmarks.measure import report, seconds
from lakespark.operations.creation import check_format
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Store, open_store
from lakespark.testing.faults import FaultyStore
from tests.s3_server import S3Server

TIMES = 9


class Distant:
    """A repository on the server, seen from handles that count their calls and wait before each of them."""

    def __init__(self, server: S3Server, delay_s: float) -> None:
        self.delay_s = delay_s
        self.url = f"s3://{server.make_bucket()}/lake"
        lakespark.Lake(self.url, **server.options).repository("benchmark").create(storage_namespace=self.url)
        self._store = open_store(self.url, **server.options)

    def handle(self, *, is_near: bool = False) -> tuple[FaultyStore, lakespark.Repository]:
        """A new handle, which has read nothing; ``is_near`` for preparations, which do not wait."""
        store = FaultyStore(self._store, on_call=None if is_near else lambda _: time.sleep(self.delay_s))
        return store, repository_at(store)


def repository_at(store: Store) -> lakespark.Repository:
    """A repository over a store."""
    return lakespark.Repository(None, None, OpenRepository(store, user="benchmark", options={}))


def counted(store: FaultyStore, work: Callable[[int], Any], prepare: Callable[[int], Any] | None = None) -> Any:
    """Median calls and milliseconds of some repetitions, each after its preparation."""
    calls, times = [], []
    for number in range(TIMES):
        if prepare is not None:
            prepare(number)
        store.heal()
        times.append(seconds(lambda number=number: work(number)))
        calls.append(len(store.calls))
    return {"requests": statistics.median(calls), "most_requests": max(calls), "ms": _ms(statistics.median(times))}


def commit(distant: Distant) -> dict[str, Any]:
    """A commit of one staged object, a branch, and an upload that is acknowledged, the repository being open."""
    store, repo = distant.handle()
    main = repo.branch("main")
    main.get_commit()
    upload = counted(store, lambda n: main.object(f"a/{n}").upload(str(n)))
    committed = counted(
        store, lambda n: main.commit(f"number {n}"), prepare=lambda n: main.object(f"b/{n}").upload(str(n))
    )
    branch = counted(store, lambda n: repo.branch(f"dev-{n}").create("main"))
    return {"commit": committed, "branch": branch, "upload": upload}


def opening(distant: Distant) -> dict[str, Any]:
    """Opening a repository and one stat, cold, after so many operations: commits, merges, branches and tags."""
    _, near = distant.handle(is_near=True)
    figures, operations = {}, 1
    for mark in (1_000, 10_000):
        while operations < mark:
            operations += _four_operations(near, operations)
        cold: list[tuple[int, float]] = []
        for _ in range(TIMES):
            store, repo = distant.handle()

            def stat(repo: lakespark.Repository = repo) -> None:
                check_format(repo.opened)
                repo.branch("main").object("path/1").stat()

            cold.append((seconds(stat), len(store.calls)))
            operations += _four_operations(near, operations)
        figures[f"after_{mark}"] = {
            "requests": statistics.median(calls for _, calls in cold),
            "most_requests": max(calls for _, calls in cold),
            "ms": _ms(statistics.median(time for time, _ in cold)),
        }
    return figures


def _four_operations(repo: lakespark.Repository, number: int) -> int:
    main, dev = repo.branch("main"), repo.branch("dev").create("main", exist_ok=True)
    dev.object(f"path/{number % 40}").upload(str(number))
    dev.commit("one object")
    dev.merge_into(main)
    dev.delete()
    return 4


def uploads(distant: Distant) -> dict[str, Any]:
    """1,000 small uploads to one branch by 32 threads, each acknowledged."""
    store, repo = distant.handle()
    main = repo.branch("main")
    main.get_commit()
    store.heal()

    def upload_all() -> None:
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(lambda n: main.object(f"small/{n}").upload(str(n)), range(1_000)))

    took = seconds(upload_all)
    return {"per_second": round(1_000 / took), "requests": len(store.calls)}


def writers(distant: Distant) -> dict[str, Any]:
    """8 writers, each with a handle and a branch of its own, 20 commits each; beside them one writer alone."""
    alone = _commit_in_turn(distant, "alone", threading.Barrier(1))
    barrier = threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda n: _commit_in_turn(distant, f"writer-{n}", barrier), range(8)))
    return {
        "requests_a_commit_alone": round(alone / 20, 1),
        "requests_a_commit_of_8": round(statistics.fmean(together) / 20, 1),
    }


def _commit_in_turn(distant: Distant, name: str, barrier: threading.Barrier) -> int:
    """Requests of 20 commits on a branch of its own; the uploads do not count."""
    store, repo = distant.handle()
    branch = repo.branch(name).create("main")
    calls = 0
    barrier.wait()
    for number in range(20):
        branch.object(f"{name}/{number}").upload(str(number))
        store.heal()
        branch.commit(f"number {number}")
        calls += len(store.calls)
    return calls


def merging(distant: Distant, sources: int = 4_000) -> dict[str, Any]:
    """Many branches, each with one file, merged into main as one operation."""
    _, near = distant.handle(is_near=True)

    def prepare(number: int) -> str:
        branch = near.branch(f"load-{number:05d}").create("main~0" if number else "main")
        branch.object(f"loads/{number:05d}").upload(str(number))
        branch.commit(f"load {number}")
        return branch.id

    names = [prepare(number) for number in range(sources)]
    store, repo = distant.handle()
    main = repo.branch("main")
    main.get_commit()
    store.heal()
    took = seconds(lambda: main.merge_all(names))
    merged = sum(1 for _ in main.objects())
    return {"sources": sources, "merged": merged, "seconds": round(took, 1), "requests": len(store.calls)}


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "commit": commit,
    "opening": opening,
    "uploads": uploads,
    "writers": writers,
    "merging": merging,
}


@contextmanager
def distant_repository(delay_s: float) -> Iterator[Distant]:
    """A repository on a server that ends with the block."""
    with S3Server() as server:
        yield Distant(server, delay_s)


def _ms(time_s: float) -> float:
    return round(time_s * 1000, 1)


def main(argv: list[str]) -> None:
    """Run the named benchmark, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*WORK, "all"], nargs="?", default="all")
    parser.add_argument("--delay-ms", type=float, default=30)
    parser.add_argument("--sources", type=int, default=4_000)
    args = parser.parse_args(argv)
    for name in WORK if args.name == "all" else [args.name]:
        with distant_repository(args.delay_ms / 1000) as distant:
            more = {"sources": args.sources} if name == "merging" else {}
            report(f"requests {name}", {"delay_ms": args.delay_ms, **WORK[name](distant, **more)})


if __name__ == "__main__":
    main(sys.argv[1:])
