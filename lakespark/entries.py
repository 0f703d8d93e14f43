"""The columns of an entry, as they stand in staged rows, in ranges and in every table between them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

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
        ("data_schema", pa.string()),
        ("data_stats", pa.string()),
    ]
)
"""``mtime`` in unix seconds. ``metadata`` is never null: an empty map says that there is none.

``data_schema`` and ``data_stats`` are what is known of a data file, null where nothing is, and outside identity: the
schema of its table with the partition columns, and the statistics of its columns, both in the JSON of Delta.
"""

ENTRY_COLUMNS: tuple[str, ...] = tuple(ENTRY_SCHEMA.names)
DATA_COLUMNS = ("data_schema", "data_stats")
IDENTITY_COLUMNS = ("path", "identity")


def is_ascending(paths: pa.ChunkedArray) -> bool:
    """Whether each path is above the one before it: in order, and none of them twice."""
    return len(paths) < 2 or bool(pc.all(pc.less(paths.slice(0, len(paths) - 1), paths.slice(1))).as_py())  # noqa: PLR2004
