"""``commit``: commit what is uncommitted on a branch."""

from __future__ import annotations

from typing import Any

import click

from lakespark.cli import text
from lakespark.cli.parameters import committing_options, ref_uri
from lakespark.cli.session import Session
from lakespark.cli.verbs import Verb
from lakespark.uri import LakeUri


@click.command(cls=Verb)
@ref_uri()
@click.option("-m", "--message", required=True, help="Message of the commit.")
@committing_options
@click.pass_obj
def commit(session: Session, /, *, uri: LakeUri, message: str, how: dict[str, Any]) -> None:
    """Commit what is uncommitted on a branch."""
    made = session.branch(uri).commit(message, **how).get_commit()
    session.output.value(made._asdict(), text.commit(made))
