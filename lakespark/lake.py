"""A lake: a location with a table of repositories."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakespark.errors import BadRequestException
from lakespark.operations.opened import EngineName, OpenRepository
from lakespark.repository import Repository
from lakespark.storage import StorageOptions, open_store, parse_location
from lakespark.tables.catalog import Catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lake:
    """A lake at a URL or local folder. Making one reads nothing.

    ``user``: who stands behind what is written. ``spark``: the session for large work. ``engine``: ``auto``,
    ``duckdb`` or ``spark``. Further options (credentials, endpoint, ...) are the fields of
    ``lakespark.storage.StorageOptions``. Raises BadRequestException for options that cannot be.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        user: str = "anonymous",
        spark: SparkSession | None = None,
        engine: EngineName = "auto",
        **options: Any,
    ) -> None:
        self._location = parse_location(location)
        self._user = user
        self._spark = spark
        self._engine: EngineName = engine
        StorageOptions.of(options)
        self._options = options

    @property
    def location(self) -> str:
        """Where the lake is: a local path, or a URL."""
        return str(self._location)

    def __repr__(self) -> str:
        return f"Lake({self.location!r}, user={self._user!r})"

    @cached_property
    def catalog(self) -> Catalog:
        """The table of repositories."""
        return Catalog(open_store(self._location, **self._options), user=self._user)

    def repository(self, repository_id: str) -> Repository:
        """A handle on a repository of this lake."""
        return Repository(repository_id, self)

    def repositories(self, prefix: str | None = None, after: str | None = None) -> Iterator[Repository]:
        """Repositories in order of name."""
        for name in self.catalog.repositories():
            if name.startswith(prefix or "") and name > (after or ""):
                yield Repository(name, self)

    def default_namespace(self, repository_id: str) -> str:
        """Where a repository goes if its creator does not say."""
        return str(self._location.child(repository_id))

    def open_namespace(self, storage_namespace: str) -> OpenRepository:
        """The parts of a repository at a namespace, with this lake's user, session and options."""
        store = open_store(parse_location(storage_namespace), **self._options)
        return OpenRepository(store, user=self._user, spark=self._spark, engine=self._engine, options=self._options)


def repository(repository_id: str, lake: Lake | str | os.PathLike[str] | None = None) -> Repository:
    """A handle on a repository of a lake, which has no default. Raises BadRequestException without one."""
    if lake is None:
        raise BadRequestException(
            f"which lake is repository {repository_id!r} in? Pass lake=, a Lake or its location: there is no default"
        )
    return (lake if isinstance(lake, Lake) else Lake(lake)).repository(repository_id)
