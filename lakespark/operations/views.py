"""Zero-copy views: a Delta log over physical files, wherever they lie, for any Delta reader."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from lakespark.operations.schemas import Field
from lakespark.storage import Store

ROOT = "_lakespark/views"


@dataclass(frozen=True)
class ViewFile:
    """One file of a view: its full URL as Spark reads it, its partition values as text, its statistics as Delta's JSON.

    ``size_bytes`` in bytes, ``mtime`` in seconds since 1970.
    """

    url: str
    size_bytes: int
    mtime: int
    partition: Mapping[str, str | None]
    stats: str | None


def write_view(
    store: Store, fields: Sequence[Field], partition_columns: Sequence[str], files: Iterable[ViewFile]
) -> str:
    """Write the log of a view, named by its contents; the key of its table. Nothing is written twice.

    Raises StorageError where nothing can be written.
    """
    schema = json.dumps({"type": "struct", "fields": list(fields)}, separators=(",", ":"))
    lines, total_bytes = [], 0
    for file in files:
        lines.append(_json({"add": _add_action(file)}))
        total_bytes += file.size_bytes
    view_id = hashlib.sha256("\n".join([schema, ",".join(partition_columns), *lines]).encode()).hexdigest()
    protocol, metadata = _protocol(fields), _metadata(view_id, schema, partition_columns)
    body = "\n".join([_json({"protocol": protocol}), _json({"metaData": metadata}), *lines])
    version = f"{ROOT}/{view_id}/_delta_log/{0:020d}"
    if store.put_if_absent(f"{version}.json", body.encode()):
        # What Delta would otherwise count from the log, in a Spark job of its own, before the first plan.
        checksum = {"tableSizeBytes": total_bytes, "numFiles": len(lines), "numMetadata": 1, "numProtocol": 1}
        store.put_if_absent(f"{version}.crc", _json({**checksum, "metadata": metadata, "protocol": protocol}).encode())
    return f"{ROOT}/{view_id}"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _add_action(file: ViewFile) -> Mapping[str, Any]:
    return {
        "path": quote(file.url, safe="/:@!$&'()*+,;=~"),
        "partitionValues": dict(file.partition),
        "size": file.size_bytes,
        "modificationTime": file.mtime * 1000,
        "dataChange": True,
        **({"stats": file.stats} if file.stats is not None else {}),
    }


def _metadata(view_id: str, schema: str, partition_columns: Sequence[str]) -> Mapping[str, Any]:
    return {
        "id": f"{view_id[:8]}-{view_id[8:12]}-{view_id[12:16]}-{view_id[16:20]}-{view_id[20:32]}",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": list(partition_columns),
        "configuration": {},
        "createdTime": 0,
    }


def _protocol(fields: Sequence[Field]) -> dict[str, Any]:
    """Reader and writer versions; times without a zone are a feature of their own."""
    if "timestamp_ntz" not in json.dumps(list(fields)):
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    features = ["timestampNtz"]
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
