"""Where everything is printed: data to stdout as text or JSON, messages to stderr."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from lakespark.cli import text
from lakespark.errors import MergeConflictError, describe

Value = TypeVar("Value")
Row = Mapping[str, Any]


class Output(ABC):
    """What verbs print to."""

    @abstractmethod
    def value(self, value: Any, shown: str) -> None:
        """One thing: ``value`` for machines, ``shown`` for people."""

    @abstractmethod
    def each(self, values: Iterable[Value], show: Callable[[Value], str], plain: Callable[[Value], Any]) -> None:
        """Many things, printed as they come."""

    @abstractmethod
    def table(self, rows: Sequence[Row], columns: Mapping[str, str]) -> None:
        """Rows; for people the columns (key -> heading) that matter to them."""

    @abstractmethod
    def done(self, message: str, **facts: Any) -> None:
        """Something was done that has no data to show."""

    @abstractmethod
    def failed(self, error: BaseException) -> None:
        """The error that ends the process."""

    def message(self, message: str) -> None:
        """A line to stderr, after what was printed before it."""
        sys.stdout.flush()
        sys.stderr.write(message + "\n")
        sys.stderr.flush()

    def _error_line(self, error: BaseException) -> None:
        self.message("error: " + " ".join(text.printable(str(error), lines=True).split("\n")))


class TextOutput(Output):
    """For people."""

    def value(self, value: Any, shown: str) -> None:  # noqa: ARG002 - for machines
        """Print what is for people."""
        _line(shown)

    def each(self, values: Iterable[Value], show: Callable[[Value], str], plain: Callable[[Value], Any]) -> None:  # noqa: ARG002
        """Print a line, or more, for each."""
        for value in values:
            _line(show(value))

    def table(self, rows: Sequence[Row], columns: Mapping[str, str]) -> None:
        """Print columns: drawn on a terminal, aligned elsewhere."""
        cells = [[text.printable(_cell(row[key])) for key in columns] for row in rows]
        if not cells:
            return
        if sys.stdout.isatty():
            _draw_table(list(columns.values()), cells)
            return
        for line in _aligned([list(columns.values()), *cells]):
            _line(line)

    def done(self, message: str, **facts: Any) -> None:  # noqa: ARG002 - for machines
        """Say so on stderr."""
        self.message(message)

    def failed(self, error: BaseException) -> None:
        """One line on stderr; the conflicts of a merge are data."""
        if isinstance(error, MergeConflictError):
            self.table([_conflict(row) for row in error.conflicts.to_pylist()], _CONFLICT_COLUMNS)
        self._error_line(error)


class JsonOutput(Output):
    """For machines: stdout holds one JSON document, also after an error."""

    _is_array_open = False

    def value(self, value: Any, shown: str) -> None:  # noqa: ARG002 - for people
        """Print the value."""
        _line(_json(value))

    def each(self, values: Iterable[Value], show: Callable[[Value], str], plain: Callable[[Value], Any]) -> None:  # noqa: ARG002
        """Print an array, an element a line."""
        remaining = iter(values)
        first = list(_take_one(remaining))  # an error here finds nothing printed yet
        self._is_array_open = True
        separator = "[\n"
        for value in chain(first, remaining):
            sys.stdout.write(separator + _json(plain(value)))
            separator = ",\n"
        _line("\n]" if first else "[]")
        self._is_array_open = False

    def table(self, rows: Sequence[Row], columns: Mapping[str, str]) -> None:  # noqa: ARG002 - for people
        """Print an array of all that the rows hold."""
        self.each(rows, str, dict)

    def done(self, message: str, **facts: Any) -> None:
        """Print the facts with the message."""
        _line(_json({**facts, "message": message}))

    def failed(self, error: BaseException) -> None:
        """Print what ``lakespark.errors.describe`` says, and the line on stderr."""
        if not self._is_array_open:
            _line(_json({"error": describe(error)}))
        self._error_line(error)


_CONFLICT_COLUMNS = {
    "path": "PATH",
    "conflict": "CONFLICT",
    "base": "BASE",
    "source": "SOURCE",
    "destination": "DESTINATION",
}


def _conflict(row: Row) -> dict[str, str]:
    def side(name: str) -> str:
        identity = row[f"{name}_identity"]
        return "-" if identity is None else f"{identity[:8]} ({text.size(row[f'{name}_size_bytes'])})"

    sides = {name: side(name) for name in ("base", "source", "destination")}
    return {"path": row["path"], "conflict": row["conflict"], **sides}


def _line(line: str) -> None:
    sys.stdout.write(line + "\n")


def _json(value: Any) -> str:
    import json

    return json.dumps(value, default=str)


def _take_one(values: Iterator[Value]) -> Iterator[Value]:
    for value in values:
        yield value
        return


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _draw_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=box.SIMPLE_HEAD)
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
