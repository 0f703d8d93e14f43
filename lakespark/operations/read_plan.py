"""What a read of a data set at a ref is made of: files, partition values, and a schema over all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lakespark.errors import BadRequestException, ObjectNotFoundException
from lakespark.operations import data_files, listing, partitions
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import Resolved

FORMATS_BY_ENDING = {".parquet": "parquet", ".orc": "orc", ".csv": "csv", ".json": "json", ".txt": "text"}
_WIDTH = {name: width for width, name in enumerate(("byte", "short", "integer", "long"))} | {"float": 10, "double": 11}

Field = dict[str, Any]
"""A field of a schema in the JSON of Spark and Delta: name, type, nullable, metadata."""


@dataclass(frozen=True)
class PlannedFile:
    """A file to read: its logical path below the data set, its address, and its partition values as text."""

    relative_path: str
    physical_address: str
    size_bytes: int
    mtime: int
    partition: Mapping[str, str | None]
    data_schema: str | None
    data_stats: str | None


@dataclass(frozen=True)
class Plan:
    """The files of a data set, its format, the names of its partition columns, and its recorded schemas.

    ``schemas`` are those of all its files, whichever are to be read; ``None`` stands for a file without one.
    """

    prefix: str
    format: str
    files: tuple[PlannedFile, ...]
    partition_columns: tuple[str, ...]
    schemas: frozenset[str | None]

    def recorded_fields(self) -> list[Field] | None:
        """Fields by name over all recorded schemas, or None if some file has none recorded."""
        schemas = [schema for schema in self.schemas if schema]
        if len(schemas) < len(self.schemas):
            return None
        return union(json.loads(schema)["fields"] for schema in sorted(schemas))

    def partition_fields(self, fields: Iterable[Field]) -> list[Field]:
        """The partition columns with the types that some schema records for them, else as text."""
        known = {field["name"]: field["type"] for field in fields}
        return [
            {"name": name, "type": known.get(name, "string"), "nullable": True, "metadata": {}}
            for name in self.partition_columns
        ]


def plan(repository: OpenRepository, at: Resolved, prefix: str, *, format: str | None, where: str | None) -> Plan:  # noqa: A002
    """The files below a prefix at a ref that Spark takes for data, pruned by a predicate on partition columns.

    Raises ObjectNotFoundException if there are none, BadRequestException if they are of several formats or are
    not partitioned alike.
    """
    found = _at(repository, at, prefix)
    if not found.files:
        raise ObjectNotFoundException(f"no data files below {prefix!r} at {at.expression!r}")
    found = replace(found, format=format or _format(found), partition_columns=_partition_columns(found))
    return found if where is None else pruned(repository, found, where)


def union(schemas: Iterable[Sequence[Field]]) -> list[Field]:
    """Fields by name over several schemas, in the order of their first appearance, all nullable.

    Integers and floats of different width become the wider one. Raises BadRequestException for a column of
    incompatible types.
    """
    fields: dict[str, Field] = {}
    for field in (field for schema in schemas for field in schema):
        known = fields.get(field["name"])
        kind = field["type"] if known is None else _wider(field["name"], known["type"], field["type"])
        fields[field["name"]] = {"name": field["name"], "type": kind, "nullable": True, "metadata": {}}
    return list(fields.values())


def _wider(name: str, one: Any, other: Any) -> Any:
    if one == other:
        return one
    widths = [_WIDTH.get(kind) if isinstance(kind, str) else None for kind in (one, other)]
    left, right = widths
    if left is None or right is None or (left < 10) != (right < 10):  # noqa: PLR2004 - floats start there
        raise BadRequestException(f"column {name!r} is {one} in some files and {other} in others: pass schema=")
    return one if left > right else other


def _at(repository: OpenRepository, at: Resolved, prefix: str) -> Plan:
    single = listing.find(repository, at, prefix) if prefix and not prefix.endswith("/") else None
    if single is not None:
        folder = data_files.partition_folder(prefix)
        return _plan_of(folder, _files(pa.Table.from_pylist([single]), folder))
    folder = data_files.folder_prefix(prefix)
    pages = listing.entries(repository, at, prefix=folder)
    return _plan_of(folder, (file for page in pages for file in _files(page, folder)))


def _plan_of(folder: str, files: Iterable[PlannedFile]) -> Plan:
    found = tuple(files)
    return Plan(folder, "", found, (), frozenset(file.data_schema for file in found))


def _files(page: pa.Table, prefix: str) -> Iterable[PlannedFile]:
    for entry in listing.plain_entries(page):
        relative = entry["path"].removeprefix(prefix)
        if relative and data_files.is_data_file(relative):
            yield PlannedFile(
                relative_path=relative,
                physical_address=entry["physical_address"],
                size_bytes=entry["size_bytes"],
                mtime=entry["mtime"],
                partition=data_files.partition_values(relative),
                data_schema=entry["data_schema"],
                data_stats=entry["data_stats"],
            )


def _format(found: Plan) -> str:
    names = {file.relative_path.rsplit("/", 1)[-1] for file in found.files}
    formats = {next((f for end, f in FORMATS_BY_ENDING.items() if end in name), None) for name in names}
    known = formats.pop()
    if formats or known is None:
        raise BadRequestException(
            f"cannot tell the format of the files below {found.prefix!r} by their names: pass format="
        )
    return known


def _partition_columns(found: Plan) -> tuple[str, ...]:
    kinds = {tuple(file.partition) for file in found.files}
    if len(kinds) > 1:
        shown = " and ".join("/".join(kind) or "none" for kind in sorted(kinds)[:2])
        raise BadRequestException(f"the files below {found.prefix!r} are not partitioned alike: by {shown}")
    return kinds.pop()


def pruned(repository: OpenRepository, found: Plan, where: str) -> Plan:
    """The plan with the files whose partition values satisfy a predicate. Raises BadRequestException."""
    schema = next(filter(None, found.schemas), None)
    types = partitions.types(schema, found.partition_columns)
    folders = [data_files.partition_path(file.partition) for file in found.files]
    kept = set(partitions.matching(repository, sorted(set(folders)), types, where))
    files = tuple(file for file, folder in zip(found.files, folders, strict=True) if folder in kept)
    return replace(found, files=files)
