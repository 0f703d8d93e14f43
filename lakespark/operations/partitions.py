"""Partition folders below a prefix, their typed values, and predicates on them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from lakespark.errors import BadRequestException
from lakespark.operations.data_files import partition_folder, partition_values
from lakespark.operations.opened import OpenRepository

_SQL_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "integer", "long": "bigint"}


def types(data_schema: str | None, columns: Sequence[str]) -> dict[str, str]:
    """SQL type of each partition column, from the recorded schema of the data; text where it is not known."""
    fields = json.loads(data_schema)["fields"] if data_schema else []
    known = {field["name"]: field["type"] for field in fields if isinstance(field["type"], str)}
    return {name: _SQL_TYPES.get(known.get(name, "string"), known.get(name, "string")) for name in columns}


def folders(paths: Iterable[str], prefix: str) -> list[str]:
    """The folders below a prefix that the paths lie in, each once, the prefix included."""
    return sorted({prefix + partition_folder(path.removeprefix(prefix)) for path in paths})


def matching(repository: OpenRepository, folders: Sequence[str], types: Mapping[str, str], predicate: str) -> list[str]:
    """The folders whose partition values satisfy an SQL predicate. Raises BadRequestException for one that fails."""
    values = [partition_values(folder) for folder in folders]
    table = pa.table(
        {
            "folder": pa.array(folders, pa.string()),
            **{f"value_{i}": pa.array([v.get(name) for v in values], pa.string()) for i, name in enumerate(types)},
        }
    )
    casts = ", ".join(f'cast(value_{i} as {kind}) as "{name}"' for i, (name, kind) in enumerate(types.items()))
    run = repository.local_engine
    typed = run.query(f"select folder, {casts} from {{table}}", table=table)
    escaped = predicate.replace("{", "{{").replace("}", "}}")
    try:
        found = run.collect(run.query(f"select folder from {{typed}} where {escaped}", typed=typed))
    except Exception as error:
        raise BadRequestException(
            f"the predicate {predicate!r} cannot be used on partition columns {', '.join(types)}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    return sorted(found["folder"].to_pylist())
