"""Data sets of which some files have a recorded schema, and others, uploaded or imported, have none."""

import datetime as dt

import pytest
from frames import paths, rows, same
from pyspark.sql import functions as F  # noqa: N812 - as everybody does

from lakespark.errors import BadRequestException

pytestmark = pytest.mark.spark

HEADER = {"header": "true"}


@pytest.fixture
def upload(main, tmp_path):
    """Has Spark write files elsewhere and uploads them below a prefix, as any other program would."""

    def write(df, prefix, kind="parquet", options=HEADER):
        folder = tmp_path / f"source-{prefix.replace('/', '-')}"
        df.coalesce(1).write.format(kind).options(**options).save(str(folder))
        for file in folder.glob(f"*.{kind}"):
            main.object(f"{prefix}{file.name}").upload(file.read_bytes())

    return write


class TestPartlyRecorded:
    @pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "json"])
    def test_types_are_those_that_are_recorded_anywhere(self, spark, main, upload, reader, kind):
        """Of the partition column too, which stands in no file; a column that only others have is read as well."""
        day = F.lit(dt.date(2024, 2, 29)).alias("day")
        known = rows(spark).select("*", day)
        main.write(known, "t/", format=kind, partition_by="month", options=HEADER)
        later = rows(spark, 2, start=6).select(F.lit("new").alias("extra"), "word", "id", day)
        upload(later, "t/month=11/", kind)
        expected = known.withColumn("extra", F.lit(None).cast("string")).unionByName(
            later.withColumn("month", F.lit(11))
        )
        same(main.read(spark, "t/", options=HEADER), expected)
        same(main.read(spark, "t/", where="month > 2", options=HEADER), expected.where("month > 2"))
        main.commit("one")
        same(reader("main@", "t/", options=HEADER), expected)

    def test_a_prefix_that_matches_nothing_has_the_columns_all_the_same(self, spark, main, upload):
        upload(rows(spark).drop("month"), "t/month=1/")
        same(main.read(spark, "t/", where="month = '9'"), rows(spark, 0).withColumn("month", F.lit("9")))

    def test_incompatible_types_name_the_column(self, spark, main, upload):
        main.write(rows(spark), "t/")
        upload(rows(spark).withColumn("id", F.lit("one")), "t/more/")
        with pytest.raises(BadRequestException, match="column 'id' is long in some files and string in others"):
            main.read(spark, "t/")

    def test_files_of_csv_without_names_for_their_columns_want_a_schema(self, spark, main, upload):
        main.write(rows(spark), "t/", format="csv")
        upload(rows(spark, start=6), "t/more/", "csv", options={})
        with pytest.raises(BadRequestException, match="neither a recorded schema nor a header: pass schema="):
            main.read(spark, "t/")
        same(main.read(spark, "t/", schema=rows(spark).schema), rows(spark, 12))


class TestNothingRecorded:
    @pytest.mark.parametrize("kind", ["parquet", "orc"])
    def test_a_number_that_became_wider_is_read_by_name(self, spark, main, upload, reader, kind):
        upload(rows(spark), "t/2023/", kind)
        wider = rows(spark, start=6).withColumn("month", F.col("month").cast("long")).withColumn("extra", F.lit(1.5))
        upload(wider, "t/2024/", kind)
        expected = (
            rows(spark).withColumn("month", F.col("month").cast("long")).withColumn("extra", F.lit(None).cast("double"))
        ).unionByName(wider)
        same(main.read(spark, "t/"), expected)
        same(reader("main", "t/"), expected)

    def test_schema_decides_types_of_partitions_and_what_a_predicate_compares(self, spark, main, upload):
        """As text, 10 is below 9."""
        for month in (9, 10):
            upload(spark.range(month, month + 1), f"t/month={month}/")
        typed = {"schema": "id long, month int"}
        same(main.read(spark, "t/", **typed), spark.sql("select id, int(id) as month from range(9, 11)"))
        assert [row.id for row in main.read(spark, "t/", where="month > 9", **typed).collect()] == [10]

    def test_a_file_that_is_none_of_its_format_is_named(self, spark, main, upload):
        upload(rows(spark), "t/")
        main.object("t/broken.parquet").upload(b"nothing of the kind")
        address = main.object("t/broken.parquet").stat().physical_address
        with pytest.raises(BadRequestException, match=f"{address.rsplit('/', 1)[-1]} cannot be read as parquet"):
            main.read(spark, "t/")


class TestGrowth:
    @pytest.mark.parametrize("kind", ["parquet", "orc", "json"])
    def test_nested_columns_grow(self, spark, main, reader, kind):
        """A field more in a struct, an element that may be null where none was before, a type that was not known."""
        first = spark.sql("select 1L as id, named_struct('a', 1) as s, array(1, 2) as l, array() as void")
        later = spark.sql(
            "select 2L as id, named_struct('a', 2, 'b', 'x') as s, array(cast(null as int)) as l, array('y') as void"
        )
        expected = spark.sql(
            "select 1L as id, named_struct('a', 1, 'b', cast(null as string)) as s, array(1, 2) as l, "
            "cast(array() as array<string>) as void"
        ).union(later)
        if kind != "json":  # Spark writes a column without a type as JSON only
            first, later, expected = (df.drop("void") for df in (first, later, expected))
        main.write(first, "t/", format=kind)
        main.write(later, "t/", format=kind, mode="append")
        same(main.read(spark, "t/"), expected)
        same(reader("main", "t/"), expected)

    def test_decimals_grow(self, spark, main, reader):
        small, large = (spark.sql(f"select cast(1.50 as decimal({digits},2)) as cost") for digits in (9, 20))
        main.write(small, "t/")
        main.write(large, "t/", mode="append")
        for found in (main.read(spark, "t/"), reader("main", "t/")):
            same(found, large.union(large))

    @pytest.mark.parametrize("kind", ["orc", "json"])
    def test_other_formats_are_read_by_name_as_well(self, spark, main, kind):
        main.write(rows(spark), "t/", format=kind, partition_by="month")
        later = rows(spark, start=6).select(F.lit(1.5).alias("extra"), "month", F.col("id"), "word")
        main.write(later, "t/", format=kind, mode="append", partition_by="month")
        expected = rows(spark).withColumn("extra", F.lit(None).cast("double")).unionByName(later)
        same(main.read(spark, "t/"), expected)
        assert len(paths(main, "t/")) == 6
