"""DataFrames in and out of any ref, on a SparkSession that the caller passes."""

from lakespark.spark.session import configure

__all__ = ["configure"]
