"""A local Spark session for the benchmarks, and the memory that its JVM has taken."""

import os
import re
import sys
import time
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
    jvm = _jvm()
    if jvm is None:
        return None
    found = re.search(r"^VmHWM:\s+(\d+) kB$", (jvm / "status").read_text(), re.MULTILINE)
    return int(found[1]) // 1024 if found else None


def cpu_seconds() -> float:
    """CPU time of this process and, where Linux tells, of the JVM that it has started."""
    jvm, here = _jvm(), time.process_time()
    if jvm is None:
        return here
    user, system = (jvm / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return here + (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _jvm() -> Path | None:
    """The folder of /proc of the JVM that this process has started."""
    processes = (Path(f"/proc/{child}") for child in _children(os.getpid()))
    return next((process for process in processes if (process / "comm").read_text() == "java\n"), None)


def _children(process: int) -> Iterator[int]:
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        yield from map(int, task.read_text().split())
