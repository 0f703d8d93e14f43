"""The data path on S3: everything goes through s3a and the lake's own client, and nothing through local files.

``test_connect.py`` runs these on Spark Connect too, with a server that shares no folder with its client.
"""

import pytest
from frames import paths, rows, same
from pyspark.sql import Row

import lakespark
from lakespark.errors import MergeConflictError
from lakespark.operations.views import ROOT as VIEWS
from lakespark.spark import storage_conf

pytestmark = pytest.mark.spark

NO_LOCAL_FILES = {
    "fs.file.impl": "ThereIsNone",
    "fs.file.impl.disable.cache": "true",
    "fs.s3a.fast.upload.buffer": "bytebuffer",
}
"""With these Spark neither reads nor writes a local file for a query."""


@pytest.fixture(scope="module")
def session(spark, s3_server):
    """The session of the run, with access to the S3 server and none to local files."""
    found = storage_conf("s3://any", s3_server.options)
    settings = {name.removeprefix("spark.hadoop."): value for name, value in found.items()} | NO_LOCAL_FILES
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)


@pytest.fixture
def bucket(s3_server):
    return s3_server.make_bucket()


@pytest.fixture
def repo(session, s3_server, bucket):
    """A repository below a prefix with a space, a percent sign and an umlaut."""
    lake = lakespark.Lake(f"s3://{bucket}/ein Säe%20 see", user="ann", spark=session, **s3_server.options)
    return lake.repository("analytics").create()


@pytest.fixture
def main(repo):
    return repo.branch("main")


def keys(repo, prefix):
    return [file.key for file in repo.opened.store.list(prefix)]


def test_the_session_has_no_local_files(session, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(Exception, match="ThereIsNone"):
        session.read.text(str(tmp_path)).collect()


def test_partitioned_parquet_is_read_at_refs_through_views(session, repo, main):
    assert main.write(rows(session), "t/", partition_by="month") == 3
    same(main.read(session, "t/"), rows(session))
    main.commit("one")
    repo.tag("v1").create("main")
    main.write(rows(session, 3, start=6), "t/", mode="append", partition_by="month")
    same(main.read(session, "t/"), rows(session, 9))
    found = repo.ref("v1").read(session, "t/")
    same(found, rows(session))
    (file,) = found.where("month = 1").inputFiles()
    assert file.startswith("s3a://")
    assert len(keys(repo, "data")) == len(paths(main, "t/")) == 6
    assert len({key.split("/_delta_log/")[0] for key in keys(repo, VIEWS)}) == 2


def test_csv_is_read_by_its_files(session, main):
    main.write(rows(session), "t/", format="csv", partition_by="month", options={"header": "true"})
    same(main.read(session, "t/", options={"header": "true"}), rows(session))
    chosen = main.read(session, "t/", where="month = 2", options={"header": "true"})
    same(chosen, rows(session).where("month = 2"))
    assert len(chosen.inputFiles()) == 1


def test_overwriting_replaces_all_or_the_partitions_of_the_data(session, main):
    main.write(rows(session), "t/", partition_by="month")
    main.commit("one")
    fresh = rows(session, start=100).where("month = 1")
    main.write(fresh, "t/", mode="overwrite_partitions", partition_by="month")
    same(main.read(session, "t/"), rows(session).where("month <> 1").union(fresh))
    main.write(rows(session, 2), "t/", mode="overwrite")
    same(main.read(session, "t/"), rows(session, 2))


def test_two_refs_join_in_one_query_and_views_in_sql(session, repo, main):
    main.write(rows(session), "t/")
    main.commit("one")
    dev = repo.branch("dev").create("main")
    dev.write(rows(session, start=4), "t/", mode="overwrite")
    joined = main.read(session, "t/").join(dev.read(session, "t/"), "id")
    assert sorted(row.id for row in joined.collect()) == [4, 5]
    main.view(session, "t/", name="on_main")
    dev.view(session, "t/", name="on_dev")
    found = session.sql("select count(*) as n from on_main where id not in (select id from on_dev)")
    assert found.collect() == [Row(n=4)]


def test_spark_commits_merges_and_finds_conflicts(session, repo, main):
    for number in range(4):
        main.object(f"o/{number}").upload(str(number))
    main.commit("one", engine="spark")
    dev = repo.branch("dev").create("main")
    dev.write(rows(session), "t/", partition_by="month")
    dev.object("o/1").upload("dev")
    dev.commit("two", engine="spark")
    main.object("o/2").upload("main")
    main.commit("three")
    dev.merge_into(main, engine="spark")
    assert [main.object(f"o/{n}").reader("r").read() for n in range(4)] == ["0", "dev", "main", "3"]
    same(main.read(session, "t/"), rows(session))
    other = repo.branch("other").create("main~1")
    other.object("o/1").upload("other")
    other.commit("four")
    with pytest.raises(MergeConflictError, match="o/1"):
        other.merge_into(main, engine="spark")


def test_metadata_is_tables(session, repo, main):
    main.write(rows(session), "t/", partition_by="month")
    main.commit("one")
    main.object("t/new").upload("new")
    inspect = repo.inspect(session)
    assert [row.message for row in inspect.commits().where("size(parents) = 1").collect()] == ["one"]
    assert inspect.entries("main").count() == 4
    assert {row.type for row in inspect.changes("main~1", "main").collect()} == {"added"}
    (row,) = inspect.uncommitted("main").collect()
    assert (row.path, row.type, row.written_by) == ("t/new", "added", "ann")
    address = inspect.entries("main", "t/month=1").head().physical_address
    assert {row.name for row in inspect.locate(address).where("kind = 'branch'").collect()} == {"main"}


def test_files_that_spark_wrote_beside_the_lake_are_imported(session, main, bucket):
    """By Spark's listing, and as a Delta table."""
    raw = f"s3a://{bucket}/raw data"
    rows(session).write.partitionBy("month").parquet(f"{raw}/files")
    rows(session).write.format("delta").partitionBy("month").save(f"{raw}/table")
    rows(session, 3, start=6).write.format("delta").mode("append").save(f"{raw}/table")
    main.import_data(engine="spark").prefix(f"{raw}/files", "f").delta_table(f"{raw}/table", "d").run()
    assert len([path for path in paths(main) if path.endswith(".parquet")]) == 3 + 6
    same(main.read(session, "f/").selectExpr("id", "word", "cast(month as int)"), rows(session))
    same(main.read(session, "d/"), rows(session, 9))


def test_a_delta_table_inside_is_read_at_two_refs(session, s3_server, repo, main, bucket):
    client = s3_server.client()

    def write_and_upload(df):
        df.write.format("delta").mode("overwrite").save(f"s3a://{bucket}/table")
        for found in client.list_objects_v2(Bucket=bucket, Prefix="table/")["Contents"]:
            body = client.get_object(Bucket=bucket, Key=found["Key"])["Body"].read()
            main.object("d/" + found["Key"].removeprefix("table/")).upload(body)

    write_and_upload(rows(session))
    main.commit("one")
    write_and_upload(rows(session, 2, start=50))
    same(main.read(session, "d/"), rows(session, 2, start=50))
    same(repo.ref("main@").read(session, "d/"), rows(session))
