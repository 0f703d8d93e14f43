"""Decisions of a merge, path by path: which side to take, to delete, or an entry to put in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakespark.engine import Engine, Frame
from lakespark.entries import ENTRY_COLUMNS
from lakespark.errors import InvalidResolutionError
from lakespark.names import check_path
from lakespark.operations.incoming import REQUIRED, entries_from
from lakespark.operations.opened import OpenRepository

CHOICES = ("source", "destination", "base", "deleted")
_ENTRY_FIELDS = ("path", "physical_address", "size_bytes", "checksum", "mtime", "content_type", "metadata")


class Resolutions:
    """Resolutions by path, in a form that frames can be made of."""

    def __init__(self, choices: Mapping[str, str], entries: pa.Table | None) -> None:
        self._choices = choices
        self.entries = entries

    @classmethod
    def parse(cls, repository: OpenRepository, given: Mapping[str, Any] | pa.Table | None) -> Resolutions:
        """From a mapping path -> choice or entry, or a table with ``path, resolution`` and entry columns.

        A choice is source, destination, base or deleted. An entry is an ObjectInfo or a mapping with
        physical_address, size_bytes, checksum and optionally mtime, content_type, metadata; in a table, a row
        whose resolution is null or ``entry``. Raises InvalidResolutionError.
        """
        if given is None:
            return cls({}, None)
        if isinstance(given, pa.Table):
            given = _from_table(given)
        choices: dict[str, str] = {}
        rows = []
        for path, value in given.items():
            check_path(path)
            if isinstance(value, str):
                choices[path] = _choice(path, value)
            else:
                rows.append({**_entry(path, value), "path": path})
        return cls(choices, _entries(repository, rows))

    def paths(self, choice: str) -> pa.Table:
        """The paths of one choice (column ``path``)."""
        return pa.table({"path": pa.array([p for p, c in self._choices.items() if c == choice], pa.string())})

    def all_paths(self) -> pa.Table:
        """Every path that is decided (column ``path``)."""
        own = [] if self.entries is None else self.entries["path"].to_pylist()
        return pa.table({"path": pa.array([*self._choices, *own], pa.string())})

    def __len__(self) -> int:
        return len(self._choices) + (0 if self.entries is None else self.entries.num_rows)

    def open_paths(self, engine: Engine, merged: Frame) -> Frame:
        """The rows of the three-way table that are not decided here."""
        if not len(self):
            return merged
        return engine.query(
            "select m.* from {merged} m where not exists (select 1 from {resolved} r where r.path = m.path)",
            merged=merged,
            resolved=engine.frame(self.all_paths()),
        )


def _choice(path: str, value: str) -> str:
    if value not in CHOICES:
        raise InvalidResolutionError(
            f"unknown resolution {value!r} for {path!r}: use {', '.join(CHOICES)}, or an entry"
        )
    return value


def _entry(path: str, value: Any) -> dict[str, Any]:
    fields = value._asdict() if hasattr(value, "_asdict") else value
    if not isinstance(fields, Mapping) or not set(REQUIRED[1:]) <= fields.keys():
        raise InvalidResolutionError(
            f"the resolution of {path!r} is neither a choice ({', '.join(CHOICES)}) nor an entry with "
            f"{', '.join(REQUIRED[1:])}"
        )
    return {name: fields[name] for name in _ENTRY_FIELDS if fields.get(name) is not None}


def _entries(repository: OpenRepository, rows: list[dict[str, Any]]) -> pa.Table | None:
    if not rows:
        return None
    metadata = pa.array([list((row.pop("metadata", None) or {}).items()) for row in rows], _METADATA)
    names = [name for name in _ENTRY_FIELDS if any(name in row for row in rows)]
    columns = {name: pa.array([row.get(name) for row in rows]) for name in names}
    return entries_from(repository, pa.table({**columns, "metadata": metadata}))


_METADATA = pa.map_(pa.string(), pa.string())


def _from_table(table: pa.Table) -> dict[str, Any]:
    if not {"path", "resolution"} <= set(table.column_names):
        raise InvalidResolutionError("a table of resolutions needs the columns path and resolution")
    known = [name for name in ENTRY_COLUMNS if name in table.column_names]
    given: dict[str, Any] = {}
    for row in table.to_pylist(maps_as_pydicts="strict"):
        is_entry = row["resolution"] in (None, "entry")
        if row["path"] in given:
            raise InvalidResolutionError(f"path {row['path']!r} has more than one resolution")
        given[row["path"]] = {name: row[name] for name in known} if is_entry else row["resolution"]
    return given
