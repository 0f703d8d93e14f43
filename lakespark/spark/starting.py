"""What ``getOrCreate`` says where Spark cannot start on this machine, or runs already without what is asked for.

Spark's Java process prints its reason and ends; all that ``getOrCreate`` raises is that it has ended. So the reason is
looked for afterwards: Spark's own launcher is asked for its version, which fails the same way without a Java that it
can run on. What Java that is, is left to the launcher: nothing here reads the environment.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakespark.errors import BadRequestException

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
EXTENSIONS = "spark.sql.extensions"
_NO_PROCESS = "JAVA_GATEWAY_EXITED"
_JAVA_TOO_NEW = "getSubject is not supported"
"""What Hadoop before 3.5 meets in Java 24 and newer."""
_OF_SCRIPT = re.compile(r"^.*spark-class: line [0-9]+: ")
_LAUNCH_SECONDS = 60
_JAVA = "install a JDK 17 and set JAVA_HOME to its folder"


def explain_start(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Have ``getOrCreate`` of this one builder raise BadRequestException, with what to set, if Spark cannot start."""
    builder.getOrCreate = partial(_get_or_create, builder)
    return builder


def option(builder: SparkSession.Builder, key: str, default: str) -> str:
    """What a builder was given: there is no public way to ask."""
    value: str = getattr(builder, "_options", {}).get(key, default)
    return value


def _get_or_create(builder: SparkSession.Builder) -> SparkSession:
    _refuse_running_session(builder)
    try:
        return type(builder).getOrCreate(builder)
    except Exception as error:
        reason = _reason(str(error), option(builder, "spark.jars.packages", ""))
        if reason is None:
            raise
        raise BadRequestException(f"Spark {pyspark.__version__} did not start: {reason}") from error


def _refuse_running_session(builder: SparkSession.Builder) -> None:
    """A session that runs would take Delta's catalog from the builder but not its JARs, and find no table any more."""
    if DELTA_EXTENSION not in option(builder, EXTENSIONS, ""):
        return
    try:
        running = SparkSession.active()
    except PySparkException:
        return
    if DELTA_EXTENSION not in running.conf.get(EXTENSIONS, ""):
        raise BadRequestException(
            "a session without Delta runs already, and JARs cannot be added to it: use it as it is (data are then read "
            "by their files), or stop() it first"
        )


def _reason(problem: str, packages: str) -> str | None:
    """What went wrong and what to set; None for a problem that has nothing to do with Java or JARs."""
    if _JAVA_TOO_NEW in problem:
        return f"the Java that it found is too new for it; {_JAVA}"
    if _NO_PROCESS not in problem:
        return None
    complaint = _complaint_of_launcher()
    if complaint is not None:
        return f"there is no Java that it can run on ({complaint}); {_JAVA}"
    if not packages:
        return "its Java process ended, after it printed why"
    return (
        "its Java process ended, after it printed why. If that is an 'unresolved dependency', a JAR could not be "
        f"fetched, of {packages}: set spark.jars.repositories to a Maven repository that this machine can reach, or "
        "spark.jars to the files themselves, and use configure(builder, delta=False)"
    )


def _complaint_of_launcher() -> str | None:
    """What Spark's launcher says if it cannot run its Java; None if it can, or there is no launcher to ask."""
    program = "spark-submit.cmd" if sys.platform == "win32" else "spark-submit"
    package = Path(pyspark.__file__).parent
    launchers = [folder / "bin" / program for folder in (package, *package.parents[1:2])]
    launcher = next((file for file in launchers if file.is_file()), None)
    if launcher is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - Spark's own program
            [launcher, "--version"], capture_output=True, text=True, check=False, timeout=_LAUNCH_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode == 0:
        return None
    lines = [_OF_SCRIPT.sub("", line).strip() for line in done.stderr.splitlines()]
    return next((line for line in lines if "java" in line.lower()), f"exit code {done.returncode}")
