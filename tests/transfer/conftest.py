"""A repository, and places to import from."""

import pytest
from imported import NAMES

import lakespark
from lakespark.storage import open_store


@pytest.fixture
def repo(tmp_path):
    """An empty repository in a lake of its own."""
    return lakespark.Lake(tmp_path / "lake", user="ann").repository("demo").create()


@pytest.fixture
def main(repo):
    """Its default branch."""
    return repo.branch("main")


@pytest.fixture
def source(tmp_path):
    """A folder with a few files of odd names, each of which holds its own name."""
    folder = tmp_path / "raw"
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


@pytest.fixture
def bucket(request):
    """A store in memory of the test's own, and its URL."""
    url = f"memory://{request.node.name.replace('[', '-').strip(']')}"
    return open_store(url), url
