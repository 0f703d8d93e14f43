"""``import`` and ``export``: objects of other places linked into a branch, and refs written to other places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lakespark.cli import text
from lakespark.cli.parameters import (
    idempotency_key_option,
    metadata_option,
    parallelism_option,
    path_uri,
    path_uri_option,
    progress_option,
)
from lakespark.cli.progress_bar import counter, progress_bar
from lakespark.cli.session import Session, ref_of
from lakespark.cli.verbs import Verb
from lakespark.errors import BadRequestException, ImportManagerException
from lakespark.uri import LakeUri

if TYPE_CHECKING:
    from lakespark.import_manager import ImportManager, ImportStatus

_SHOWN = 5


@click.command("import", cls=Verb)
@click.option("--from", "source", metavar="LOCATION", help="What to import: every object below a folder or URL.")
@path_uri_option("--to", "destination", "Where its objects go: a path of a branch, as a folder.")
@click.option("-m", "--message", default="", help="Message of the commit.")
@click.option(
    "--listing", metavar="FILE", help="Import what a Parquet or CSV file lists; --from is then cut off its paths."
)
@click.option("--delta", is_flag=True, help="LOCATION is a Delta table: import its current files.")
@metadata_option
@idempotency_key_option
@progress_option
@click.pass_obj
def import_data(
    session: Session,
    /,
    *,
    source: str | None,
    destination: LakeUri,
    message: str,
    listing: str | None,
    delta: bool,
    metadata: dict[str, str],
    idempotency_key: str | None,
    no_progress: bool,
) -> None:
    """Link objects that are in a store already into a branch, without copying them, as one commit.

    What is below the destination gives way to what is below LOCATION; a listing adds to it. The branch must be without
    uncommitted changes.
    """
    branch = session.branch(destination)
    with counter("importing", is_wanted=not no_progress) as on_count:
        on_status = None if on_count is None else lambda now: on_count(now.ingested_objects, now.step)
        manager = branch.import_data(message, metadata or None, on_status=on_status, idempotency_key=idempotency_key)
        _add(manager, source, destination.path or "", listing, is_delta=delta)
        status = _run(manager)
    if status.is_repeated:
        session.output.message(text.repeated(idempotency_key))
    else:
        _tell(session, destination, status)
    _put(session, status)


@click.command(cls=Verb)
@path_uri()
@click.argument("target")
@click.option("--since", metavar="REF", help="Only what has changed since then; TARGET holds that ref.")
@click.option("--delete", is_flag=True, help="With --since: delete at TARGET what is gone since then.")
@click.option("--overwrite", is_flag=True, help="TARGET may hold other files.")
@parallelism_option
@progress_option
@click.pass_obj
def export(session: Session, /, *, uri: LakeUri, target: str, since: str | None, no_progress: bool, **how: Any) -> None:
    """Write a ref, or a folder of it, to a folder or a URL as files under their names.

    Files that are there already, whole, are not written again: repeat a command that was interrupted.
    """
    from lakespark import transfer

    with progress_bar("exporting", is_wanted=not no_progress) as on_progress:
        done = transfer.export(
            session.reference(uri),
            target,
            uri.path or "",
            since=None if since is None else ref_of(since, uri),
            on_progress=on_progress,
            **how,
        )
    is_done_before = not done.files and not done.deleted
    amount = f"{text.count(done.files, 'file')}, {text.size(done.size_bytes)}"
    counts = f"{amount} to {target} ({done.unchanged:,} there already, {done.deleted:,} deleted)"
    message = f"already up to date: {target}" if is_done_before else f"exported {text.printable(counts)}"
    session.output.done(message, uri=str(uri), target=target, **done._asdict(), up_to_date=is_done_before)


def _add(manager: ImportManager, source: str | None, destination: str, listing: str | None, *, is_delta: bool) -> None:
    if listing is not None and not is_delta:
        manager.listing(listing, destination, base=source)
    elif source is None or listing is not None:
        raise BadRequestException("name what to import: --from LOCATION, --from LOCATION --delta, or --listing FILE")
    elif is_delta:
        manager.delta_table(source, destination)
    else:
        manager.prefix(source, destination)


def _run(manager: ImportManager) -> ImportStatus:
    try:
        return manager.run()
    except ImportManagerException as error:
        raise error.__cause__ or error from None


def _tell(session: Session, destination: LakeUri, status: ImportStatus) -> None:
    """Say what the import came to."""
    skipped = status.skipped.to_pylist()
    if skipped:
        named = "; ".join(f"{text.printable(row['address'])}: {row['reason']}" for row in skipped[:_SHOWN])
        session.output.message(f"left out {text.count(status.skipped_objects, 'object')}: {named}")
    objects = text.count(status.ingested_objects, "object")
    verb = "already up to date:" if status.is_up_to_date else "imported"
    session.output.message(f"{verb} {objects} {'in' if status.is_up_to_date else 'into'} {destination}")


def _put(session: Session, status: ImportStatus) -> None:
    """Print the commit that has what was imported."""
    commit = status.commit
    if commit is None:
        raise AssertionError(status)
    value = {
        **commit._asdict(),
        "ingested_objects": status.ingested_objects,
        "skipped_objects": status.skipped_objects,
        "skipped": status.skipped.to_pylist(),
        "up_to_date": status.is_up_to_date,
        "repeated": status.is_repeated,
    }
    session.output.value(value, text.commit(commit))
