"""``fsck``: a repository checked file by file, digest by digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakespark.cli import exit_codes, text
from lakespark.cli.parameters import progress_option, repository_uri
from lakespark.cli.progress_bar import counter
from lakespark.cli.session import Session
from lakespark.cli.verbs import Verb
from lakespark.operations.fsck.report import SHOWN_REFS
from lakespark.uri import LakeUri

if TYPE_CHECKING:
    from lakespark.operations.fsck.report import Finding, FsckCounts, FsckReport


@click.command(cls=Verb)
@repository_uri()
@click.option("--objects", is_flag=True, help="Also read the contents of all objects, and compare their digests.")
@progress_option
@click.pass_obj
def fsck(session: Session, uri: LakeUri, objects: bool, no_progress: bool) -> int:
    """Check that everything that branches and tags reach is there and is what was written.

    Changes nothing. Names all that is wrong, and the branches and tags that it touches; the exit code is then 1.
    """
    with counter("checking", is_wanted=not no_progress) as on_count:
        on_progress = None if on_count is None else lambda now: on_count(_files(now))
        report = session.repository(uri).fsck(objects, on_progress=on_progress)
    session.output.value(report.as_dict(), _shown(report))
    return exit_codes.DONE if report.is_clean else exit_codes.FAILED


def _files(counts: FsckCounts) -> int:
    """How many files were read."""
    return counts.log_entries + counts.table_files + counts.metaranges + counts.ranges + counts.objects


def _shown(report: FsckReport) -> str:
    checked = report.checked
    amounts = ", ".join(
        text.count(number, thing)
        for number, thing in (
            (checked.refs, "ref"),
            (checked.commits, "commit"),
            (checked.metaranges, "metarange"),
            (checked.ranges, "range"),
            (checked.staged_rows, "staged row"),
            (checked.objects, "object"),
        )
    )
    notes = f", {text.count(len(report.notes), 'note')}" if report.notes else ""
    result = "clean" if report.is_clean else text.count(len(report.errors), "error")
    return "\n".join([*map(_finding, report.findings), f"{result}{notes}: checked {amounts}"])


def _finding(finding: Finding) -> str:
    """A finding as several lines."""
    more = f" and {len(finding.refs) - SHOWN_REFS:,} more" if len(finding.refs) > SHOWN_REFS else ""
    facts = {
        "expected": finding.expected,
        "found": finding.found,
        "touches": ", ".join(finding.refs[:SHOWN_REFS]) + more,
        "mend": finding.mend,
    }
    head = "" if finding.is_error else "note: "
    lines = [f"{head}{finding.kind} {finding.subject} {finding.name}", f"    {finding.problem}"]
    lines += [f"    {name + ':':<9} {value}" for name, value in facts.items() if value]
    return "\n".join(text.printable(line) for line in lines)
