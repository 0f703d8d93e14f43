"""DataFrames into branches: modes, formats, partitions, failures."""

import datetime as dt
import threading

import pyarrow as pa
import pytest
from frames import paths, rows, same
from pyspark.errors import PySparkException
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - as everybody does

from lakespark.errors import BadRequestException, ObjectExistsException, StorageError
from lakespark.operations.opened import OpenRepository
from lakespark.repository import Repository
from lakespark.testing.faults import FaultyStore

pytestmark = pytest.mark.spark

FORMATS = ("parquet", "orc", "csv", "json", "text")


def is_data(call):
    """Whether a call of the store writes a data file, or reads the footer of one that Spark has written."""
    return call.method in ("put", "get_range") and call.key.startswith("data/")


class TestModes:
    def test_error_wants_an_empty_prefix(self, spark, main):
        """Uncommitted and committed files are in the way alike; an object beside the prefix is not."""
        main.object("t.parquet").upload(b"beside")
        assert main.write(rows(spark), "t/") == 1
        for _ in range(2):
            with pytest.raises(ObjectExistsException, match="'t/' is not empty"):
                main.write(rows(spark), "t/")
            if main.uncommitted_table().num_rows:
                main.commit("one")
        same(main.read(spark, "t/"), rows(spark))

    @pytest.mark.parametrize("engines", [("arrow", "arrow"), ("spark", "arrow"), ("spark", "spark")], ids="-".join)
    def test_of_two_error_writers_at_once_one_fails(self, spark, repo, main, engines):
        """Both have found the prefix empty and have written their file before either stages it."""
        meet = threading.Barrier(2)
        store = FaultyStore(repo.opened.store, on_call=lambda call: meet.wait(60) if is_data(call) else None)
        repo.opened.store = store
        outcomes = []

        def write(engine, start):
            df = spark.range(start, start + 3, numPartitions=1)
            try:
                main.write(df if engine == "spark" else pa.table({"id": range(start, start + 3)}), "t/")
                outcomes.append(start)
            except ObjectExistsException:
                outcomes.append("refused")

        threads = [threading.Thread(target=write, args=each) for each in zip(engines, (0, 10), strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes.count("refused") == 1
        (winner,) = (outcome for outcome in outcomes if outcome != "refused")
        assert sorted(row.id for row in main.read(spark, "t/").collect()) == [winner, winner + 1, winner + 2]

    def test_append_adds(self, spark, main):
        main.write(rows(spark), "t/", mode="append")
        main.commit("one")
        main.write(rows(spark, start=6), "t/", mode="append")
        same(main.read(spark, "t/"), rows(spark, 12))

    def test_overwrite_replaces_exactly_what_is_below_the_prefix(self, spark, main):
        main.write(rows(spark), "t/", partition_by=["month"])
        for beside in ("t.csv", "t0/part.parquet", "s/part.parquet"):
            main.object(beside).upload(b"beside")
        main.commit("one")
        main.write(rows(spark, 2), "t/", mode="overwrite")
        same(main.read(spark, "t/"), rows(spark, 2))
        assert {"t.csv", "t0/part.parquet", "s/part.parquet"} < set(paths(main))

    def test_overwrite_with_no_rows_leaves_none(self, spark, main):
        main.write(rows(spark), "t/", partition_by="month")
        main.commit("one")
        assert main.write(rows(spark, 0), "t/", mode="overwrite", partition_by="month") == 0
        assert paths(main, "t/") == []

    def test_overwrite_partitions_replaces_those_that_the_data_has(self, spark, main):
        main.write(rows(spark), "t/", partition_by="month")
        main.commit("one")
        fresh = rows(spark, start=100).where("month = 1")
        main.write(fresh, "t/", mode="overwrite_partitions", partition_by="month")
        same(main.read(spark, "t/"), rows(spark).where("month <> 1").union(fresh))

    def test_overwrite_partitions_without_rows_replaces_nothing(self, spark, main):
        main.write(rows(spark), "t/", partition_by="month")
        assert main.write(rows(spark, 0), "t/", mode="overwrite_partitions", partition_by="month") == 0
        same(main.read(spark, "t/"), rows(spark))

    def test_replace_where_replaces_the_partitions_that_the_predicate_names(self, spark, main):
        """Also those that the new data has no row for."""
        main.write(rows(spark), "t/", partition_by=["month"])
        main.commit("one")
        fresh = rows(spark, start=100).where("month = 2")
        main.write(fresh, "t/", replace_where="month >= 1", partition_by=["month"])
        same(main.read(spark, "t/"), rows(spark).where("month = 0").union(fresh))

    def test_replace_where_refuses_rows_outside_of_it(self, spark, main):
        main.write(rows(spark), "t/", partition_by=["month"])
        main.commit("one")
        with pytest.raises(BadRequestException, match="outside of replace_where"):
            main.write(rows(spark, start=100), "t/", replace_where="month = 1", partition_by=["month"])
        assert main.uncommitted_table().num_rows == 0

    @pytest.mark.parametrize(
        "wrong",
        [
            {"mode": "ignore"},
            {"format": "avro"},
            {"mode": "overwrite_partitions"},
            {"replace_where": "month = 1"},
            {"replace_where": "week = 1", "partition_by": "month"},
        ],
        ids=str,
    )
    def test_what_cannot_be_meant_is_refused(self, spark, main, wrong):
        with pytest.raises(BadRequestException):
            main.write(rows(spark), "t/", **wrong)
        assert main.uncommitted_table().num_rows == 0

    @pytest.mark.parametrize("how", [{"mode": "overwrite_partitions"}, {"replace_where": "month >= 1"}], ids=str)
    def test_a_transaction_replaces_as_a_branch_does(self, spark, main, how):
        main.write(rows(spark), "t/", partition_by="month")
        main.commit("one")
        fresh = rows(spark, start=100).where("month > 0")
        with main.transact() as tx:
            tx.write(fresh, "t/", partition_by="month", **how)
        same(main.head.read(spark, "t/"), rows(spark).where("month = 0").union(fresh))

    def test_a_transaction_writes_as_a_branch_does(self, spark, main):
        with main.transact(commit_message="load") as tx:
            tx.write(rows(spark), "t/", partition_by="month")
            same(tx.read(spark, "t/"), rows(spark))
            assert paths(main) == []
        same(main.head.read(spark, "t/"), rows(spark))


class TestFormats:
    @pytest.mark.parametrize("kind", FORMATS)
    def test_every_format_reads_back(self, spark, main, kind):
        """With its partition column and its types; a text file has one column of text."""
        options = {"header": "true"} if kind == "csv" else {}
        df = rows(spark).select("word", "month") if kind == "text" else rows(spark)
        main.write(df, "t/", format=kind, partition_by="month", options=options)
        found = main.read(spark, "t/", options=options)
        same(found, df)
        same(found.where("month = 1"), df.where("month = 1"))
        same(main.read(spark, "t/", where="month > 0", options=options), df.where("month > 0"))

    @pytest.mark.parametrize("kind", [*FORMATS, "csv without names"])
    def test_every_format_reads_at_every_ref(self, spark, repo, main, kind):
        """A commit, a tag, and a branch with what is uncommitted on it."""
        options = {"header": "true"} if kind == "csv" else {}
        df = rows(spark).select("word", "month") if kind == "text" else rows(spark)
        how = {"format": kind.split()[0], "partition_by": "month", "options": options}
        main.write(df, "t/", **how)
        main.commit("one")
        repo.tag("v1").create("main")
        main.write(df.where("month = 0"), "t/", mode="overwrite", **how)
        for ref, expected in (("v1", df), ("main@", df), ("main~0", df), ("main", df.where("month = 0"))):
            same(repo.ref(ref).read(spark, "t/", options=options), expected)
            pruned = repo.ref(ref).read(spark, "t/", where="month = 0", options=options)
            same(pruned, expected.where("month = 0"))
            assert len(pruned.inputFiles()) == 1

    def test_csv_files_with_other_columns_are_read_by_name(self, spark, main):
        """A column that came later, and not at the end, does not shift the others."""
        options = {"header": "true"}
        main.write(rows(spark), "t/", format="csv", options=options)
        later = rows(spark, start=6).select(F.lit("x").alias("extra"), "month", "word", "id")
        main.write(later, "t/", format="csv", mode="append", options=options)
        expected = rows(spark).withColumn("extra", F.lit(None).cast("string")).unionByName(later)
        same(main.read(spark, "t/", options=options), expected)

    def test_a_format_is_told_by_the_names_or_by_the_caller(self, spark, main):
        main.object("t/a").upload(b'{"id": 1}')
        with pytest.raises(BadRequestException, match="pass format="):
            main.read(spark, "t/")
        assert main.read(spark, "t/", format="json").collect() == [Row(id=1)]
        main.object("t/b.csv").upload(b"1")
        with pytest.raises(BadRequestException, match="pass format="):
            main.read(spark, "t/")


class TestArrow:
    def test_arrow_tables_are_read_by_spark(self, spark, main, reader):
        table = pa.table(
            {
                "id": [1, 2, 3, 4],
                "at": pa.array([0, 1, 2, None], pa.timestamp("ns")),
                "when": pa.array([dt.date(2024, 2, 29), None, dt.date(1969, 1, 1), dt.date(9999, 12, 31)]),
                "tags": pa.array([["a"], [], None, ["b", None]]),
                "kind": pa.array(["a b/ü", None, "=", "%2F"]),
            }
        )
        micros = table.set_column(1, "at", pa.array([0, 0, 0, None], pa.timestamp("us")))
        with pytest.raises(BadRequestException, match="lose data"):
            main.write(table, "t/", partition_by="kind")
        main.write(micros, "t/", partition_by="kind")
        for found in (main.read(spark, "t/"), reader("main", "t/")):
            assert sorted(found.select(*table.column_names).toArrow().to_pylist(), key=lambda row: row["id"]) == (
                micros.to_pylist()
            )

    def test_spark_and_arrow_write_to_one_data_set(self, spark, main):
        main.write(rows(spark), "t/", partition_by="month")
        table = pa.table({"id": [6], "word": ["w6"], "month": pa.array([0], pa.int32())})
        main.write(table, "t/", mode="append", partition_by="month")
        same(main.read(spark, "t/"), rows(spark, 7))


class TestFailures:
    def test_a_failed_write_leaves_nothing_and_can_be_repeated(self, spark, main):
        """The second task fails after the first has written its file."""
        df = spark.range(0, 100, numPartitions=2)
        broken = df.withColumn("x", F.when(F.col("id") > 90, F.raise_error(F.lit("no"))).otherwise(F.lit("yes")))
        with pytest.raises(PySparkException):
            main.write(broken, "t/")
        assert paths(main) == []
        assert main.uncommitted_table().num_rows == 0
        main.write(df, "t/")
        same(main.read(spark, "t/"), df)

    def test_a_write_that_cannot_be_staged_leaves_nothing(self, spark, repo, main):
        """The store fails when the files are there and the batch is not."""
        store = FaultyStore(repo.opened.store)
        unlucky = Repository(None, None, OpenRepository(store, user="ann", spark=spark, options={})).branch("main")
        assert paths(unlucky) == []

        def fail(call):
            if call.method == "put_if_absent":
                raise StorageError("gone")

        store.on_call = fail
        with pytest.raises(StorageError, match="gone"):
            unlucky.write(rows(spark), "t/")
        assert paths(main) == []
        store.on_call = None
        unlucky.write(rows(spark), "t/")
        same(main.read(spark, "t/"), rows(spark))
