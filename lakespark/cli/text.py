"""How values read in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakespark.model import Change, Commit

SHORT_ID = 12
MARKS = {"added": "+", "removed": "-", "changed": "~", "conflict": "!", "prefix_changed": "~"}
_KIBI = 1024


def printable(text: str, *, lines: bool = False) -> str:
    """The text with what a terminal would obey, rather than show, written as escapes."""
    if text.isprintable():
        return text
    keep = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def when(seconds: int | None) -> str:
    """Unix seconds as local date and time."""
    if seconds is None:
        return "-"
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s since 1970"


def size(count: int | None) -> str:
    """A number of bytes in three or four digits."""
    if count is None:
        return "-"
    value, units = float(count), ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    if value < _KIBI:
        return f"{count} B"
    while value >= _KIBI and units:
        value, unit = value / _KIBI, units.pop(0)
    return f"{value:.1f} {unit}"


def count(number: int, thing: str) -> str:
    """So many things, in words."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def repeated(key: str | None) -> str:
    """That a step was done before, under the same idempotency key."""
    return f"done before under the idempotency key {key!r}: nothing was changed"


def first_line(message: str) -> str:
    """The first line of a message."""
    return printable(message.strip().split("\n", 1)[0])


def commit(value: Commit, names: Sequence[str] = ()) -> str:
    """A commit as several lines, as git's log shows it."""
    lines = [f"commit {value.id}" + (f" ({', '.join(names)})" if names else "")]
    if len(value.parents) > 1:
        lines.append("Merge:     " + " ".join(parent[:SHORT_ID] for parent in value.parents))
    lines += [f"Committer: {printable(value.committer)}", f"Date:      {when(value.creation_date)}", ""]
    lines += [f"    {line}".rstrip() for line in printable(value.message, lines=True).split("\n")]
    if value.metadata:
        lines += ["", *(f"    {printable(key)} = {printable(text)}" for key, text in sorted(value.metadata.items()))]
    return "\n".join(lines)


def commit_line(value: Commit, names: Sequence[str] = ()) -> str:
    """A commit in one line."""
    shown = f" ({', '.join(names)})" if names else ""
    day = when(value.creation_date)[:10]
    return f"{value.id[:SHORT_ID]}{shown} {day} {printable(value.committer)}: {first_line(value.message)}"


def change(value: Change) -> str:
    """A line of a diff; with who wrote it and when, where that is known."""
    line = f"{MARKS[value.type]} {value.type:<8} {printable(value.path)}"
    if value.written_by is None:
        return line
    return f"{line}  ({printable(value.written_by)}, {when(value.written_at)})"


def record(values: dict[str, Any]) -> str:
    """Names and values, one a line, the values below each other."""
    width = max(map(len, values), default=0) + 1
    return "\n".join(f"{name + ':':<{width}} {printable(str(value))}" for name, value in values.items())
