"""DataFrames at a ref against plain files: ``python -m benchmarks.tpch [--scale 1]``, a line of JSON each.

The table lineitem of TPC-H in 200 Parquet files: written to a branch and by ``df.write.parquet``; queries 1 and 6
at a commit and on ``spark.read.parquet`` of the very same files, with equal results. Both ways take turns. Then the
shipping dates change on a branch, partitioned by year, and both queries must find at each ref what they find on plain
files of the same rows.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody does

import lakespark
from benchmarks.measure import fresh_folder, report, seconds
from benchmarks.spark_session import session

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
    found = ours()
    _check_equal(found, plain(), "a query")
    return {"first_look_s": round(first, 3), **in_turn(ours, plain, repeats), "result_rows": len(found)}


def change_dates(spark: SparkSession, repo: lakespark.Repository, lineitem: DataFrame, folder: Path) -> Figures:
    """Shipping dates a year later on a branch: results at both refs must be those on plain files."""
    later = lineitem.withColumn("l_shipdate", F.add_months("l_shipdate", 12))
    later = later.withColumn("year", F.year("l_shipdate"))
    dev = repo.branch("later").create("main")
    dev.write(later, "lineitem/", mode="overwrite", partition_by="year")
    dev.commit("shipped a year later")
    plain = {"main": str(folder / "plain-main"), "later": str(folder / "plain-later")}
    lineitem.write.parquet(plain["main"])
    later.write.partitionBy("year").parquet(plain["later"])
    for ref, files in plain.items():
        for name, sql in QUERIES.items():
            found = spark.sql(sql, lineitem=repo.ref(ref).read(spark, "lineitem/")).collect()
            expected = spark.sql(sql, lineitem=spark.read.parquet(files)).collect()
            _check_equal(found, expected, f"{name} at {ref}")
    return {"equal": [f"{name} at {ref}" for ref in plain for name in QUERIES]}


def _check_equal(found: list[Any], expected: list[Any], what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what}: {found} at the ref, {expected} on the files")


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
        report("tpch-changed-dates", {**sizes, **change_dates(spark, repo, lineitem, folder)})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
