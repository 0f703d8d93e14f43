"""What ``configure`` adds to a builder, and what a user reads where Spark cannot start or lacks a JAR."""

import json
import os
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

import lakespark
from lakespark.errors import BadRequestException
from lakespark.spark import configure
from lakespark.spark.session import SHIPPED_WITH_SPARK, settings

pytestmark = pytest.mark.spark

RELEASES = ("4.0", "4.1", "4.2")
PACKAGES, EXTENSIONS, CATALOG = "spark.jars.packages", "spark.sql.extensions", "spark.sql.catalog.spark_catalog"


class Unstartable(SparkSession.Builder):
    """A builder that fails to start with a text of Spark's."""

    problem = "started"

    def getOrCreate(self):  # noqa: N802 - Spark's name
        raise RuntimeError(self.problem)


def options(builder):
    return dict(builder._options)


class TestBuilder:
    def test_it_is_the_same_builder_and_nothing_is_started(self):
        builder = Unstartable()
        assert configure(builder, s3=True) is builder

    def test_delta_is_for_the_spark_that_runs(self):
        import pyspark

        release = ".".join(pyspark.__version__.split(".")[:2])
        found = options(configure(SparkSession.Builder()))
        assert found[PACKAGES] == f"io.delta:delta-spark_{release}_2.13:4.4.0"
        assert found[EXTENSIONS] == "io.delta.sql.DeltaSparkSessionExtension"
        assert found["spark.jars.excludes"].split(",") == list(SHIPPED_WITH_SPARK)

    def test_lists_are_added_to(self):
        builder = SparkSession.Builder().config(PACKAGES, "com.example:a:1, com.example:b:2").config(EXTENSIONS, "Mine")
        found = options(configure(builder, s3=True))
        assert found[PACKAGES].split(",")[:2] == ["com.example:a:1", "com.example:b:2"]
        assert {name.split(":")[0] for name in found[PACKAGES].split(",")[2:]} == {
            "io.delta",
            "org.apache.hadoop",
            "software.amazon.awssdk",
        }
        assert found[EXTENSIONS] == "Mine,io.delta.sql.DeltaSparkSessionExtension"

    def test_a_second_time_changes_nothing(self):
        once = configure(SparkSession.Builder().config(EXTENSIONS, "Mine"), s3=True)
        before = options(once)
        assert options(configure(once, s3=True)) == before

    def test_without_delta_and_s3_there_are_no_jars(self):
        assert options(configure(SparkSession.Builder(), delta=False)) == {}

    def test_s3_alone_has_no_delta(self):
        found = options(configure(SparkSession.Builder(), delta=False, s3=True))
        assert set(found) == {PACKAGES, "spark.jars.excludes"}
        assert "io.delta" not in found[PACKAGES]

    def test_a_connect_server_has_its_own_jars(self):
        for builder in (SparkSession.Builder().remote("sc://server:15002"), ConnectSession.Builder()):
            before = options(builder)
            assert configure(builder, s3=True) is builder
            assert options(builder) == before

    def test_a_connect_server_that_the_builder_starts_has_ours(self):
        assert "io.delta" in options(configure(SparkSession.Builder().remote("local[2]")))[PACKAGES]

    def test_a_builder_that_is_not_sparks_comes_back_as_it_is(self):
        """Such as DatabricksSession's, which has no settings of this kind."""
        builder = object()
        assert configure(builder) is builder


class TestVersions:
    @pytest.mark.parametrize("release", RELEASES)
    def test_each_release_has_its_own_jars(self, release):
        packages = settings(f"{release}.3", delta=True, s3=True)[PACKAGES]
        assert packages[0] == f"io.delta:delta-spark_{release}_2.13:4.4.0"
        others = [settings(other, delta=True, s3=True)[PACKAGES] for other in RELEASES if other != release]
        assert not any(set(packages) & set(other) for other in others)

    @pytest.mark.parametrize("version", ["3.5.6", "4.9.0", "5.0.0.dev1"])
    def test_another_spark_is_named(self, version):
        with pytest.raises(BadRequestException, match=f"for Spark {version}: use Spark 4.0, 4.1, 4.2"):
            settings(version, delta=True, s3=False)


def run(code, **environment):
    """What a fresh interpreter prints as JSON on its last line."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable} | environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


START = """
import json
from pyspark.sql import SparkSession
from lakespark.errors import BadRequestException
from lakespark.spark import configure
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
{more}
try:
    configure(builder).getOrCreate()
    print(json.dumps("started"))
except BadRequestException as error:
    print(json.dumps(str(error)))
"""


def java(folder, script):
    """A folder for JAVA_HOME whose Java is a shell script."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(folder)


