"""``op``: the operations log, and undo."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from lakespark.cli import text
from lakespark.cli.parameters import repository_uri
from lakespark.cli.session import Session
from lakespark.cli.verbs import Verbs
from lakespark.uri import LakeUri

if TYPE_CHECKING:
    from lakespark.model import OperationInfo, RefChange, RefState


@click.group(cls=Verbs)
def op() -> None:
    """Show what was done to a repository, and undo it."""


@op.command()
@repository_uri()
@click.option("--amount", type=click.IntRange(min=1), help="At most so many operations.")
@click.option("--ref", metavar="NAME", help="Only operations that changed this branch or tag.")
@click.option("--by", "user", metavar="USER", help="Only operations of this user.")
@click.pass_obj
def log(session: Session, uri: LakeUri, amount: int | None, ref: str | None, user: str | None) -> None:
    """List the operations of a repository, the newest first."""
    found = session.repository(uri).operations(amount, ref=ref, user=user)
    session.output.each(found, lambda logged: _line(*logged), lambda logged: _plain(*logged))


@op.command()
@repository_uri()
@click.argument("operation")
@click.pass_obj
def show(session: Session, uri: LakeUri, operation: str) -> None:
    """Show an operation: its refs before and after, its commits and what it says of itself.

    OPERATION is an id, four or more of its first digits, or a number.
    """
    logged = session.repository(uri).operation(operation)
    session.output.value(_plain(*logged), _shown(*logged))


@op.command()
@repository_uri()
@click.argument("operation")
@click.pass_obj
def undo(session: Session, uri: LakeUri, operation: str) -> None:
    """Put the refs and rules that an operation changed back as they were before it.

    OPERATION is an id, four or more of its first digits, or a number. What is uncommitted stays so, and what an
    undone commit took in is uncommitted again. The undo is an operation too: to undo it is to redo.
    """
    repository = session.repository(uri)
    made = repository.undo(operation)
    session.output.message(f"undid {operation} of {uri}")
    logged = repository.operation(made.id)
    session.output.value(_plain(*logged), _shown(*logged))


def _line(info: OperationInfo, changes: tuple[RefChange, ...]) -> str:
    cells = [
        info.id[: text.SHORT_ID],
        str(info.number),
        text.when(info.at),
        text.printable(info.user),
        info.verb,
        ", ".join(_changed_refs(changes) or _changed_settings(info)) or "-",
        *(f"({note})" for note in _notes(info)),
    ]
    return "  ".join(cells)


def _shown(info: OperationInfo, changes: tuple[RefChange, ...]) -> str:
    lines = [f"operation {info.id}" + "".join(f" ({note})" for note in _notes(info))]
    values = {"Number": info.number, "What": info.verb, "User": info.user, "Date": text.when(info.at)}
    key = {} if info.idempotency_key is None else {"Key": info.idempotency_key}
    lines.append(text.record({**values, **key, **info.details}))
    changed = _changed_refs(changes) + _changed_settings(info)
    for title, found in (("Changed", changed), ("Commits", list(info.commits))):
        if found:
            lines += ["", f"{title}:", *(f"    {line}" for line in found)]
    return "\n".join(lines)


def _notes(info: OperationInfo) -> Iterator[str]:
    if info.undoes is not None:
        yield f"undoes {info.undoes[: text.SHORT_ID]}"
    if info.undone_by is not None:
        yield f"undone by {info.undone_by[: text.SHORT_ID]}"


def _changed_refs(changes: tuple[RefChange, ...]) -> list[str]:
    return [f"{change.name}: {_commit(change.before)} -> {_commit(change.after)}" for change in changes]


def _changed_settings(info: OperationInfo) -> list[str]:
    lines = [f"{setting.name}: {setting.before or '-'} -> {setting.after or '-'}" for setting in info.settings]
    return [text.printable(line) for line in lines]


def _commit(state: RefState | None) -> str:
    return "-" if state is None else state.commit_id[: text.SHORT_ID]


def _plain(info: OperationInfo, changes: tuple[RefChange, ...]) -> dict[str, Any]:
    """An operation as plain values, with the whole states of its refs."""
    settings = [asdict(setting) for setting in info.settings]
    refs = [{"name": change.name, "before": _state(change.before), "after": _state(change.after)} for change in changes]
    return {**info._asdict(), "undoes": info.undoes, "settings": settings, "changes": refs}


def _state(state: RefState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {**asdict(state), "sealed": [sealed._asdict() for sealed in state.sealed]}
