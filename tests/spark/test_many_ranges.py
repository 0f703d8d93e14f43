"""Reading trees of many ranges, which Spark looks for in few tasks, and the session is left as it was."""

import pyarrow as pa
import pytest

import lakespark

pytestmark = pytest.mark.spark

SETTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def entries(version):
    return pa.table(
        {
            "path": [f"data/{number:04d}" for number in range(600)],
            "physical_address": [f"s3://lake/{version}/{number:04d}" for number in range(600)],
            "size_bytes": list(range(600)),
            "checksum": [f"{version}:{number}" for number in range(600)],
        }
    )


@pytest.fixture
def repo(spark, tmp_path):
    lake = lakespark.Lake(tmp_path / "lake", spark=spark)
    made = lake.repository("analytics").create(range_entries=5)
    for name in ("v1", "v2"):
        made.branch("main").stage(entries(name))
        made.branch("main").commit(name)
        made.tag(name).create("main")
    return made


def test_a_full_diff_finds_what_the_process_finds(repo, spark):
    found = repo.inspect(spark).changes("v1", "v2").toArrow().sort_by("path")
    assert found.num_rows == 600
    assert found.to_pylist() == repo.inspect().changes("v1", "v2").to_pylist()


@pytest.mark.parametrize("own", [None, "7"])
def test_the_session_keeps_its_setting(repo, spark, own):
    before = spark.conf.get(SETTING)
    if own is not None:
        spark.conf.set(SETTING, own)
    try:
        assert repo.inspect(spark).changes("v1", "v2").count() == 600
        assert spark.conf.get(SETTING) == (own or before)
    finally:
        spark.conf.unset(SETTING)
