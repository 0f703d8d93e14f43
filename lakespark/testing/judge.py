"""Is a repository what the reference model says? Every check is an assertion that names what differs."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakespark.model import CommitRecord
from lakespark.repository import Repository
from lakespark.testing.model import ModelRepository
from lakespark.testing.model_state import ModelCommit, StagedOp
from lakespark.testing.trees import Entry, Range
from lakespark.tree.metarange import RangeRef

_COLUMNS = ["path", "identity", "physical_address", "size_bytes", "checksum", "content_type", "metadata"]


class Judge:
    """Compares one repository with its model, again and again.

    Files and contents are immutable, so each is read once; that the right commits name them is checked every
    time. A branch is looked at when the model says that it has changed: a fresh judge looks at all of them.
    """

    def __init__(self, model: ModelRepository) -> None:
        self._model = model
        self._read: dict[str, list[tuple[str, str, Entry]]] = {}
        self._contents: dict[str, str] = {}
        self._branches: dict[str, tuple[str, tuple[StagedOp, ...]]] = {}

    def check(self, repository: Repository) -> None:
        """Refs, staging areas, commits, trees, files and contents: by number and by what they hold."""
        self._check_refs(repository)
        state = {name: (branch.head, tuple(branch.staged)) for name, branch in self._model.branches.items()}
        for name, now in state.items():
            if now != self._branches.get(name):
                self._check_branch(repository, name)
        self._branches = state
        self._check_files(repository)

    def check_written(self, repository: Repository) -> None:
        """No more files were ever written than the model says, for what is reachable and for what is not."""
        store = repository.opened.store
        written = [len(list(store.list(f"_lakespark/{kind}"))) for kind in ("ranges", "metaranges")]
        trees = self._model.abandoned.union(commit.tree.file for commit in self._model.commits.values())
        assert written == [self._model.ranges_written, len(trees)]

    def _check_refs(self, repository: Repository) -> None:
        branches = {branch.id: branch.head.id for branch in repository.branches(hidden=True)}
        assert branches == {name: branch.head for name, branch in self._model.branches.items()}
        tags = {tag.id: tag.get_commit().id for tag in repository.tags()}
        assert tags == self._model.tags

    def _check_branch(self, repository: Repository, name: str) -> None:
        listed = entries_of(repository.branch(name).objects_table())
        expected = self._model.entries(name)
        assert listed == [(path, entry.identity, entry) for path, entry in expected.items()], name
        if self._model.branches[name].staged:
            uncommitted = repository.branch(name).uncommitted_table().to_pylist()
            changes = {row["path"]: (row["type"], row["size_bytes"]) for row in uncommitted}
            assert changes == self._model.uncommitted(name), name
        for entry in expected.values():
            self._check_contents(repository, entry)

    def _check_files(self, repository: Repository) -> None:
        """Reachable commits name as many files as the model expects, each with the contents that it expects."""
        ranges: dict[int, str] = {}
        metaranges: dict[int, str] = {}
        for commit_id in self._model.reachable():
            expected = self._model.commits[commit_id]
            record = repository.opened.ledger.commit(commit_id)
            assert record is not None, commit_id
            _check_commit(record, expected)
            tree = repository.opened.tree(record)
            assert (tree.id, tree.threshold) == (expected.tree.id, expected.tree.threshold)
            assert metaranges.setdefault(expected.tree.file, record.metarange.file) == record.metarange.file
            for ref, part in zip(tree.ranges, expected.tree.ranges, strict=True):
                assert ranges.setdefault(part.file, ref.file) == ref.file, f"{ref.file} was not to be written"
                self._check_range(repository, ref, part)
        for files in (ranges, metaranges):
            assert len(set(files.values())) == len(files), "one file where the model has several"

    def _check_range(self, repository: Repository, ref: RangeRef, part: Range) -> None:
        if ref.file not in self._read:
            body = repository.opened.store.get(ref.file)
            assert body is not None, f"{ref.file} is missing"
            assert hashlib.sha256(body).hexdigest() == ref.file_sha256, ref.file
            self._read[ref.file] = entries_of(pq.read_table(pa.BufferReader(body)))
        assert self._read[ref.file] == [(path, entry.identity, entry) for path, entry in part.entries], ref.file
        described = (ref.min_path, ref.max_path, ref.range_id, ref.count, ref.bytes)
        size = sum(entry.size_bytes for _, entry in part.entries)
        assert described == (part.entries[0][0], part.entries[-1][0], part.id, len(part.entries), size)
        for _, entry in part.entries:
            self._check_contents(repository, entry)

    def _check_contents(self, repository: Repository, entry: Entry) -> None:
        address = entry.physical_address
        if address not in self._contents:
            store, key = repository.opened.contents(address)
            body = store.get(key)
            assert body is not None, f"{address} is missing"
            self._contents[address] = hashlib.md5(body, usedforsecurity=False).hexdigest()
        assert self._contents[address] == entry.checksum, f"{address} holds other contents"


def entries_of(table: pa.Table) -> list[tuple[str, str, Entry]]:
    """Rows of entries as path, identity and the model's entry, in their order."""
    rows: list[dict[str, Any]] = table.select(_COLUMNS).to_pylist(maps_as_pydicts="strict")
    return [(row["path"], row["identity"], entry_of(row)) for row in rows]


def entry_of(row: dict[str, Any]) -> Entry:
    """The model's entry from a row with the columns of an entry."""
    metadata = tuple(sorted(row["metadata"].items()))
    return Entry(row["physical_address"], row["size_bytes"], row["checksum"], row["content_type"], metadata)


def _check_commit(record: CommitRecord, expected: ModelCommit) -> None:
    commit = record.commit
    assert commit.id == expected.id
    assert commit.parents == expected.parents
    assert (commit.committer, commit.message) == (expected.committer, expected.message)
    assert (commit.creation_date, commit.metadata) == (expected.creation_date, dict(expected.metadata))
    assert commit.meta_range_id == expected.tree.id
