"""Ten million entries: ``python -m benchmarks.large [diff|merge] [--entries N]``, a line of JSON each.

``diff`` compares two trees of which every entry, and so every range, differs, on Spark, and writes all rows of the
result as Parquet. ``merge`` merges 10,000 changes on each side into the tree and into one of a tenth of its size, on
both engines, and counts the ranges that are read; a line for each merge. ``--folder`` keeps the trees, and takes those
that are there. CPU seconds are those of this process and its JVM, without Spark's Python workers.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

import lakespark
from benchmarks.measure import fresh_folder, report, seconds
from benchmarks.spark_session import cpu_seconds, peak_jvm_memory_mb, session
from lakespark.engine.duckdb import DuckDBEngine
from lakespark.engine.spark import SparkEngine

TEN_MILLION = 10_000_000
BATCH = 1_000_000
CHANGES = 10_000
SETTINGS = {"memory": "4g", "partitions": 16}
Figures = dict[str, Any]


def entries(numbers: pa.Array | str, version: str) -> pa.Table:
    """Entries in order of path; another version is other contents. ``numbers``: Arrow, or SQL that makes ``n``."""
    connection = duckdb.connect()
    if not isinstance(numbers, str):
        connection.register("given", pa.table({"n": numbers}))
    rows = connection.sql(
        f"""
        select
            printf('data/part=%06d/file-%08d.parquet', n // 1000, n) as path,
            's3://lake/some/prefix/{version}/' || md5('{version}' || n) || '.parquet' as physical_address,
            1000 + n % 777 as size_bytes,
            md5('contents {version} ' || n) as checksum,
            1700000000 as mtime
        from {numbers if isinstance(numbers, str) else "given"}
        """
    )
    return rows.to_arrow_table()


def with_tree(repo: lakespark.Repository, name: str, count: int, version: str) -> lakespark.Branch:
    """A branch with so many entries, committed a million at a time; as it is if it is there already."""
    branch = repo.branch(name)
    if name in {known.id for known in repo.branches()}:
        return branch
    work = repo.branch(f"{name}-growing").create("main")
    for start in range(0, count, BATCH):
        work.stage(entries(f"range({start}, {min(start + BATCH, count)}) numbers(n)", version))
        work.commit(f"from {start}")
    return branch.create(work)


def changed(repo: lakespark.Repository, name: str, numbers: Sequence[int], version: str) -> lakespark.Branch:
    """A branch off the base with other contents at some entries; a few a commit, so that each rewrites few ranges."""
    branch = repo.branch(name).create("base")
    for start in range(0, len(numbers), CHANGES // 10):
        branch.stage(entries(pa.array(numbers[start : start + CHANGES // 10], pa.int64()), version))
        branch.commit("changes")
    return branch


def diff(folder: Path, spark: SparkSession, count: int) -> Iterator[Figures]:
    """All rows of a full diff, as Parquet."""
    repo = opened(folder, spark, count)
    for name, version in (("base", "0"), ("other", "1")):
        with_tree(opened(folder, None, count), name, count, version)
    target = str(folder / "changes")

    def work() -> None:
        repo.inspect(spark).changes("base", "other").write.mode("overwrite").parquet(target)

    cpu = cpu_seconds()
    times = [seconds(work) for _ in range(2)]
    yield {
        "entries": count,
        "all_s": [round(time, 1) for time in times],
        "mean_cpu_s": round((cpu_seconds() - cpu) / len(times), 1),
        "rows": spark.read.parquet(target).where("type = 'changed'").count(),
    }


def merge(folder: Path, spark: SparkSession, count: int) -> Iterator[Figures]:
    """The merge on a tenth of the tree and on all of it, by both engines."""
    for engine, spread in product(("duckdb", "spark"), (in_runs, scattered)):
        for size in (count // 10, count):
            repo = opened(folder, None, size)
            with_tree(repo, "base", size, "0")
            sides = _sides(repo, spread(size))
            figures = _merge(opened(folder, spark, size), sides, engine)
            for side in sides:
                repo.branch(side).delete()
            yield {"entries": size, "changes": spread.__name__, "engine": engine, **figures}


def scattered(count: int) -> list[int]:
    """The entries that change, at random."""
    return sorted(random.Random(0).sample(range(count), min(2 * CHANGES, count)))


def in_runs(count: int) -> list[int]:
    """The entries that change, in a hundred places."""
    run = 2 * CHANGES // 100
    return [start + n for start in range(0, count, max(count // 100, 1)) for n in range(run)]


def _sides(repo: lakespark.Repository, chosen: Sequence[int]) -> list[str]:
    """Two branches, each of which changes every other one of the chosen entries."""
    return [changed(repo, name, chosen[n::2], name).id for n, name in enumerate(("source", "destination"))]


def _merge(repo: lakespark.Repository, sides: Sequence[str], engine: str) -> Figures:
    source, destination = map(repo.branch, sides)
    cpu = cpu_seconds()
    with counted_reads() as reads:
        elapsed = seconds(lambda: source.merge_into(destination, engine=engine))
    return {"merge_s": round(elapsed, 1), "cpu_s": round(cpu_seconds() - cpu, 1), "range_reads": sum(reads)}


@contextmanager
def counted_reads() -> Iterator[list[int]]:
    """The numbers of ranges that the engines are asked to read."""
    reads: list[int] = []

    def counting(read: Callable[..., Any]) -> Callable[..., Any]:
        def counted(engine: Any, ranges: Sequence[Any], columns: Sequence[str]) -> Any:
            reads.append(len(ranges))
            return read(engine, ranges, columns)

        return counted

    with (
        patch.object(DuckDBEngine, "read_ranges", counting(DuckDBEngine.read_ranges)),
        patch.object(SparkEngine, "read_ranges", counting(SparkEngine.read_ranges)),
    ):
        yield reads


def opened(folder: Path, spark: SparkSession | None, count: int) -> lakespark.Repository:
    """The repository for trees of a size."""
    lake = lakespark.Lake(folder / "lake", spark=spark)
    name = f"entries-{count}"
    return lake.repository(name) if name in {r.id for r in lake.repositories()} else lake.repository(name).create()


BENCHMARKS = {"diff": diff, "merge": merge}


def main(argv: list[str]) -> int:
    """Run one of the two, or both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], metavar="NAME")
    parser.add_argument("--entries", type=int, default=TEN_MILLION)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args(argv)
    for name in args.names or BENCHMARKS:
        with (
            nullcontext(args.folder) if args.folder else fresh_folder() as folder,
            session(folder, **SETTINGS) as spark,
        ):
            for figures in BENCHMARKS[name](folder, spark, args.entries):
                report(f"large-{name}", {**figures, **SETTINGS, "peak_jvm_memory_mb": peak_jvm_memory_mb()})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
