"""Speed and memory on a local folder: ``python -m benchmarks.local NAME ...`` or ``all``, a line of JSON each.

Every benchmark runs in a process of its own. Sizes are those of the table in README.md; ``--entries`` changes
the million.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import lakespark
from benchmarks.measure import fresh_folder, median_ms, report, seconds

MILLION = 1_000_000
Figures = dict[str, Any]
BENCHMARKS: dict[str, Callable[[Path, int], Figures]] = {}


def benchmark(work: Callable[[Path, int], Figures]) -> Callable[[Path, int], Figures]:
    """Register a benchmark under its name with dashes."""
    BENCHMARKS[work.__name__.replace("_", "-")] = work
    return work


def path_of(number: int) -> str:
    """The path of an entry: a thousand folders, as a partitioned table has."""
    return f"data/part={number % 1000:04d}/file-{number:08d}.parquet"


def entries(numbers: list[int] | range, version: str = "0") -> pa.Table:
    """Entries with the given numbers; another version is other contents. Made as Arrow, without Python objects."""
    table = pa.table({"n": pa.array(numbers, pa.int64())})
    made = (
        duckdb.connect()
        .from_arrow(table)
        .project(
            f"""
        printf('data/part=%04d/file-%08d.parquet', n % 1000, n) as path,
        printf('s3://lake/some/prefix/{version}/%032x.parquet', n) as physical_address,
        1000 + n % 777 as size_bytes,
        printf('{version}%031x', n) as checksum,
        1700000000 as mtime
        """
        )
    )
    return made.to_arrow_table()


def repository(folder: Path, count: int, *, durable: bool = False) -> lakespark.Repository:
    """A repository with so many entries committed on main."""
    repo = lakespark.Lake(folder / "lake", durable=durable).repository("benchmark").create()
    repo.branch("main").stage(entries(range(count)))
    repo.branch("main").commit("base")
    return repo


def scattered(count: int, share: float, seed: int) -> list[int]:
    """Numbers of a share of the entries, spread evenly at random, in order."""
    return sorted(random.Random(seed).sample(range(count), int(count * share)))


def sorted_run(count: int, share: float, start: float) -> list[int]:
    """Numbers of a share of the entries whose paths lie side by side."""
    in_order = sorted(range(count), key=path_of)
    first = int(count * start)
    return in_order[first : first + int(count * share)]


@benchmark
def bulk_stage_and_commit(folder: Path, count: int) -> Figures:
    """Stage entries in bulk and commit them on an empty branch."""
    main = lakespark.Lake(folder / "lake").repository("benchmark").create().branch("main")
    table = entries(range(count))
    main.objects_table()
    stage = seconds(lambda: main.stage(table))
    commit = seconds(lambda: main.commit("bulk"))
    return {"entries": count, "stage_s": stage, "commit_s": commit, "total_s": stage + commit}


@benchmark
def commit_scattered(folder: Path, count: int) -> Figures:
    """Commit 10,000 changes scattered over all entries."""
    main = repository(folder, count).branch("main")
    times = []
    for seed in range(3):
        main.stage(entries(scattered(count, 0.01, seed), version=str(seed + 1)))
        times.append(seconds(lambda: main.commit("scattered")))
    return {"entries": count, "changes": count // 100, "commit_s": sorted(times)[1], "all_s": times}


def _merge(folder: Path, count: int, source: list[int], destination: list[int]) -> Figures:
    repo = repository(folder, count)
    main = repo.branch("main")
    base = str(main.head.id)
    main.stage(entries(destination, version="1"))
    main.commit("destination")
    dev = repo.branch("dev").create(base)
    dev.stage(entries(source, version="2"))
    dev.commit("source")
    times = []
    for number in range(5):
        into = repo.branch(f"into-{number}").create("main")
        times.append(seconds(lambda into=into: dev.merge_into(into)))
    return {"entries": count, "merge_s": sorted(times)[2], "all_s": times}


@benchmark
def merge_scattered(folder: Path, count: int) -> Figures:
    """Merge 1 % + 1 % of changes scattered over all entries, without conflict."""
    chosen = scattered(count, 0.02, 0)
    return _merge(folder, count, chosen[::2], chosen[1::2])


@benchmark
def merge_clustered(folder: Path, count: int) -> Figures:
    """The same with each side's changes side by side."""
    return _merge(folder, count, sorted_run(count, 0.01, 0.2), sorted_run(count, 0.01, 0.7))


@benchmark
def diff_scattered(folder: Path, count: int) -> Figures:
    """Two-dot diff of 1 % scattered changes, all rows."""
    repo = repository(folder, count)
    main = repo.branch("main")
    main.stage(entries(scattered(count, 0.01, 0), version="1"))
    main.commit("scattered")
    before = repo.ref("main~1")
    rows = len(list(before.diff("main", type="two_dot")))
    times = [seconds(lambda: before.diff_table("main", type="two_dot")) for _ in range(5)]
    objects = [seconds(lambda: list(before.diff("main", type="two_dot"))) for _ in range(5)]
    return {"entries": count, "rows": rows, "arrow_s": sorted(times)[2], "objects_s": sorted(objects)[2]}


