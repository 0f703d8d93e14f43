"""What cannot be written or read is refused by name, and nothing is staged."""

import pytest
from frames import rows
from pyspark.sql import functions as F  # noqa: N812 - as everybody does

from lakespark.errors import BadRequestException, ObjectExistsException, ObjectNotFoundException

pytestmark = pytest.mark.spark


@pytest.fixture
def uncommitted(main):
    """Holds a test to changing nothing."""
    before = main.uncommitted_table()
    yield before
    assert main.uncommitted_table() == before


@pytest.mark.usefixtures("uncommitted")
class TestWrites:
    @pytest.mark.parametrize(
        ("expression", "how", "reason"),
        [
            ("1 as a, 2 as A", {}, "more than one column A, a"),
            ("1 as a, array(1) as b", {"format": "csv"}, r"CSV files cannot hold column 'b', which is array<int>"),
            ("named_struct('x', 1) as s", {"format": "csv"}, r"column 's', which is struct<x:int>"),
            ("map('x', 1) as m", {"format": "csv"}, r"column 'm', which is map<string,int>"),
            ("binary('x') as b", {"format": "csv"}, "column 'b', which is binary"),
            (
                "'a' as a, 'b' as b",
                {"format": "text"},
                "one column, of strings, and the DataFrame has a string, b string",
            ),
            ("1 as a", {"format": "text"}, "one column, of strings, and the DataFrame has a int"),
            ("'p' as p", {"format": "text", "partition_by": "p"}, "one column"),
            ("1 as a", {"format": "avro"}, "unknown format 'avro': use parquet, orc"),
            ("1 as a", {"partition_by": "month"}, "cannot be written as parquet: .*month"),
            ("1 as a", {"partition_by": "a"}, "cannot be written as parquet"),
            ("1 as a, array(1) as b", {"partition_by": "b"}, "cannot be written as parquet"),
            ("1 as a, null as b", {"format": "orc"}, "cannot be written as orc"),
            ("1 as a", {"options": {"compression": "none of these"}}, "none of these"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_dataframe_that_the_format_cannot_hold(self, spark, main, expression, how, reason):
        with pytest.raises(BadRequestException, match=reason):
            main.write(spark.sql(f"select {expression}"), "t/", **how)

    def test_other_kinds_of_tables(self, spark, main):
        with pytest.raises(BadRequestException, match=r"pandas\..*DataFrame: pass a DataFrame of Spark"):
            main.write(rows(spark).toPandas(), "t/")


class TestPlaces:
    def test_a_prefix_that_is_an_object_or_below_one(self, spark, main):
        main.object("a.csv").upload(b"1")
        for prefix in ("a.csv", "a.csv/", "a.csv/part/"):
            with pytest.raises(BadRequestException, match=r"'a\.csv' is an object"):
                main.write(rows(spark), prefix, mode="append")
        assert [change.path for change in main.uncommitted()] == ["a.csv"]

    def test_a_prefix_that_is_not_empty_is_told_before_the_job_runs(self, spark, main):
        main.object("t/a").upload(b"1")
        broken = rows(spark).withColumn("x", F.raise_error(F.lit("the job ran")))
        with pytest.raises(ObjectExistsException, match="'t/' is not empty"):
            main.write(broken, "t/")
        assert [change.path for change in main.uncommitted()] == ["t/a"]


class TestReads:
    def test_a_prefix_that_holds_nothing(self, spark, main):
        for read in (main.read, main.head.read):
            with pytest.raises(ObjectNotFoundException, match="no data files below 'nothing/'"):
                read(spark, "nothing/")

    def test_several_formats_are_named(self, spark, main):
        main.object("t/a.csv").upload(b"1")
        main.object("t/b.json").upload(b"{}")
        with pytest.raises(BadRequestException, match="there is csv and json; pass format="):
            main.read(spark, "t/")

    def test_a_format_that_the_session_lacks(self, spark, main):
        main.object("t/a.avro").upload(b"1")
        with pytest.raises(BadRequestException, match=r"there is one of unknown format; pass format="):
            main.read(spark, "t/")
        for schema in (None, "id long"):
            for lacking in ("avro", "no.such.source"):
                with pytest.raises(
                    BadRequestException, match=f"Spark cannot read '{lacking}': the session has no package"
                ):
                    main.read(spark, "t/", format=lacking, schema=schema)
