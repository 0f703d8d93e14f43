"""A branch: a reference with a staging area, to write to and commit."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa

from lakespark import data_writes
from lakespark.errors import BadRequestException, ConflictException, LakesparkError, TransactionException
from lakespark.import_manager import ImportManager, OnStatus
from lakespark.model import Change, Commit, RefChange
from lakespark.names import check_path
from lakespark.objects import StoredObject, WriteableObject
from lakespark.operations import commit as commits
from lakespark.operations import data_files, incoming, refs, undo, writes
from lakespark.operations import diff as diffs
from lakespark.operations import merge as merges
from lakespark.operations.data_sets import WriteMode
from lakespark.operations.merge import Wanted
from lakespark.operations.merge_many import merge_many
from lakespark.operations.opened import EngineName
from lakespark.operations.resolve import branch_state
from lakespark.operations.three_way import Strategy
from lakespark.reference import MergeResult, Reference, as_changes
from lakespark.tables.staging import staged_rows, staged_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakespark.repository import Repository


class _StagingBranch(Reference):
    """What a branch and a transaction share: the staging area."""

    def object(self, path: str) -> WriteableObject:
        """The object at a path, to read and write."""
        return WriteableObject(self._repository, self._id, path)

    def uncommitted(
        self,
        max_amount: int | None = None,
        after: str | None = None,
        prefix: str | None = None,
        delimiter: str | None = None,
    ) -> Iterator[Change]:
        """Uncommitted changes in order of path, with who wrote them and when (unix seconds)."""
        yield from as_changes(self.uncommitted_table(prefix), max_amount, after, prefix, delimiter)

    def uncommitted_table(self, prefix: str | None = None) -> pa.Table:
        """The same as an Arrow table ``path, type, size_bytes, written_by, written_at``."""
        return diffs.uncommitted(self._repository.opened, self._id, prefix=prefix or "")

    def delete_objects(self, object_paths: str | StoredObject | Iterable[str | StoredObject]) -> None:
        """Delete objects, all in one staged batch. Paths without an object are no error."""
        if isinstance(object_paths, str | StoredObject):
            object_paths = [object_paths]
        paths = [path.path if isinstance(path, StoredObject) else check_path(path) for path in object_paths]
        if paths:
            opened = self._repository.opened
            rows = staged_rows([{"op": "delete", "path": path} for path in paths], user=opened.user)
            writes.append(opened, self._id, rows)

    def stage(self, entries: pa.Table) -> int:
        """Link objects that are in the store already, without reading them; the number of entries.

        ``entries`` has path, physical_address, size_bytes, checksum and optionally mtime, content_type, metadata.
        Physical addresses are full URLs, or relative to the storage namespace. Raises InvalidEntriesError.
        """
        opened = self._repository.opened
        table = incoming.entries_from(opened, entries)
        if table.num_rows:
            writes.append(opened, self._id, staged_table(table, user=opened.user))
        return int(table.num_rows)

    def write(
        self,
        data: DataFrame | pa.Table,
        prefix: str,
        *,
        format: str = "parquet",  # noqa: A002 - Spark's word
        mode: WriteMode = "error",
        replace_where: str | None = None,
        partition_by: str | Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> int:
        """Write a Spark DataFrame or an Arrow table as files below a prefix; the number of files.

        ``mode``: ``error`` wants an empty prefix, ``append`` adds, ``overwrite`` replaces what is below the prefix,
        ``overwrite_partitions`` the partitions that the data has. ``replace_where``: an SQL predicate on the
        partition columns that says what to replace instead. All files are staged in one batch, or none. ``format``
        (parquet, orc, csv, json, text) and ``options`` are Spark's; an Arrow table is written as Parquet.
        """
        columns = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        request = data_writes.Request(
            data_files.folder_prefix(prefix), format, mode, replace_where, columns, options or {}
        )
        return data_writes.write(self._repository.opened, self._id, data, request)

    def reset_changes(
        self,
        path_type: Literal["common_prefix", "object", "reset"] = "reset",
        path: str | None = None,
    ) -> None:
        """Undo what is staged: everything, what starts with a prefix, or one object."""
        if path_type == "reset":
            refs.reset(self._repository.opened, self._id, op="reset-prefix", path="")
        elif path is None:
            raise BadRequestException(f"resetting a {path_type} needs a path")
        elif path_type == "common_prefix":
            refs.reset(self._repository.opened, self._id, op="reset-prefix", path=path)
        elif path_type == "object":
            refs.reset(self._repository.opened, self._id, op="reset", path=check_path(path))
        else:
            raise BadRequestException(f"unknown path type {path_type!r}: use 'reset', 'common_prefix' or 'object'")


class Branch(_StagingBranch):
    """A branch. Making one reads nothing; ``create`` makes it in the repository."""

    def create(
        self,
        source_reference: str | Reference,
        exist_ok: bool = False,  # noqa: FBT001, FBT002 - the SDK's signature
        *,
        hidden: bool = False,
        idempotency_key: str | None = None,
    ) -> Branch:
        """Create the branch at a ref expression. Raises NameTakenError unless ``exist_ok``.

        ``idempotency_key``: repeated with the same one, nothing is done.
        """
        refs.create_branch(
            self._repository.opened,
            self._id,
            str(source_reference),
            hidden=hidden,
            exist_ok=exist_ok,
            idempotency_key=idempotency_key,
        )
        return self

    def delete(self) -> None:
        """Delete the branch with what is uncommitted on it. Raises ForbiddenException for the default branch."""
        refs.delete_branch(self._repository.opened, self._id)

    def restore(self) -> Branch:
        """Bring the branch back as it was when it was last deleted, with what was uncommitted on it.

        Raises RefNotFoundError if no branch of that name was deleted, NameTakenError.
        """
        undo.restore_branch(self._repository.opened, self._id)
        return self

    @property
    def head(self) -> Reference:
        """The commit that the branch points at now."""
        return Reference(self._repository, branch_state(self._repository.opened, self._id).commit_id)

    def commit(
        self,
        message: str,
        metadata: Mapping[str, str] | None = None,
        *,
        committer: str | None = None,
        date: int | None = None,
        allow_empty: bool = False,
        engine: EngineName | None = None,
        idempotency_key: str | None = None,
    ) -> Reference:
        """Commit what is staged. ``date`` in unix seconds. Raises NothingToCommitError unless ``allow_empty``.

        ``idempotency_key``: repeated with the same one, the commit answers with what it did the first time.
        """
        record = commits.commit(
            self._repository.opened,
            self._id,
            message=message,
            metadata=metadata,
            committer=committer,
            date=date,
            allow_empty=allow_empty,
            engine=engine,
            idempotency_key=idempotency_key,
        )
        return Reference(self._repository, record.commit.id)

    def merge_all(
        self,
        sources: Sequence[str | Reference],
        *,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        strategy: Strategy | None = None,
        allow_empty: bool = False,
        committer: str | None = None,
        date: int | None = None,
        engine: EngineName | None = None,
        idempotency_key: str | None = None,
    ) -> list[MergeResult | None]:
        """Merge many refs into this branch, in their order, as one operation: all of them or none.

        Each gets a merge commit of its own. A result a source; None for one that the branch had all of already.
        For the rest see ``merge_into``. Raises MergeConflictError that names the source it stands for,
        DirtyBranchError, and NothingToMergeError if the branch has everything.
        """
        wanted = Wanted(
            message=message,
            metadata=metadata,
            committer=committer,
            date=date,
            strategy=strategy,
            allow_empty=allow_empty,
            engine=engine,
            idempotency_key=idempotency_key,
        )
        named = sources if isinstance(sources, str) else [str(source) for source in sources]
        outcomes = merge_many(self._repository.opened, named, self._id, wanted)
        return [None if outcome is None else MergeResult.of(outcome) for outcome in outcomes]

    def revert(
        self,
        reference: str | Reference | None = None,
        parent_number: int = 0,
        *,
        reference_id: str | None = None,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        strategy: Strategy | None = None,
        resolutions: Mapping[str, Any] | pa.Table | None = None,
        committer: str | None = None,
        date: int | None = None,
        allow_empty: bool = False,
        engine: EngineName | None = None,
        idempotency_key: str | None = None,
    ) -> Commit:
        """Commit the opposite of a commit, compared with its parent number ``parent_number`` (needed for a merge).

        ``reference_id`` is the SDK's older name of ``reference``. ``idempotency_key``: repeated with the same one, the
        revert answers with what it did the first time.
        """
        reference = reference if reference is not None else reference_id
        if reference is None:
            raise BadRequestException("which commit is to be reverted? Give a ref expression")
        wanted = Wanted(message, metadata, committer, date, strategy, resolutions, allow_empty, engine, idempotency_key)
        opened = self._repository.opened
        return merges.revert(opened, self._id, str(reference), wanted, parent=parent_number).commit

    def cherry_pick(
        self,
        reference: str | Reference,
        parent_number: int | None = None,
        *,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        strategy: Strategy | None = None,
        resolutions: Mapping[str, Any] | pa.Table | None = None,
        committer: str | None = None,
        date: int | None = None,
        allow_empty: bool = False,
        engine: EngineName | None = None,
        idempotency_key: str | None = None,
    ) -> Commit:
        """Commit what a commit did against its parent number ``parent_number`` (needed for a merge).

        ``idempotency_key``: repeated with the same one, the cherry-pick answers with what it did the first time.
        """
        wanted = Wanted(message, metadata, committer, date, strategy, resolutions, allow_empty, engine, idempotency_key)
        opened = self._repository.opened
        return merges.cherry_pick(opened, self._id, str(reference), wanted, parent=parent_number or 0).commit

    def move_to(self, reference: str | Reference, *, expected: str | Reference | None = None) -> Reference:
        """Point the branch at a ref; what is uncommitted stays so.

        ``expected``: where the branch must be for that. Raises RefMovedError if it is elsewhere.
        """
        wanted = None if expected is None else str(expected)
        moved = refs.move_branch(self._repository.opened, self._id, str(reference), expected=wanted)
        return Reference(self._repository, moved)

    def import_data(
        self,
        commit_message: str | None = "",
        metadata: Mapping[str, str] | None = None,
        *,
        on_status: OnStatus | None = None,
        engine: EngineName | None = None,
        idempotency_key: str | None = None,
    ) -> ImportManager:
        """Import objects that are in a store already, without copying them: say what, then ``run()``.

        Everything goes into one commit. With ``engine="spark"`` Spark lists prefixes and writes the tree.
        ``idempotency_key``: repeated with the same one, nothing is looked for, and the first import is answered.
        """
        return ImportManager(
            self._repository,
            self._id,
            commit_message or "",
            metadata,
            on_status=on_status,
            engine=engine,
            idempotency_key=idempotency_key,
        )

    def transact(
        self,
        commit_message: str = "",
        commit_metadata: Mapping[str, str] | None = None,
        delete_branch_on_error: bool = True,  # noqa: FBT001, FBT002 - the SDK's signature
        tag: str | None = None,
    ) -> Transaction:
        """Write all or nothing: a context manager that gives a hidden branch, committed and merged on success."""
        return Transaction(
            self._repository,
            self._id,
            commit_message,
            commit_metadata,
            delete_branch_on_error=delete_branch_on_error,
            tag=tag,
        )


class Transaction(_StagingBranch):
    """A hidden branch off ``source_id`` for the time of a ``with`` block.

    On success it is committed, merged into the branch, the tag put on the merge commit and the hidden branch
    deleted; merge, tag and deletion are one operation. On an error nothing reaches the branch, and the hidden
    branch is deleted unless ``delete_branch_on_error`` is false.
    """

    def __init__(
        self,
        repository: Repository,
        branch_id: str,
        commit_message: str = "",
        commit_metadata: Mapping[str, str] | None = None,
        *,
        delete_branch_on_error: bool = True,
        tag: str | None = None,
    ) -> None:
        super().__init__(repository, f"tx-{int(time.time())}-{secrets.token_hex(8)}")
        self.source_id = branch_id
        self.commit_message = commit_message
        self.commit_metadata = dict(commit_metadata or {})
        self.tag = tag
        self._delete_branch_on_error = delete_branch_on_error

    def __enter__(self) -> Self:
        opened = self._repository.opened
        merges.check_clean(opened, self.source_id)
        if self.tag is not None:
            refs.check_free(opened, self.tag, "tag")
        refs.create_branch(opened, self._id, self.source_id, hidden=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abandon()
            return
        try:
            self._finish()
        except LakesparkError as error:
            self._abandon()
            if isinstance(error, ConflictException):
                raise TransactionException(f"the transaction on {self.source_id!r} was not merged: {error}") from error
            raise

    def _finish(self) -> None:
        opened = self._repository.opened
        if not self.uncommitted_table().num_rows:
            refs.delete_branch(opened, self._id)
            return
        message = self.commit_message or f"Transaction on {self.source_id}"
        commits.commit(opened, self._id, message=message, metadata=self.commit_metadata)
        done = RefChange(self._id, branch_state(opened, self._id), None)
        merges.merge(
            opened, self._id, self.source_id, Wanted(message, self.commit_metadata), also=(done,), tag=self.tag
        )

    def _abandon(self) -> None:
        if self._delete_branch_on_error:
            refs.delete_branch(self._repository.opened, self._id)
