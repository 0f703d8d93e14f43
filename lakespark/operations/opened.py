"""The parts of one open repository, shared by all handles on it."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Mapping
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from lakespark.errors import BadRequestException
from lakespark.model import CommitRecord, FileRef
from lakespark.storage import Location, Store, open_store, parse_location
from lakespark.tables.ledger import Ledger
from lakespark.tables.staging import StagingTable, new_token

if TYPE_CHECKING:
    from lakespark.engine import Engine
    from lakespark.engine.duckdb import DuckDBEngine
    from lakespark.tree.metarange import Metarange, RangeRef

EngineName = Literal["auto", "duckdb", "spark"]
SPARK_ENTRIES = 5_000_000
"""``engine="auto"`` takes Spark, if there is a session, when more entries than this stand in differing ranges."""

_TREES_KEPT = 64
_STAGING_TABLES_KEPT = 256


class OpenRepository:
    """Store, ledger, staging tables and engines of one repository. Safe to share between threads."""

    def __init__(
        self, store: Store, *, user: str, spark: Any = None, engine: EngineName = "auto", options: dict[str, Any]
    ) -> None:
        self.store = store
        self.user = user
        self.ledger = Ledger(store, user=user)
        self._spark_session = spark
        self._engine_name: EngineName = engine
        self._options = options
        self._lock = threading.Lock()
        self._staging: dict[str, StagingTable] = {}
        self._foreign: dict[str, Store] = {}
        self._written_trees: dict[FileRef, Metarange] = {}
        self._trees = lru_cache(maxsize=_TREES_KEPT)(self._read_tree)

    # -- settings ------------------------------------------------------------------------------------------

    @property
    def default_branch(self) -> str:
        """Name of the branch that cannot be deleted."""
        return self.ledger.settings()["default_branch"]

    # -- trees ---------------------------------------------------------------------------------------------

    def tree(self, record: CommitRecord) -> Metarange:
        """The tree of a commit. Raises MissingFileError or CorruptFileError naming its metarange."""
        return self._trees(record.metarange)

    def _read_tree(self, ref: FileRef) -> Metarange:
        from lakespark.tree.metarange import read_metarange  # noqa: PLC0415 - `log` needs no tree

        written = self._written_trees.pop(ref, None)
        return written if written is not None else read_metarange(self.store, ref)

    def write_tree(self, tree: Metarange) -> FileRef:
        """Write a tree for a commit of the operation that is being decided; it is there when that lands."""
        from lakespark.tree.metarange import write_metarange  # noqa: PLC0415 - `log` needs no tree

        ref = write_metarange(self.ledger.put_soon, tree)
        self._written_trees[ref] = tree
        while len(self._written_trees) > _TREES_KEPT:
            self._written_trees.pop(next(iter(self._written_trees)), None)
        return ref

    # -- staging -------------------------------------------------------------------------------------------

    def staging(self, token: str) -> StagingTable:
        """The shared handle on a token's staging table."""
        with self._lock:
            table = self._staging.get(token)
            if table is None:
                while len(self._staging) >= _STAGING_TABLES_KEPT:
                    self._staging.pop(next(iter(self._staging)))
                table = self._staging[token] = StagingTable(self.store, token)
            return table

    def new_staging(self) -> str:
        """A fresh token with its table, which is there when the operation lands that is being decided."""
        token = new_token()
        self.ledger.background.start(self.staging(token).create)
        return token

    # -- engines -------------------------------------------------------------------------------------------

    @cached_property
    def local_engine(self) -> DuckDBEngine:
        """The in-process engine."""
        from lakespark.engine.duckdb import DuckDBEngine  # noqa: PLC0415 - slow to import

        return DuckDBEngine(self.store, self.ledger.background)

    def _spark_engine(self) -> Engine:
        from lakespark.engine.spark import SparkEngine  # noqa: PLC0415 - needs pyspark

        return SparkEngine(self.spark_session, self.store)

    @property
    def spark_session(self) -> Any:
        """The session that the caller passed. Raises BadRequestException if none was."""
        if self._spark_session is None:
            raise BadRequestException("engine='spark' needs a session: pass spark=<SparkSession> to the lake")
        return self._spark_session

    def is_spark(self, name: EngineName | None = None) -> bool:
        """Whether Spark was asked for by name: in a call, or else for the whole lake."""
        return (name or self._engine_name) == "spark"

    def engine(
        self, name: EngineName | None = None, ranges: tuple[RangeRef, ...] = (), rows: int | None = None
    ) -> Engine:
        """The engine for work on ``ranges``, by name or, for ``auto``, by the number of their entries.

        ``rows``: no more than so many are laid over the ranges, and most of these stay unread if that is few.
        """
        name = name or self._engine_name
        if name == "auto":
            name = "spark" if self._spark_session is not None and is_large(ranges, rows) else "duckdb"
        if name == "duckdb":
            return self.local_engine
        if name == "spark":
            self.ledger.background.settle()  # Spark reads the store itself
            return self._spark_engine()
        raise BadRequestException(f"unknown engine {name!r}: use 'auto', 'duckdb' or 'spark'")

    # -- contents ------------------------------------------------------------------------------------------

    def contents(self, physical_address: str) -> tuple[Store, str]:
        """The store and key of a physical address: relative to the namespace, or a full URL."""
        if "://" not in physical_address:
            return self.store, physical_address
        location = parse_location(physical_address)
        if location.scheme == "file":
            folder, _, name = location.path.rpartition("/")
            return open_store(Location("file", "", folder or "/")), name
        key = physical_address.split("://", 1)[1].partition("/")[2]  # as it is: a key may end with a slash
        return self.foreign_store(Location(location.scheme, location.bucket, "")), key

    def foreign_store(self, location: Location) -> Store:
        """The store at a location outside the namespace, with the lake's options; one client for each of them."""
        with self._lock:
            store = self._foreign.get(location.url)
            if store is None:
                store = self._foreign[location.url] = open_store(location, **self._options)
            return store

    @property
    def options(self) -> Mapping[str, Any]:
        """What the lake's stores are opened with: credentials, endpoint and so on."""
        return MappingProxyType(self._options)

    def full_address(self, physical_address: str) -> str:
        """A physical address as a full URL."""
        if "://" in physical_address:
            return physical_address
        return self.store.location.child(physical_address).url

    def relative_address(self, physical_address: str) -> str:
        """A physical address as it is stored: relative where it lies inside the namespace."""
        if "://" not in physical_address:
            return physical_address
        found, root = parse_location(physical_address), self.store.location
        start = f"{root.path}/" if root.path else ""
        is_inside = (found.scheme, found.bucket) == (root.scheme, root.bucket) and found.path.startswith(start)
        return found.path[len(start) :] if is_inside else physical_address


def is_large(ranges: tuple[RangeRef, ...], rows: int | None = None) -> bool:
    """Whether there may be more than ``SPARK_ENTRIES`` entries to work on. ``rows``: as ``OpenRepository.engine``.

    A row touches two ranges if it deletes a cut, else one.
    """
    counts = [ref.count for ref in ranges]
    return (sum(counts) if rows is None else rows + sum(heapq.nlargest(2 * rows, counts))) > SPARK_ENTRIES
