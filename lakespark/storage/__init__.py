"""Bytes by URL. Every byte that lakespark reads or writes in process passes through a ``Store``."""

from __future__ import annotations

from typing import Any

from lakespark.storage.local import LocalStore
from lakespark.storage.location import Location, parse_location
from lakespark.storage.options import StorageOptions
from lakespark.storage.store import PresignedUrl, Store, Writer

__all__ = ["Location", "PresignedUrl", "StorageOptions", "Store", "Writer", "open_store", "parse_location"]


def open_store(location: Location | str, **options: Any) -> Store:
    """Open the store at a location. ``options``: the fields of StorageOptions. Nothing is asked of the store yet.

    A local folder need not exist yet: writing makes it. ``memory://name`` lives as long as the process; the
    same name is the same store. Raises BadRequestException for options that cannot be.
    """
    known = StorageOptions.of(options)
    if isinstance(location, str):
        location = parse_location(location)
    if location.scheme == "file":
        return LocalStore(location, durable=bool(known.durable))
    from lakespark.storage.object_store import ObjectStore  # noqa: PLC0415 - a local lake does without

    return ObjectStore(location, known)
