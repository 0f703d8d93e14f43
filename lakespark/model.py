"""The values that the rest of lakespark passes around. No behaviour, no I/O.

The first group is public and has the names and field order of the ``lakefs`` SDK; what lakespark adds stands
behind the SDK's fields. The second group is the state of a repository as the ledger keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

ChangeType = Literal["added", "removed", "changed", "conflict", "prefix_changed"]
PathType = Literal["common_prefix", "object"]
ProtectedAction = Literal["staging_write", "commit"]

DEFAULT_CONTENT_TYPE = "application/octet-stream"


class Commit(NamedTuple):
    """One commit. ``creation_date`` is in unix seconds; ``parents`` are commit ids, first parent first."""

    id: str
    parents: tuple[str, ...]
    committer: str
    message: str
    creation_date: int
    meta_range_id: str
    metadata: dict[str, str]


class ObjectInfo(NamedTuple):
    """What is known of one object at one ref. Sizes in bytes, times in unix seconds."""

    path: str
    physical_address: str
    checksum: str
    mtime: int
    physical_address_expiry: int | None
    size_bytes: int
    metadata: dict[str, str]
    content_type: str


class CommonPrefix(NamedTuple):
    """A folder of a listing with a delimiter: ``path`` ends with the delimiter."""

    path: str


class Change(NamedTuple):
    """One difference. ``written_by`` and ``written_at`` are known for uncommitted changes only."""

    type: ChangeType
    path: str
    path_type: PathType
    size_bytes: int | None
    written_by: str | None = None
    written_at: int | None = None


class ProtectionRule(NamedTuple):
    """What may not be done directly to the branches whose names match a pattern (``*``, ``?``, ``[...]``)."""

    pattern: str
    actions: tuple[ProtectedAction, ...]


class RepositoryProperties(NamedTuple):
    """Name, creation (unix seconds), default branch and place of a repository."""

    id: str
    creation_date: int
    default_branch: str
    storage_namespace: str
    storage_id: str = ""


class FileRef(NamedTuple):
    """A file of the repository, by its key below the storage namespace, and the SHA-256 of its bytes."""

    file: str
    sha256: str


@dataclass(frozen=True)
class CommitRecord:
    """A commit as it stands in the ledger, with the file of its metarange.

    ``number`` grows from a commit to each of its children: (ledger entry << 20) + position in the entry.
    """

    commit: Commit
    metarange: FileRef
    number: int = -1


class Sealed(NamedTuple):
    """A staging token that takes no more writes. Entries up to ``watermark`` are in a commit already."""

    token: str
    watermark: int


@dataclass(frozen=True)
class RefState:
    """State of a branch or tag. A tag has a commit and nothing else."""

    kind: Literal["branch", "tag"]
    commit_id: str
    token: str = ""
    sealed: tuple[Sealed, ...] = field(default=())
    hidden: bool = False


@dataclass(frozen=True)
class RefChange:
    """One ref before and after an operation; ``None`` is a ref that does not exist."""

    name: str
    before: RefState | None
    after: RefState | None


@dataclass(frozen=True)
class SettingChange:
    """One setting before and after an operation; ``None`` is a setting that is not set."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Operation:
    """What one ledger entry does: every commit, ref change and setting change of it, or none.

    ``landed``: how it stands in the ledger, once it does. ``is_repeated``: it stood there already, under the
    idempotency key of the call that asked for it.
    """

    verb: str
    changes: tuple[RefChange, ...]
    commits: tuple[CommitRecord, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    settings: tuple[SettingChange, ...] = ()
    landed: OperationInfo | None = None
    is_repeated: bool = False


UNDOES = "undoes"
"""The detail by which an undo names the operation that it takes back."""


class OperationInfo(NamedTuple):
    """One operation of the ledger: its entry number, what, who, and when in unix seconds.

    ``id`` names it for ever. ``commits``: ids of the commits that it made. ``undone_by``: id of the operation that
    has taken it back, unless that one was taken back itself. ``idempotency_key``: its caller's name for it.
    """

    number: int
    verb: str
    user: str
    at: int
    details: dict[str, str]
    id: str
    commits: tuple[str, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    undone_by: str | None = None
    idempotency_key: str | None = None

    @property
    def undoes(self) -> str | None:
        """Id of the operation that this one takes back, or None."""
        return self.details.get(UNDOES)
