"""Bytes by URL. Every byte that lakespark reads or writes in process passes through a ``Store``."""

from lakespark.storage.location import Location, parse_location
from lakespark.storage.store import ObjectStore, Store, Writer, open_store

__all__ = ["Location", "ObjectStore", "Store", "Writer", "open_store", "parse_location"]
