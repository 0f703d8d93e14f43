"""The identity of an entry: the SQL of ``lakespark.digest.entry_identity``."""

from lakespark.entries import ENTRY_COLUMNS

_REST = ", ".join(ENTRY_COLUMNS[2:])

WITH_IDENTITY = f"""
select
    path,
    sha2(
        octet_length(cast(size_bytes as string)) || ':' || cast(size_bytes as string)
            || octet_length(checksum) || ':' || checksum
            || octet_length(content_type) || ':' || content_type
            || encoded_metadata(metadata),
        256
    ) as identity,
    {_REST}
from {{entries}}
"""
"""Entries without an identity to entries with one, in the same order."""
