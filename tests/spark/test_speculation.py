"""Speculative attempts on a real cluster of two workers: whichever attempt wins, every row is there once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from spark_sessions import free_port, wait_for_port

pytestmark = [pytest.mark.spark, pytest.mark.processes]
HERE = Path(__file__).parent
HOSTS = ("127.0.0.1", "localhost")
"""Two names of this machine: Spark has no second attempt on the host of the first."""


@pytest.fixture
def cluster(tmp_path) -> Iterator[str]:
    """A master and two workers with a core each, in processes of their own."""
    import pyspark

    launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
    port = free_port()
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = ["worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work")]
    workers = [[*worker, "--host", host, f"spark://127.0.0.1:{port}"] for host in HOSTS]
    processes = []
    with (tmp_path / "cluster.log").open("w") as log:
        try:
            for program, *options in (master, *workers):
                command = [launcher, f"org.apache.spark.deploy.{program}", "--webui-port", "0", *options]
                environment = os.environ | {"SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable}
                processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))
                wait_for_port(port, processes[0])
            yield f"spark://127.0.0.1:{port}"
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


def test_an_attempt_that_came_too_late_leaves_nothing_visible(cluster, tmp_path):
    done = subprocess.run(
        [sys.executable, HERE / "speculating.py", cluster, tmp_path],
        env=os.environ | {"PYTHONPATH": str(HERE.parent), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("attempts") == ["0-0", "0-1", "1-0", "2-0", "3-0"]
    assert found == {"files": 4, "paths": 4, "rows": 4000, "distinct": 4000}
