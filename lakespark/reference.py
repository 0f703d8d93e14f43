"""A reference: a ref expression of a repository, to read from, compare and merge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakespark import html
from lakespark.entries import ENTRY_SCHEMA
from lakespark.model import Change, Commit, CommonPrefix, ObjectInfo, PathType
from lakespark.objects import StoredObject, object_infos
from lakespark.operations import diff as diffs
from lakespark.operations import history, listing
from lakespark.operations import merge as merges
from lakespark.operations.history import LogQuery
from lakespark.operations.merge import Outcome, Wanted
from lakespark.operations.opened import EngineName
from lakespark.operations.resolve import resolve
from lakespark.operations.three_way import Strategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakespark.repository import Repository


class MergeResult(str):
    """The id of a merge commit, as a str, with what is known of the merge.

    ``commit``: the Commit. ``bases``: ids of the best merge bases. ``conflicts``: an Arrow table of the conflicts
    that the strategy decided (see ``MergeConflictError``). ``is_repeated``: it was made before, under the same
    idempotency key; which conflicts were decided then is not known.
    """

    __slots__ = ("bases", "commit", "conflicts", "is_repeated")
    commit: Commit
    bases: tuple[str, ...]
    conflicts: pa.Table
    is_repeated: bool

    @classmethod
    def of(cls, outcome: Outcome) -> MergeResult:
        """The result of a landed merge."""
        result = cls(outcome.record.commit.id)
        result.commit = outcome.record.commit
        result.bases = tuple(record.commit.id for record in outcome.bases)
        result.conflicts = outcome.conflicts
        result.is_repeated = outcome.is_repeated
        return result

    def _repr_html_(self) -> str:
        return html.merge(self.commit, self.bases, self.conflicts).html


class Reference:
    """A ref expression: a commit id, branch or tag with ``~N``, ``^N`` or ``@``. Making one reads nothing."""

    def __init__(self, repository: Repository, reference_id: str) -> None:
        self._repository = repository
        self._id = reference_id

    @property
    def repo_id(self) -> str:
        """Id of the repository."""
        return self._repository.id

    @property
    def repository(self) -> Repository:
        """The handle that this one was made by."""
        return self._repository

    @property
    def id(self) -> str:
        """The ref expression."""
        return self._id

    def __str__(self) -> str:
        return self._id

    def __repr__(self) -> str:
        return f"{type(self).__name__}(repository={self._repository.label!r}, id={self._id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and (self.repo_id, self._id) == (other.repo_id, other._id)

    def __hash__(self) -> int:
        return hash((self.repo_id, self._id))

    def get_commit(self) -> Commit:
        """The commit that the ref stands for now. Raises RefNotFoundError."""
        return resolve(self._repository.opened, self._id).record.commit

    def object(self, path: str) -> StoredObject:
        """The object at a path, to read."""
        return StoredObject(self._repository, self._id, path)

    def objects(
        self,
        max_amount: int | None = None,
        after: str | None = None,
        prefix: str | None = None,
        delimiter: str | None = None,
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        """Objects in order of path (UTF-8 bytes), uncommitted ones of a branch included.

        With a delimiter, what has it after the prefix is one CommonPrefix. ``after`` is exclusive.
        """
        left = max_amount
        for page in self._pages(after, prefix, delimiter):
            rows = page if left is None else page.slice(0, left)
            yield from _infos(self._repository, rows)
            if left is not None:
                left -= rows.num_rows
                if left <= 0:
                    return

    def objects_table(self, after: str | None = None, prefix: str | None = None) -> pa.Table:
        """The same listing without a delimiter as one Arrow table of entries (``lakespark.entries``)."""
        pages = list(self._pages(after, prefix, None))
        return pa.concat_tables(pages) if pages else ENTRY_SCHEMA.empty_table()

    def log(
        self,
        max_amount: int | None = None,
        *,
        objects: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        since: int | None = None,
        stop_at: str | Reference | None = None,
        first_parent: bool = False,
    ) -> Iterator[Commit]:
        """Commits from here down, a child always before its parents, otherwise the newest first.

        ``objects`` and ``prefixes`` keep commits that changed one of these against their first parent; ``since``
        those of that unix second or later; ``stop_at`` is the last one shown.
        """
        stop = None if stop_at is None else str(stop_at)
        query = LogQuery(tuple(objects), tuple(prefixes), since, stop, first_parent, max_amount)
        for record in history.log(self._repository.opened, self._id, query):
            yield record.commit

    def diff(
        self,
        other_ref: str | Reference,
        max_amount: int | None = None,
        after: str | None = None,
        prefix: str | None = None,
        delimiter: str | None = None,
        *,
        type: diffs.DiffType = "three_dot",  # noqa: A002 - the name of the API
        engine: EngineName | None = None,
    ) -> Iterator[Change]:
        """What ``other_ref`` has changed: ``three_dot`` since the merge base, ``two_dot`` against this ref.

        With a delimiter, what has it after the prefix is one change of type ``prefix_changed``.
        """
        rows = self.diff_table(other_ref, prefix, type=type, engine=engine)
        yield from as_changes(rows, max_amount, after, prefix, delimiter)

    def diff_table(
        self,
        other_ref: str | Reference,
        prefix: str | None = None,
        *,
        type: diffs.DiffType = "three_dot",  # noqa: A002 - the name of the API
        engine: EngineName | None = None,
    ) -> pa.Table:
        """The same as an Arrow table ``path, type, size_bytes`` in order of path."""
        opened = self._repository.opened
        return diffs.diff(opened, self._id, str(other_ref), kind=type, prefix=prefix or "", engine=engine)

    def read(
        self,
        spark: SparkSession,
        prefix: str,
        *,
        format: str | None = None,  # noqa: A002 - Spark's word
        schema: StructType | str | None = None,
        where: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """The files below a prefix as a DataFrame over the physical files; nothing is copied.

        Partition columns come from the logical paths, of the types recorded at write, else text; ``schema``
        overrides. ``where``: an SQL predicate on partition columns that prunes files. Columns are found by name,
        missing ones are null. A later commit does not change a DataFrame that is in hand. A prefix with a Delta
        table inside is read as that table at this ref. Raises ObjectNotFoundException, BadRequestException.
        """
        from lakespark.spark import read as spark_read  # noqa: PLC0415 - needs pyspark

        opened = self._repository.opened
        at = resolve(opened, self._id)
        return spark_read.read(
            opened, spark, at, prefix, format=format, schema=schema, where=where, options=options or {}
        )

    def view(self, spark: SparkSession, prefix: str, *, name: str, **how: Any) -> DataFrame:
        """As ``read``, and registered as a temporary view for SQL under ``name``."""
        df = self.read(spark, prefix, **how)
        df.createOrReplaceTempView(name)
        return df

    def merge_into(
        self,
        destination_branch: str | Reference,
        *,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        strategy: Strategy | None = None,
        squash: bool = False,
        squash_merge: bool = False,
        allow_empty: bool = False,
        resolutions: Mapping[str, Any] | pa.Table | None = None,
        committer: str | None = None,
        date: int | None = None,
        engine: EngineName | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Merge this ref into a branch without uncommitted changes; the id of the merge commit.

        ``strategy``: ``source-wins`` or ``dest-wins`` for all conflicts. ``resolutions``: a mapping or Arrow table
        from path to ``source``, ``destination``, ``base``, ``deleted`` or an entry; it decides its paths whatever
        the sides did. ``squash`` (or the SDK's ``squash_merge``): a commit with the destination as its only
        parent. ``idempotency_key``: repeated with the same one, the merge answers with what it did the first time.
        Raises MergeConflictError with all conflicts, DirtyBranchError, NothingToMergeError.
        """
        wanted = Wanted(
            message=message,
            metadata=metadata,
            committer=committer,
            date=date,
            strategy=strategy,
            resolutions=resolutions,
            allow_empty=allow_empty,
            engine=engine,
            idempotency_key=idempotency_key,
        )
        opened = self._repository.opened
        outcome = merges.merge(opened, self._id, str(destination_branch), wanted, squash=squash or squash_merge)
        return MergeResult.of(outcome)

    def _pages(self, after: str | None, prefix: str | None, delimiter: str | None) -> Iterator[pa.Table]:
        opened = self._repository.opened
        at = resolve(opened, self._id)
        if delimiter:
            return listing.folders(opened, at, prefix=prefix or "", after=after or "", delimiter=delimiter)
        return listing.entries(opened, at, prefix=prefix or "", after=after or "")


def as_changes(
    rows: pa.Table, max_amount: int | None, after: str | None, prefix: str | None, delimiter: str | None
) -> Iterator[Change]:
    """Rows of a diff as values: folded by a delimiter, above ``after``, at most so many."""
    if delimiter:
        rows = diffs.grouped(rows, prefix or "", delimiter)
    rows = diffs.above(rows, after or "").slice(0, max_amount)
    for row in rows.to_pylist():
        kind: PathType = "common_prefix" if row["type"] == "prefix_changed" else "object"
        yield Change(row["type"], row["path"], kind, row["size_bytes"], row.get("written_by"), row.get("written_at"))


def _infos(repository: Repository, rows: pa.Table) -> Iterator[ObjectInfo | CommonPrefix]:
    infos = object_infos(repository, rows)
    if "folder" not in rows.column_names:
        return infos
    folders = rows["folder"].to_pylist()
    return (info if folder is None else CommonPrefix(folder) for info, folder in zip(infos, folders, strict=True))
