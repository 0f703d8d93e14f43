"""Zero-copy views: a Delta log over physical files, wherever they lie, for any Delta reader."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from lakespark.operations.schemas import Field
from lakespark.storage import Store

ROOT = "_lakespark/views"


def write_view(store: Store, fields: Sequence[Field], partition_columns: Sequence[str], adds: Iterable[str]) -> str:
    """Write the log of a view, named by its contents; the key of its table. Nothing is written twice.

    ``adds`` are lines of the log made by ``add_action``. Raises StorageError where nothing can be written.
    """
    lines = list(adds)
    schema = json.dumps({"type": "struct", "fields": list(fields)}, separators=(",", ":"))
    view_id = hashlib.sha256("\n".join([schema, ",".join(partition_columns), *lines]).encode()).hexdigest()
    header: list[dict[str, Any]] = [
        {"protocol": _protocol(fields)},
        {
            "metaData": {
                "id": f"{view_id[:8]}-{view_id[8:12]}-{view_id[12:16]}-{view_id[16:20]}-{view_id[20:32]}",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": list(partition_columns),
                "configuration": {},
                "createdTime": 0,
            }
        },
    ]
    body = "\n".join([*(json.dumps(action, separators=(",", ":")) for action in header), *lines])
    store.put_if_absent(f"{ROOT}/{view_id}/_delta_log/{0:020d}.json", body.encode())
    return f"{ROOT}/{view_id}"


def add_action(url: str, size_bytes: int, mtime: int, partition: Mapping[str, str | None], stats: str | None) -> str:
    """One file of a view, by its full URL as Spark reads it, as a line of the log."""
    add = {
        "path": quote(url, safe="/:@!$&'()*+,;=~"),
        "partitionValues": dict(partition),
        "size": size_bytes,
        "modificationTime": mtime * 1000,
        "dataChange": True,
        **({"stats": stats} if stats is not None else {}),
    }
    return json.dumps({"add": add}, separators=(",", ":"))


def _protocol(fields: Sequence[Field]) -> dict[str, Any]:
    """Reader and writer versions; times without a zone are a feature of their own."""
    if "timestamp_ntz" not in json.dumps(list(fields)):
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    features = ["timestampNtz"]
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
