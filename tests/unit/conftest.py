"""A repository for fsck to look at, in a folder and on each kind of store."""

from __future__ import annotations

import itertools

import pytest
from fsck_cases import build

import lakespark

_names = itertools.count()


@pytest.fixture
def repo(tmp_path):
    """What ``fsck_cases.build`` makes, in a folder."""
    return build(lakespark.Lake(tmp_path / "lake", user="ann"), tmp_path / "ns")


@pytest.fixture
def namespace(repo):
    """The folder that it is in."""
    return repo.opened.store.location.path


@pytest.fixture(params=["folder", "memory", pytest.param("s3", marks=pytest.mark.processes)])
def repo_anywhere(request, tmp_path):
    """What ``fsck_cases.build`` makes, in a folder, in memory and in an S3 server."""
    place, options = str(tmp_path), {}
    if request.param == "memory":
        place = f"memory://anywhere-{next(_names)}"
    elif request.param == "s3":
        server = request.getfixturevalue("s3_server")
        place, options = f"s3://{server.make_bucket()}", server.options
    return build(lakespark.Lake(f"{place}/lake", user="ann", **options), f"{place}/ns")
