"""A listing of objects, such as an inventory: an Arrow table, or a file or folder of Parquet or CSV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakespark.algebra import imports as imports_sql
from lakespark.engine import Frame
from lakespark.errors import BadRequestException
from lakespark.operations.data_files import folder_prefix
from lakespark.operations.imports.found import Finding
from lakespark.operations.imports.listing_files import ROW_BYTES, find_files, listing_table
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location, parse_location


@dataclass(frozen=True)
class Listing:
    """The objects of a table or of a file (Parquet, or CSV with a header), or of all such files in a folder.

    A row's path is its column ``path`` or else its key: below ``base`` if that is given, else in its bucket. It is
    put below ``destination``.
    """

    table: pa.Table | None
    location: Location | None
    destination: str
    base: Location | None = None

    @property
    def replaces(self) -> str | None:
        """Nothing but the objects of those paths."""
        return None

    def most_objects(self, repository: OpenRepository) -> int:
        """The rows of the table, or of the files, by their size. Raises ObjectNotFoundException."""
        if self.location is None:
            return 0 if self.table is None else self.table.num_rows
        return find_files(repository, self.location).size_bytes // ROW_BYTES

    def rows(self, finding: Finding) -> Frame:
        """Read the listing. Raises InvalidEntriesError for columns that are missing or hold what cannot be."""
        run = finding.run
        if self.table is not None:
            finding.on_found(self.table.num_rows)
        listing = run.frame(listing_table(self.table)) if self.table is not None else self._read(finding)
        parameters = pa.table(
            {
                "destination": [folder_prefix(self.destination)],
                "base": pa.array([None if self.base is None else self.base.url.rstrip("/")], pa.string()),
                "namespace": [finding.repository.store.location.url],
            }
        )
        return run.query(imports_sql.LISTED, listing=listing, parameters=run.frame(parameters))

    def __str__(self) -> str:
        return "a table" if self.location is None else self.location.url

    def _read(self, finding: Finding) -> Frame:
        if self.location is None:
            raise AssertionError(self)
        return finding.reader.listing(self.location)


def listing_of(listing: Any, destination: str, base: Location | None) -> Listing:
    """A listing from an Arrow table, or from the location of a file or folder."""
    if isinstance(listing, pa.Table):
        return Listing(listing, None, destination, base)
    if isinstance(listing, str) or hasattr(listing, "__fspath__"):
        return Listing(None, parse_location(listing), destination, base)
    raise BadRequestException(f"a listing is an Arrow table or the location of a file, not {type(listing).__name__}")
