"""What the pages take for granted: an installed package, whose entry point tells fsspec of ``lakefs://``."""

import fsspec
import pytest


@pytest.fixture(autouse=True, scope="session")
def installed():
    """As the entry point does; the tests also run from a checkout that is not installed."""
    fsspec.register_implementation("lakefs", "lakespark.filesystem.LakeFileSystem", clobber=True)
