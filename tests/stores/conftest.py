"""A store in the S3 server of the run, straight and behind a proxy that breaks requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fault_proxy import FaultProxy

from lakespark.storage import Store, open_store


@pytest.fixture
def store(s3_server) -> Store:
    """A new, empty store in the server, below a prefix that must be escaped."""
    return open_store(f"s3://{s3_server.make_bucket()}/50%41/é#?/a b", **s3_server.options)


@pytest.fixture
def proxy(s3_server) -> Iterator[FaultProxy]:
    """The way to the server, which can be broken."""
    with FaultProxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def options(s3_server, proxy) -> dict:
    """What a lake is opened with that goes through the proxy; patient for two seconds."""
    return {**s3_server.options, "endpoint": proxy.endpoint, "retry_seconds": 2, "timeout": 1}


@pytest.fixture
def broken(s3_server, options) -> Store:
    """A new, empty store behind the proxy."""
    return open_store(f"s3://{s3_server.make_bucket()}/lake", **options)
