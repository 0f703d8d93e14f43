"""Import from a service that speaks S3, and export to it, in a thread of the test's process."""

import hashlib
import sys

import boto3
import pytest
from imported import contents, failure
from moto.server import ThreadedMotoServer

import lakespark
from lakespark import transfer
from lakespark.errors import StorageError

KEYS = ["in/a", "in/dir/b c", "in/ü%41", "in//lead", "in/x//y", "in/z/../up", "in/tab\there", "other/a"]


@pytest.fixture(scope="module")
def endpoint():
    """URL of the service."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def client(endpoint):
    """A client with a bucket ``raw-data``: keys of every kind, each object holds its key; and markers of folders."""
    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
    )
    client.create_bucket(Bucket="raw-data")
    for key in KEYS:
        client.put_object(Bucket="raw-data", Key=key, Body=key.encode())
    for key in ("in/", "in/dir/"):
        client.put_object(Bucket="raw-data", Key=key, Body=b"")
    return client


@pytest.fixture
def main(endpoint, client, tmp_path):
    """The default branch of a local repository whose lake has the service's address and credentials."""
    options = {"endpoint": endpoint, "access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}
    lake = lakespark.Lake(tmp_path / "lake", **options, client_options={"allow_http": True})
    return lake.repository("demo").create().branch("main")


def test_a_prefix_of_a_bucket_with_keys_of_every_kind(main):
    status = main.import_data().prefix("s3://raw-data/in", "x").run()
    assert contents(main) == {"x/" + key.removeprefix("in/"): key.encode() for key in KEYS if key.startswith("in/")}
    assert [row["address"] for row in status.skipped.to_pylist()] == ["s3://raw-data/in/", "s3://raw-data/in/dir/"]
    assert main.object("x/a").stat().checksum == hashlib.md5(b"in/a").hexdigest()


def test_one_object_whose_key_only_boto3_can_address(main):
    main.import_data().object("s3://raw-data/in/x//y", "y").run()
    reader = main.object("y").reader()
    assert reader.read() == b"in/x//y"
    reader.seek(3)
    assert reader.read(2) == b"x/"


def test_what_was_imported_is_exported_to_the_service_and_verified_by_its_etags(main, client):
    main.import_data().prefix("s3://raw-data/other", "x").object("s3://raw-data/in/ü%41", "ü%41").run()
    assert transfer.export(main, "s3://raw-data/out").files == 2
    assert transfer.export(main, "s3://raw-data/out").unchanged == 2
    assert client.get_object(Bucket="raw-data", Key="out/ü%41")["Body"].read() == "in/ü%41".encode()


def test_without_boto3_a_bucket_with_such_keys_is_an_error_that_names_the_place(main, monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)  # as if it were not there
    problem = failure(main.import_data().prefix("s3://raw-data/in", "x"))
    assert isinstance(problem, StorageError)
    assert "s3://raw-data/in" in str(problem)


def test_a_bucket_that_is_not_there_is_an_error(main):
    assert isinstance(failure(main.import_data().prefix("s3://no-such-bucket/in", "x")), StorageError)
