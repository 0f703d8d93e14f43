"""The proof that a call was refused by name and changed nothing."""

from __future__ import annotations

import contextlib

import pytest

from lakespark.errors import LakesparkError


def everything(repo):
    """Version of the ledger and every file but contents, which an upload may have put before it was refused."""
    opened = repo.opened
    opened.ledger.refresh()
    files = {file.key for file in opened.store.list("") if not file.key.startswith("data/")}
    listed = {branch.id: branch.objects_table().to_pylist() for branch in repo.branches(hidden=True)}
    return opened.ledger.version, files, listed, [tag.id for tag in repo.tags()]


@contextlib.contextmanager
def refused(repo, error, message):
    """The block raises exactly this class with a message that matches, and changes nothing."""
    before = everything(repo)
    with pytest.raises(LakesparkError, match=message) as raised:
        yield raised
    assert raised.type is error
    assert everything(repo) == before
