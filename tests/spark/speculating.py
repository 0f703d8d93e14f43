"""A driver whose write has a straggler, run by test_speculation.py. Prints as JSON which attempts ran and what is read.

Arguments: the URL of a cluster with executors on two hosts, and a folder.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from spark_sessions import QUICK

import lakespark
from lakespark.spark import configure

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "0",
    "spark.speculation.efficiency.enabled": "false",
}
PATIENCE_SECONDS = 120


def main(cluster: str, folder: Path) -> None:
    builder = SparkSession.builder.master(cluster).config("spark.driver.host", "127.0.0.1")
    for name, value in {**QUICK, **SPECULATION, "spark.executor.memory": "512m"}.items():
        builder.config(name, value)
    spark = configure(builder).getOrCreate()
    branch = lakespark.Lake(folder / "lake", spark=spark).repository("demo").create().branch("main")
    seen = folder / "attempts"
    seen.mkdir()
    files = branch.write(spark.range(0, 4000, 1, 4).mapInArrow(with_straggler(str(seen)), "id long"), "t/")
    read = branch.read(spark, "t/")
    rows = {"rows": read.count(), "distinct": read.distinct().count()}
    attempts = sorted(attempt.name for attempt in seen.iterdir())
    print(json.dumps({"files": files, "paths": len(list(branch.objects())), "attempts": attempts, **rows}))
    spark.stop()


def with_straggler(seen: str):
    """Rows as they are; the first attempt of partition 0 hangs until a second one has begun, and then ends well too."""

    def passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        Path(seen, f"{task.partitionId()}-{task.attemptNumber()}").touch()
        yield from batches
        end = time.monotonic() + PATIENCE_SECONDS
        while (task.partitionId(), task.attemptNumber()) == (0, 0) and time.monotonic() < end:
            if Path(seen, "0-1").exists():
                break
            time.sleep(0.1)

    return passed_on


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
