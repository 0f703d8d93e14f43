"""What only Spark Connect can get wrong. ``test_connect.py`` runs this with a server of its own."""

import gc

import pyarrow as pa
import pytest
from frames import rows, same
from pyspark.sql.connect.session import SparkSession

pytestmark = pytest.mark.spark


def test_the_session_is_that_of_a_server(spark):
    assert isinstance(spark, SparkSession)


def test_the_workers_have_no_lakespark(spark):
    """So the functions that they run in the other tests hold all that they need."""

    def can_import(batches):
        from pyarrow import RecordBatch

        for _ in batches:
            try:
                import lakespark  # noqa: F401
            except ImportError as error:
                yield RecordBatch.from_pydict({"found": [str(error)]})
            else:
                yield RecordBatch.from_pydict({"found": ["lakespark"]})

    (row,) = spark.range(1).mapInArrow(can_import, "found string").collect()
    assert row.found == "workers have no lakespark"


def test_spark_merges(repo, main):
    dev = repo.branch("dev").create("main")
    for branch, name in ((main, "a"), (dev, "b")):
        branch.object(name).upload(name)
        branch.commit(name, engine="spark")
    dev.merge_into(main, engine="spark")
    assert [info.path for info in main.objects()] == ["a", "b"]


def test_metadata_given_away_is_there_when_it_is_evaluated(spark, repo, main):
    """A server drops what it keeps with the client's last handle on it, whatever queries still read it."""
    main.object("t/a").upload("a")
    main.commit("one")
    main.delete_objects(["t/a"])
    main.object("t/b").upload("b")
    main.object("t/b").upload("again")
    inspect = repo.inspect(spark)
    uncommitted = inspect.uncommitted("main").select("path", "type")
    entries = inspect.entries("main").where("path >= 't/'").select("path")
    del inspect
    gc.collect()
    assert sorted(uncommitted.collect()) == [("t/a", "removed"), ("t/b", "added")]
    assert [row.path for row in entries.collect()] == ["t/b"]


def test_a_large_listing_is_imported(spark, main):
    """Of more rows than one message to the server holds."""
    count = 60_000
    names = [f"{number:06d}" for number in range(count)]
    listing = pa.table(
        {
            "address": [f"s3://bucket/in/{name}/{'x' * 60}" for name in names],
            "size": list(range(count)),
            "checksum": [f"etag:{name}" for name in names],
        }
    )
    assert main.import_data(engine="spark").listing(listing, "in").run().ingested_objects == count
    assert main.repository.inspect(spark).entries("main").count() == count


def test_a_dataframe_outlives_what_it_was_made_of(spark, main):
    main.write(rows(spark), "t/", partition_by="month")
    found = main.read(spark, "t/")
    main.write(rows(spark, 1), "t/", mode="overwrite")
    gc.collect()
    same(found, rows(spark))
