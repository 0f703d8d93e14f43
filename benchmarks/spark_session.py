"""A local Spark session for the benchmarks, and the memory that its JVM has taken."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from lakespark.spark import configure


@contextmanager
def session(folder: Path, *, memory: str = "2g", partitions: int = 2) -> Iterator[SparkSession]:
    """A session on ``local[2]`` with Delta; its temporary files in the folder."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("lakespark-benchmark")
        .config("spark.driver.memory", memory)
        .config("spark.local.dir", str(folder / "spark"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    )
    spark = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def peak_jvm_memory_mb() -> int | None:
    """Largest resident size of the JVM that this process has started, where Linux tells."""
    for child in _children(os.getpid()):
        status = Path(f"/proc/{child}/status").read_text()
        found = re.search(r"^Name:\s+java$.*^VmHWM:\s+(\d+) kB$", status, re.MULTILINE | re.DOTALL)
        if found:
            return int(found[1]) // 1024
    return None


def _children(process: int) -> Iterator[int]:
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        yield from map(int, task.read_text().split())
