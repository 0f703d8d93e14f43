"""``branch``: create, list, show, delete, restore, reset, revert and move branches."""

from __future__ import annotations

from typing import Any

import click

from lakespark.cli import text
from lakespark.cli.parameters import (
    confirm,
    idempotency_key_option,
    listing_options,
    merging_options,
    ref_uri,
    repository_uri,
    yes_option,
)
from lakespark.cli.session import Session, landed_before, ref_of, ref_states, show_made
from lakespark.cli.verbs import Verbs
from lakespark.errors import BadRequestException
from lakespark.uri import LakeUri

_COLUMNS = {"id": "BRANCH", "commit_id": "COMMIT"}


@click.group(cls=Verbs)
def branch() -> None:
    """Create, list, move, reset and delete branches."""


@branch.command()
@ref_uri()
@click.option("-s", "--source", required=True, metavar="REF", help="Where it starts: a ref expression, or its URI.")
@idempotency_key_option
@click.pass_obj
def create(session: Session, uri: LakeUri, source: str, idempotency_key: str | None) -> None:
    """Create a branch."""
    made = session.branch(uri)
    landed = landed_before(made, idempotency_key, "branch-create")
    after = None if landed is None else landed.changes[0].after
    if after is not None:
        session.output.message(text.repeated(idempotency_key))
        _put(session, uri, after.commit_id, repeated=True)
        return
    made.create(ref_of(source, uri), idempotency_key=idempotency_key)
    session.output.message(f"created branch {uri}")
    _put(session, uri, made.head.id, repeated=False)


@branch.command("list")
@repository_uri()
@listing_options
@click.option("--hidden", is_flag=True, help="Also what unfinished transactions have left.")
@click.pass_obj
def list_(
    session: Session, /, *, uri: LakeUri, prefix: str | None, after: str | None, amount: int | None, hidden: bool
) -> None:
    """List the branches of a repository."""
    repository = session.repository(uri)
    states = ref_states(repository)
    found = repository.branches(amount, after, prefix, hidden=hidden)
    rows = [
        {"id": name, "commit_id": states[name].commit_id, "hidden": states[name].hidden}
        for name in map(str, found)
        if name in states
    ]
    session.output.table(rows, {**_COLUMNS, "hidden": "HIDDEN"} if hidden else _COLUMNS)


@branch.command()
@ref_uri()
@click.pass_obj
def show(session: Session, uri: LakeUri) -> None:
    """Show the commit that a branch is at."""
    _show(session, uri)


@branch.command()
@ref_uri()
@yes_option
@click.pass_obj
def delete(session: Session, uri: LakeUri, yes: bool) -> None:
    """Delete a branch with what is uncommitted on it."""
    confirm(f"Delete branch {uri}, with what is uncommitted on it?", is_agreed=yes)
    session.branch(uri).delete()
    session.output.done(f"deleted branch {uri}", deleted=str(uri))


@branch.command()
@ref_uri()
@click.pass_obj
def restore(session: Session, uri: LakeUri) -> None:
    """Bring a deleted branch back, with what was uncommitted on it."""
    session.branch(uri).restore()
    session.output.message(f"restored branch {uri}")
    _show(session, uri)


@branch.command()
@ref_uri()
@click.option("--prefix", help="Only the uncommitted changes of paths that start so.")
@click.option("--object", "path", help="Only the uncommitted change of one path.")
@yes_option
@click.pass_obj
def reset(session: Session, uri: LakeUri, prefix: str | None, path: str | None, yes: bool) -> None:
    """Undo uncommitted changes of a branch: all, or those that an option names."""
    if prefix is not None and path is not None:
        raise BadRequestException("--prefix and --object exclude each other")
    handle = session.branch(uri)
    _ = handle.head  # ask nobody about a branch that is not there
    what = f"of {path!r}" if path is not None else f"below {prefix!r}" if prefix else "(all)"
    confirm(f"Undo the uncommitted changes {what} on {uri}?", is_agreed=yes)
    if path is not None:
        handle.reset_changes("object", path)
    elif prefix:
        handle.reset_changes("common_prefix", prefix)
    else:
        handle.reset_changes()
    session.output.done(f"undid the uncommitted changes {what} on {uri}", reset=str(uri))


@branch.command()
@ref_uri()
@click.argument("ref")
@click.option("-m", "--parent-number", type=int, default=0, help="The parent (from 1) to go back to, for a merge.")
@click.option("--message", help="Message of the commit.")
@idempotency_key_option
@merging_options
@click.pass_obj
def revert(
    session: Session, /, *, uri: LakeUri, ref: str, parent_number: int, how: dict[str, Any], **given: Any
) -> None:
    """Commit the opposite of a commit.

    REF is a ref expression, or its URI. A conflict is reported as a merge does.
    """
    target, key = session.branch(uri), given["idempotency_key"]
    show_made(session, target, key, "revert", lambda: target.revert(ref_of(ref, uri), parent_number, **given, **how))


@branch.command()
@ref_uri()
@click.argument("ref")
@click.option("--expected", metavar="REF", help="Only if the branch is at this ref: a compare-and-swap.")
@click.pass_obj
def move(session: Session, uri: LakeUri, ref: str, expected: str | None) -> None:
    """Point a branch at another commit.

    REF is a ref expression, or its URI. What is uncommitted stays so.
    """
    session.branch(uri).move_to(ref_of(ref, uri), expected=None if expected is None else ref_of(expected, uri))
    session.output.message(f"moved branch {uri}")
    _show(session, uri)


def _show(session: Session, uri: LakeUri) -> None:
    _put(session, uri, session.branch(uri).head.id)


def _put(session: Session, uri: LakeUri, commit_id: str, **facts: bool) -> None:
    """Print a branch, and for machines what else there is to say."""
    value = {"id": uri.ref, "commit_id": commit_id, **facts}
    session.output.value(value, text.record({"branch": uri.ref, "commit": commit_id}))
