"""A repository with Spark, and a reader that may not write."""

import pytest

import lakespark
from lakespark.errors import StorageError
from lakespark.testing.faults import FaultyStore


@pytest.fixture
def repo(spark, tmp_path):
    """A new repository in a folder whose name has a space, a percent sign and an umlaut."""
    return lakespark.Lake(tmp_path / "ein Säe%20 see", user="ann", spark=spark).repository("analytics").create()


@pytest.fixture
def main(repo):
    return repo.branch("main")


@pytest.fixture
def reader(repo, spark):
    """Reads the repository where nothing can be written, and so without a view."""

    def refuse(call):
        if call.method.startswith("put") or call.method == "open_writer":
            raise StorageError("read-only")

    def read(ref, prefix, **how):
        opened = repo.opened
        opened.store, writable = FaultyStore(opened.store, on_call=refuse), opened.store
        try:
            return repo.ref(ref).read(spark, prefix, **how)
        finally:
            opened.store = writable

    return read
