"""DataFrames out of refs: schemas over time, two refs in one query, pruning, views, Delta tables inside."""

import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from frames import paths, rows, same
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - as everybody does

import lakespark
from lakespark.errors import BadRequestException, ObjectNotFoundException, StorageError
from lakespark.operations.views import ROOT as VIEWS

pytestmark = pytest.mark.spark


class TestSchemas:
    def test_columns_added_over_time_are_null_before(self, spark, main, reader):
        main.write(rows(spark), "t/", partition_by="month")
        later = rows(spark, start=6).withColumn("extra", F.lit(1.5))
        main.write(later, "t/", mode="append", partition_by="month")
        expected = rows(spark).withColumn("extra", F.lit(None).cast("double")).unionByName(later)
        same(main.read(spark, "t/"), expected)
        same(reader("main", "t/"), expected)
        assert main.read(spark, "t/").where("extra is null").count() == 6

    def test_a_wider_number_reads_the_narrower_one(self, spark, main, reader):
        main.write(rows(spark), "t/")
        main.write(rows(spark, start=6).withColumn("month", F.col("month").cast("long")), "t/", mode="append")
        expected = rows(spark, 12).withColumn("month", F.col("month").cast("long"))
        same(main.read(spark, "t/"), expected)
        same(reader("main", "t/"), expected)

    @pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
    def test_incompatible_types_are_an_error_that_names_the_column(self, spark, main, kind):
        main.write(rows(spark), "t/", format=kind)
        main.write(rows(spark).withColumn("month", F.lit("may")), "t/", format=kind, mode="append")
        with pytest.raises(BadRequestException, match="'month' is"):
            main.read(spark, "t/")

    def test_incompatible_footers_are_an_error(self, spark, main, tmp_path):
        """Where no schema is recorded."""
        rows(spark).write.parquet(str(tmp_path / "source"))
        rows(spark).withColumn("month", F.lit("may")).write.mode("append").parquet(str(tmp_path / "source"))
        for file in (tmp_path / "source").glob("*.parquet"):
            main.object(f"t/{file.name}").upload(file.read_bytes())
        with pytest.raises(BadRequestException, match="column 'month' is"):
            main.read(spark, "t/")

    def test_schema_chooses_columns_and_types(self, spark, main):
        main.write(rows(spark), "t/", partition_by="month")
        found = main.read(spark, "t/", schema="month string, word string, gone date")
        assert dict(found.dtypes) == {"month": "string", "word": "string", "gone": "date"}
        assert sorted(row.month for row in found.collect()) == ["0", "0", "1", "1", "2", "2"]
        same(main.read(spark, "t/", schema="id long", where="month > 1"), rows(spark).where("month > 1").drop("word"))


class TestRefs:
    def test_a_later_commit_does_not_change_a_dataframe_in_hand(self, spark, main):
        main.write(rows(spark), "t/", partition_by="month")
        uncommitted = main.read(spark, "t/")
        main.commit("one")
        committed = main.read(spark, "t/")
        main.write(rows(spark, 1, start=50), "t/", mode="overwrite")
        main.commit("two")
        same(uncommitted, rows(spark))
        same(committed, rows(spark))
        same(main.read(spark, "t/"), rows(spark, 1, start=50))

    def test_two_refs_join_in_one_query(self, spark, repo, main):
        main.write(rows(spark), "t/")
        main.commit("one")
        repo.tag("v1").create("main")
        dev = repo.branch("dev").create("main")
        dev.write(rows(spark, start=3), "t/", mode="overwrite")
        main.write(rows(spark, start=10), "t/", mode="append")
        main.commit("two")
        joined = main.read(spark, "t/").join(dev.read(spark, "t/"), "id")
        assert sorted(row.id for row in joined.collect()) == [3, 4, 5]
        tagged, before = repo.ref("v1").read(spark, "t/"), repo.ref("main~1").read(spark, "t/")
        assert tagged.join(before, ["id", "word", "month"]).count() == 6
        assert main.read(spark, "t/").exceptAll(tagged).count() == 6

    def test_a_view_is_a_name_in_sql(self, spark, repo, main):
        main.write(rows(spark), "t/", partition_by="month")
        main.commit("one")
        repo.branch("dev").create("main").write(rows(spark, 1), "t/", mode="overwrite_partitions", partition_by="month")
        main.view(spark, "t/", name="on_main", where="month = 0")
        repo.ref("dev").view(spark, "t/", name="on_dev")
        found = spark.sql("select id from on_main where id not in (select id from on_dev)").collect()
        assert found == [Row(id=3)]
        main.write(rows(spark, 1, start=50), "t/", mode="overwrite")
        main.commit("two")
        assert sorted(row.id for row in spark.sql("select id from on_main").collect()) == [0, 3]

    def test_a_single_file_is_a_data_set(self, spark, main):
        main.write(rows(spark), "t/", partition_by="month")
        path = next(path for path in paths(main) if "month=1" in path)
        assert sorted(row.id for row in main.read(spark, path).collect()) == [1, 4]

    def test_nothing_below_the_prefix_is_an_error(self, spark, main):
        main.object("t/_SUCCESS").upload(b"")
        with pytest.raises(ObjectNotFoundException, match="no data files below 't/'"):
            main.read(spark, "t/")

    def test_hidden_files_are_no_data(self, spark, main):
        """As for Spark: names that start with an underscore or a dot, and what lies in such folders."""
        main.write(rows(spark), "t/", partition_by="month")
        for hidden in ("_SUCCESS", ".part.crc", "_temporary/0/part.parquet", "month=0/_note", ".tmp/month=1/x.parquet"):
            main.object(f"t/{hidden}").upload(b"hidden")
        same(main.read(spark, "t"), rows(spark))


