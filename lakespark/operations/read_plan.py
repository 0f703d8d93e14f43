"""What a read of a data set at a ref is made of: files, partition values, and a schema over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakespark.errors import BadRequestException, ObjectNotFoundException
from lakespark.operations import data_files, listing, partitions, schemas
from lakespark.operations.opened import OpenRepository
from lakespark.operations.resolve import Resolved
from lakespark.operations.schemas import Field

FORMATS_BY_ENDING = {".parquet": "parquet", ".orc": "orc", ".csv": "csv", ".json": "json", ".txt": "text"}


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
    """The files of a data set, its format, the names of its partition columns, and the schemas of its files.

    ``schemas`` are those of all its files, whichever are to be read; ``None`` stands for a file without one.
    """

    prefix: str
    format: str
    files: tuple[PlannedFile, ...]
    partition_columns: tuple[str, ...]
    schemas: frozenset[str | None]

    @property
    def is_recorded(self) -> bool:
        """Whether every file has a recorded schema."""
        return None not in self.schemas

    def recorded_fields(self) -> list[Field]:
        """Fields by name over all recorded schemas. Raises BadRequestException for incompatible ones."""
        return schemas.recorded(self.schemas)

    def partition_fields(self, fields: Iterable[Field]) -> list[Field]:
        """The partition columns with the types that some schema records for them, else as text."""
        return schemas.partition_fields(self.partition_columns, fields)

    def data_fields(self, fields: Iterable[Field]) -> list[Field]:
        """The columns that are in the files themselves."""
        return [field for field in fields if field["name"] not in self.partition_columns]


def plan(repository: OpenRepository, at: Resolved, prefix: str, *, format: str | None) -> Plan:  # noqa: A002
    """The files below a prefix at a ref that Spark takes for data.

    Raises ObjectNotFoundException if there are none, BadRequestException if they are of several formats or are
    not partitioned alike.
    """
    found = _at(repository, at, prefix)
    if not found.files:
        raise ObjectNotFoundException(f"no data files below {prefix!r} at {at.expression!r}")
    return replace(found, format=format or _format(found), partition_columns=_partition_columns(found))


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
    if len(formats) > 1 or None in formats:
        shown = " and ".join(sorted(known or "one of unknown format" for known in formats))
        raise BadRequestException(
            f"cannot tell the format of the files below {found.prefix!r}: by their names there is {shown}; pass format="
        )
    return str(formats.pop())


def _partition_columns(found: Plan) -> tuple[str, ...]:
    kinds = {tuple(file.partition) for file in found.files}
    if len(kinds) > 1:
        shown = " and ".join("/".join(kind) or "none" for kind in sorted(kinds)[:2])
        raise BadRequestException(f"the files below {found.prefix!r} are not partitioned alike: by {shown}")
    return kinds.pop()


def pruned(repository: OpenRepository, found: Plan, where: str, fields: Sequence[Field]) -> Plan:
    """The plan with the files whose partition values satisfy a predicate. Raises BadRequestException.

    ``fields`` say of which types the partition columns are.
    """
    types = schemas.sql_types(found.partition_fields(fields))
    folders = [data_files.partition_path(file.partition) for file in found.files]
    kept = set(partitions.matching(repository, sorted(set(folders)), types, where))
    files = tuple(file for file, folder in zip(found.files, folders, strict=True) if folder in kept)
    return replace(found, files=files)
