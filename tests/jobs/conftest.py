"""A lake with a branch to merge, and what a job prints."""

import json

import pytest

import lakespark


@pytest.fixture
def lake(tmp_path):
    """A lake with a repository ``demo``: ``a`` on main, ``b`` on dev."""
    lake = lakespark.Lake(tmp_path / "lake", user="ann")
    main = lake.repository("demo").create().branch("main")
    main.object("a").upload("a")
    main.commit("first")
    dev = lake.repository("demo").branch("dev").create("main")
    dev.object("b").upload("b")
    dev.commit("on dev")
    return lake


@pytest.fixture
def perform(lake, capsys):
    """Runs the main function of a job on the lake without Spark: its exit code and its summary."""

    def run(job, *words, engine="duckdb"):
        capsys.readouterr()
        code = job.main(["--lake", lake.location, "--user", "joe", "--engine", engine, *map(str, words)])
        printed = capsys.readouterr().out
        assert printed.count("\n") == 1
        return code, json.loads(printed)

    return run
