"""DataFrames in and out of any ref, on a SparkSession that the caller passes."""

from lakespark.spark.session import configure
from lakespark.spark.storage_conf import storage_conf

__all__ = ["configure", "storage_conf"]
