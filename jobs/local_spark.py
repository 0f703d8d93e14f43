"""A small SparkSession on this machine, for jobs that a person watches: quiet, and with Delta where it can be had."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakespark.errors import BadRequestException
from lakespark.spark import configure

_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Little data and a short life: no time to lose on compiling well."""


class NoSparkError(Exception):
    """Spark did not start; ``log`` is the end of what it printed."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(reason)
        self.log = log


def start(name: str, *, delta: bool) -> SparkSession:
    """Start a session. Raises NoSparkError."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with _set_aside() as log:
        try:
            session = configure(_builder(name), delta=delta).getOrCreate()
            session.sparkContext.setLogLevel("ERROR")
        except (BadRequestException, PySparkException) as error:
            log.seek(0)
            raise NoSparkError(str(error), log.read()[-2_000:].decode(errors="replace")) from error
    return session


def _builder(name: str) -> SparkSession.Builder:
    return (
        SparkSession.builder.master("local[2]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.driver.extraJavaOptions", _JVM)
    )


@contextmanager
def _set_aside() -> Iterator[IO[bytes]]:
    """What a process started in here prints goes to a nameless file, for as long as that process lives."""
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as log:
        kept = [os.dup(1), os.dup(2)]
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            yield log
        finally:
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)
