"""The files in ``conf/``: they can be read, and name what is there."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BUNDLE = yaml.safe_load((ROOT / "conf" / "databricks.yml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def properties(name, *, with_commented=False):
    """The properties of a file as Spark reads them."""
    found = {}
    for line in (ROOT / "conf" / name).read_text().splitlines():
        text = line.removeprefix("#") if with_commented and line.startswith("#spark.") else line
        if text.strip() and not text.startswith("#"):
            key, value = text.split(None, 1)
            assert key not in found
            found[key] = value.strip()
    return found


@pytest.mark.parametrize("name", ["local.conf", "s3.conf"])
def test_properties_are_spark_properties_each_once(name):
    assert all(key.startswith("spark.") for key in properties(name, with_commented=True))


def test_a_local_run_needs_no_jar():
    found = properties("local.conf")
    assert found["spark.master"] == "local[*]"
    assert not any("jars" in key for key in found)


@pytest.mark.spark
def test_jars_and_extensions_are_those_of_the_session_that_the_library_configures():
    from lakespark.spark.session import settings

    for name, s3 in (("s3.conf", True), ("local.conf", False)):
        wanted = settings("4.2.0", delta=True, s3=s3)
        found = properties(name, with_commented=True)
        assert {key: found[key].split(",") for key in wanted} == {key: list(values) for key, values in wanted.items()}


def test_the_bundle_deploys_a_merge_and_an_import_with_entry_points_of_the_wheel():
    jobs = BUNDLE["resources"]["jobs"]
    tasks = [task["python_wheel_task"] for job in jobs.values() for task in job["tasks"]]
    assert {task["entry_point"] for task in tasks} == {"lakespark-merge", "lakespark-import"}
    assert {task["package_name"] for task in tasks} == {PROJECT["name"]}
    assert {task["entry_point"] for task in tasks} <= set(PROJECT["scripts"])


def test_the_bundle_uses_only_variables_and_parameters_that_it_declares():
    text = (ROOT / "conf" / "databricks.yml").read_text()
    assert set(re.findall(r"\$\{var\.(\w+)\}", text)) == set(BUNDLE["variables"])
    for job in BUNDLE["resources"]["jobs"].values():
        declared = {parameter["name"] for parameter in job["parameters"]}
        used = {name for task in job["tasks"] for name in re.findall(r"job\.parameters\.(\w+)", str(task))}
        assert used == declared
        clusters = {cluster["job_cluster_key"] for cluster in job["job_clusters"]}
        assert {task["job_cluster_key"] for task in job["tasks"]} <= clusters


def test_the_command_lines_of_the_bundle_are_those_of_the_jobs():
    from lakespark.jobs import import_data, merge

    for name, job in (("merge", merge), ("import", import_data)):
        (task,) = BUNDLE["resources"]["jobs"][name]["tasks"]
        job.parser().parse_args(task["python_wheel_task"]["parameters"])
