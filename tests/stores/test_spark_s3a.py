"""Spark writes and reads a lake on the S3 server over s3a, with the lake's own options and no others."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_SESSION = """
import json, sys
from pyspark.sql import SparkSession
import lakespark
from lakespark.spark import configure, storage_conf

location, options = sys.argv[1], json.loads(sys.argv[2])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "2")
for key, value in storage_conf(location, options).items():
    builder = builder.config(key, value)
spark = configure(builder, s3=True).getOrCreate()
lake = lakespark.Lake(location, spark=spark, **options)
main = lake.repository("demo").create().branch("main")
main.write(spark.range(100).selectExpr("id", "id % 2 as odd"), "numbers/", partition_by=["odd"])
main.commit("numbers")
main.write(spark.range(7), "few/")
numbers = main.read(spark, "numbers/")
found = {"odd": numbers.where("odd = 1").count(), "few": main.read(spark, "few/").count()}
print(json.dumps({**found, "sum": numbers.selectExpr("sum(id)").first()[0]}))
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.processes
def test_spark_writes_and_reads_by_the_lake_s_options(s3_server):
    location = f"s3://{s3_server.make_bucket()}/lake"
    command = [sys.executable, "-c", _SESSION, location, json.dumps(s3_server.options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"odd": 50, "few": 7, "sum": 4950}
