"""Import of objects that are in a store already into a branch, without copying them: one commit, or nothing."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

import pyarrow as pa

from lakespark.errors import BadRequestException, ImportManagerException, describe
from lakespark.model import Commit
from lakespark.names import check_path, check_text
from lakespark.operations import imports, protection
from lakespark.operations.commit import idempotent
from lakespark.operations.imports.found import SKIPPED_SCHEMA
from lakespark.operations.imports.listings import listing_of
from lakespark.operations.merge import check_clean
from lakespark.operations.opened import EngineName
from lakespark.operations.resolve import commit_record
from lakespark.storage import parse_location

if TYPE_CHECKING:
    from lakespark.engine import Engine
    from lakespark.repository import Repository

_POLL = timedelta(seconds=2)


class ImportFailure(NamedTuple):
    """Why an import failed: the error's kind and message."""

    kind: str
    message: str


ImportStep = Literal["finding", "writing", "done", "failed"]
"""What an import is at: looking for objects and checking them, or writing the tree that has them."""


class ImportStatus(NamedTuple):
    """How far an import is, with the SDK's fields first.

    ``ingested_objects`` counts what is found, and then what is imported. ``skipped``: an Arrow table (address, reason)
    of the first 100,000 of ``skipped_objects`` that no path can stand for. ``is_up_to_date``: the branch had all of it
    already, so that there is no new commit; ``commit`` is then the branch's head. ``is_repeated``: the import was done
    before under its idempotency key, by ``commit``; it has looked for nothing.
    """

    completed: bool
    update_time: datetime
    ingested_objects: int
    metarange_id: str | None = None
    commit: Commit | None = None
    error: ImportFailure | None = None
    skipped: pa.Table = pa.Table.from_batches([], schema=SKIPPED_SCHEMA)  # not empty_table(), which imports pandas
    is_up_to_date: bool = False
    skipped_objects: int = 0
    step: ImportStep = "finding"
    is_repeated: bool = False


OnStatus = Callable[[ImportStatus], None]
"""Called by the thread of the import after every 1,000 objects that the store lists, or when Spark has read and checked
all of them, and with the begin of each step. Raising stops the import."""


