"""The derived snapshot of a ledger: refs, settings, features and the commits that refs point at, at one version."""

from __future__ import annotations

import io
import json
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakespark import digest
from lakespark.tables import ledger_rows
from lakespark.tables.log_entry import DataFile


class Snapshot(NamedTuple):
    """The state at one version of the ledger: its live files, and the rows that say it."""

    version: int
    files: list[DataFile]
    rows: list[ledger_rows.Row]


def snapshot_body(snapshot: Snapshot) -> bytes:
    """A snapshot as the bytes of its file."""
    table = ledger_rows.to_table(snapshot.rows)
    check = _check(snapshot.version, snapshot.files, table.to_pylist())
    about = {"version": str(snapshot.version), "files": json.dumps(snapshot.files), "check": check}
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(about), sink, compression="zstd", write_statistics=False)
    return sink.getvalue()


def parse_snapshot(body: bytes) -> Snapshot | None:
    """A snapshot, or None for one that is not as it was written."""
    try:
        table = pq.ParquetFile(pa.BufferReader(body)).read(use_threads=False)
        rows, about = table.to_pylist(), table.schema.metadata
        version, files = int(about[b"version"]), [DataFile(*file) for file in json.loads(about[b"files"])]
        is_whole = about[b"check"].decode() == _check(version, files, rows)
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError):
        return None
    return Snapshot(version, files, rows) if is_whole else None


def _check(version: int, files: list[DataFile], rows: list[ledger_rows.Row]) -> str:
    """What a snapshot says, as a SHA-256: one that was altered is as good as lost."""
    return digest.hash_bytes(json.dumps([version, files, rows]).encode())
