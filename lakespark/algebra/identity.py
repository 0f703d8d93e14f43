"""The identity of an entry: the SQL of ``lakespark.digest.entry_identity``."""

WITH_IDENTITY = """
select
    path,
    sha2(
        octet_length(cast(size_bytes as string)) || ':' || cast(size_bytes as string)
            || octet_length(checksum) || ':' || checksum
            || octet_length(content_type) || ':' || content_type
            || encoded_metadata(metadata),
        256
    ) as identity,
    physical_address, size_bytes, checksum, mtime, content_type, metadata
from {entries}
"""
"""Entries without an identity to entries with one, in the same order."""
