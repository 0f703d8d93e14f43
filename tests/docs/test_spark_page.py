"""What docs/spark.md shows works, and its versions are those that ``configure`` uses and ``pip`` allows."""

import re
import tomllib
from pathlib import Path

import pytest
from snippets import run_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "spark.md"
ROW = re.compile(r"^\| (4\.\d) \| (\S+) \| (\S+) \(`(\S+)`\) \| (\S+) \| (\S+) \| (.+) \|$", re.MULTILINE)


@pytest.mark.spark
def test_its_session_works(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page(PAGE, tmp_path) == 1


@pytest.mark.spark
def test_its_versions_are_those_of_the_session():
    from lakespark.spark.session import settings

    rows = ROW.findall(PAGE.read_text())
    assert [row[0] for row in rows] == ["4.0", "4.1", "4.2"]
    for release, tested, delta, artifact, hadoop, aws_sdk, result in rows:
        assert tested.startswith(f"{release}.")
        packages = settings(tested, delta=True, s3=True)["spark.jars.packages"]
        assert packages[:2] == [f"io.delta:{artifact}:{delta}", f"org.apache.hadoop:hadoop-aws:{hadoop}"]
        assert {package.rsplit(":", 1)[1] for package in packages[2:]} == {aws_sdk}
        assert re.match(r"\d+ passed", result)


def test_its_versions_are_those_that_the_package_asks_for():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    tested = [row[1] for row in ROW.findall(PAGE.read_text())]
    assert extras["spark"] == [f"pyspark>=4.0,<={tested[-1]}"]
    assert f"pyspark[connect]=={tested[-1]}" in extras["dev"]
