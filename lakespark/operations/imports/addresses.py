"""Addresses of foreign objects, column by column: in one form, outside the namespace, cut to keys."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakespark.errors import InvalidEntriesError
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location, parse_location

_SHOWN = 5
_URL = r"^(file:///|(memory|s3|gs|abfss|az)://[^/]+/.)"
_DOTTED = r"^file://.*/\.\.?(/|$)"


def canonical(addresses: pa.ChunkedArray) -> pa.ChunkedArray:
    """Addresses in the one form of each: ``s3://`` for Hadoop's names of S3, ``file://`` URLs for local paths."""
    is_path = pc.starts_with(addresses, "/")
    if pc.any(is_path).as_py():
        url = pc.binary_join_element_wise("file://", pc.replace_substring(addresses, "%", "%25"), "")
        addresses = pc.if_else(is_path, url, addresses)
    if pc.any(pc.or_(pc.starts_with(addresses, "s3a://"), pc.starts_with(addresses, "s3n://"))).as_py():
        addresses = pc.replace_substring_regex(addresses, r"^s3[an]://", "s3://")
    is_escaped = pc.and_(pc.match_substring_regex(addresses, "^(file|local):.*%"), pc.invert(is_path))
    if pc.any(is_escaped).as_py():
        escaped = [parse_location(address).url for address in addresses.filter(is_escaped).to_pylist()]
        addresses = _flat(pc.replace_with_mask(_flat(addresses), _flat(is_escaped), pa.array(escaped, pa.string())))
    return addresses


def check_foreign(repository: OpenRepository, addresses: pa.ChunkedArray) -> None:
    """Raises InvalidEntriesError that names addresses that are no full URLs, or lie in the repository's namespace."""
    _refuse(addresses, pc.invert(pc.match_substring_regex(addresses, _URL)), "are no full URLs of a store")
    _refuse(addresses, pc.match_substring_regex(addresses, _DOTTED), "go through '.' or '..'")
    own = pc.starts_with(addresses, repository.store.location.url + "/")
    _refuse(addresses, own, "lie inside the repository's own namespace: such objects are linked by stage()")


def keys_of(addresses: pa.ChunkedArray, base: Location | None) -> pa.ChunkedArray:
    """Keys below a base, or else in their bucket. Raises InvalidEntriesError for addresses outside of the base."""
    if base is None:
        is_local = pc.starts_with(addresses, "file://")
        keys = pc.replace_substring_regex(addresses, "^(file:///+|[a-z0-9]+://[^/]*/)", "")
        return pc.if_else(is_local, _unescaped(keys), keys)
    root = base.url.rstrip("/") + "/"
    _refuse(addresses, pc.invert(pc.starts_with(addresses, root)), f"are not below {base}")
    keys = pc.utf8_slice_codeunits(addresses, len(root))
    return _unescaped(keys) if base.scheme == "file" else keys


def _unescaped(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.replace_substring(keys, "%25", "%")


def _refuse(addresses: pa.ChunkedArray, wrong: pa.ChunkedArray, problem: str) -> None:
    named = addresses.filter(wrong)
    if len(named):
        shown = ", ".join(repr(address)[:120] for address in named[:_SHOWN].to_pylist())
        raise InvalidEntriesError(f"{len(named)} addresses of the listing {problem}: {shown}; nothing was changed")


def _flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
