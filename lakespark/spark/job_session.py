"""The session of a job, which is the one place that asks Spark for one: everywhere else the caller passes it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakespark.spark.starting import explain_start


def session_of_job(name: str, conf: Mapping[str, str]) -> SparkSession:
    """The session that ``spark-submit``, Databricks or a caller has made, else one with Spark's own defaults.

    ``conf``: properties of a session that is made here. Raises BadRequestException, with what to set, if Spark cannot
    start.
    """
    builder = SparkSession.builder.appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    return explain_start(builder).getOrCreate()
