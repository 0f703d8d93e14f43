"""Schemas of data files in the JSON of Spark and Delta: one over all files of a data set."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from lakespark.errors import BadRequestException

Field = dict[str, Any]
"""A field of a schema in the JSON of Spark and Delta: name, type, nullable, metadata."""

_INTEGERS = {name: width for width, name in enumerate(("byte", "short", "integer", "long"))}
_FLOATS = {"float": 0, "double": 1}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_TEXT_IN_JSON = {"date", "timestamp", "timestamp_ntz", "binary"}
_SQL_TYPES = {"byte": "tinyint", "short": "smallint", "long": "bigint", "timestamp_ntz": "timestamp", "binary": "text"}


def union(schemas: Iterable[Sequence[Field]]) -> list[Field]:
    """Fields by name over several schemas, in the order of their first appearance, all nullable.

    Integers, floats and decimals of different width become the wider one, structs are united field by field.
    Raises BadRequestException for a column of incompatible types.
    """
    fields: dict[str, Field] = {}
    for field in (field for schema in schemas for field in schema):
        known = fields.get(field["name"])
        kind = _nullable(field["type"]) if known is None else _wider(field["name"], known["type"], field["type"])
        fields[field["name"]] = _field(field["name"], kind)
    return list(fields.values())


def recorded(schemas: Iterable[str | None], names: Container[str] | None = None) -> list[Field]:
    """The union of the schemas that are recorded, or of some columns of them. Raises BadRequestException."""
    found = (json.loads(schema)["fields"] for schema in sorted(filter(None, set(schemas))))
    return union([field for field in fields if names is None or field["name"] in names] for fields in found)


def as_recorded(found: Sequence[Field], known: Sequence[Field], file_format: str) -> list[Field]:
    """What Spark finds in files of text, with the types that are recorded for such columns elsewhere.

    A CSV file holds nothing but text, a JSON file dates, times and binaries as text, and numbers of no width.
    """
    types = {field["name"]: field["type"] for field in known}

    def kind(field: Field) -> Any:
        one, other = field["type"], types.get(field["name"])
        if other is None or (file_format == "csv" and one == "string"):
            return other or one
        if file_format == "json" and (other in _TEXT_IN_JSON if one == "string" else _is_number(one, other)):
            return other
        return one

    return [{**field, "type": kind(field)} for field in found]


def partition_fields(columns: Sequence[str], known: Iterable[Field]) -> list[Field]:
    """Partition columns with the types that are known of them, else as text."""
    types = {field["name"]: field["type"] for field in known}
    return [_field(name, types.get(name, "string")) for name in columns]


def sql_types(fields: Iterable[Field]) -> dict[str, str]:
    """SQL types of columns, for predicates on the text of partition folders, in which times are in UTC."""
    kinds = {field["name"]: field["type"] if isinstance(field["type"], str) else "string" for field in fields}
    return {name: _SQL_TYPES.get(kind, kind) for name, kind in kinds.items()}


def _field(name: str, kind: Any) -> Field:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _wider(name: str, one: Any, other: Any) -> Any:
    """The type that holds the values of both. Raises BadRequestException, with the name of the column."""
    one, other = _nullable(one), _nullable(other)
    if other in (one, "void"):
        return one
    if one == "void":
        return other
    if isinstance(one, Mapping) and isinstance(other, Mapping) and one["type"] == other["type"]:
        return _wider_nested(name, one, other)
    found = _wider_number(one, other)
    if found is None:
        raise BadRequestException(
            f"column {name!r} is {_shown(one)} in some files and {_shown(other)} in others: pass schema="
        )
    return found


def _wider_nested(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Any:
    parts = {"array": ("elementType",), "map": ("keyType", "valueType")}.get(one["type"])
    if parts is not None:
        return {**one, **{part: _wider(f"{name}.{part[:-4]}", one[part], other[part]) for part in parts}}
    inner = [[{**field, "name": f"{name}.{field['name']}"} for field in side["fields"]] for side in (one, other)]
    united = [{**field, "name": field["name"].removeprefix(f"{name}.")} for field in union(inner)]
    return {"type": "struct", "fields": united}


def _wider_number(one: Any, other: Any) -> str | None:
    for widths in (_INTEGERS, _FLOATS):
        if str(one) in widths and str(other) in widths:
            return str(max(one, other, key=lambda kind: widths[kind]))
    left, right = _DECIMAL.fullmatch(str(one)), _DECIMAL.fullmatch(str(other))
    if left and right and left[2] == right[2]:
        return str(max(one, other, key=lambda kind: int(_DECIMAL.fullmatch(kind)[1])))  # type: ignore[index]
    return None


def _is_number(one: Any, other: Any) -> bool:
    return all(str(kind) in (*_INTEGERS, *_FLOATS) or str(kind).startswith("decimal") for kind in (one, other))


def _nullable(kind: Any) -> Any:
    """A type in which everything nested may be null, as what is missing is."""
    if not isinstance(kind, Mapping):
        return kind
    if kind["type"] == "struct":
        return {**kind, "fields": [_field(field["name"], _nullable(field["type"])) for field in kind["fields"]]}
    if kind["type"] == "array":
        return {**kind, "elementType": _nullable(kind["elementType"]), "containsNull": True}
    if kind["type"] == "map":
        nested = {part: _nullable(kind[part]) for part in ("keyType", "valueType")}
        return {**kind, **nested, "valueContainsNull": True}
    return kind


def _shown(kind: Any) -> str:
    return str(kind["type"]) if isinstance(kind, Mapping) else str(kind)
