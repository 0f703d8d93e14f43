"""Every error that lakespark raises, grouped by what a handler would do about it.

    LakesparkError                        (the SDK's LakeFSException)
    ├── NotFoundException                 name something that exists
    │   ├── RepositoryNotFoundError
    │   ├── RefNotFoundError
    │   ├── AmbiguousRefError
    │   ├── ObjectNotFoundException       also a FileNotFoundError
    │   └── OperationNotFoundError
    ├── BadRequestException               mend the call; also a ValueError
    │   ├── InvalidNameError
    │   ├── InvalidPathError
    │   ├── InvalidRefExpressionError
    │   ├── InvalidUriError
    │   ├── InvalidEntriesError
    │   ├── InvalidResolutionError
    │   └── UnsafeDownloadError
    ├── ConflictException                 the repository is not in the state that the call needs: look, then decide
    │   ├── NameTakenError
    │   ├── ObjectExistsException         also a FileExistsError
    │   ├── NamespaceInUseError
    │   ├── NothingToCommitError
    │   ├── NothingToMergeError
    │   ├── DirtyBranchError
    │   ├── MergeConflictError
    │   ├── RefMovedError
    │   ├── TargetNotEmptyError
    │   └── TransactionException
    ├── ForbiddenException                not allowed, whatever the state
    │   └── BranchProtectedError
    ├── ImportManagerException            an import failed, or is not in the state that the call needs
    ├── ContentionError                   failed, nothing changed, safe to repeat
    ├── StateUnknownError                 may or may not have happened: look before repeating
    ├── UnsupportedFormatError            upgrade lakespark
    └── StorageError                      also an OSError: the store failed
        ├── MissingFileError              a file that the repository names is gone
        ├── CorruptFileError              a file that the repository names is not what was written
        ├── StoreRefusedError             the store said no, nothing took effect: mend the access, then repeat
        │   ├── CredentialsError
        │   ├── AccessDeniedError         also a PermissionError
        │   ├── BucketNotFoundError
        │   ├── WrongEndpointError
        │   └── ClockSkewError
        ├── StoreUnavailableError         no answer in time, or too many requests: repeat later
        └── UnsafeStoreError              the store lacks what a lake needs: take another

The names ending in ``Exception`` are those of the ``lakefs`` SDK, so that a script's handlers keep working.
Each class has a stable kebab-case ``kind`` for machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pyarrow as pa


class LakesparkError(Exception):
    """Root of every error that lakespark raises on purpose."""

    kind: ClassVar[str] = "error"


LakeFSException = LakesparkError


class NotFoundException(LakesparkError):
    """What was named does not exist."""

    kind = "not-found"


class RepositoryNotFoundError(NotFoundException):
    """The lake has no repository of that name, or the location holds none."""

    kind = "repository-not-found"


class RefNotFoundError(NotFoundException):
    """No commit, branch or tag answers to the ref expression."""

    kind = "ref-not-found"


class AmbiguousRefError(NotFoundException):
    """A commit id prefix fits several commits, which ``candidates`` lists."""

    kind = "ambiguous-ref"

    def __init__(self, message: str, candidates: Sequence[str]) -> None:
        super().__init__(message)
        self.candidates = tuple(candidates)


class ObjectNotFoundException(NotFoundException, FileNotFoundError):
    """No object has that path at that ref."""

    kind = "object-not-found"


class OperationNotFoundError(NotFoundException):
    """No operation, or more than one, answers to the id; the message says which."""

    kind = "operation-not-found"


class BadRequestException(LakesparkError, ValueError):
    """The call itself is wrong: no state of the repository would accept it."""

    kind = "bad-request"


class InvalidNameError(BadRequestException):
    """Not a legal repository, branch or tag name."""

    kind = "invalid-name"


class InvalidPathError(BadRequestException):
    """Not a legal object path."""

    kind = "invalid-path"


class InvalidRefExpressionError(BadRequestException):
    """Not a legal ref expression."""

    kind = "invalid-ref-expression"


class InvalidUriError(BadRequestException):
    """Not a ``lakefs://`` URI, or not a location that a store can be opened at."""

    kind = "invalid-uri"


class InvalidEntriesError(BadRequestException):
    """A table of entries to stage lacks columns, repeats paths or holds impossible values."""

    kind = "invalid-entries"


class InvalidResolutionError(BadRequestException):
    """A merge resolution names an unknown choice, or a side that has no value to take."""

    kind = "invalid-resolution"


class UnsafeDownloadError(BadRequestException):
    """Paths that would leave the target folder, or cannot be files beside each other."""

    kind = "unsafe-download"


class ConflictException(LakesparkError):
    """The repository is not in the state that the call needs."""

    kind = "conflict"


class NameTakenError(ConflictException):
    """A repository, branch or tag of that name exists already."""

    kind = "name-taken"


