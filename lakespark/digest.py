"""Ids: SHA-256 over an injective encoding, so that equal ids mean equal contents.

The encoding is a sequence of netstrings without the trailing comma: each field is its length in bytes in
decimal, a colon, and its UTF-8 bytes. Integers are written in decimal. ``docs/format.md`` has test vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence


def encode(fields: Iterable[str | int]) -> bytes:
    """The injective encoding of ``fields`` in their order."""
    encoded = [str(field).encode() for field in fields]
    return b"".join(b"%d:%b" % (len(field), field) for field in encoded)


def hash_fields(fields: Iterable[str | int]) -> str:
    """SHA-256 of the encoding, in lower-case hex."""
    return hashlib.sha256(encode(fields)).hexdigest()


def _pairs(metadata: Mapping[str, str]) -> list[str | int]:
    ordered = sorted(metadata.items(), key=lambda pair: pair[0].encode())
    return [len(ordered), *(text for pair in ordered for text in pair)]


def entry_identity(size_bytes: int, checksum: str, content_type: str, metadata: Mapping[str, str]) -> str:
    """Identity of an entry: what makes two entries of one path *the same* for diff and merge."""
    return hash_fields([size_bytes, checksum, content_type, *_pairs(metadata)])


def metarange_id(threshold: str, range_ids: Sequence[str]) -> str:
    """Id of a metarange: its cut threshold and the ids of its ranges in path order."""
    return hash_fields([threshold, len(range_ids), *range_ids])


def commit_id(
    *,
    committer: str,
    message: str,
    metarange: str,
    creation_date: int,
    metadata: Mapping[str, str],
    parents: Sequence[str],
) -> str:
    """Id of a commit. ``creation_date`` is in whole unix seconds."""
    return hash_fields([committer, message, metarange, creation_date, *_pairs(metadata), len(parents), *parents])


def hash_bytes(body: bytes | memoryview) -> str:
    """SHA-256 of a file's bytes, in lower-case hex."""
    return hashlib.sha256(body).hexdigest()
