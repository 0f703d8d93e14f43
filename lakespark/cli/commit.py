"""``commit``: commit what is uncommitted on a branch."""

from __future__ import annotations

from typing import Any

import click

from lakespark.cli.parameters import committing_options, idempotency_key_option, ref_uri
from lakespark.cli.session import Session, show_made
from lakespark.cli.verbs import Verb
from lakespark.uri import LakeUri


@click.command(cls=Verb)
@ref_uri()
@click.option("-m", "--message", required=True, help="Message of the commit.")
@idempotency_key_option
@committing_options
@click.pass_obj
def commit(
    session: Session, /, *, uri: LakeUri, message: str, idempotency_key: str | None, how: dict[str, Any]
) -> None:
    """Commit what is uncommitted on a branch."""
    branch, key = session.branch(uri), idempotency_key
    show_made(session, branch, key, "commit", lambda: branch.commit(message, idempotency_key=key, **how).get_commit())
