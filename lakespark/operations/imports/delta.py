"""The current files of a Delta table, with its schema and their statistics; the table itself stays where it is."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from lakespark.engine import Frame
from lakespark.errors import BadRequestException, StorageError
from lakespark.operations.data_files import folder_prefix, partition_path, partition_values
from lakespark.operations.imports.found import Finding, check_outside, rows_table
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location, parse_location
from lakespark.storage.delta_options import delta_options

_EXACT_DIGITS = 15
"""Decimals with more digits than this are no exact JSON numbers for every reader, and are left out."""
_UNREADABLE = {"none": "", "name": "column mapping", "id": "column mapping"}


@dataclass(frozen=True)
class DeltaFiles:
    """The files of the table's newest version, to their relative paths below ``destination``, which they replace."""

    location: Location
    destination: str

    @property
    def replaces(self) -> str | None:
        """The destination becomes the table."""
        return folder_prefix(self.destination)

    def most_objects(self, _repository: OpenRepository) -> int | None:
        """Nobody knows before the table's log is read."""
        return None

    def rows(self, finding: Finding) -> Frame:
        """Read the table's log. Raises BadRequestException for a table whose files do not say what it holds."""
        check_outside(finding.repository, self.location)
        table = _open(finding.repository, self.location)
        _check_plain(table, self.location)
        actions: list[dict[str, Any]] = pa.table(table.get_add_actions()).to_pylist()
        finding.on_found(len(actions))
        files = [_File.of(action, self.location) for action in actions]
        count, prefix = len(files), folder_prefix(self.destination)
        rows = rows_table(
            {
                "path": pa.array([prefix + file.name for file in files], pa.string()),
                "physical_address": pa.array([file.address for file in files], pa.string()),
                "size_bytes": pa.array([file.size_bytes for file in files], pa.int64()),
                "checksum": pa.array([f"delta:{file.name}" for file in files], pa.string()),
                "mtime": pa.array([file.modified // 1000 for file in files], pa.int64()),
                "data_schema": pa.repeat(pa.scalar(table.schema().to_json(), pa.string()), count),
                "data_stats": pa.array([file.stats for file in files], pa.string()),
            }
        )
        return finding.run.frame(rows)

    def __str__(self) -> str:
        return self.location.url


@dataclass(frozen=True)
class _File:
    """A live file of the table. ``modified`` in milliseconds."""

    name: str
    address: str
    size_bytes: int
    modified: int
    stats: str | None

    @classmethod
    def of(cls, action: Mapping[str, Any], root: Location) -> _File:
        """From an add action, whose path is relative to the table or, in a clone, a URL."""
        path = unquote(action["path"])
        is_url = "://" in path or path.startswith(("/", "file:"))
        address = _full(path) if is_url else root.child(path).url
        partition = dict(action.get("partition") or {})
        name = path
        if is_url or partition_values(path) != {key: _as_text(value) for key, value in partition.items()}:
            name = partition_path(partition) + path.rsplit("/", 1)[-1]
        return cls(name, address, action["size_bytes"], action["modification_time"], _stats(action))


def _open(repository: OpenRepository, location: Location) -> Any:
    from deltalake import DeltaTable  # noqa: PLC0415 - slow to import, seldom needed
    from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415

    try:
        return DeltaTable(str(location), storage_options=delta_options(location, repository.options))
    except TableNotFoundError:
        raise BadRequestException(f"there is no Delta table at {location}") from None
    except (DeltaError, OSError) as error:
        raise StorageError(f"cannot read the Delta table at {location}: {str(error).splitlines()[0]}") from error


def _check_plain(table: Any, location: Location) -> None:
    mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    problem = _UNREADABLE.get(mapping, "column mapping")
    if pa.table(table.deletion_vectors()).num_rows:
        problem = "deletion vectors"
    if problem:
        raise BadRequestException(
            f"cannot import the Delta table at {location}: it has {problem}, so its files alone do not say what it "
            "holds. Import the folder (with its _delta_log) as a prefix, or rewrite the table without"
        )


def _full(path: str) -> str:
    if path.startswith("file:") and not path.startswith("file://"):
        path = path.removeprefix("file:")
    return parse_location(path).url


def _as_text(value: Any) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _stats(action: Mapping[str, Any]) -> str | None:
    """The statistics of a file as Delta's JSON, or None where there are none."""
    if action.get("num_records") is None:
        return None
    stats = {
        "numRecords": action["num_records"],
        "minValues": _plain(action.get("min") or {}),
        "maxValues": _plain(action.get("max") or {}),
        "nullCount": _plain(action.get("null_count") or {}),
    }
    return json.dumps(stats, separators=(",", ":"))


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as Delta's JSON has them; what it cannot say exactly is left out."""
    plain = {name: _value(value) for name, value in values.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _plain(value) or None
    if isinstance(value, dt.datetime):
        text = value.isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value) if len(value.as_tuple().digits) <= _EXACT_DIGITS else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, bool | int | str) else None
