"""``merge`` and ``cherry-pick``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lakespark.cli import text
from lakespark.cli.parameters import idempotency_key_option, merging_options, ref_uri, ref_uris
from lakespark.cli.session import Session, ref_of, same_repository, show_made
from lakespark.cli.verbs import Verb
from lakespark.errors import BadRequestException, NothingToMergeError
from lakespark.uri import LakeUri

if TYPE_CHECKING:
    from lakespark.reference import MergeResult


@click.command(cls=Verb)
@ref_uris("sources")
@ref_uri("destination")
@click.option("-m", "--message", help="Message of the merge commit.")
@click.option("--squash", is_flag=True, help="Make a commit whose only parent is the destination.")
@idempotency_key_option
@merging_options
@click.pass_obj
def merge(session: Session, /, *, sources: list[LakeUri], destination: LakeUri, squash: bool, **given: Any) -> None:
    """Merge one or more refs into a branch: the last URI is the branch.

    Several refs are merged in their order, each by a commit of its own, all of them or none. On a conflict nothing is
    changed and all conflicts are printed (exit code 3).
    """
    for source in sources:
        same_repository(source, destination)
    how = {**given.pop("how"), **given}
    if len(sources) == 1:
        _merge_one(session, sources[0], destination, {**how, "squash": squash})
    elif squash or how.pop("resolutions"):
        raise BadRequestException("--squash and --resolve are for a merge of one source: merge one by one")
    else:
        _merge_many(session, sources, destination, how)


def _merge_one(session: Session, source: LakeUri, destination: LakeUri, how: dict[str, Any]) -> None:
    merged = session.reference(source).merge_into(destination.ref or "", **how)
    done = text.repeated(how["idempotency_key"]) if merged.is_repeated else f"merged {source} into {destination}"
    session.output.message(done)
    session.output.value(_plain(merged), text.commit(merged.commit))


def _merge_many(session: Session, sources: list[LakeUri], destination: LakeUri, how: dict[str, Any]) -> None:
    try:
        results = session.branch(destination).merge_all([source.ref or "" for source in sources], **how)
    except NothingToMergeError as nothing:
        results = [None] * len(sources)
        done = f"already up to date: {nothing}"
    else:
        merged = [result for result in results if result is not None]
        done = f"merged {len(merged)} of {text.count(len(sources), 'source')} into {destination}"
        if any(result.is_repeated for result in merged):
            done = text.repeated(how["idempotency_key"])
    session.output.message(done)
    rows = [{"source": str(source), **_plain(result)} for source, result in zip(sources, results, strict=True)]
    session.output.table(rows, {"source": "SOURCE", "id": "COMMIT"})


def _plain(result: MergeResult | None) -> dict[str, Any]:
    """A merge as plain values; what was there already has no commit."""
    if result is None:
        return {"id": None, "up_to_date": True, "repeated": False}
    facts = {"up_to_date": result.is_repeated, "repeated": result.is_repeated}
    return {**result.commit._asdict(), "bases": result.bases, **facts}


@click.command("cherry-pick", cls=Verb)
@ref_uri("source")
@click.argument("branch")
@click.option("-m", "--parent-number", type=int, default=0, help="The parent (from 1) to compare a merge with.")
@click.option("--message", help="Message of the commit, instead of that of the source.")
@idempotency_key_option
@merging_options
@click.pass_obj
def cherry_pick(
    session: Session, /, *, source: LakeUri, branch: str, parent_number: int, how: dict[str, Any], **given: Any
) -> None:
    """Commit to a branch what another commit did.

    BRANCH is its name, or its URI. A conflict is reported as a merge does.
    """
    target = session.repository(source).branch(ref_of(branch, source))
    key, ref = given["idempotency_key"], source.ref or ""
    show_made(session, target, key, "cherry-pick", lambda: target.cherry_pick(ref, parent_number, **given, **how))
