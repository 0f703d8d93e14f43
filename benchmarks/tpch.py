"""DataFrames at a ref against plain files: ``python -m benchmarks.tpch [--scale 1]``, a line of JSON each.

The table lineitem of TPC-H in 200 Parquet files: written to a branch and by ``df.write.parquet``; queries 1 and 6
at a commit and on ``spark.read.parquet`` of the very same files, with equal results. Both ways take turns.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakespark
from benchmarks.measure import fresh_folder, report, seconds
from lakespark.spark import configure

QUERIES = {
    "query_1": """
        select
            l_returnflag, l_linestatus,
            sum(l_quantity) as sum_qty,
            sum(l_extendedprice) as sum_base_price,
            sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
            sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,
            avg(l_quantity) as avg_qty,
            avg(l_extendedprice) as avg_price,
            avg(l_discount) as avg_disc,
            count(*) as count_order
        from {lineitem}
        where l_shipdate <= date '1998-12-01' - interval '90' day
        group by l_returnflag, l_linestatus
        order by l_returnflag, l_linestatus
    """,
    "query_6": """
        select sum(l_extendedprice * l_discount) as revenue
        from {lineitem}
        where l_shipdate >= date '1994-01-01'
            and l_shipdate < date '1994-01-01' + interval '1' year
            and l_discount between 0.05 and 0.07
            and l_quantity < 24
    """,
}
Figures = dict[str, Any]


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """A local session with Delta."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("lakespark-benchmark")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    )
    spark = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def generate(folder: Path, scale: float) -> str:
    """Make the table lineitem; where it is."""
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    command = [str(program), "parquet", "-s", str(scale), "--tables=lineitem", "--parts=8", f"--output-dir={folder}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return str(folder / "lineitem")


def in_turn(
    ours: Callable[[], Any], plain: Callable[[], Any], repeats: int, *, between: Callable[[], Any] = lambda: None
) -> Figures:
    """Times of both, taking turns, one round to warm up left out; medians and their ratio."""
    times: dict[str, list[float]] = {"at_ref": [], "plain": []}
    for number in range(repeats + 1):
        for name, work in (("at_ref", ours), ("plain", plain))[:: 1 if number % 2 else -1]:
            times[name].append(seconds(work))
        between()
    medians = {name: statistics.median(of[1:]) for name, of in times.items()}
    return {
        "at_ref_s": round(medians["at_ref"], 3),
        "plain_s": round(medians["plain"], 3),
        "ratio": round(medians["at_ref"] / medians["plain"], 3),
        "all_s": {name: [round(time, 3) for time in of] for name, of in times.items()},
    }


def write(repo: lakespark.Repository, lineitem: DataFrame, folder: Path, repeats: int) -> Figures:
    """Write the table to a branch, and plainly."""
    main, plain = repo.branch("main"), str(folder / "plain")

    def clear() -> None:
        main.reset_changes()
        shutil.rmtree(plain)
        shutil.rmtree(Path(repo.properties.storage_namespace.removeprefix("file://")) / "data")

    return in_turn(
        lambda: main.write(lineitem, "lineitem/"), lambda: lineitem.write.parquet(plain), repeats, between=clear
    )


def query(spark: SparkSession, at: lakespark.Reference, files: list[str], sql: str, repeats: int) -> Figures:
    """A query at a ref and on the files, each with the making of its DataFrame; the results must be equal."""

    def ours() -> list[Any]:
        return spark.sql(sql, lineitem=at.read(spark, "lineitem/")).collect()

    def plain() -> list[Any]:
        return spark.sql(sql, lineitem=spark.read.parquet(*files)).collect()

    first = seconds(ours)
    found, expected = ours(), plain()
    if found != expected:
        raise AssertionError(f"different results: {found} at the ref, {expected} on the files")
    return {"first_look_s": round(first, 3), **in_turn(ours, plain, repeats), "result_rows": len(found)}


def main(argv: list[str]) -> int:
    """Run all and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args(argv)
    with fresh_folder() as folder, session(folder) as spark:
        lineitem = spark.read.parquet(generate(folder, args.scale)).repartition(args.files).localCheckpoint()
        repo = lakespark.Lake(folder / "lake", spark=spark).repository("tpch").create()
        sizes = {"scale": args.scale, "rows": lineitem.count(), "files": args.files}
        report("tpch-write", {**sizes, **write(repo, lineitem, folder, args.repeats)})
        branch = repo.branch("main")
        branch.write(lineitem, "lineitem/")
        head = branch.commit("lineitem")
        files = [found.physical_address for found in head.objects()]
        for name, sql in QUERIES.items():
            report(f"tpch-{name.replace('_', '-')}", {**sizes, **query(spark, head, files, sql, args.repeats)})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