class TestPruning:
    def test_where_reads_only_the_partitions_that_match(self, spark, main):
        main.write(rows(spark), "t/", partition_by="month")
        everything = main.read(spark, "t/")
        chosen = main.read(spark, "t/", where="month in (1, 2) and month < 2")
        assert (len(everything.inputFiles()), len(chosen.inputFiles())) == (3, 1)
        same(chosen, rows(spark).where("month = 1"))

    @pytest.mark.parametrize("kind", ["parquet", "orc"])
    def test_where_that_matches_nothing_gives_no_rows(self, spark, main, reader, kind):
        main.write(rows(spark), "t/", format=kind, partition_by="month")
        for found in (main.read(spark, "t/", where="month = 99"), reader("main", "t/", where="month = 99")):
            same(found, rows(spark, 0))

    def test_where_on_what_is_no_partition_column_is_an_error(self, spark, main):
        main.write(rows(spark), "t/", partition_by="month")
        with pytest.raises(BadRequestException, match="cannot be used on partition columns month"):
            main.read(spark, "t/", where="id = 1")

    def test_filters_on_partition_columns_prune_files(self, spark, main):
        main.write(rows(spark), "t/", partition_by="month")
        found = main.read(spark, "t/").where("month = 1")
        assert len(found.inputFiles()) == 1
        assert "month=1" in found.inputFiles()[0]

    def test_statistics_skip_files(self, spark, main):
        """Of ten files with a hundred numbers each, a filter on the number reads one."""
        df = spark.range(0, 1000, numPartitions=10).withColumn("word", F.format_string("w%04d", "id"))
        assert main.write(df, "t/") == 10
        for condition in ("id between 310 and 320", "word = 'w0315'"):
            found = main.read(spark, "t/").where(condition)
            assert len(found.inputFiles()) == 1
            same(found, df.where(condition))

    @pytest.mark.parametrize("imported", [False, True])
    def test_files_that_statistics_rule_out_are_not_opened(self, spark, main, tmp_path, imported):
        """They could be anything. The statistics are those of the write, or of an imported Delta table."""
        df = spark.range(0, 1000, numPartitions=10)
        if imported:
            df.write.format("delta").save(str(tmp_path / "delta"))
            main.import_data().delta_table(str(tmp_path / "delta"), "t").run()
        else:
            main.write(df, "t/")
        chosen = main.read(spark, "t/").where("id between 310 and 320")
        (needed,) = chosen.inputFiles()
        for found in main.objects(prefix="t/"):
            if Path(needed).name != Path(found.physical_address).name:
                Path(unquote(urlsplit(found.physical_address).path)).write_bytes(b"nothing that Spark can read")
        assert sorted(row.id for row in chosen.collect()) == list(range(310, 321))
        assert main.read(spark, "t/").where("id = 310").count() == 1
        with pytest.raises(Exception, match="FAILED_READ_FILE"):  # a Java error but on Connect
            main.read(spark, "t/").where("id % 100 = 10").collect()

    def test_statistics_do_not_skip_not_a_number(self, spark, main):
        """Spark has NaN above every number; other writers leave it out of a file's bounds."""
        main.write(pa.table({"x": [1.0, float("nan"), 2.0]}), "t/")
        assert main.read(spark, "t/").where("x > 100").count() == 1


