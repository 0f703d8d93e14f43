"""Partition columns: values of every type and any text, whoever wrote them."""

import datetime as dt

import pyarrow as pa
import pytest
from frames import rows, same
from pyspark.sql import functions as F  # noqa: N812 - as everybody does

from lakespark.errors import BadRequestException

pytestmark = pytest.mark.spark

VALUES = ["a b", "a/b", "ä ö/🦆", "%2F", "a=b", "x'y\"z", "{[*?]}", "a:b", "#+&", None]


class TestPartitions:
    def test_partitions_of_arrow_and_spark_are_the_same_ones(self, spark, main):
        """Each is replaced by itself and by no other, whoever wrote it; that of null too."""
        values = [*VALUES, " ", "%", "ü", "a%2Fb", "A B", "_", "x=y", "\u2028", "1", "01"]
        schema = "id long, kind string"
        first = pa.table({"id": range(len(values)), "kind": values})
        main.write(first, "t/", partition_by="kind")
        main.commit("one")
        fresh = spark.createDataFrame([(100 + number, value) for number, value in enumerate(values)], schema)
        main.write(fresh, "t/", mode="overwrite_partitions", partition_by="kind")
        same(main.read(spark, "t/"), fresh)
        again = first.slice(0, len(VALUES))
        main.write(again, "t/", mode="overwrite_partitions", partition_by="kind")
        same(main.read(spark, "t/"), fresh.where(f"id >= {100 + len(VALUES)}").union(spark.createDataFrame(again)))
        main.write(fresh.where("kind is null"), "t/", replace_where="kind is null or kind = 'a/b'", partition_by="kind")
        assert [row.id for row in main.read(spark, "t/", where="kind is null or kind = 'a/b'").collect()] == [
            100 + values.index(None)
        ]

    @pytest.mark.parametrize("kind", ["parquet", "json"])
    def test_values_of_text_come_back_as_they_were(self, spark, main, reader, kind):
        df = spark.createDataFrame([(number, value) for number, value in enumerate(VALUES)], "id long, kind string")
        main.write(df, "t/", format=kind, partition_by="kind")
        same(main.read(spark, "t/"), df)
        same(reader("main", "t/"), df)
        chosen = F.col("kind") == "ä ö/🦆"
        same(main.read(spark, "t/").where(chosen), df.where(chosen))
        same(main.read(spark, "t/", where="kind is null"), df.where("kind is null"))

    @pytest.mark.parametrize("kind", ["parquet", "csv"])
    def test_types_of_partition_columns_are_those_of_the_data(self, spark, main, reader, kind):
        """Numbers, dates, booleans, decimals; null in each; also at a commit."""
        day, schema = dt.date(2024, 2, 29), "id long, day date, flag boolean, tiny short, big long, cost decimal(9,2)"
        df = (
            spark.sql("select 1.50bd as cost")
            .select(
                F.lit(1).cast("long").alias("id"),
                F.lit(day).alias("day"),
                F.lit(True).alias("flag"),
                F.lit(-7).cast("short").alias("tiny"),
                F.lit(2**60).alias("big"),
                F.col("cost").cast("decimal(9,2)").alias("cost"),
            )
            .union(spark.createDataFrame([(2, None, None, None, None, None)], schema))
        )
        columns = ["day", "flag", "tiny", "big", "cost"]
        main.write(df, "t/", format=kind, partition_by=columns)
        main.commit("one")
        for found in (main.head.read(spark, "t/"), reader("main", "t/")):
            same(found, df)
            assert found.where("flag and day = date'2024-02-29'").count() == 1

    @pytest.mark.parametrize("kind", ["parquet", "json"])
    def test_points_in_time_stay_what_they_are_in_any_time_zone(self, spark, main, reader, kind):
        """Spark names folders by the session's time zone, in which an hour comes twice in autumn."""
        day = "2024-10-27"
        texts = [f"{day} 00:30:00Z", f"{day} 01:30:00.5Z", "1969-12-31 23:59:59.999999Z", None]
        walls = [f"{day} 02:30:00", f"{day} 02:30:00.5", "1969-12-31 23:59:59.999999", None]
        zone = spark.conf.get("spark.sql.session.timeZone")
        try:
            spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
            df = spark.createDataFrame(list(enumerate(zip(texts, walls, strict=True))), "id long, t array<string>")
            df = df.selectExpr("id", "cast(t[0] as timestamp) as moment", "cast(t[1] as timestamp_ntz) as wall")
            main.write(df, "t/", format=kind, partition_by=["moment", "wall"])
            table = df.withColumn("id", F.col("id") + 10).toArrow()
            if kind == "parquet":
                main.write(table, "t/", mode="append", partition_by=["moment", "wall"])
            for zone_of_reader in ("Asia/Tokyo", "Europe/Berlin"):
                spark.conf.set("spark.sql.session.timeZone", zone_of_reader)
                for found in (main.read(spark, "t/"), reader("main", "t/")):
                    shown = found.selectExpr(
                        "id % 10 as id", "unix_micros(moment) as moment", "cast(wall as string) as wall"
                    )
                    wanted = [
                        (n, text and int(dt.datetime.fromisoformat(text).timestamp() * 1_000_000), wall)
                        for n, (text, wall) in enumerate(zip(texts, walls, strict=True))
                    ]
                    assert {tuple(row) for row in shown.collect()} == set(wanted)
                    assert dict(found.dtypes) == dict(df.dtypes)
            early = main.read(spark, "t/", where="moment < '2000-01-01' and wall < '2000-01-01'")
            assert {row.id % 10 for row in early.collect()} == {2}
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)

    @pytest.mark.parametrize("column", ["value", "path", "folder", "length", "file", "partition_0", "Mixed Case"])
    def test_a_partition_column_may_have_any_name(self, spark, main, reader, column):
        df = rows(spark).withColumnRenamed("month", column)
        main.write(df, "t/", partition_by=column)
        same(main.read(spark, "t/"), df)
        same(reader("main", "t/"), df)

    def test_partition_columns_of_other_writers_are_text(self, spark, main, tmp_path):
        """Without a recorded schema; ``schema=`` says what they are."""
        rows(spark).write.partitionBy("month").parquet(str(tmp_path / "source"))
        for file in (tmp_path / "source").rglob("*.parquet"):
            main.object(f"t/{file.relative_to(tmp_path / 'source')}").upload(file.read_bytes())
        same(main.read(spark, "t/"), rows(spark).withColumn("month", F.col("month").cast("string")))
        typed = main.read(spark, "t/", schema="id long, word string, month int")
        same(typed, rows(spark))
        assert typed.where("month >= 2").count() == 2

    def test_files_that_are_not_partitioned_alike_are_an_error(self, spark, main):
        main.write(rows(spark), "t/", partition_by="month")
        main.write(rows(spark), "t/", mode="append")
        with pytest.raises(BadRequestException, match="not partitioned alike"):
            main.read(spark, "t/")
