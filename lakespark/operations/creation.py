"""Creating a repository in steps that can be repeated, and checking what is found at a namespace."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakespark import names
from lakespark.errors import (
    BadRequestException,
    CorruptFileError,
    NamespaceInUseError,
    NameTakenError,
    RepositoryNotFoundError,
    UnsupportedFormatError,
)
from lakespark.model import Operation, RefChange, RefState
from lakespark.operations.commit import new_record
from lakespark.operations.opened import OpenRepository
from lakespark.storage import probe
from lakespark.tables.catalog import Catalog
from lakespark.tree.metarange import DEFAULT_RANGE_ENTRIES, Metarange, threshold_for

FORMAT_KEY = "_lakespark/format.json"
FORMAT_VERSION = 1
METADATA_PREFIX = "metadata."
_INITIAL_MESSAGE = "Repository created"


@dataclass(frozen=True)
class NewRepository:
    """What a repository is to be created with."""

    name: str
    lake: str
    namespace: str
    default_branch: str
    metadata: Mapping[str, str]
    range_entries: int | None


def create(
    catalog: Catalog, open_namespace: Callable[[str], OpenRepository], new: NewRepository, *, exist_ok: bool
) -> OpenRepository:
    """Ledger entry 0, then ``format.json``, then the lake's row: each step can be repeated after a crash.

    Raises NameTakenError unless ``exist_ok``, and NamespaceInUseError for a namespace of another repository.
    """
    names.check_ref(new.default_branch)
    if new.range_entries is not None and new.range_entries < 1:
        raise BadRequestException(f"range_entries must be 1 or more, not {new.range_entries}")
    known = catalog.repositories().get(new.name)
    if known is not None:
        if not exist_ok:
            raise NameTakenError(f"repository {new.name!r} exists already, at {known}")
        return _open_existing(open_namespace, known)
    opened = open_namespace(new.namespace)
    if not opened.ledger.exists():
        _check_unclaimed(opened)
        probe.check_before_creating(opened.store)
        _write_ledger(opened, new)
    opened.ledger.refresh()
    _check_owner(opened, new)
    _write_format(opened, new.range_entries or DEFAULT_RANGE_ENTRIES)
    check_format(opened)
    try:
        catalog.attach(new.name, str(opened.store.location))
    except NameTakenError:  # another process has created it meanwhile
        if not exist_ok:
            raise
        return _open_existing(open_namespace, catalog.repositories()[new.name])
    return opened


def check_format(opened: OpenRepository) -> None:
    """Raises RepositoryNotFoundError if there is no repository, UnsupportedFormatError if it is of another format.

    Raises UnsafeStoreError if the store would write over what is there.
    """
    body = opened.store.get(FORMAT_KEY)
    if body is None:
        raise RepositoryNotFoundError(
            f"no repository at {opened.store.location}: it has no {FORMAT_KEY}. If its creation was interrupted, "
            "create it again with the same name and lake"
        )
    read_format(opened, body)
    probe.check_existing(opened.store, FORMAT_KEY, body)


def read_format(opened: OpenRepository, body: bytes) -> dict[str, Any]:
    """What ``format.json`` says. Raises CorruptFileError, UnsupportedFormatError."""
    try:
        said: dict[str, Any] = json.loads(body)
        version = said["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"{opened.store.location.child(FORMAT_KEY)} cannot be read: {error!r}") from error
    if version != FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"the repository at {opened.store.location} has format version {version}; "
            f"this lakespark knows version {FORMAT_VERSION}: upgrade lakespark"
        )
    return said


def _open_existing(open_namespace: Callable[[str], OpenRepository], namespace: str) -> OpenRepository:
    opened = open_namespace(namespace)
    check_format(opened)
    return opened


def _write_ledger(opened: OpenRepository, new: NewRepository) -> None:
    tree = Metarange(threshold_for(new.range_entries or DEFAULT_RANGE_ENTRIES), ())
    record = new_record(opened, tree, (), message=_INITIAL_MESSAGE, metadata=None, committer=None, date=None)
    state = RefState("branch", record.commit.id, opened.new_staging())
    settings = {
        "repository_id": str(uuid.uuid4()),
        "name": new.name,
        "lake": new.lake,
        "default_branch": new.default_branch,
        "creation_date": str(int(time.time())),
        **{METADATA_PREFIX + key: value for key, value in new.metadata.items()},
    }
    operation = Operation("repository-create", (RefChange(new.default_branch, None, state),), (record,))
    opened.ledger.create(settings, operation)


def _check_unclaimed(opened: OpenRepository) -> None:
    """That a namespace without a ledger has no ``format.json`` either: the ledger is written before it."""
    body = opened.store.get(FORMAT_KEY)
    if body is None or opened.ledger.exists():  # another process has created it meanwhile
        return
    read_format(opened, body)
    raise NamespaceInUseError(
        f"the storage namespace {opened.store.location} has {FORMAT_KEY}, but no ledger: "
        "restore the ledger of the repository that was there, or choose another"
    )


def _check_owner(opened: OpenRepository, new: NewRepository) -> None:
    settings = opened.ledger.settings()
    if (settings["name"], settings["lake"]) != (new.name, new.lake):
        raise NamespaceInUseError(
            f"the storage namespace {opened.store.location} belongs to repository {settings['name']!r} "
            f"of the lake at {settings['lake']}: choose another"
        )


def _write_format(opened: OpenRepository, range_entries: int) -> None:
    record = {
        "format": "lakespark",
        "version": FORMAT_VERSION,
        "repository_id": opened.ledger.settings()["repository_id"],
        "range_entries": range_entries,
    }
    opened.store.put_if_absent(FORMAT_KEY, json.dumps(record, indent=1).encode())
