r"""Link objects that are in a store already into a branch, without copying them, as one commit.

    spark-submit --py-files lakespark-0.1.0-py3-none-any.whl jobs/import_data.py \
        --lake s3://bucket/lake --from s3://bucket/raw/flights --to lakefs://analytics/main/flights

With ``--engine spark`` Spark reads the listing, checks the objects and writes the tree. How far the import is goes to
stderr. An import that changes nothing is up to date; one that is repeated under its ``--idempotency-key`` as well,
whatever its source holds by now.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from lakespark import uri
from lakespark.errors import BadRequestException, ImportManagerException
from lakespark.jobs.running import (
    Arguments,
    Summary,
    add_idempotency_key,
    add_metadata,
    lake_of,
    leave,
    metadata_of,
    parser_of,
    perform,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakespark.import_manager import ImportManager, ImportStatus, OnStatus

_TELL_AFTER_S = 10.0


def parser() -> argparse.ArgumentParser:
    """The job's command line."""
    made = parser_of("lakespark-import", __doc__)
    made.add_argument("--from", dest="source", metavar="LOCATION", help="import every object below this folder or URL")
    made.add_argument(
        "--to", required=True, metavar="URI", help="lakefs://REPO/BRANCH/PATH: where they go, as a folder"
    )
    made.add_argument(
        "--listing", metavar="FILE", help="import what a Parquet or CSV file lists, below --from if given"
    )
    made.add_argument("--delta", action="store_true", help="LOCATION is a Delta table: import its current files")
    made.add_argument("--message", default="", help="message of the commit")
    add_metadata(made)
    add_idempotency_key(made)
    return made


def run(spark: SparkSession | None, args: argparse.Namespace) -> Summary:
    """Import; the summary of it."""
    target = uri.parse_path(args.to)
    branch = lake_of(args, spark).repository(target.repository).branch(target.ref or "")
    manager = branch.import_data(
        args.message, metadata_of(args), on_status=_progress(), idempotency_key=args.idempotency_key
    )
    _add(manager, args, target.path or "")
    try:
        status = manager.run()
    except ImportManagerException as error:
        raise error.__cause__ or error from None
    return _summary(status)


def main(argv: Arguments = None) -> int:
    """Run the job; its exit code."""
    return perform("import", run, parser().parse_args(argv))


def entry() -> None:
    """The entry point of the wheel."""
    leave(main)


def _add(manager: ImportManager, args: argparse.Namespace, destination: str) -> None:
    if args.listing and not args.delta:
        manager.listing(args.listing, destination, base=args.source)
    elif args.listing or not args.source:
        raise BadRequestException("name what to import: --from LOCATION, --from LOCATION --delta, or --listing FILE")
    elif args.delta:
        manager.delta_table(args.source, destination)
    else:
        manager.prefix(args.source, destination)


def _progress() -> OnStatus:
    """Tells stderr of each step, and of the count every ten seconds."""
    told = ("", -_TELL_AFTER_S)

    def tell(status: ImportStatus) -> None:
        nonlocal told
        now = time.monotonic()
        if status.step != told[0] or now - told[1] >= _TELL_AFTER_S:
            told = (status.step, now)
            sys.stderr.write(f"{status.step}: {status.ingested_objects:,} objects\n")

    return tell


def _summary(status: ImportStatus) -> Summary:
    return {
        "result": "up-to-date" if status.is_up_to_date else "done",
        "repeated": status.is_repeated,
        "commit": status.commit.id if status.commit else None,
        "objects": status.ingested_objects,
        "skipped_objects": status.skipped_objects,
        "skipped": status.skipped.to_pylist(),
    }