@pytest.fixture
def read_only(spark):
    """A folder outside of pytest's own, and a context in which this process may not write to it."""
    scratch = getattr(getattr(spark, "_sc", None), "_temp_dir", None)  # PySpark's own, for what it sends to the JVM
    for own in (Path(scratch), Path(scratch).parent) if scratch else ():
        own.chmod(0o777)

    @contextmanager
    def forbidden():
        subprocess.run(["chmod", "-R", "a-w", folder], check=True)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # root may write anywhere
        try:
            with pytest.raises(PermissionError):
                (Path(folder) / "new").write_text("x")
            yield
        finally:
            os.seteuid(user)
            subprocess.run(["chmod", "-R", "u+w", folder], check=True)

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder), forbidden


class TestReadOnly:
    def test_who_may_only_read_a_repository_reads_everything(self, spark, read_only):
        folder, forbidden = read_only
        main = lakespark.Lake(folder).repository("analytics").create(str(folder / "analytics")).branch("main")
        main.write(rows(spark), "t/", partition_by="month")
        main.write(rows(spark), "csv/", format="csv", partition_by="month")
        main.commit("one")
        main.write(rows(spark, start=6), "t/", mode="append", partition_by="month")
        with forbidden():
            repo = lakespark.Lake(folder).repository("analytics")
            same(repo.ref("main").read(spark, "t/"), rows(spark, 12))
            same(repo.ref("main~0").read(spark, "t/", where="month = 1"), rows(spark).where("month = 1"))
            same(repo.ref("main").read(spark, "csv"), rows(spark))
            assert repo.inspect().commits().num_rows == 2
            with pytest.raises(StorageError):
                repo.branch("main").write(pa.table({"id": [1]}), "u/")
        assert paths(main, "u/") == []
        assert not list(main.repository.opened.store.list(VIEWS))


class TestWithoutAView:
    def test_a_reader_that_may_not_write_gets_the_same_rows(self, spark, repo, main, reader):
        main.write(rows(spark), "t/", partition_by="month")
        main.commit("one")
        found = reader("main", "t/")
        assert not list(repo.opened.store.list(VIEWS))
        same(found, rows(spark))
        same(found, main.read(spark, "t/"))
        same(reader("main", "t/", where="month = 1"), rows(spark).where("month = 1"))

    def test_a_view_that_was_removed_is_made_again(self, spark, repo, main):
        main.write(rows(spark), "t/")
        main.read(spark, "t/")
        store = repo.opened.store
        before = {file.key for file in store.list(VIEWS)}
        for key in before:
            store.delete(key)
        same(main.read(spark, "t/"), rows(spark))
        assert {file.key for file in store.list(VIEWS)} == before

    def test_reading_the_same_twice_writes_one_view(self, spark, repo, main):
        main.write(rows(spark), "t/")
        main.read(spark, "t/")
        before = {file.key for file in repo.opened.store.list(VIEWS)}
        main.commit("one")
        main.read(spark, "t/")
        assert {file.key for file in repo.opened.store.list(VIEWS)} == before


class TestDeltaInside:
    @pytest.fixture
    def table(self, spark, main, tmp_path):
        """Writes to a Delta table outside, and uploads what is new of it."""
        folder = tmp_path / "delta"

        def write(df, mode="append"):
            df.write.format("delta").mode(mode).partitionBy("month").save(str(folder))
            known = set(paths(main, "tables/t/"))
            for file in folder.rglob("*"):
                path = f"tables/t/{file.relative_to(folder)}"
                if file.is_file() and not file.name.endswith(".crc") and path not in known:
                    main.object(path).upload(file.read_bytes())

        return write

    def test_a_delta_table_is_read_at_two_refs(self, spark, repo, main, table, reader):
        table(rows(spark))
        main.commit("one")
        table(rows(spark, 2, start=50), mode="overwrite")
        main.commit("two")
        same(main.read(spark, "tables/t/"), rows(spark, 2, start=50))
        same(repo.ref("main~1").read(spark, "tables/t"), rows(spark))
        same(reader("main~1", "tables/t"), rows(spark))

    def test_where_chooses_partitions_of_a_delta_table(self, spark, main, table):
        table(rows(spark))
        same(main.read(spark, "tables/t/", where="month = 1"), rows(spark).where("month = 1"))

    def test_an_empty_delta_table_has_its_columns(self, spark, main, table):
        table(rows(spark, 0))
        same(main.read(spark, "tables/t/"), rows(spark, 0))

    def test_a_log_with_a_hole_is_an_error(self, spark, main, table):
        """Reading around it would give other rows than were written."""
        table(rows(spark))
        table(rows(spark, start=6))
        main.delete_objects(f"tables/t/_delta_log/{0:020d}.json")
        with pytest.raises(BadRequestException, match="incomplete"):
            main.read(spark, "tables/t/")
