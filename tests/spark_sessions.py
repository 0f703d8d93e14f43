"""What Spark is started with in the tests, and a Spark Connect server in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

QUICK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings that make Spark fast on little data."""

_CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_SECONDS = 120


class ConnectServer:
    """A Spark Connect server with Delta and S3, from ``with`` to the end of its block; ``url`` is its address.

    It has a working folder and a folder for temporary files of its own, and its Python workers have no lakespark.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Self:
        import pyspark
        from pyspark.sql import SparkSession

        from lakespark.spark import configure

        port = free_port()
        own = {
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.local.dir": str(self._folder / "local"),
        }
        settings = configure(SparkSession.builder, s3=True)._options | QUICK | own
        program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        self._log = self._folder / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    *options,
                    "--class",
                    "org.apache.spark.sql.connect.service.SparkConnectServer",
                    "spark-internal",
                ],
                cwd=self._folder,
                env=os.environ | self._environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.url = f"sc://127.0.0.1:{port}"
        try:
            wait_for_port(port, self._process)
        except BaseException as error:
            self.__exit__()
            error.add_note(self._log.read_text()[-3000:])
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def _environment(self) -> Mapping[str, str]:
        hidden = self._folder / "hidden" / "lakespark.py"
        hidden.parent.mkdir()
        hidden.write_text('raise ImportError("workers have no lakespark")\n')
        temporary = self._folder / "temporary"
        temporary.mkdir()
        return {"PYTHONPATH": str(hidden.parent), "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(temporary)}


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until a process that was started listens on a port of this machine."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on port {port}: {process.args} has ended or takes too long")


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
