r"""Merge one or more refs into a branch of the same repository.

    spark-submit --py-files lakespark-0.1.0-py3-none-any.whl jobs/merge.py \
        --lake s3://bucket/lake lakefs://analytics/dev lakefs://analytics/main

Several refs are merged in their order, each by a commit of its own, all of them or none. Conflicts are printed and end
the job with exit code 3; a merge that was made before is up to date, also one that is repeated under its
``--idempotency-key``.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from lakespark import uri
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
    same_repository,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakespark.reference import MergeResult


def parser() -> argparse.ArgumentParser:
    """The job's command line."""
    made = parser_of("lakespark-merge", __doc__)
    made.add_argument("sources", metavar="SOURCE", nargs="+", help="lakefs://REPO/REF: what to merge")
    made.add_argument("destination", metavar="DESTINATION", help="lakefs://REPO/BRANCH: the branch to merge into")
    made.add_argument("--message", help="message of the merge commit")
    made.add_argument("--strategy", choices=["source-wins", "dest-wins"], help="decides all conflicts for one side")
    add_metadata(made)
    add_idempotency_key(made)
    return made


def run(spark: SparkSession | None, args: argparse.Namespace) -> Summary:
    """Merge; the summary of it. Raises NothingToMergeError if the branch has all of it, MergeConflictError."""
    sources, destination = [uri.parse_ref(source) for source in args.sources], uri.parse_ref(args.destination)
    for source in sources:
        same_repository(source, destination)
    repository, into = lake_of(args, spark).repository(destination.repository), destination.ref or ""
    how: dict[str, Any] = {
        "message": args.message,
        "metadata": metadata_of(args),
        "strategy": args.strategy,
        "idempotency_key": args.idempotency_key,
    }
    names = [source.ref or "" for source in sources]
    if len(names) == 1:
        merged = repository.ref(names[0]).merge_into(into, **how)
        return {**_result([merged]), **_merge(merged)}
    results = repository.branch(into).merge_all(names, **how)
    merges = [{"source": str(source), **_merge(result)} for source, result in zip(sources, results, strict=True)]
    made = [result for result in results if result is not None]
    return {**_result(made), "commit": str(made[-1]), "merges": merges}


def _result(merges: list[MergeResult]) -> Summary:
    is_repeated = any(merged.is_repeated for merged in merges)
    return {"result": "up-to-date" if is_repeated else "done", "repeated": is_repeated}


def _merge(merged: MergeResult | None) -> Summary:
    """What is told of one merge; of a source that the branch had all of already, that there is no commit."""
    if merged is None:
        return {"commit": None}
    decided = None if merged.is_repeated else merged.conflicts.num_rows  # the ledger does not have them
    return {"commit": str(merged), "bases": list(merged.bases), "decided_conflicts": decided}


def main(argv: Arguments = None) -> int:
    """Run the job; its exit code."""
    return perform("merge", run, parser().parse_args(argv))


def entry() -> None:
    """The entry point of the wheel."""
    leave(main)
