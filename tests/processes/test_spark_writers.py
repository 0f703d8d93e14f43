"""Spark jobs whose tasks fail and are tried again, and a driver that is killed before it stages what it wrote."""

from __future__ import annotations

import os
import signal
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import workers

import lakespark
from lakespark.storage import open_store
from lakespark.testing.faults import FaultyStore

pytestmark = [pytest.mark.processes, pytest.mark.spark]

ROWS, TASKS = 400, 4


def write_and_be_killed(namespace, connection):
    """A driver that tries each task three times. Writes to ``flaky/``, and is killed as it stages ``killed/``."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    numbers = session.range(0, ROWS, numPartitions=TASKS)

    def fails_at_first(batches):  # in here, for the executors to get it by value
        """The rows as they are; the first attempt of every other task fails when it has given them all."""
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context.partitionId() % 2 and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")

    branch = workers.repository_at(open_store(namespace)).branch("main")
    connection.send(branch.write(numbers.mapInArrow(fails_at_first, "id long"), "flaky/"))

    def kill(call):
        if call.method == "put_if_absent" and "/staging/" in call.key:
            os.kill(os.getpid(), signal.SIGKILL)

    deadly = workers.repository_at(FaultyStore(open_store(namespace), on_call=kill)).branch("main")
    deadly.write(numbers, "killed/")
    connection.send("survived")


def test_attempts_that_fail_and_a_driver_that_is_killed_leave_nothing_visible(tmp_path, spark):
    """And what the driver was killed over can be done by another one."""
    namespace = tmp_path / "analytics"
    repo = lakespark.Lake(tmp_path / "lake").repository("analytics").create(str(namespace))
    main = repo.branch("main")
    (sent,) = workers.run((write_and_be_killed, str(namespace)))
    assert sent == [TASKS]
    visible = list(main.objects())
    assert {found.path.split("/")[0] for found in visible} == {"flaky"}
    tables = [pq.read_table(main.object(found.path).reader()) for found in visible]
    assert sorted(pa.concat_tables(tables)["id"].to_pylist()) == list(range(ROWS))
    on_disk = [file for file in (namespace / "data").rglob("part-*.parquet") if file.stat().st_size]
    assert len(on_disk) == 2 * TASKS  # the killed driver's job was done

    leftover = on_disk[0].with_name("part-of-a-late-attempt.parquet")
    leftover.write_bytes(on_disk[0].read_bytes())
    assert list(main.objects()) == visible

    main.write(spark.range(ROWS), "killed/")
    assert main.read(spark, "killed/").count() == main.read(spark, "flaky/").count() == ROWS
    main.commit("both")
    assert main.uncommitted_table().num_rows == 0
