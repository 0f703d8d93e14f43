"""``diff``: what is uncommitted on a branch, or what differs between two refs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lakespark.cli import text
from lakespark.cli.parameters import ref_uri
from lakespark.cli.session import Session, same_repository
from lakespark.cli.verbs import Verb
from lakespark.errors import BadRequestException
from lakespark.uri import LakeUri

if TYPE_CHECKING:
    from lakespark.model import Change


@click.command(cls=Verb)
@ref_uri("left")
@ref_uri("right", required=False)
@click.option("--two-way", is_flag=True, help="Compare the two as they are, not the second with the merge base.")
@click.option("--prefix", help="Only paths that start so.")
@click.pass_obj
def diff(session: Session, /, *, left: LakeUri, right: LakeUri | None, two_way: bool, prefix: str | None) -> None:
    """Show uncommitted changes, or those between two refs.

    With one URI: what is uncommitted on a branch. With two: what the second has changed since the merge base
    of both.

    + added, - removed, ~ changed; ! conflict: the first has changed the path too, in another way.
    """
    if right is None and two_way:
        raise BadRequestException("--two-way compares two refs: give another URI")
    session.output.each(
        _changes(session, left, right, prefix, two_way=two_way), text.change, lambda change: change._asdict()
    )


def _changes(
    session: Session, left: LakeUri, right: LakeUri | None, prefix: str | None, *, two_way: bool
) -> Iterator[Change]:
    if right is None:
        return session.branch(left).uncommitted(prefix=prefix)
    same_repository(right, left)
    return session.reference(left).diff(right.ref or "", prefix=prefix, type="two_dot" if two_way else "three_dot")
