"""A data set of 100,000 files through a zero-copy view: ``python -m benchmarks.many_files [--files N]``.

The files are hard links to a small Parquet file in each of 100 partitions, staged with the statistics of the data and
committed. A line of JSON: planning the first read, counting all rows, and the files that a predicate on the
partitions, and one that no file's statistics can satisfy, leave to be read.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import lakespark
from benchmarks.measure import fresh_folder, report, seconds
from benchmarks.spark_session import session

ROWS = 3
PARTITIONS = 100
FIELDS = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "part")]
STATISTICS = {"numRecords": ROWS, "minValues": {"id": 0}, "maxValues": {"id": ROWS - 1}, "nullCount": {"id": 0}}


def linked(folder: Path, files: int) -> pa.Table:
    """The files, and their entries."""
    sources = [folder / f"source-{number}.parquet" for number in range(PARTITIONS)]  # a file takes so many links
    for source in sources:
        pq.write_table(pa.table({"id": range(ROWS)}), source)
    names = [f"part={number % PARTITIONS}/file-{number:06d}.parquet" for number in range(files)]
    for number in range(PARTITIONS):
        (folder / "landing" / f"part={number}").mkdir(parents=True)
    for number, name in enumerate(names):
        os.link(sources[number % PARTITIONS], folder / "landing" / name)
    schema = json.dumps({"type": "struct", "fields": FIELDS})
    return pa.table(
        {
            "path": [f"set/{name}" for name in names],
            "physical_address": [f"file://{folder}/landing/{name}" for name in names],
            "size_bytes": [sources[0].stat().st_size] * files,
            "checksum": [f"etag:{number}" for number in range(files)],
            "data_schema": [schema] * files,
            "data_stats": [json.dumps(STATISTICS)] * files,
        }
    )


def many_files(folder: Path, files: int) -> dict[str, Any]:
    """Times in seconds."""
    main = lakespark.Lake(folder / "lake").repository("benchmark").create().branch("main")
    main.stage(linked(folder, files))
    main.commit("many files")
    figures: dict[str, Any] = {"files": files}
    with session(folder) as spark:
        figures["first_plan_s"] = seconds(lambda: main.read(spark, "set/").schema)
        figures["second_plan_s"] = seconds(lambda: main.read(spark, "set/").schema)
        frame = main.read(spark, "set/")
        figures["count_all_s"] = seconds(lambda: figures.update(rows=frame.count()))
        pruned = frame.where("part = 7")
        figures["one_partition_s"] = seconds(
            lambda: figures.update(rows_of_one_partition=pruned.agg({"id": "sum"}).collect())
        )
        figures["files_of_one_partition"] = len(pruned.inputFiles())
        figures["outside_statistics_s"] = seconds(lambda: frame.where("id > 100").collect())
    figures["rows_of_one_partition"] = str(figures["rows_of_one_partition"])
    return figures


def main(argv: list[str]) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    args = parser.parse_args(argv)
    with fresh_folder() as folder:
        report("many-files", many_files(folder, args.files))


if __name__ == "__main__":
    main(sys.argv[1:])
