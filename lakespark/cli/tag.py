"""``tag``: create, list, show and delete tags."""

from __future__ import annotations

import click

from lakespark.cli import text
from lakespark.cli.parameters import (
    confirm,
    idempotency_key_option,
    listing_options,
    ref_uri,
    repository_uri,
    yes_option,
)
from lakespark.cli.session import Session, landed_before, ref_of, ref_states
from lakespark.cli.verbs import Verbs
from lakespark.errors import RefNotFoundError
from lakespark.uri import LakeUri


@click.group(cls=Verbs)
def tag() -> None:
    """Create, list, show and delete tags."""


@tag.command()
@ref_uri()
@click.argument("ref")
@idempotency_key_option
@click.pass_obj
def create(session: Session, uri: LakeUri, ref: str, idempotency_key: str | None) -> None:
    """Create a tag at REF (a ref expression, or its URI)."""
    made = session.repository(uri).tag(uri.ref or "")
    landed = landed_before(made, idempotency_key, "tag-create")
    after = None if landed is None else landed.changes[0].after
    if after is not None:
        session.output.message(text.repeated(idempotency_key))
        _put(session, uri, after.commit_id, repeated=True)
        return
    made.create(ref_of(ref, uri), idempotency_key=idempotency_key)
    session.output.message(f"created tag {uri}")
    _put(session, uri, ref_states(made.repository)[made.id].commit_id, repeated=False)


@tag.command("list")
@repository_uri()
@listing_options
@click.pass_obj
def list_(session: Session, uri: LakeUri, prefix: str | None, after: str | None, amount: int | None) -> None:
    """List the tags of a repository."""
    repository = session.repository(uri)
    states = ref_states(repository)
    names = map(str, repository.tags(amount, after, prefix))
    rows = [{"id": name, "commit_id": states[name].commit_id} for name in names if name in states]
    session.output.table(rows, {"id": "TAG", "commit_id": "COMMIT"})


@tag.command()
@ref_uri()
@click.pass_obj
def show(session: Session, uri: LakeUri) -> None:
    """Show the commit that a tag stands for."""
    state = ref_states(session.repository(uri)).get(uri.ref or "")
    if state is None or state.kind != "tag":
        raise RefNotFoundError(f"tag {uri.ref!r} not found in {uri.repository}")
    _put(session, uri, state.commit_id)


@tag.command()
@ref_uri()
@yes_option
@click.pass_obj
def delete(session: Session, uri: LakeUri, yes: bool) -> None:
    """Delete a tag."""
    confirm(f"Delete tag {uri}?", is_agreed=yes)
    session.repository(uri).tag(uri.ref or "").delete()
    session.output.done(f"deleted tag {uri}", deleted=str(uri))


def _put(session: Session, uri: LakeUri, commit_id: str, **facts: bool) -> None:
    """Print a tag, and for machines what else there is to say."""
    value = {"id": uri.ref, "commit_id": commit_id, **facts}
    session.output.value(value, text.record({"tag": uri.ref, "commit": commit_id}))
