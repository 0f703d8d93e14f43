"""What lies around the tables: format.json, the lake's row, and files that are not lakespark's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lakespark.errors import CorruptFileError, MissingFileError, StorageError
from lakespark.operations import creation
from lakespark.operations.fsck.report import Finding
from lakespark.operations.fsck.run import RESTORE, Run
from lakespark.storage.probe import PROBE_KEY
from lakespark.storage.store import list_exactly
from lakespark.tables.catalog import Catalog

_ROOT = "_lakespark"
_TABLE_FILE = r"[0-9a-f]{32}\.parquet|_delta_log/([0-9]{20}\.(json|checkpoint.*\.parquet)|_last_checkpoint)"
_OURS = re.compile(
    rf"format\.json|(ledger|repositories|tasks|staging/[0-9a-z-]+)/({_TABLE_FILE})|ledger/_state/latest\.parquet"
    r"|ranges/[0-9a-z-]+/([^/]+/)*[^/]+\.parquet|metaranges/[0-9a-f]{32}\.parquet|(views|gc)/.+"
)
_HIDDEN = re.compile(r"(^|/)[._][^/]*$|\.crc$")


def check_format(run: Run, settings: Mapping[str, str], version: int) -> Iterator[Finding]:
    """Whether format.json is there, of this format, and of this repository.

    Raises UnsupportedFormatError for another format: nothing of such a repository can be judged.
    """
    key = creation.FORMAT_KEY
    body = run.get(key, "format file")
    if isinstance(body, Finding):
        yield body
        return
    if body is None:
        is_begun = version <= 0
        problem = (
            "the creation of this repository was interrupted" if is_begun else "nobody opens the repository without it"
        )
        mend = "create it again with the same name and lake" if is_begun else RESTORE
        yield Finding("missing", "format file", key, problem, mend=mend, is_error=not is_begun)
        return
    try:
        said = creation.read_format(run.opened, body).get("repository_id")
    except CorruptFileError as error:
        yield Finding("unreadable", "format file", key, str(error), mend=RESTORE)
        return
    if "repository_id" in settings and said != settings["repository_id"]:
        problem = "it is of another repository than the ledger"
        yield Finding("inconsistent", "format file", key, problem, settings["repository_id"], str(said), mend=RESTORE)


def check_lake_row(run: Run, catalog: Catalog, name: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the lake's row for a name leads here, to a ledger of that name."""
    try:
        row = catalog.repositories().get(name)
    except (MissingFileError, CorruptFileError) as error:
        yield Finding("altered", "lake", name, str(error), mend=RESTORE)
        return
    place = str(run.store.location)
    if row != place:
        yield Finding("inconsistent", "lake", name, "its row leads elsewhere", place, row)
    if settings.get("name", name) != name:
        problem = "its row leads to a repository of another name"
        yield Finding("inconsistent", "lake", name, problem, name, settings["name"])


def foreign_files(run: Run) -> Iterator[Finding]:
    """Files inside ``_lakespark/`` that lakespark did not write. They disturb nobody.

    A probe that a killed process, or one that may not delete, has left there is lakespark's.
    """
    try:
        for file in list_exactly(run.store, _ROOT):
            name = file.key.removeprefix(f"{_ROOT}/")
            is_ours = file.key == PROBE_KEY or _OURS.fullmatch(name)
            is_folder = file.key.endswith("/") and not file.size_bytes
            if not (is_ours or is_folder or _HIDDEN.search(name)):
                mend = "move it elsewhere: this folder is lakespark's own"
                yield Finding("unknown", "file", file.key, "not a file of lakespark's", mend=mend, is_error=False)
    except StorageError as error:  # such as a name that the client cannot hold
        yield Finding("unreadable", "folder", _ROOT, str(error), is_error=False)
