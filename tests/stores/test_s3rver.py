"""s3rver speaks S3 and ignores conditions: the probe finds it out. ``pytest -m npm tests/stores`` fetches it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

import lakespark
from lakespark.errors import UnsafeStoreError
from lakespark.storage import open_store

BUCKET = "bucket"


@pytest.fixture
def endpoint(tmp_path) -> Iterator[str]:
    command = ["npx", "--yes", "s3rver@3.7.1", "-d", str(tmp_path), "-a", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen([*command, "--configure-bucket", BUCKET], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    started = next(line for line in process.stdout if "listening" in line)
    yield f"http://127.0.0.1:{started.rstrip().rsplit(':', 1)[1]}"
    process.terminate()
    process.wait()


@pytest.mark.npm
@pytest.mark.processes
def test_s3rver_is_no_place_for_a_lake(endpoint):
    options = {"endpoint": endpoint, "access_key_id": "S3RVER", "secret_access_key": "S3RVER"}
    lake = lakespark.Lake(f"s3://{BUCKET}/lake", **options)
    with pytest.raises(UnsafeStoreError, match="is no safe place for a lake"):
        lake.repository("demo").create()
    assert list(open_store(f"s3://{BUCKET}", **options).list("")) == []
