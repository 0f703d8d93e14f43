"""What all jobs share: options of the lake, the session, a JSON summary on stdout, and the exit codes of the CLI."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakespark.cli.exit_codes import DONE, FAILED, exit_code
from lakespark.cli.settings import LAKE_VARIABLE, USER_VARIABLE, Settings, find_settings
from lakespark.errors import BadRequestException, LakesparkError, NothingToMergeError, describe
from lakespark.lake import Lake
from lakespark.uri import LakeUri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Summary = dict[str, Any]
Run = Callable[["SparkSession | None", argparse.Namespace], Summary]


def parser_of(program: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every job has."""
    parser = argparse.ArgumentParser(
        program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lake", metavar="LOCATION", help=f"the lake; else {LAKE_VARIABLE}")
    parser.add_argument("--user", metavar="NAME", help=f"who stands behind what is written; else {USER_VARIABLE}")
    parser.add_argument(
        "--engine", choices=["auto", "duckdb", "spark"], default="auto", help="duckdb needs no Spark (default: auto)"
    )
    return parser


def lake_of(args: argparse.Namespace, spark: SparkSession | None) -> Lake:
    """The lake that the options or the environment name. Raises BadRequestException if none does."""
    settings = _settings(args)
    return Lake(settings.lake, user=settings.user, spark=spark, engine=args.engine, **settings.storage)


def add_metadata(parser: argparse.ArgumentParser) -> None:
    """The repeatable option ``--meta KEY=VALUE``."""
    parser.add_argument("--meta", metavar="KEY=VALUE", action="append", default=[], help="metadata; repeatable")


def add_idempotency_key(parser: argparse.ArgumentParser) -> None:
    """The option ``--idempotency-key``, the scheduler's name for this run."""
    parser.add_argument("--idempotency-key", metavar="KEY", help="name of this run: repeated with it, nothing is done")


def metadata_of(args: argparse.Namespace) -> dict[str, str]:
    """What ``--meta`` was given. Raises BadRequestException for what is no pair."""
    pairs = [text.partition("=") for text in args.meta]
    for (key, sign, _), text in zip(pairs, args.meta, strict=True):
        if not key or not sign:
            raise BadRequestException(f"{text!r} is not of the form KEY=VALUE")
    return {key: value for key, _, value in pairs}


def same_repository(one: LakeUri, other: LakeUri) -> None:
    """Raises BadRequestException for URIs of two repositories."""
    if one.repository != other.repository:
        raise BadRequestException(f"{one} and {other} are in different repositories")


def perform(job: str, run: Run, args: argparse.Namespace) -> int:
    """Run a job on the session that there is, print its summary, and give the exit code.

    What was done before is ``up-to-date`` and no failure, so that a scheduler may repeat a job.
    """
    try:
        summary, code = run(None if args.engine == "duckdb" else _session(job, args), args), DONE
    except NothingToMergeError as nothing:
        summary, code = {"result": "up-to-date", "message": str(nothing)}, DONE
    except LakesparkError as error:
        summary, code = _failed(error), exit_code(error)
    except Exception as error:  # noqa: BLE001 - the summary is printed whatever happens
        summary, code = _failed(error), FAILED
    sys.stdout.write(json.dumps({"job": job, **summary}, default=str) + "\n")
    sys.stdout.flush()
    return code


def leave(main: Callable[[], int]) -> None:
    """Call the main function of a job; anything but success ends the process with its code.

    Some schedulers take every SystemExit for a failure, so success returns.
    """
    code = main()
    if code != DONE:
        sys.exit(code)


def _settings(args: argparse.Namespace) -> Settings:
    return find_settings(args.lake, args.user, None, os.environ)


def _session(job: str, args: argparse.Namespace) -> SparkSession:
    """The session, which reaches the lake's stores with the options that the configuration file has for them."""
    settings = _settings(args)
    try:
        from lakespark.spark.job_session import session_of_job  # noqa: PLC0415 - needs pyspark
        from lakespark.spark.storage_conf import storage_conf  # noqa: PLC0415 - its folder needs pyspark
    except ModuleNotFoundError as error:
        raise BadRequestException(f"{error}: install pyspark, or run without Spark by --engine duckdb") from error
    return session_of_job(f"lakespark-{job}", storage_conf(settings.lake, settings.storage))


def _failed(error: BaseException) -> Summary:
    sys.stderr.write(f"error: {error}\n")
    known: Mapping[str, Any] = describe(error)
    return {"result": "conflict" if known["kind"] == "merge-conflict" else "failed", "error": known}


Arguments = Sequence[str] | None
"""A command line; None is that of the process."""
