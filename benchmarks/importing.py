"""Import without copying: ``python -m benchmarks.importing [arrow|parquet|csv|folder|spark] [--entries N]``.

A line of JSON each, as ``benchmarks.local`` prints: a listing of a million objects, given as an Arrow table or as a
file, committed on an empty branch; imported again, which changes nothing; and a folder of so many local files.
``spark`` has executors do it, on ``local[2]``: a Parquet listing into one branch after the other, by one session.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

import lakespark
from benchmarks.measure import fresh_folder, report, seconds

MILLION = 1_000_000
FILES = 20_000
BASE = "s3://bucket/raw"


def listing(count: int) -> pa.Table:
    """An inventory of so many objects in a thousand partitions, in no order of path."""
    rows = duckdb.connect().sql(
        f"""
        select
            printf('{BASE}/part=%04d/file-%08d.parquet', n % 1000, n) as address,
            1000 + n % 777 as size,
            md5(n::varchar) as checksum
        from range({count}) numbers(n)
        """
    )
    return rows.to_arrow_table()


def _import(folder: Path, given: pa.Table | Path, count: int) -> dict[str, Any]:
    main = lakespark.Lake(folder / "lake").repository("benchmark").create().branch("main")
    first = seconds(lambda: main.import_data("bulk").listing(given, "raw", base=BASE).run())
    again = seconds(lambda: main.import_data("again").listing(given, "raw", base=BASE).run())
    found = main.objects_table().num_rows
    return {"entries": count, "import_s": round(first, 2), "again_s": round(again, 2), "listed": found}


def arrow(folder: Path, count: int) -> dict[str, Any]:
    """A listing in memory."""
    return _import(folder, listing(count), count)


def parquet(folder: Path, count: int) -> dict[str, Any]:
    """A listing in a Parquet file."""
    pq.write_table(listing(count), folder / "listing.parquet")
    return _import(folder, folder / "listing.parquet", count)


def csv(folder: Path, count: int) -> dict[str, Any]:
    """A listing in a CSV file."""
    pa_csv.write_csv(listing(count), folder / "listing.csv")
    return _import(folder, folder / "listing.csv", count)


def folder(place: Path, count: int) -> dict[str, Any]:
    """A folder of local files, a fiftieth of the entries."""
    files = max(count * FILES // MILLION, 1)
    for number in range(files):
        file = place / "raw" / f"part={number % 100:04d}" / f"file-{number:08d}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    main = lakespark.Lake(place / "lake").repository("benchmark").create().branch("main")
    elapsed = seconds(lambda: main.import_data("bulk").prefix(place / "raw", "raw").run())
    return {"files": files, "import_s": round(elapsed, 2), "files_per_s": round(files / elapsed)}


def spark(folder: Path, count: int) -> dict[str, Any]:
    """A listing in a Parquet file, by Spark's executors. The first import has a cold JVM."""
    from benchmarks.spark_session import cpu_seconds, peak_jvm_memory_mb, session

    pq.write_table(listing(count), folder / "listing.parquet", row_group_size=max(count // 8, 1))
    with session(folder, memory="4g", partitions=4) as given:
        repo = lakespark.Lake(folder / "lake", spark=given).repository("benchmark").create()
        walls, cpus = [], []
        for number in range(3):
            branch = repo.branch(f"import-{number}").create("main")
            manager = branch.import_data("bulk", engine="spark").listing(folder / "listing.parquet", "raw", base=BASE)
            before = cpu_seconds()
            walls.append(round(seconds(manager.run), 2))
            cpus.append(round(cpu_seconds() - before, 1))
        found = repo.branch("import-0").objects_table().num_rows
        jvm = peak_jvm_memory_mb()
    return {"entries": count, "import_s": walls, "cpu_s": cpus, "listed": found, "peak_jvm_memory_mb": jvm}


BENCHMARKS: dict[str, Callable[[Path, int], dict[str, Any]]] = {
    "arrow": arrow,
    "parquet": parquet,
    "csv": csv,
    "folder": folder,
    "spark": spark,
}


def main(argv: list[str]) -> int:
    """Run the named benchmarks, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; else all")
    parser.add_argument("--entries", type=int, default=MILLION)
    args = parser.parse_args(argv)
    unknown = set(args.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    for name in args.names or BENCHMARKS:
        with fresh_folder() as place:
            report(f"import-{name}", BENCHMARKS[name](place, args.entries))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
