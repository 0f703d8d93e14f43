"""Partition folders below a prefix, their typed values, and predicates on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from lakespark.errors import BadRequestException
from lakespark.operations.data_files import partition_folder, partition_values
from lakespark.operations.opened import OpenRepository

_FOLDER = '"the folder itself"'
"""A name that no partition column has."""


def folders(paths: Iterable[str], prefix: str) -> list[str]:
    """The folders below a prefix that the paths lie in, each once, the prefix included."""
    return sorted({prefix + partition_folder(path.removeprefix(prefix)) for path in paths})


def matching(repository: OpenRepository, folders: Sequence[str], types: Mapping[str, str], predicate: str) -> list[str]:
    """The folders whose partition values satisfy an SQL predicate. Raises BadRequestException for one that fails."""
    run = repository.local_engine
    casts = ", ".join(f"cast({_value(i)} as {kind}) as {_quoted(name)}" for i, (name, kind) in enumerate(types.items()))
    typed = run.query(f"select folder as {_FOLDER}, {_escaped(casts)} from {{table}}", table=_values(folders, types))
    try:
        found = run.collect(
            run.query(f"select {_FOLDER} as folder from {{typed}} where {_escaped(predicate)}", typed=typed)
        )
    except Exception as error:
        raise BadRequestException(
            f"the predicate {predicate!r} cannot be used on partition columns {', '.join(types)}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    return sorted(found["folder"].to_pylist())


def same(
    repository: OpenRepository, folders: Sequence[str], others: Sequence[str], types: Mapping[str, str]
) -> list[str]:
    """The folders that hold the partitions of others, however either writes a value: ``n=7`` is ``n=07``."""
    run = repository.local_engine
    read = [
        f"coalesce(cast(try_cast({_value(i)} as {kind}) as text), {_value(i)}) as {_value(i)}"
        for i, kind in enumerate(types.values())
    ]
    here, there = (
        run.query(f"select folder, {', '.join(read)} from {{table}}", table=_values(names, types))
        for names in (folders, others)
    )
    equal = " and ".join(f"h.{_value(i)} is not distinct from t.{_value(i)}" for i in range(len(types)))
    found = run.collect(
        run.query(f"select distinct h.folder from {{here}} h join {{there}} t on {equal}", here=here, there=there)
    )
    return sorted(found["folder"].to_pylist())


def _values(folders: Sequence[str], types: Mapping[str, str]) -> pa.Table:
    """The text of the partition values of each folder, numbered as the columns are."""
    values = [partition_values(folder) for folder in folders]
    columns = {_value(i): pa.array([v.get(name) for v in values], pa.string()) for i, name in enumerate(types)}
    return pa.table({"folder": pa.array(folders, pa.string()), **columns})


def _value(number: int) -> str:
    return f"value_{number}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _escaped(text: str) -> str:
    """SQL text in which braces stand for themselves."""
    return text.replace("{", "{{").replace("}", "}}")
