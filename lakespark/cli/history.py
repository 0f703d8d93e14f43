"""``log``, ``show`` and ``find-merge-base``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import click

from lakespark.cli import drawing, text
from lakespark.cli.parameters import moment_option, ref_uri
from lakespark.cli.session import Session, names_by_commit, ref_of, same_repository
from lakespark.cli.verbs import Verb, Verbs
from lakespark.errors import BadRequestException
from lakespark.uri import LakeUri

if TYPE_CHECKING:
    from lakespark.model import Commit


@click.command(cls=Verb)
@ref_uri()
@click.option("--amount", type=click.IntRange(min=1), help="At most so many commits.")
@moment_option("--since", "Only commits of this date or later (RFC 3339, or unix seconds).")
@click.option("--stop-at", metavar="REF", help="The last commit to show: a ref expression, or its URI.")
@click.option("--first-parent", is_flag=True, help="Follow first parents only.")
@click.option("--objects", multiple=True, metavar="PATH", help="Only commits that changed this path; repeatable.")
@click.option("--prefixes", multiple=True, metavar="PREFIX", help="Only commits that changed paths below; repeatable.")
@click.option("--graph", is_flag=True, help="Draw the graph, one line a commit.")
@click.option("--dot", is_flag=True, help="Print the graph in the language of Graphviz.")
@click.pass_obj
def log(session: Session, /, *, uri: LakeUri, stop_at: str | None, graph: bool, dot: bool, **query: Any) -> None:
    """Show the history of a ref.

    Every commit stands before its parents; otherwise the newest is first.
    """
    _check_graph(session, graph=graph, dot=dot, is_filtered=bool(query["objects"] or query["prefixes"]))
    query["max_amount"] = query.pop("amount")
    stop = None if stop_at is None else ref_of(stop_at, uri)
    found = session.reference(uri).log(stop_at=stop, **query)
    if dot:
        session.output.value(None, drawing.dot(list(found), _names(session, uri)))
        return
    if graph and not session.json:
        _print_graph(session, uri, found, first_parent=query["first_parent"])
        return
    names = {} if session.json else _names(session, uri)
    between = chain([""], repeat("\n"))
    session.output.each(found, lambda c: next(between) + text.commit(c, names.get(c.id, ())), lambda c: c._asdict())


class _Show(Verbs):
    """A group in which ``show URI`` is ``show commit URI``."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Put in the verb where a URI stands in its place."""
        place = next((i for i, arg in enumerate(args) if arg.startswith("lakefs://")), None)
        if place is not None and "commit" not in args[:place]:
            args.insert(place, "commit")
        return super().parse_args(context, args)


@click.group(cls=_Show)
def show() -> None:
    """Show a commit: show URI, or show commit URI."""


@show.command("commit")
@ref_uri()
@click.pass_obj
def show_commit(session: Session, uri: LakeUri) -> None:
    """Show the commit that a ref stands for."""
    found = session.reference(uri).get_commit()
    session.output.value(found._asdict(), text.commit(found, _names(session, uri).get(found.id, ())))


@click.command("find-merge-base", cls=Verb)
@ref_uri("left")
@ref_uri("right")
@click.pass_obj
def find_merge_base(session: Session, left: LakeUri, right: LakeUri) -> None:
    """Show the best common ancestors of two refs.

    All of them, the oldest first: there are several where branches were merged crosswise.
    """
    same_repository(right, left)
    bases = session.repository(left).merge_bases(left.ref or "", right.ref or "")
    session.output.each(bases, lambda commit: commit.id, lambda commit: commit._asdict())


def _check_graph(session: Session, *, graph: bool, dot: bool, is_filtered: bool) -> None:
    if graph and dot:
        raise BadRequestException("--graph and --dot exclude each other")
    if dot and session.json:
        raise BadRequestException("--dot and --json exclude each other: both say how to print")
    if (graph or dot) and is_filtered:
        raise BadRequestException("a graph shows every commit: leave out --objects and --prefixes, or the graph")


def _names(session: Session, uri: LakeUri) -> dict[str, list[str]]:
    return names_by_commit(session.repository(uri))


def _print_graph(session: Session, uri: LakeUri, found: Iterator[Commit], *, first_parent: bool) -> None:
    names = _names(session, uri)
    drawn = drawing.Graph()

    def show_rows(commit: Commit) -> str:
        parents = commit.parents[:1] if first_parent else commit.parents
        return drawn.draw(commit.id, parents, text.commit_line(commit, names.get(commit.id, ())))

    session.output.each(found, show_rows, lambda commit: commit._asdict())
