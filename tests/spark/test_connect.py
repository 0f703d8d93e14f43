"""The data path on Spark Connect: the tests of the classic session again, on a server in a process of its own.

They run in another process than this one, because a process has sessions of one kind only.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from spark_sessions import ConnectServer

pytestmark = [pytest.mark.spark, pytest.mark.processes]

HERE = Path(__file__).parent
CONFORMANCE = HERE.parent / "conformance"

DATA = [
    HERE / "on_connect.py",
    HERE / "test_write_read.py::TestModes",
    HERE / "test_write_read.py::TestFormats::test_every_format_reads_back[csv]",
    HERE / "test_read_at_refs.py::TestRefs",
    HERE / "test_read_at_refs.py::TestWithoutAView",
    HERE / "test_read_at_refs.py::TestDeltaInside::test_a_delta_table_is_read_at_two_refs",
]
ENGINE = [
    CONFORMANCE / "test_commit_cases.py",
    CONFORMANCE / "test_import_cases.py::test_a_prefix_replaces_what_was_below_it",
    CONFORMANCE / "test_inspection.py",
    CONFORMANCE / "test_merge_cases.py::test_resolutions_decide_their_paths_whatever_the_sides_did",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ConnectServer(tmp_path_factory.mktemp("server")) as server:
        yield server


def check(remote, folder, tests, least):
    """Run tests on a server, from a folder and with temporary files below it; at least so many pass, and all."""
    command = [sys.executable, "-m", "pytest", *tests, "-m", "spark", "--spark-remote", remote]
    done = subprocess.run(
        [*map(str, command), "-p", "no:cacheprovider", "--tb=short", "--durations=5", f"--rootdir={HERE.parents[1]}"],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder), "SPARK_TESTING": "1"},  # a free port for a server that is started
        capture_output=True,
        text=True,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    assert int(re.findall(r"([0-9]+) passed", done.stdout)[-1]) >= least


def test_data_goes_in_and_out_as_on_a_classic_session(server, tmp_path):
    check(server.url, tmp_path, DATA, 30)


def test_the_engine_gives_the_same_trees_and_tables(server, tmp_path):
    check(server.url, tmp_path, ENGINE, 20)


def test_over_s3_client_and_server_share_no_folder(server, tmp_path):
    """They have other working folders and other temporary files, and the session has no local files at all."""
    check(server.url, tmp_path, [HERE / "test_s3.py"], 9)


def test_a_builder_may_start_its_own_server(tmp_path):
    """``remote("local[2]")``: a server with the JARs that ``configure`` asks for, whose workers are of this machine."""
    check("local[2]", tmp_path, [HERE / "on_connect.py", "-k", "not the_workers_have_no_lakespark"], 5)
