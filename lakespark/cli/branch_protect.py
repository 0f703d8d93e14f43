"""``branch-protect``: the rules that have branches take merges only."""

from __future__ import annotations

from typing import get_args

import click

from lakespark.cli.parameters import repository_uri
from lakespark.cli.session import Session
from lakespark.cli.verbs import Verbs
from lakespark.model import ProtectedAction
from lakespark.uri import LakeUri

_ACTIONS = get_args(ProtectedAction)


@click.group("branch-protect", cls=Verbs)
def branch_protect() -> None:
    """Protect branches: rules by which they take merges only."""


@branch_protect.command("list")
@repository_uri()
@click.pass_obj
def list_(session: Session, uri: LakeUri) -> None:
    """List the protection rules of a repository."""
    rules = session.repository(uri).protection_rules()
    rows = [{"pattern": rule.pattern, "actions": list(rule.actions)} for rule in rules]
    shown = rows if session.json else [{**row, "actions": ", ".join(row["actions"])} for row in rows]
    session.output.table(shown, {"pattern": "PATTERN", "actions": "FORBIDDEN"})


@branch_protect.command()
@repository_uri()
@click.argument("pattern")
@click.option("--action", "actions", multiple=True, type=click.Choice(_ACTIONS), help="Forbid only this; repeatable.")
@click.pass_obj
def add(session: Session, uri: LakeUri, pattern: str, actions: tuple[str, ...]) -> None:
    """Protect the branches whose names match PATTERN, which may hold * and ?.

    A rule of the same pattern is replaced.
    """
    rule = session.repository(uri).protect(pattern, actions or _ACTIONS)
    facts = {"pattern": rule.pattern, "actions": list(rule.actions)}
    session.output.done(f"protected {rule.pattern!r} of {uri}: {', '.join(rule.actions)}", **facts)


@branch_protect.command()
@repository_uri()
@click.argument("pattern")
@click.pass_obj
def delete(session: Session, uri: LakeUri, pattern: str) -> None:
    """Take a protection rule away."""
    session.repository(uri).unprotect(pattern)
    session.output.done(f"deleted the protection rule {pattern!r} of {uri}", deleted=pattern)
