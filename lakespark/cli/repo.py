"""``repo``: the repositories of a lake."""

from __future__ import annotations

import click

from lakespark.cli import text
from lakespark.cli.parameters import confirm, listing_options, metadata_option, repository_uri, yes_option
from lakespark.cli.session import Session
from lakespark.cli.verbs import Verbs
from lakespark.uri import LakeUri


@click.group(cls=Verbs)
def repo() -> None:
    """Create, list, show and delete repositories."""


@repo.command()
@repository_uri()
@click.argument("storage_namespace", required=False)
@click.option("-d", "--default-branch", default="main", show_default=True, help="Name of the first branch.")
@click.option("--range-entries", type=click.IntRange(min=1), help="Mean number of entries of a range.")
@metadata_option
@click.pass_obj
def create(
    session: Session,
    /,
    *,
    uri: LakeUri,
    storage_namespace: str | None,
    default_branch: str,
    range_entries: int | None,
    metadata: dict[str, str],
) -> None:
    """Create a repository, in a folder of its name in the lake or at STORAGE_NAMESPACE."""
    session.repository(uri).create(storage_namespace, default_branch, metadata=metadata, range_entries=range_entries)
    session.output.message(f"created {uri}")
    _show(session, uri)


@repo.command("list")
@listing_options
@click.pass_obj
def list_(session: Session, prefix: str | None, after: str | None, amount: int | None) -> None:
    """List the repositories of the lake."""
    known = session.opened_lake.catalog.repositories()
    rows = [
        {"id": name, "storage_namespace": namespace}
        for name, namespace in known.items()
        if name.startswith(prefix or "") and name > (after or "")
    ]
    session.output.table(rows[:amount], {"id": "REPOSITORY", "storage_namespace": "STORAGE NAMESPACE"})


@repo.command()
@repository_uri()
@click.pass_obj
def show(session: Session, uri: LakeUri) -> None:
    """Show a repository."""
    _show(session, uri)


@repo.command()
@repository_uri()
@yes_option
@click.pass_obj
def delete(session: Session, uri: LakeUri, yes: bool) -> None:
    """Take a repository out of the lake. Its contents stay in its storage namespace."""
    repository = session.repository(uri)
    namespace = repository.properties.storage_namespace
    confirm(f"Take {uri} out of the lake?", is_agreed=yes)
    repository.delete()
    session.output.done(f"deleted {uri}; its contents stay at {namespace}", deleted=str(uri))


def _show(session: Session, uri: LakeUri) -> None:
    repository = session.repository(uri)
    known = repository.properties
    shown = {
        "repository": known.id,
        "storage namespace": known.storage_namespace,
        "default branch": known.default_branch,
        "created": text.when(known.creation_date),
        **repository.metadata,
    }
    session.output.value({**known._asdict(), "metadata": repository.metadata}, text.record(shown))
