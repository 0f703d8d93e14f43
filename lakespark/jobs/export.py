r"""Write a ref, or a folder of it, to another location as files under their names.

    spark-submit --py-files lakespark-0.1.0-py3-none-any.whl jobs/export.py \
        --lake s3://bucket/lake lakefs://analytics/v2.3/flights s3://other/flights

The files are copied by the driver, many at once. An export that was interrupted goes on where it stopped; one that
is complete is up to date.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from lakespark import transfer, uri
from lakespark.jobs.running import Arguments, Summary, lake_of, leave, parser_of, perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parser() -> argparse.ArgumentParser:
    """The job's command line."""
    made = parser_of("lakespark-export", __doc__)
    made.add_argument("source", metavar="URI", help="lakefs://REPO/REF/PATH: what to export")
    made.add_argument("target", metavar="TARGET", help="folder or URL to write to")
    made.add_argument("--since", metavar="REF", help="only what has changed since then; TARGET holds that ref")
    made.add_argument("--delete", action="store_true", help="with --since: delete at TARGET what is gone since then")
    made.add_argument("--overwrite", action="store_true", help="TARGET may hold other files")
    made.add_argument("--parallelism", type=int, default=16, help="files at once (default: 16)")
    return made


def run(spark: SparkSession | None, args: argparse.Namespace) -> Summary:
    """Export; the summary of it."""
    source = uri.parse_path(args.source)
    done = transfer.export(
        lake_of(args, spark).repository(source.repository).ref(source.ref or ""),
        args.target,
        source.path or "",
        since=args.since,
        delete=args.delete,
        overwrite=args.overwrite,
        parallelism=args.parallelism,
    )
    return {"result": "done" if done.files or done.deleted else "up-to-date", **done._asdict()}


def main(argv: Arguments = None) -> int:
    """Run the job; its exit code."""
    return perform("export", run, parser().parse_args(argv))


def entry() -> None:
    """The entry point of the wheel."""
    leave(main)