class ObjectExistsException(ConflictException, FileExistsError):
    """An exclusive upload found its path taken."""

    kind = "object-exists"


class NamespaceInUseError(ConflictException):
    """The storage namespace belongs to another repository, or to one that has lost its ledger."""

    kind = "namespace-in-use"


class NothingToCommitError(ConflictException):
    """The branch has no uncommitted change that makes a difference."""

    kind = "nothing-to-commit"


class NothingToMergeError(ConflictException):
    """The source has nothing that the destination lacks."""

    kind = "nothing-to-merge"


class DirtyBranchError(ConflictException):
    """The operation needs a branch without uncommitted changes; the message names some of them."""

    kind = "dirty-branch"


class MergeConflictError(ConflictException):
    """Both sides changed the same paths in different ways; ``conflicts`` is the whole table.

    ``conflicts`` has a row a path: path, conflict (``changed/changed``, ``added/added``, ``changed/removed``,
    ``removed/changed``: source/destination), and for each of base, source and destination the
    ``*_identity``, ``*_size_bytes`` and ``*_physical_address`` (null where that side has no value).
    """

    kind = "merge-conflict"

    def __init__(self, message: str, conflicts: pa.Table) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class RefMovedError(ConflictException):
    """A compare-and-swap found another value than the caller expected.

    ``operations``: where an undo was refused, the ids of the operations that came after, the newest first.
    """

    kind = "ref-moved"

    def __init__(self, message: str, operations: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.operations = tuple(operations)


class TargetNotEmptyError(ConflictException):
    """The target of an export holds files that are not of this export."""

    kind = "target-not-empty"


class TransactionException(ConflictException):
    """A transaction could not be finished; its hidden branch is named in the message."""

    kind = "transaction"


class ForbiddenException(LakesparkError):
    """Not allowed, whatever the state: deleting the default branch, merging an unfinished transaction."""

    kind = "forbidden"


class BranchProtectedError(ForbiddenException):
    """A protection rule of the branch forbids it; the message says which, and what to do instead."""

    kind = "branch-protected"


class ImportManagerException(LakesparkError):
    """An import failed, for the reason in ``__cause__``, was cancelled, or is not under way, or still is."""

    kind = "import-manager"


class ContentionError(LakesparkError):
    """Other writers won every try. Nothing was changed; the call is safe to repeat."""

    kind = "contention"


class StateUnknownError(LakesparkError):
    """The store did not say whether the last write took effect. Look before repeating."""

    kind = "state-unknown"


class UnsupportedFormatError(LakesparkError):
    """The repository uses a format version or feature that this lakespark does not know."""

    kind = "unsupported-format"


class StorageError(LakesparkError, OSError):
    """The store refused or failed a request; nothing of the operation is visible."""

    kind = "storage"


class MissingFileError(StorageError):
    """A file that the repository names is not in the store."""

    kind = "missing-file"


class CorruptFileError(StorageError):
    """A file that the repository names is truncated or altered."""

    kind = "corrupt-file"


class StoreRefusedError(StorageError):
    """The store, or the way to it, said no: nothing of the request took effect. Never itself: see the classes below."""

    kind = "store-refused"


class CredentialsError(StoreRefusedError):
    """There are no credentials, or the store does not accept them: unknown, wrong or expired."""

    kind = "credentials"


class AccessDeniedError(StoreRefusedError, PermissionError):
    """The credentials are known, but do not allow this request."""

    kind = "access-denied"


class BucketNotFoundError(StoreRefusedError):
    """There is no bucket or container of that name."""

    kind = "bucket-not-found"


class WrongEndpointError(StoreRefusedError):
    """Nothing answers at the endpoint, what answers is no such store, or the bucket is in another region."""

    kind = "wrong-endpoint"


class ClockSkewError(StoreRefusedError):
    """The clock of this machine is too far from the store's."""

    kind = "clock-skew"


class StoreUnavailableError(StorageError):
    """The store is overloaded, failing or silent, after all retries. A write may have taken effect."""

    kind = "store-unavailable"


class UnsafeStoreError(StorageError):
    """The store does not refuse to create what exists already, so that writers would lose each other's work."""

    kind = "unsafe-store"


def describe(error: BaseException) -> dict[str, Any]:
    """The error as plain values, for ``--json`` output: kind, message and what the class adds."""
    described: dict[str, Any] = {"kind": getattr(error, "kind", "error"), "message": str(error)}
    if isinstance(error, AmbiguousRefError):
        described["candidates"] = list(error.candidates)
    if isinstance(error, RefMovedError) and error.operations:
        described["operations"] = list(error.operations)
    if isinstance(error, MergeConflictError):
        described["conflicts"] = error.conflicts.to_pylist()
    return described