@pytest.mark.processes
class TestStart:
    def test_without_java_it_says_what_to_set(self, tmp_path):
        problem = run(START.format(more=""), JAVA_HOME=str(tmp_path / "nothing"))
        assert "did not start: there is no Java that it can run on" in problem
        assert str(tmp_path / "nothing/bin/java") in problem
        assert problem.endswith("install a JDK 17 and set JAVA_HOME to its folder")

    def test_with_an_old_java_it_says_what_to_set(self, tmp_path):
        """What Java 11 says of Spark 4's launcher."""
        said = "java.lang.UnsupportedClassVersionError: Main has been compiled by a more recent version of Java"
        problem = run(START.format(more=""), JAVA_HOME=java(tmp_path / "java11", f"echo '{said}' >&2; exit 1"))
        assert f"({said}); install a JDK 17 and set JAVA_HOME" in problem

    def test_jars_that_cannot_be_fetched_are_named(self, tmp_path):
        """From a repository that is an empty folder."""
        ivy = tmp_path / "ivy.xml"
        ivy.write_text(
            '<ivysettings><settings defaultResolver="empty"/><resolvers><filesystem name="empty">'
            f'<artifact pattern="{tmp_path}/[artifact].[ext]"/></filesystem></resolvers></ivysettings>'
        )
        where = {"spark.jars.ivySettings": str(ivy), "spark.jars.ivy": str(tmp_path / "cache")}
        problem = run(START.format(more=f"builder.config(map={where})"))
        assert "did not start: its Java process ended" in problem
        assert "could not be fetched, of io.delta:delta-spark_" in problem
        assert "set spark.jars.repositories" in problem
        assert "configure(builder, delta=False)" in problem


class TestStartWithoutProcess:
    def test_a_java_that_is_too_new_is_named(self):
        builder = configure(Unstartable(), delta=False)
        builder.problem = "java.lang.UnsupportedOperationException: getSubject is not supported"
        with pytest.raises(BadRequestException, match="too new for it; install a JDK 17 and set JAVA_HOME"):
            builder.getOrCreate()

    def test_any_other_failure_is_sparks_own(self):
        with pytest.raises(RuntimeError, match="started"):
            configure(Unstartable(), delta=False).getOrCreate()


PLAIN = """
import json
import lakespark
from pyspark.sql import SparkSession
from lakespark.errors import LakesparkError
from lakespark.spark import configure

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")

def refusal(call):
    try:
        return f"no refusal: {call()}"
    except LakesparkError as error:
        return str(error)

main = lakespark.Lake(FOLDER, user="ann", spark=spark).repository("analytics").branch("main")
far = lakespark.Lake(BUCKET, user="ann", spark=spark, engine="spark", **OPTIONS).repository("analytics")
print(json.dumps({
    "configured": refusal(lambda: configure(SparkSession.builder).getOrCreate()),
    "rows": main.read(spark, "t/").count(),
    "by": [file.rsplit("/", 1)[-1].split(".")[-1] for file in main.read(spark, "t/").inputFiles()],
    "delta": sorted(row.id for row in main.read(spark, "d/").collect()),
    "recorded": refusal(lambda: far.branch("main").read(spark, "t/")),
    "found": refusal(lambda: far.branch("main").read(spark, "u/")),
    "write": refusal(lambda: far.branch("main").write(spark.range(3), "new/")),
    "engine": refusal(lambda: far.branch("dev").merge_into(far.branch("main"))),
}))
spark.stop()
"""


@pytest.fixture(scope="class")
def told(tmp_path_factory, s3_server):
    """What a session without any JAR reads and is refused."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake import write_deltalake

    folder = tmp_path_factory.mktemp("plain")
    bucket = f"s3://{s3_server.make_bucket()}/lake"
    main = lakespark.Lake(folder / "lake", user="ann").repository("analytics").create().branch("main")
    main.write(pa.table({"id": range(5)}), "t/")
    write_deltalake(folder / "table", pa.table({"id": range(3)}))
    for file in (folder / "table").rglob("*.*"):
        if file.is_file():
            main.object(f"d/{file.relative_to(folder / 'table')}").upload(file.read_bytes())
    repo = lakespark.Lake(bucket, user="ann", **s3_server.options).repository("analytics").create()
    repo.branch("main").write(pa.table({"id": range(5)}), "t/")
    pq.write_table(pa.table({"id": range(5)}), folder / "u.parquet")
    repo.branch("main").object("u/u.parquet").upload((folder / "u.parquet").read_bytes())
    repo.branch("main").commit("one")
    repo.branch("dev").create("main").object("b").upload("b")
    repo.branch("dev").commit("two")
    repo.branch("main").object("a").upload("a")
    repo.branch("main").commit("three")
    values = {"FOLDER": str(folder / "lake"), "BUCKET": bucket, "OPTIONS": s3_server.options}
    code = "\n".join(f"{name} = {value!r}" for name, value in values.items()) + PLAIN
    return run(code)


@pytest.mark.processes
class TestPlainSession:
    """A session of the user's own, without Delta and hadoop-aws."""

    def test_a_session_that_runs_without_delta_is_not_spoiled(self, told):
        assert "a session without Delta runs already" in told["configured"]
        assert "stop() it first" in told["configured"]

    def test_it_reads_by_files_what_delta_would_read_through_a_view(self, told):
        assert told["rows"] == 5
        assert told["by"] == ["parquet"]

    def test_it_reads_a_delta_table_inside_the_repository(self, told):
        assert told["delta"] == [0, 1, 2]

    @pytest.mark.parametrize("what", ["recorded", "found", "write", "engine"])
    def test_s3_without_its_jars_says_what_to_set(self, told, what):
        assert "cannot reach s3://" in told[what]
        assert "configure(builder, s3=True)" in told[what]
