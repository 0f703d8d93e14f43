"""The session of a job, which is the one place that asks Spark for one: everywhere else the caller passes it."""

from __future__ import annotations

from pyspark.sql import SparkSession


def session_of_job(name: str) -> SparkSession:
    """The session that ``spark-submit``, Databricks or a caller has made, else one with Spark's own defaults."""
    return SparkSession.builder.appName(name).getOrCreate()