class ImportManager:
    """Collects what to import, then imports it: everything in one commit on a branch without uncommitted changes.

    Prefixes and Delta tables replace what is below their destinations, as a lakeFS import does; objects and
    listings add to it. Objects outside the repository are never deleted or changed.
    """

    def __init__(
        self,
        repository: Repository,
        branch_id: str,
        commit_message: str = "",
        commit_metadata: Mapping[str, str] | None = None,
        *,
        on_status: OnStatus | None = None,
        engine: EngineName | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        self._repository = repository
        self._branch = branch_id
        self._message = check_text(commit_message or "", "a commit message")
        self._metadata = dict(commit_metadata or {})
        self._on_status = on_status
        self._engine = engine
        idempotent(idempotency_key, imports.VERB, branch_id)
        self._key = idempotency_key
        self._sources: list[imports.Source] = []
        self._run: _Run | None = None

    @property
    def import_id(self) -> str | None:
        """Id of the import that was started last, or None."""
        return None if self._run is None else self._run.id

    def prefix(self, object_store_uri: str | os.PathLike[str], destination: str) -> ImportManager:
        """Add every object below a location; their keys below it become paths below ``destination``."""
        return self._add(imports.Prefix(parse_location(object_store_uri), _text(destination)))

    def object(self, object_store_uri: str | os.PathLike[str], destination: str) -> ImportManager:
        """Add one object, which becomes the path ``destination``."""
        return self._add(imports.SingleObject(parse_location(object_store_uri), check_path(destination)))

    def listing(
        self, listing: str | os.PathLike[str] | pa.Table, destination: str = "", *, base: str | None = None
    ) -> ImportManager:
        """Add the objects of a listing: an Arrow table, a Parquet or CSV file, or a folder of such files.

        It has columns ``address`` (or S3's ``bucket`` and ``key``), ``size`` and ``checksum`` (or ``e_tag``), and
        optionally ``path`` and ``mtime``. Without a path it is the key below ``base``, or else in the bucket.
        """
        location = None if base is None else parse_location(base)
        return self._add(listing_of(listing, _text(destination), location))

    def delta_table(self, uri: str | os.PathLike[str], destination: str) -> ImportManager:
        """Add the current files of a Delta table, with its schema and their statistics."""
        return self._add(imports.DeltaFiles(parse_location(uri), _text(destination)))

    def start(self) -> str:
        """Start the import in the background; its id. Raises ImportManagerException while one is under way."""
        self._check_idle("start")
        if not self._sources:
            raise BadRequestException("there is nothing to import: add a prefix, object, listing or Delta table first")
        self._run = _Run(self._import, self._on_status)
        return self._run.id

    def wait(self, poll_interval: timedelta | None = _POLL) -> ImportStatus:
        """Wait for the import to end. Raises ImportManagerException with the cause if it failed."""
        run = self._started("wait for")
        while run.thread.is_alive():
            run.thread.join((poll_interval or _POLL).total_seconds())
        if run.failure is not None:
            raise ImportManagerException(f"the import into {self._branch!r} failed: {run.failure}") from run.failure
        return run.status

    def run(self, poll_interval: timedelta | None = None) -> ImportStatus:
        """Start, and wait. An interrupt cancels the import."""
        self.start()
        try:
            return self.wait(poll_interval)
        except KeyboardInterrupt:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Stop the import; when this returns it has ended, and nothing was changed.

        Raises ImportManagerException if there is none, or if it is complete already.
        """
        run = self._started("cancel")
        run.is_cancelled.set()
        run.thread.join()
        if run.status.commit is not None:
            raise ImportManagerException(f"the import is complete already: it is commit {run.status.commit.id}")

    def status(self) -> ImportStatus:
        """How far the import is. Raises ImportManagerException if none was started."""
        return self._started("ask for the status of").status

    def _add(self, source: imports.Source) -> ImportManager:
        self._check_idle("add to")
        self._sources.append(source)
        return self

    def _check_idle(self, verb: str) -> None:
        if self._run is not None and self._run.thread.is_alive():
            raise ImportManagerException(f"cannot {verb} the import: it is under way")

    def _started(self, verb: str) -> _Run:
        if self._run is None:
            raise ImportManagerException(f"cannot {verb} the import: none was started")
        return self._run

    def _import(self, run: _Run) -> imports.Landed:
        opened = self._repository.opened
        landed = imports.repeated(opened, self._branch, self._key)
        if landed is not None:
            return landed
        state = check_clean(opened, self._branch).state  # now, rather than after a long listing
        protection.check(opened, self._branch, state, "commit")
        base = opened.tree(commit_record(opened, state.commit_id))
        engine = opened.engine(self._engine, base.ranges, imports.most_objects(self._sources, opened))
        found = imports.find(self._sources, imports.Finding(opened, engine, self._reader(engine, run), run.found))
        run.checked(found)
        return imports.land(
            opened,
            self._branch,
            engine,
            found.entries,
            [source.replaces for source in self._sources if source.replaces is not None],
            message=self._message or f"Import {found.taken:,} object{'s' * (found.taken != 1)}",
            metadata=self._metadata,
            sources=", ".join(map(str, self._sources)),
            proceed=run.check,
            idempotency_key=self._key,
        )

    def _reader(self, engine: Engine, run: _Run) -> imports.Reader:
        opened = self._repository.opened
        if engine is opened.local_engine:
            return imports.StoreReader(opened, run.found)
        from lakespark.spark.listing import SparkReader  # noqa: PLC0415 - needs pyspark

        return SparkReader(opened.spark_session, engine, opened, run.found)


class _Run:
    """One import under way, in a thread of its own."""

    def __init__(self, work: Callable[[_Run], imports.Landed], on_status: OnStatus | None) -> None:
        self.id = secrets.token_hex(10)
        self.is_cancelled = threading.Event()
        self.failure: BaseException | None = None
        self.status = ImportStatus(completed=False, update_time=datetime.now(UTC), ingested_objects=0)
        self._on_status = on_status
        self.thread = threading.Thread(target=self._work, args=(work,), name=f"lakespark-import-{self.id}")
        self.thread.start()

    def found(self, count: int) -> None:
        """Count so many more objects. Raises ImportManagerException if the import was cancelled."""
        self.check()
        self._tell(ingested_objects=self.status.ingested_objects + count)

    def checked(self, found: imports.Found) -> None:
        """Note how many objects there are to import, and what cannot be."""
        self.check()
        self._tell(step="writing", ingested_objects=found.taken, skipped=found.skipped, skipped_objects=found.left_out)

    def check(self) -> None:
        """Raises ImportManagerException if the import was cancelled."""
        if self.is_cancelled.is_set():
            raise ImportManagerException("it was cancelled; nothing was changed")

    def _work(self, work: Callable[[_Run], imports.Landed]) -> None:
        try:
            landed = work(self)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self.failure = error
            known = describe(error)
            failure = ImportFailure(known["kind"], known["message"])
            self.status = self._next(completed=True, step="failed", error=failure)
            return
        commit = landed.record.commit
        self.status = self._next(
            completed=True,
            step="done",
            metarange_id=commit.meta_range_id,
            commit=commit,
            is_up_to_date=not landed.is_new,
            is_repeated=landed.is_repeated,
        )

    def _next(self, **changed: object) -> ImportStatus:
        return self.status._replace(update_time=datetime.now(UTC), **changed)  # type: ignore[arg-type]

    def _tell(self, **changed: object) -> None:
        self.status = self._next(**changed)
        if self._on_status is not None:
            self._on_status(self.status)


def _text(destination: str) -> str:
    return check_text(destination, "a destination")
