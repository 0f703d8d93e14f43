"""``merge`` and ``cherry-pick``."""

from __future__ import annotations

from typing import Any

import click

from lakespark.cli import text
from lakespark.cli.parameters import merging_options, ref_uri
from lakespark.cli.session import Session, ref_of, same_repository
from lakespark.cli.verbs import Verb
from lakespark.uri import LakeUri


@click.command(cls=Verb)
@ref_uri("source")
@ref_uri("destination")
@click.option("-m", "--message", help="Message of the merge commit.")
@click.option("--squash", is_flag=True, help="Make a commit whose only parent is the destination.")
@merging_options
@click.pass_obj
def merge(
    session: Session,
    /,
    *,
    source: LakeUri,
    destination: LakeUri,
    message: str | None,
    squash: bool,
    how: dict[str, Any],
) -> None:
    """Merge a ref into a branch: the first URI into the second.

    On a conflict nothing is changed and all conflicts are printed (exit code 3).
    """
    same_repository(source, destination)
    merged = session.reference(source).merge_into(destination.ref or "", message=message, squash=squash, **how)
    session.output.message(f"merged {source} into {destination}")
    value = {**merged.commit._asdict(), "bases": merged.bases, "up_to_date": False}
    session.output.value(value, text.commit(merged.commit))


@click.command("cherry-pick", cls=Verb)
@ref_uri("source")
@click.argument("branch")
@click.option("-m", "--parent-number", type=int, default=0, help="The parent (from 1) to compare a merge with.")
@click.option("--message", help="Message of the commit, instead of that of the source.")
@merging_options
@click.pass_obj
def cherry_pick(
    session: Session,
    /,
    *,
    source: LakeUri,
    branch: str,
    parent_number: int,
    message: str | None,
    how: dict[str, Any],
) -> None:
    """Commit to a branch what another commit did.

    BRANCH is its name, or its URI. A conflict is reported as a merge does.
    """
    target = session.repository(source).branch(ref_of(branch, source))
    made = target.cherry_pick(source.ref or "", parent_number, message=message, **how)
    session.output.value(made._asdict(), text.commit(made))
