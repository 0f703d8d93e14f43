"""The contract of stores on a real S3 server: straight, behind a proxy, by presigned URL, and with bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from fault_proxy import Delay

from lakespark.storage import Store, open_store
from lakespark.testing.faults import FaultyStore
from lakespark.testing.stores import StoreContract

_UPLOAD = """
import json, resource, sys
from lakespark.storage import open_store
location, options, mebibytes = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
store = open_store(location, **options)
store.open_writer("small").close()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
writer = store.open_writer("large")
for number in range(mebibytes):
    writer.write(bytes([number % 251]) * (1 << 20))
writer.close()
print(store.size("large"), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


class TestS3Store(StoreContract):
    """``store`` is the fixture of conftest.py."""


class TestS3StoreWithoutAPrefix(StoreContract):
    @pytest.fixture
    def store(self, s3_server) -> Store:
        return open_store(f"s3://{s3_server.make_bucket()}", **s3_server.options)


class TestFaultyStoreOverS3WithoutFaults(StoreContract):
    @pytest.fixture
    def store(self, s3_server) -> Store:
        return FaultyStore(open_store(f"s3://{s3_server.make_bucket()}/lake", **s3_server.options))


@pytest.mark.processes
def test_a_large_upload_takes_bounded_memory(s3_server):
    """A stream of 256 MiB: at most a few parts are held, whatever the size."""
    location = f"s3://{s3_server.make_bucket()}/lake"
    command = [sys.executable, "-c", _UPLOAD, location, json.dumps(s3_server.options), "256"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout.split()
    assert int(found[0]) == 256 << 20
    assert int(found[1]) < 100


def test_reads_go_in_parallel(broken, proxy):
    """Sixteen ranges at 50 ms a request take no sixteen times 50 ms."""
    broken.put("file", bytes(1600))
    proxy.rule = lambda _request: Delay(0.05)
    began = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda part: broken.get_range("file", part * 100, (part + 1) * 100), range(16)))
    assert b"".join(found) == bytes(1600)
    assert time.monotonic() - began < 16 * 0.05


def test_a_presigned_url_of_a_key_that_only_boto3_can_address(s3_server):
    bucket = s3_server.make_bucket()
    s3_server.client().put_object(Bucket=bucket, Key="in//a b", Body=b"contents")
    signed = open_store(f"s3://{bucket}", **s3_server.options).presign("in//a b", 60)
    with urllib.request.urlopen(signed.url) as response:
        assert response.read() == b"contents"


def test_a_presigned_url_of_an_absent_file_finds_nothing(store):
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(store.presign("none", 60).url)
