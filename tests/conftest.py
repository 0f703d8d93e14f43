"""What all tests share: one Spark session for the run, made when a test asks for it, and hypothesis's profiles.

``--hypothesis-profile=long`` has the state machine run at length. ``--spark-remote`` has the Spark tests run on
Spark Connect: on the server ``sc://host:port``, or for ``local[2]`` on one of their own. ``--many-processes-seconds``
is how long the eight processes of tests/stores/test_many_processes.py work (15).
"""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from s3_server import S3Server
from spark_sessions import QUICK

settings.register_profile("long", deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--spark-remote", metavar="URL", help="run the Spark tests on Spark Connect")
    parser.addoption(
        "--many-processes-seconds", type=float, default=15, help="how long test_many_processes.py has them work"
    )


OPT_IN = ("radosgw", "npm", "mutations")
"""Markers of tests that fetch and start services of others, or take minutes: they run when ``-m`` names them."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whoever asks for the S3 service starts a process; what nobody asked for is left out."""
    for item in items:
        if "s3_server" in getattr(item, "fixturenames", ()):
            item.add_marker("processes")
    asked = config.getoption("-m") or ""
    left_out = [item for item in items if any(item.get_closest_marker(name) and name not in asked for name in OPT_IN)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A small local session with Delta, and with S3 if a test of the run needs it; or that of a Connect server."""
    from pyspark.sql import SparkSession

    from lakespark.spark import configure

    os.environ["PYSPARK_PYTHON"] = sys.executable
    remote = request.config.getoption("--spark-remote")
    builder = SparkSession.builder.remote(remote) if remote else SparkSession.builder.master("local[2]")
    if not (remote or "").startswith("sc://"):
        needs_s3 = any("s3_server" in item.fixturenames for item in request.session.items)
        for name, value in QUICK.items():
            builder.config(name, value)
        configure(builder, s3=needs_s3).config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    session = builder.appName("lakespark-tests").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 service for the run; make a bucket for each test."""
    with S3Server() as server:
        yield server
