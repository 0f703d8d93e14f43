r"""Merge a ref into a branch of the same repository.

    spark-submit --py-files lakespark-0.1.0-py3-none-any.whl jobs/merge.py \
        --lake s3://bucket/lake lakefs://analytics/dev lakefs://analytics/main

Conflicts are printed and end the job with exit code 3; a merge that was made before is up to date.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from lakespark import uri
from lakespark.jobs.running import (
    Arguments,
    Summary,
    add_metadata,
    lake_of,
    leave,
    metadata_of,
    parser_of,
    perform,
    same_repository,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parser() -> argparse.ArgumentParser:
    """The job's command line."""
    made = parser_of("lakespark-merge", __doc__)
    made.add_argument("source", metavar="SOURCE", help="lakefs://REPO/REF: what to merge")
    made.add_argument("destination", metavar="DESTINATION", help="lakefs://REPO/BRANCH: the branch to merge into")
    made.add_argument("--message", help="message of the merge commit")
    made.add_argument("--strategy", choices=["source-wins", "dest-wins"], help="decides all conflicts for one side")
    add_metadata(made)
    return made


def run(spark: SparkSession | None, args: argparse.Namespace) -> Summary:
    """Merge; the summary of it. Raises NothingToMergeError if the branch has all of it, MergeConflictError."""
    source, destination = uri.parse_ref(args.source), uri.parse_ref(args.destination)
    same_repository(source, destination)
    reference = lake_of(args, spark).repository(source.repository).ref(source.ref or "")
    merged = reference.merge_into(
        destination.ref or "", message=args.message, metadata=metadata_of(args), strategy=args.strategy
    )
    return {
        "result": "done",
        "commit": str(merged),
        "bases": list(merged.bases),
        "decided_conflicts": merged.conflicts.num_rows,
    }


def main(argv: Arguments = None) -> int:
    """Run the job; its exit code."""
    return perform("merge", run, parser().parse_args(argv))


def entry() -> None:
    """The entry point of the wheel."""
    leave(main)
