"""The contract on Ceph's S3 gateway, whose requests really run at once: ``pytest -m radosgw tests/stores``."""

from __future__ import annotations

import itertools
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pytest

import lakespark
from lakespark.storage import Store, open_store
from lakespark.testing.stores import StoreContract

pytestmark = [pytest.mark.radosgw, pytest.mark.processes]
KEYS = ("test-access-key", "test-secret-key")
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory) -> Iterator[dict]:
    """Options of a lake in the gateway."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).with_name("radosgw.sh")
    folder = tmp_path_factory.mktemp("ceph")
    command = [str(script), str(folder), str(port), *KEYS]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", (folder / "start.log").read_text()[-2000:]
        endpoint = f"http://127.0.0.1:{port}"
        yield {"endpoint": endpoint, "region": "us-east-1", "access_key_id": KEYS[0], "secret_access_key": KEYS[1]}
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture
def bucket(gateway) -> str:
    """A new bucket."""
    name = f"bucket-{next(_numbers)}"
    access_key, secret_key = KEYS
    client = boto3.client(
        "s3",
        endpoint_url=gateway["endpoint"],
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
    )
    client.create_bucket(Bucket=name)
    return name


class TestCephStore(StoreContract):
    @pytest.fixture
    def store(self, gateway, bucket) -> Store:
        return open_store(f"s3://{bucket}/50%41/é#?/a b", **gateway)


def test_writers_at_once_lose_nothing(gateway, bucket):
    lake = lakespark.Lake(f"s3://{bucket}/lake", **gateway)
    lake.repository("demo").create()

    def work(writer: int) -> None:
        main = lakespark.Lake(lake.location, **gateway).repository("demo").branch("main")
        for number in range(5):
            main.object(f"{writer}/{number}").upload(b"1")
            main.commit(f"{writer}/{number}", allow_empty=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    main = lake.repository("demo").branch("main")
    expected = {f"{writer}/{number}" for writer in range(4) for number in range(5)}
    assert {found.path for found in main.objects()} == expected
    assert {commit.message for commit in main.log()} == {*expected, "Repository created"}
