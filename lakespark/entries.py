"""The columns of an entry, as they stand in staged rows, in ranges and in every table between them."""

from __future__ import annotations

import pyarrow as pa

ENTRY_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("identity", pa.string()),
        ("physical_address", pa.string()),
        ("size_bytes", pa.int64()),
        ("checksum", pa.string()),
        ("mtime", pa.int64()),
        ("content_type", pa.string()),
        ("metadata", pa.map_(pa.string(), pa.string())),
    ]
)
"""``mtime`` in unix seconds. ``metadata`` is never null: an empty map says that there is none."""

ENTRY_COLUMNS: tuple[str, ...] = tuple(ENTRY_SCHEMA.names)
IDENTITY_COLUMNS = ("path", "identity")
