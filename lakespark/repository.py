"""A repository: branches, tags and commits over one storage namespace."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from lakespark import html
from lakespark.branch import Branch
from lakespark.errors import BadRequestException, LakesparkError, RepositoryNotFoundError
from lakespark.model import Commit, OperationInfo, ProtectionRule, RefState, RepositoryProperties
from lakespark.names import check_repository
from lakespark.operations import bases, creation, protection, undo
from lakespark.operations.opened import EngineName, OpenRepository
from lakespark.operations.resolve import resolve
from lakespark.operations.undo import LoggedOperation
from lakespark.operations.writes import SharedAppends
from lakespark.reference import Reference
from lakespark.storage import open_store, parse_location
from lakespark.tag import Tag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakespark.inspection import Inspection
    from lakespark.lake import Lake
    from lakespark.operations.fsck.report import FsckReport, OnFsckProgress


class Repository:
    """A repository of a lake, or one opened from its storage namespace. Making one reads nothing."""

    def __init__(self, repository_id: str | None, lake: Lake | None, opened: OpenRepository | None = None) -> None:
        self._id = repository_id
        self._lake = lake
        if opened is not None:
            self.opened = opened
        self.write_id = secrets.token_hex(8)

    @classmethod
    def open(
        cls,
        storage_namespace: str | os.PathLike[str],
        *,
        user: str = "anonymous",
        spark: Any = None,
        engine: EngineName = "auto",
        **options: Any,
    ) -> Repository:
        """Open a repository straight from its storage namespace. Raises RepositoryNotFoundError."""
        store = open_store(parse_location(storage_namespace), **options)
        opened = OpenRepository(store, user=user, spark=spark, engine=engine, options=options)
        creation.check_format(opened)
        return cls(None, None, opened)

    @cached_property
    def opened(self) -> OpenRepository:
        """The parts of the open repository, found through the lake at first use."""
        opened = self._found()
        creation.check_format(opened)
        return opened

    def _found(self) -> OpenRepository:
        """The repository where the lake says it is, whatever is there."""
        if self._lake is None or self._id is None:
            raise RepositoryNotFoundError("this repository handle belongs to no lake")
        namespace = self._lake.catalog.repositories().get(check_repository(self._id))
        if namespace is None:
            raise RepositoryNotFoundError(f"repository {self._id!r} not found in the lake at {self._lake.location}")
        return self._lake.open_namespace(namespace)

    @cached_property
    def shared_appends(self) -> SharedAppends:
        """Where this repository's handles stage single rows."""
        return SharedAppends(self.opened)

    @cached_property
    def id(self) -> str:
        """Name of the repository."""
        return self._id if self._id is not None else self._settings()["name"]

    def __str__(self) -> str:
        return f"lakefs://{self.id}"

    @property
    def label(self) -> str:
        """The name of the repository, or its storage namespace until the name has been asked for: reads nothing."""
        known: str | None = self._id or self.__dict__.get("id")
        return known if known is not None else str(self.opened.store.location)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.label!r})"

    def _repr_html_(self) -> str:
        try:
            properties = self.properties
        except LakesparkError as error:
            return html.absent(self._id or "repository", str(error)).html
        shown = sorted((name, state) for name, state in self.opened.ledger.refs().items() if not state.hidden)
        branches, tags = (
            [(name, state.commit_id) for name, state in shown if state.kind == kind] for kind in ("branch", "tag")
        )
        return html.repository(properties, branches, tags).html

    # -- life ----------------------------------------------------------------------------------------------

    def create(
        self,
        storage_namespace: str | os.PathLike[str] | None = None,
        default_branch: str = "main",
        include_samples: bool = False,  # noqa: FBT001, FBT002 - the SDK's signature
        exist_ok: bool = False,  # noqa: FBT001, FBT002
        *,
        metadata: Mapping[str, str] | None = None,
        range_entries: int | None = None,
    ) -> Repository:
        """Create the repository, or go on with a creation that was interrupted.

        ``storage_namespace`` defaults to a folder of the repository's name in the lake. ``range_entries``: mean
        number of entries of a range. Raises NameTakenError unless ``exist_ok``, NamespaceInUseError.
        """
        if self._lake is None or self._id is None:
            raise RepositoryNotFoundError("a repository is created through a lake: Lake(...).repository(id).create()")
        if include_samples:
            raise BadRequestException("include_samples=True is not supported: there is no sample data")
        check_repository(self._id)
        self.opened = creation.create(
            self._lake.catalog,
            self._lake.open_namespace,
            creation.NewRepository(
                name=self._id,
                lake=self._lake.location,
                namespace=os.fspath(storage_namespace or self._lake.default_namespace(self._id)),
                default_branch=default_branch,
                metadata=dict(metadata or {}),
                range_entries=range_entries,
            ),
            exist_ok=exist_ok,
        )
        return self

    def delete(self) -> None:
        """Take the repository out of its lake. Its contents stay: creating it again there attaches them."""
        name = self.id
        if self._lake is None or self.opened is None:
            raise RepositoryNotFoundError("a repository is deleted through its lake")
        self._lake.catalog.detach(name)
        del self.opened

    @property
    def properties(self) -> RepositoryProperties:
        """Name, creation time, default branch and storage namespace."""
        settings = self._settings()
        return RepositoryProperties(
            id=self.id,
            creation_date=int(settings["creation_date"]),
            default_branch=settings["default_branch"],
            storage_namespace=str(self.opened.store.location),
        )

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata that the repository was created with."""
        prefix = creation.METADATA_PREFIX
        return {name.removeprefix(prefix): value for name, value in self._settings().items() if name.startswith(prefix)}

    # -- refs ----------------------------------------------------------------------------------------------

    def branch(self, branch_id: str) -> Branch:
        """A handle on a branch."""
        return Branch(self, branch_id)

    def tag(self, tag_id: str) -> Tag:
        """A handle on a tag."""
        return Tag(self, tag_id)

    def ref(self, ref_id: str) -> Reference:
        """A handle on any ref expression."""
        return Reference(self, ref_id)

    def commit(self, commit_id: str) -> Reference:
        """A handle on a commit."""
        return Reference(self, commit_id)

    def branches(
        self,
        max_amount: int | None = None,
        after: str | None = None,
        prefix: str | None = None,
        *,
        hidden: bool = False,
    ) -> Iterator[Branch]:
        """Branches in order of name; with ``hidden`` those that transactions left as well."""

        def is_shown(state: RefState) -> bool:
            return state.kind == "branch" and (hidden or not state.hidden)

        for name in self._names(is_shown, max_amount, after, prefix):
            yield Branch(self, name)

    def tags(self, max_amount: int | None = None, after: str | None = None, prefix: str | None = None) -> Iterator[Tag]:
        """Tags in order of name."""
        for name in self._names(lambda state: state.kind == "tag", max_amount, after, prefix):
            yield Tag(self, name)

    def merge_bases(self, left: str | Reference, right: str | Reference) -> list[Commit]:
        """All best common ancestors of two refs, the oldest first."""
        opened = self.opened
        ids = (resolve(opened, str(left)).commit_id, resolve(opened, str(right)).commit_id)
        return [record.commit for record in bases.merge_bases(opened, *ids)]

    def inspect(self, spark: SparkSession | None = None) -> Inspection:
        """The metadata of the repository as Arrow tables, or as DataFrames of a session."""
        from lakespark.inspection import Inspection  # noqa: PLC0415 - slow to import, seldom needed

        return Inspection(self.opened, spark)

    def fsck(self, objects: bool = False, *, on_progress: OnFsckProgress | None = None) -> FsckReport:  # noqa: FBT001, FBT002
        """Check every file that the branches and tags reach against the digests that are kept of it.

        ``objects``: also read the contents of all objects, and compare them with their checksums. Changes nothing,
        and goes on after what is wrong: the report has all of it. Raises RepositoryNotFoundError,
        UnsupportedFormatError, and StorageError if the store does not list its files.
        """
        from lakespark.operations.fsck.check import fsck  # noqa: PLC0415 - seldom needed

        opened = self.__dict__.get("opened") or self._found()  # it may be damaged in a way that others refuse to open
        catalog = self._lake.catalog if self._lake is not None else None
        return fsck(opened, objects=objects, catalog=catalog, name=self._id, on_progress=on_progress)

    # -- operations ----------------------------------------------------------------------------------------

    def operations(
        self, max_amount: int | None = None, *, ref: str | None = None, user: str | None = None
    ) -> Iterator[LoggedOperation]:
        """Operations with the refs that they changed, the newest first; only those of a branch or tag, or of a user."""
        self.opened.ledger.refresh()
        found = (
            (info, changes)
            for info, changes in self.opened.ledger.operations()
            if (user is None or info.user == user) and (ref is None or any(change.name == ref for change in changes))
        )
        return islice(found, max_amount)

    def operation(self, operation_id: str) -> LoggedOperation:
        """One operation, by its id, four or more of its first digits, or its number.

        Raises OperationNotFoundError, AmbiguousRefError.
        """
        return undo.find(self.opened, operation_id)

    def undo(self, operation_id: str) -> OperationInfo:
        """Put the refs and settings that an operation changed back as they were; the new operation.

        What is uncommitted stays so, and what an undone commit took in is uncommitted again. To undo the new
        operation is to redo. Raises RefMovedError, naming what came after, unless that is undone first.
        """
        return undo.undo(self.opened, operation_id)

    # -- protection ----------------------------------------------------------------------------------------

    def protection_rules(self) -> list[ProtectionRule]:
        """The rules that protect branches, in order of pattern."""
        self.opened.ledger.refresh()
        return protection.rules(self.opened)

    def protect(self, pattern: str, actions: Iterable[str] = protection.ACTIONS) -> ProtectionRule:
        """Have the branches whose names match a pattern (``*``, ``?``, ``[...]``) take merges only.

        ``actions``: what is forbidden there, ``staging_write`` or ``commit``. A rule of the same pattern is replaced.
        """
        return protection.protect(self.opened, pattern, actions)

    def unprotect(self, pattern: str) -> None:
        """Take a rule away. Raises NotFoundException if there is none of that pattern."""
        protection.unprotect(self.opened, pattern)

    # -- parts ---------------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, str]:
        self.opened.ledger.refresh()
        return self.opened.ledger.settings()

    def _names(
        self, is_shown: Callable[[RefState], bool], max_amount: int | None, after: str | None, prefix: str | None
    ) -> list[str]:
        self.opened.ledger.refresh()
        refs = self.opened.ledger.refs()
        names = sorted(name for name, state in refs.items() if is_shown(state) and name.startswith(prefix or ""))
        return [name for name in names if name > (after or "")][:max_amount]
