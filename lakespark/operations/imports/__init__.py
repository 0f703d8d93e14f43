"""Import of objects that are in a store already: what is found where, and one commit that links all of it."""

from lakespark.operations.imports.delta import DeltaFiles
from lakespark.operations.imports.found import Finding, Found, Reader, Source, find, most_objects
from lakespark.operations.imports.landing import VERB, Landed, land, repeated
from lakespark.operations.imports.listings import Listing
from lakespark.operations.imports.store_reader import StoreReader
from lakespark.operations.imports.stores import Prefix, SingleObject

__all__ = [
    "VERB",
    "DeltaFiles",
    "Finding",
    "Found",
    "Landed",
    "Listing",
    "Prefix",
    "Reader",
    "SingleObject",
    "Source",
    "StoreReader",
    "find",
    "land",
    "most_objects",
    "repeated",
]
