"""The identity of an entry: the SQL of ``lakespark.digest.entry_identity``."""

from lakespark.entries import ENTRY_COLUMNS

_REST = ", ".join(ENTRY_COLUMNS[2:])

IDENTITY = """sha2(
        octet_length(cast(size_bytes as string)) || ':' || cast(size_bytes as string)
            || octet_length(checksum) || ':' || checksum
            || octet_length(content_type) || ':' || content_type
            || encoded_metadata(metadata),
        256
    )"""
"""The identity of a row that has the other columns of an entry."""

WITH_IDENTITY = f"""
select
    path,
    {IDENTITY} as identity,
    {_REST}
from {{entries}}
"""
"""Entries without an identity to entries with one, in the same order."""
