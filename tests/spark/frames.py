"""Small DataFrames, and what is said of them."""

from chispa import assert_df_equality
from pyspark.sql import functions as F  # noqa: N812 - as everybody does


def same(df, expected):
    """The same rows, in whatever order, with the same columns of the same types."""
    assert_df_equality(df, expected, ignore_row_order=True, ignore_column_order=True, ignore_nullable=True)


def rows(spark, count=6, start=0):
    """Numbers with a month (0, 1, 2) and a word of each."""
    frame = spark.range(start, start + count, numPartitions=1)
    return frame.select(
        "id",
        F.concat(F.lit("w"), F.col("id").cast("string")).alias("word"),
        (F.col("id") % 3).cast("int").alias("month"),
    )


def paths(ref, prefix=""):
    return [found.path for found in ref.objects(prefix=prefix)]
