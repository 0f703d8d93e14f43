"""Objects of a store: all below a prefix, or one of them. Their contents are not read."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakespark.algebra import imports as imports_sql
from lakespark.engine import Frame
from lakespark.operations.data_files import folder_prefix
from lakespark.operations.imports.found import Finding, check_outside
from lakespark.operations.imports.store_reader import file_at
from lakespark.operations.opened import OpenRepository
from lakespark.storage import Location


@dataclass(frozen=True)
class Prefix:
    """Every object below a location, as below a folder, to its relative key below ``destination``."""

    location: Location
    destination: str

    @property
    def replaces(self) -> str | None:
        """The destination becomes what lies below the location."""
        return folder_prefix(self.destination)

    def most_objects(self, _repository: OpenRepository) -> int | None:
        """Nobody knows before they are listed."""
        return None

    def rows(self, finding: Finding) -> Frame:
        """List it. Raises ObjectNotFoundException if there is nothing at all."""
        check_outside(finding.repository, self.location)
        files = finding.reader.files_below(self.location)
        return _rows(finding, files, self.location, folder_prefix(self.destination))

    def __str__(self) -> str:
        return self.location.url


@dataclass(frozen=True)
class SingleObject:
    """One object, to the path ``destination``."""

    location: Location
    destination: str

    @property
    def replaces(self) -> str | None:
        """Nothing but the object of that path."""
        return None

    def most_objects(self, _repository: OpenRepository) -> int:
        """One."""
        return 1

    def rows(self, finding: Finding) -> Frame:
        """Look it up. Raises ObjectNotFoundException."""
        check_outside(finding.repository, self.location)
        file = file_at(finding.repository, self.location)
        finding.on_found(1)
        return _rows(finding, finding.run.frame(file), self.location, self.destination)

    def __str__(self) -> str:
        return self.location.url


def _rows(finding: Finding, files: Frame, root: Location, destination: str) -> Frame:
    parameters = pa.table(
        {
            "destination": [destination],
            "root": [root.url.rstrip("/")],
            "percent": ["%25" if root.scheme == "file" else "%"],
        }
    )
    return finding.run.query(imports_sql.STORED, files=files, parameters=finding.run.frame(parameters))
