"""How values look in a notebook: pure functions from values to HTML. Whatever a user wrote is escaped.

    display(lakespark.html.log(main.log()))
    display(lakespark.html.diff(main.diff("dev")))

Repositories and the results of merges show themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from lakespark.model import Change, Commit, RepositoryProperties

OPEN_ROWS = 20
"""Rows of a table that are seen at once; the others are folded away."""
MOST_ROWS = 1_000
"""Rows of a table that are shown at all."""
_SHORT_ID = 12
_COLOURS = {"added": "#1a7f37", "removed": "#cf222e", "changed": "#9a6700", "conflict": "#8250df"}
_LEFT = ' style="text-align:left"'


@dataclass(frozen=True)
class Markup:
    """HTML that a notebook shows."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def log(commits: Iterable[Commit], names: Mapping[str, Sequence[str]] | None = None) -> Markup:
    """Commits as a table, in the order given; ``names``: branches and tags by commit id."""
    known = names or {}
    shown = list(islice(commits, MOST_ROWS + 1))
    rows = [
        (_commit_id(c.id, known.get(c.id, ())), _message(c), text(c.committer), when(c.creation_date)) for c in shown
    ]
    return Markup(_title(len(shown), "commit") + _table(("commit", "message", "committer", "date (UTC)"), rows))


def diff(changes: Iterable[Change]) -> Markup:
    """Changes as a table, with how many there are of each kind; who wrote them where that is known."""
    shown = list(islice(changes, MOST_ROWS + 1))
    counted = sorted(Counter(change.type for change in shown[:MOST_ROWS]).items())
    kinds = ", ".join(f"{number:,} {text(kind)}" for kind, number in counted)
    header = ("change", "path", "bytes", "written")
    width = len(header) if any(change.written_by is not None for change in shown) else len(header) - 1
    rows = [_change_row(change)[:width] for change in shown]
    return Markup(_title(len(shown), "change", kinds) + _table(header[:width], rows))


def conflicts(table: pa.Table) -> Markup:
    """The ``conflicts`` of a ``MergeConflictError`` or a ``MergeResult`` as a table."""
    sides = ("base", "source", "destination")
    shown = table.slice(0, MOST_ROWS + 1).to_pylist()
    rows = [
        (_path(row["path"]), text(row["conflict"]), *(_bytes(row[f"{side}_size_bytes"]) for side in sides))
        for row in shown
    ]
    header = ("path", "source/destination", *(f"{side} (bytes)" for side in sides))
    return Markup(_title(len(shown), "conflict") + _table(header, rows))


def merge(commit: Commit, bases: Sequence[str], decided: pa.Table) -> Markup:
    """A merge commit, with the conflicts that a strategy decided."""
    facts = [
        ("commit", _commit_id(commit.id)),
        ("message", _message(commit)),
        ("committer", f"{text(commit.committer)}, {when(commit.creation_date)} UTC"),
        ("parents", " ".join(_commit_id(parent) for parent in commit.parents)),
        ("merge base", " ".join(_commit_id(base) for base in bases) or "none"),
    ]
    by_strategy = f"<p>Decided by the strategy:</p>{conflicts(decided).html}" if decided.num_rows else ""
    return Markup(_facts("Merged", facts) + by_strategy)


def repository(
    properties: RepositoryProperties,
    branches: Sequence[tuple[str, str]],
    tags: Sequence[tuple[str, str]],
) -> Markup:
    """A repository with its branches and tags, each a name and a commit id."""
    facts = [
        ("storage namespace", f"<code>{text(properties.storage_namespace)}</code>"),
        ("created", f"{when(properties.creation_date)} UTC"),
        ("default branch", text(properties.default_branch)),
    ]
    refs = [_refs(branches, "branch", "branches"), _refs(tags, "tag", "tags")]
    return Markup(_facts(f"Repository {text(properties.id)}", facts) + "".join(refs))


def absent(name: str, why: str) -> Markup:
    """A repository that cannot be shown."""
    return Markup(f"<p><b>{text(name)}</b>: {text(why)}</p>")


def text(value: object) -> str:
    """Any text, with what HTML would obey escaped, and what cannot be seen written as an escape."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))
    return escape(shown, quote=True)


def when(seconds: int | None) -> str:
    """Unix seconds as date and time in UTC."""
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s since 1970"


def _change_row(change: Change) -> tuple[str, ...]:
    kind = f'<span style="color:{_COLOURS.get(change.type, "inherit")}">{text(change.type)}</span>'
    written = "" if change.written_by is None else f"{text(change.written_by)}, {when(change.written_at)} UTC"
    return kind, _path(change.path), _bytes(change.size_bytes), written


def _message(commit: Commit) -> str:
    """The first line; the others and the metadata behind it, to unfold."""
    first, *others = commit.message.strip().split("\n")
    more = [line for line in others if line.strip()]
    more += [f"{key} = {value}" for key, value in sorted(commit.metadata.items())]
    if not more:
        return text(first)
    return f"<details><summary>{text(first)}</summary>{'<br>'.join(text(line) for line in more)}</details>"


def _commit_id(commit_id: str, names: Sequence[str] = ()) -> str:
    badges = "".join(f" <b>{text(name)}</b>" for name in names)
    return f'<code title="{text(commit_id)}">{text(commit_id[:_SHORT_ID])}</code>{badges}'


def _refs(refs: Sequence[tuple[str, str]], one: str, many: str) -> str:
    body = _table((one, "commit"), [(text(name), _commit_id(commit_id)) for name, commit_id in refs])
    is_open = " open" if len(refs) <= OPEN_ROWS else ""
    return f"<details{is_open}><summary>{len(refs):,} {one if len(refs) == 1 else many}</summary>{body}</details>"


def _facts(title: str, facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th{_LEFT}>{name}</th><td{_LEFT}>{value}</td></tr>" for name, value in facts)
    return f"<p><b>{title}</b></p><table>{rows}</table>"


def _title(number: int, thing: str, more: str = "") -> str:
    count = f"more than {MOST_ROWS:,}" if number > MOST_ROWS else f"{number:,}"
    return f"<p><b>{count} {thing}{'s' * (number != 1)}</b>{': ' * bool(more)}{more}</p>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of HTML cells under a header of text: the first ones open, the others folded, the last ones left out."""
    if not rows:
        return ""
    head = "".join(f"<th{_LEFT}>{text(name)}</th>" for name in header)
    markup = _rows(head, rows[:OPEN_ROWS])
    if folded := rows[OPEN_ROWS:MOST_ROWS]:
        markup += f"<details><summary>{len(folded):,} more</summary>{_rows(head, folded)}</details>"
    return markup + f"<p>Only the first {MOST_ROWS:,} are shown.</p>" * (len(rows) > MOST_ROWS)


def _rows(head: str, rows: Sequence[Sequence[str]]) -> str:
    body = "".join("<tr>" + "".join(f"<td{_LEFT}>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _path(path: str) -> str:
    return f"<code>{text(path)}</code>"


def _bytes(size: int | None) -> str:
    return "" if size is None else f"{size:,}"
