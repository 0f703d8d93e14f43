"""An Arrow schema as the ``schemaString`` of a Delta table (Delta protocol, "Schema Serialization Format")."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyarrow import types

_PRIMITIVES = (
    (types.is_string, "string"),
    (types.is_large_string, "string"),
    (types.is_int64, "long"),
    (types.is_int32, "integer"),
    (types.is_int16, "short"),
    (types.is_int8, "byte"),
    (types.is_boolean, "boolean"),
    (types.is_float64, "double"),
    (types.is_float32, "float"),
    (types.is_date32, "date"),
    (types.is_binary, "binary"),
    (types.is_large_binary, "binary"),
)


def schema_string(schema: pa.Schema) -> str:
    """The schema as Delta's JSON. Raises TypeError for an Arrow type that Delta has none for."""
    return json.dumps({"type": "struct", "fields": [_field(field) for field in schema]}, separators=(",", ":"))


def _field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": _type(field.type), "nullable": field.nullable, "metadata": {}}


def _type(kind: pa.DataType) -> Any:  # noqa: PLR0911 - one return a type
    for is_kind, name in _PRIMITIVES:
        if is_kind(kind):
            return name
    if types.is_struct(kind):
        return {"type": "struct", "fields": [_field(kind.field(i)) for i in range(kind.num_fields)]}
    if types.is_list(kind) or types.is_large_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type), "containsNull": True}
    if types.is_map(kind):
        return {
            "type": "map",
            "keyType": _type(kind.key_type),
            "valueType": _type(kind.item_type),
            "valueContainsNull": True,
        }
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_dictionary(kind):
        return _type(kind.value_type)
    raise TypeError(f"no Delta type for {kind}")
