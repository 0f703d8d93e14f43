"""Import of objects that are in a store already: what is found where, and one commit that links all of it."""

from lakespark.operations.imports.delta import DeltaFiles
from lakespark.operations.imports.found import Found, Source
from lakespark.operations.imports.landing import Landed, land
from lakespark.operations.imports.listings import Listing
from lakespark.operations.imports.stores import Prefix, SingleObject

__all__ = ["DeltaFiles", "Found", "Landed", "Listing", "Prefix", "SingleObject", "Source", "land"]