@benchmark
def commit_one_object(folder: Path, count: int) -> Figures:
    """Commit of one object on 10,000 and on all entries."""
    figures: Figures = {}
    for size in (10_000, count):
        main = repository(folder / str(size), size).branch("main")
        rng = random.Random(size)
        times = []
        for number in range(31):
            main.stage(entries([rng.randrange(size)], version=f"{number + 1:02d}"))
            times.append(seconds(lambda main=main: main.commit("one")))
        figures[f"median_ms_on_{size}"] = round(sorted(times)[15] * 1000, 2)
    return figures


@benchmark
def merge_one_object(folder: Path, count: int) -> Figures:
    """Three-way merge of one object on each side."""
    repo = repository(folder, count)
    main = repo.branch("main")
    rng = random.Random(1)
    times = []
    for number in range(21):
        dev = repo.branch(f"dev-{number}").create("main")
        one, other = rng.sample(range(count), 2)
        dev.stage(entries([one], version=f"1{number:02d}"))
        dev.commit("source")
        main.stage(entries([other], version=f"2{number:02d}"))
        main.commit("destination")
        times.append(seconds(lambda dev=dev: dev.merge_into(main)))
    return {"entries": count, "median_ms": round(sorted(times)[10] * 1000, 2)}


@benchmark
def create_branch(folder: Path, count: int) -> Figures:
    """Create a branch."""
    repo = repository(folder, min(count, 10_000))
    return {"median_ms": median_ms(lambda number: repo.branch(f"b{number}").create("main"), 301)}


@benchmark
def upload_small(folder: Path, count: int) -> Figures:
    """Upload one-byte objects to one branch from 64 threads, each acknowledged; then list and stat them."""
    uploads = min(count, 10_000)
    repo = lakespark.Lake(folder / "lake").repository("benchmark").create()
    main = repo.branch("main")
    main.object("first").upload(b"x")
    with ThreadPoolExecutor(64) as pool:
        start = time.perf_counter()
        list(pool.map(lambda number: main.object(path_of(number)).upload(b"x"), range(uploads)))
        elapsed = time.perf_counter() - start
    listed = seconds(lambda: list(main.objects()))
    stat = median_ms(lambda number: main.object(path_of(number * 7)).stat(), 201)
    found = sum(1 for _ in main.objects())
    return {
        "uploads": uploads,
        "per_second": round(uploads / elapsed),
        "list_s": listed,
        "stat_ms": stat,
        "listed": found,
    }


@benchmark
def stat_committed(folder: Path, count: int) -> Figures:
    """Stat of a committed path, repository open, at a commit, at a tag and at a branch."""
    repo = repository(folder, count)
    repo.tag("v1").create("main")
    head = repo.branch("main").head.id
    rng = random.Random(3)
    numbers = [rng.randrange(count) for _ in range(2001)]
    return {
        "entries": count,
        **{
            f"median_ms_at_{kind}": median_ms(
                lambda number, ref=ref: repo.ref(ref).object(path_of(numbers[number])).stat(), len(numbers)
            )
            for kind, ref in (("commit", head), ("tag", "v1"), ("branch", "main"))
        },
    }


@benchmark
def list_all(folder: Path, count: int) -> Figures:
    """List all entries as Arrow and as Python objects."""
    repo = repository(folder, count)
    head = repo.branch("main").head
    arrow = [seconds(head.objects_table) for _ in range(5)]
    objects = [seconds(lambda: sum(1 for _ in head.objects())) for _ in range(3)]
    return {"entries": count, "arrow_s": sorted(arrow)[2], "objects_s": sorted(objects)[1]}


def _written(folder: Path, count: int, *, durable: bool) -> Figures:
    repo = repository(folder, 10_000, durable=durable)
    main = repo.branch("main")
    uploads, commits = [], []
    for number in range(31):
        uploads.append(seconds(lambda number=number: main.object(path_of(number)).upload(b"%d" % number)))
        commits.append(seconds(lambda: main.commit("one")))
    many = min(count, 2_000)
    with ThreadPoolExecutor(64) as pool:
        elapsed = seconds(lambda: list(pool.map(lambda n: main.object(path_of(n)).upload(b"x"), range(many))))
    return {
        "upload_ms": round(sorted(uploads)[15] * 1000, 2),
        "commit_one_object_ms": round(sorted(commits)[15] * 1000, 2),
        "uploads_per_second": round(many / elapsed),
        "stage_and_commit_s": seconds(lambda: repository(folder / "bulk", count, durable=durable)),
    }


@benchmark
def durable(folder: Path, count: int) -> Figures:
    """What it costs to sync to the disk: uploads and commits of one object, and all entries, without and with it."""
    _written(folder / "first", min(count, 10_000), durable=False)  # imports what is needed once
    return {
        "entries": count,
        "default": _written(folder / "default", count, durable=False),
        "durable": _written(folder / "durable", count, durable=True),
    }


def main(argv: list[str]) -> int:
    """Run the named benchmarks, each in a process of its own unless only one is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=["all", *BENCHMARKS], metavar="NAME")
    parser.add_argument("--entries", type=int, default=MILLION)
    args = parser.parse_args(argv)
    if len(args.names) == 1 and args.names != ["all"]:
        with fresh_folder() as folder:
            report(args.names[0], BENCHMARKS[args.names[0]](folder, args.entries))
        return 0
    names = list(BENCHMARKS) if "all" in args.names else args.names
    command = [sys.executable, "-m", "benchmarks.local", "--entries", str(args.entries)]
    return max(subprocess.run([*command, name], check=False).returncode for name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
