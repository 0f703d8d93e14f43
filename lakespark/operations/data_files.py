"""Data files below a prefix: partition values in their paths, statistics in their footers."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
MAX_STATISTIC_CHARACTERS = 64
_UNSAFE = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
"""What Hive and Spark escape in the names of partition folders."""


def folder_prefix(prefix: str) -> str:
    """A prefix as that of a folder: empty, or with a slash at its end."""
    return prefix if not prefix or prefix.endswith("/") else prefix + "/"


def partition_values(relative_path: str) -> dict[str, str | None]:
    """``name=value`` folders of a path below a data set, unescaped as Hive and Spark write them."""
    values: dict[str, str | None] = {}
    for folder in relative_path.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if equals and name:
            values[unquote(name)] = None if value == HIVE_NULL else unquote(value)
    return values


def partition_path(values: Mapping[str, Any]) -> str:
    """The folders of partition values, ``name=value/`` each, as Spark writes them; points in time are in UTC."""
    return "".join(f"{_escaped(name)}={HIVE_NULL if v is None else _escaped(_text(v))}/" for name, v in values.items())


def _escaped(text: str) -> str:
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", text) if text else HIVE_NULL


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return f"{value.astimezone(dt.UTC).replace(tzinfo=None)}Z"
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_data_file(relative_path: str) -> bool:
    """Whether a path below a data set is data for Spark: no part of it starts with ``_`` or ``.``.

    A folder ``_name=value`` is a partition all the same.
    """
    *folders, name = relative_path.split("/")
    return not name.startswith(("_", ".")) and not any(
        folder.startswith(".") or (folder.startswith("_") and "=" not in folder) for folder in folders
    )


def parquet_statistics(footer: pq.FileMetaData) -> str:
    """Statistics of the top-level columns of a Parquet file, in the JSON of Delta's ``stats``."""
    minimum: dict[str, Any] = {}
    maximum: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, bounds in _bounds_by_column(footer).items():
        if all(bound is not None and bound.has_null_count for bound in bounds):
            nulls[name] = sum(bound.null_count for bound in bounds)
        if all(bound is not None and (bound.has_min_max or _is_all_null(bound)) for bound in bounds):
            ranged = [bound for bound in bounds if bound.has_min_max]
            low, high = _json_value(min, ranged, "min"), _json_value(max, ranged, "max")
            if low is not None:
                minimum[name] = low
            # NaN is above every number for Spark, and left out of a footer's bounds by some writers
            if high is not None and not isinstance(high, float):
                maximum[name] = high
    return json.dumps(
        {"numRecords": footer.num_rows, "minValues": minimum, "maxValues": maximum, "nullCount": nulls},
        separators=(",", ":"),
    )


def _bounds_by_column(footer: pq.FileMetaData) -> Mapping[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            if "." not in column.path_in_schema:
                found.setdefault(column.path_in_schema, []).append(column.statistics)
    return found


def _is_all_null(bound: Any) -> bool:
    return bool(bound.has_null_count and bound.num_values == 0)


def _json_value(choose: Any, bounds: Iterable[Any], which: str) -> Any:
    """The least or greatest value as Delta's JSON has it, or None where it cannot be said exactly."""
    try:
        found = [getattr(bound, which) for bound in bounds]
    except (OverflowError, ValueError):  # dates and times beyond Python's
        return None
    if not found or any(isinstance(value, float) and not math.isfinite(value) for value in found):
        return None
    value = choose(found)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if len(value) <= MAX_STATISTIC_CHARACTERS else None
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    return None


def partition_folder(relative_path: str) -> str:
    """The folder of a path below a data set, with its slash; empty for a file of its own."""
    folder, slash, _ = relative_path.rpartition("/")
    return folder + slash
