"""Where a session lacks the JARs of an object store: Spark names a class that nobody has heard of."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from lakespark.errors import BadRequestException

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_MISSING_FILE_SYSTEM = re.compile(r"Class (org\.apache\.hadoop\.fs\.[\w.]+) not found")
_S3 = "org.apache.hadoop.fs.s3a."


def names_missing_connector(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Have a function that uses Spark raise BadRequestException, with what to set, for a store that Spark cannot reach.

    Spark raises when it is given a place, before anything is read or written.
    """

    @functools.wraps(function)
    def named(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            missing = next(filter(None, map(_missing, _chain(error))), None)
            if missing is None:
                raise
            raise BadRequestException(missing) from error

    return named


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what caused it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _missing(error: BaseException) -> str | None:
    found = _MISSING_FILE_SYSTEM.search(str(error))
    if found is None:
        return None
    if found[1].startswith(_S3):
        return (
            "this Spark session cannot reach s3://, as it has no hadoop-aws: stop it, and start one with "
            "configure(builder, s3=True) of lakespark.spark; on a server that you connect to, add hadoop-aws there"
        )
    return (
        f"this Spark session cannot reach the store, as it has no {found[1]}: start one with the JAR of that class "
        "in spark.jars.packages"
    )
