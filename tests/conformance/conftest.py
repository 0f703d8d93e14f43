"""The same cases on both engines: a lake in a folder, with the engine that is under test."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from lakespark import Lake, Repository

_numbers = itertools.count()


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Any:
    """Name of the engine under test."""
    return request.param


@pytest.fixture
def lake(request: pytest.FixtureRequest, engine: Any, tmp_path: Path) -> Lake:
    """An empty lake whose operations run on the engine under test unless a call names another."""
    session = request.getfixturevalue("spark") if engine == "spark" else None
    return Lake(tmp_path / "lake", user="tests", spark=session, engine=engine)


@pytest.fixture
def repository() -> Repository:
    """A repository in memory, with ranges of few entries, for what no engine has a part in."""
    return Lake(f"memory://conformance-{next(_numbers)}/lake", user="ann").repository("cases").create(range_entries=3)
