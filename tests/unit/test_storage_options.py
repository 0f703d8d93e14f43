"""Options of stores: what is refused before anything is asked, and how they reach obstore, delta-rs and Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakespark
from lakespark.errors import BadRequestException, InvalidUriError, UnsafeStoreError
from lakespark.storage import StorageOptions, open_store, parse_location, probe
from lakespark.storage.backends import open_backend
from lakespark.storage.delta_options import delta_options


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"acces_key_id": "a"}, r"unknown storage option 'acces_key_id': did you mean 'access_key_id'\?"),
        ({"aws_access_key_id": "a"}, "did you mean 'access_key_id'"),
        ({"endpoint_url": "http://host"}, "did you mean 'endpoint'"),
        ({"google_service_account": "a"}, "did you mean 'service_account'"),
        ({"quux": 1}, "unknown storage option 'quux': there are endpoint, anonymous,"),
        ({"region": 1}, "'region' must be a text"),
        ({"path_style": "yes"}, "'path_style' must be True or False"),
        ({"durable": "yes"}, "'durable' must be True or False"),
        ({"timeout": 0}, "'timeout' must be a number of seconds above 0"),
        ({"retry_seconds": True}, "'retry_seconds' must be a number of seconds above 0"),
        ({"client_options": "x"}, "'client_options' must be a mapping"),
        ({"credential_provider": {}}, "'credential_provider' must be a callable"),
        ({"access_key_id": "a"}, "access_key_id and secret_access_key are needed together"),
        ({"session_token": "a"}, "a session_token needs its access_key_id"),
        ({"profile": "a", "anonymous": True}, "profile and anonymous exclude each other"),
        ({"credential_provider": dict, "profile": "a"}, "credential_provider and profile exclude each other"),
        ({"role_arn": "a", "anonymous": True}, "a role_arn is assumed by a profile"),
        ({"endpoint": "host:9000"}, "the endpoint must be a URL such as"),
        ({"endpoint": "http://a:b@host"}, "the endpoint must hold no credentials"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(tmp_path, options, problem):
    for open_it in (lambda: lakespark.Lake(tmp_path, **options), lambda: open_store(str(tmp_path), **options)):
        with pytest.raises(BadRequestException, match=problem):
            open_it()


def test_an_option_that_is_none_counts_as_not_given(tmp_path):
    lakespark.Lake(tmp_path, profile=None, anonymous=None, access_key_id=None)


def test_options_of_one_kind_of_store_are_no_error_for_another(tmp_path):
    store = open_store(str(tmp_path), region="eu-west-1", account_name="a", service_account="b")
    store.put("file", b"1")
    assert store.get("file") == b"1"


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("s3://bucket/a%20b", {"region": "eu-west-1"}, {"bucket": "bucket", "region": "eu-west-1"}),
        (
            "s3://bucket/lake",
            {"endpoint": "https://s3.example.com", "path_style": False},
            {"endpoint": "https://bucket.s3.example.com", "virtual_hosted_style_request": "true"},
        ),
        ("s3://bucket/lake", {"endpoint": "http://host:9", "path_style": True}, {"endpoint": "http://host:9"}),
        ("s3://bucket/lake", {"server_side_encryption": "aws:kms", "sse_kms_key_id": "k"}, {"sse_kms_key_id": "k"}),
        ("gs://bucket/lake", {"bearer_token": "t"}, {"bucket": "bucket", "bearer_token": "t"}),
        ("gs://bucket/lake", {"endpoint": "http://host:9", "anonymous": True}, {"base_url": "http://host:9"}),
        (
            "abfss://container@account.dfs.core.windows.net/lake",
            {"bearer_token": "t"},
            {"account_name": "account", "container_name": "container", "token": "t"},
        ),
        (
            "az://container/lake",
            {"account_name": "account", "sas_token": "sig=x"},
            {"account_name": "account", "container_name": "container", "sas_key": "sig=x"},
        ),
        (
            "az://container/l",
            {"account_name": "a", "client_id": "i", "client_secret": "s", "tenant_id": "t"},
            {"client_id": "i"},
        ),
    ],
)
def test_options_reach_the_store_of_each_cloud(url, options, expected):
    location = parse_location(url)
    known = StorageOptions.of(options)
    store = open_backend(location, known, None, is_patient=False)
    assert store.prefix == location.path
    found = {name: str(value) for name, value in store.config.items()}
    assert found.items() >= expected.items()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("abfss://container/lake", "write abfss://<container>@<account>.dfs.core.windows.net/<path>"),
        ("az:///lake", "it names no bucket"),
    ],
)
def test_an_azure_url_that_names_no_account_is_explained(url, problem):
    with pytest.raises(InvalidUriError, match=problem):
        open_store(url).get("file")


def test_credentials_of_a_provider_reach_delta_rs_for_each_cloud():
    provided = {"access_key_id": "a", "secret_access_key": "b", "token": "t", "expires_at": None}
    options = {"credential_provider": lambda: provided}
    found = delta_options(parse_location("s3://bucket/table"), {**options, "endpoint": "http://host:9"})
    assert found["aws_session_token"] == "t"
    assert found["aws_endpoint"] == "http://host:9"
    assert found["allow_http"] == "true"
    assert delta_options(parse_location("gs://bucket/table"), options)["google_bearer_token"] == "t"
    found = delta_options(parse_location("abfss://c@account.dfs.core.windows.net/t"), options)
    assert found["azure_storage_token"] == "t"
    assert found["azure_storage_account_name"] == "account"
    assert delta_options(parse_location("/folder"), options) == {}


def test_a_folder_that_overwrites_what_it_must_refuse_is_no_place_for_a_lake(tmp_path, monkeypatch):
    lakespark.Lake(tmp_path).repository("demo").create()
    monkeypatch.setattr("os.link", lambda _source, target: Path(target).write_bytes(b""))
    with pytest.raises(UnsafeStoreError, match=f"{tmp_path}/new is no safe place"):
        lakespark.Lake(tmp_path).repository("new").create()
    with pytest.raises(UnsafeStoreError, match=f"{tmp_path}/demo is no safe place"):
        lakespark.Repository.open(tmp_path / "demo")


def test_a_folder_without_hard_links_is_no_place_for_a_lake(tmp_path, monkeypatch):
    """As most mounts of object stores are."""

    def refuse(_source, _target):
        raise OSError(95, "Operation not supported")

    lakespark.Lake(tmp_path).repository("demo").create()
    monkeypatch.setattr("os.link", refuse)
    with pytest.raises(UnsafeStoreError, match="this file system has no hard links"):
        lakespark.Lake(tmp_path).repository("new").create()
    with pytest.raises(UnsafeStoreError, match="this file system has no hard links"):
        lakespark.Repository.open(tmp_path / "demo")
    assert not (tmp_path / "new" / probe.PROBE_KEY).exists()


def test_a_folder_that_may_not_be_written_can_be_read(tmp_path, monkeypatch):
    def refuse(_source, _target):
        raise OSError(30, "Read-only file system")

    lakespark.Lake(tmp_path).repository("demo").create()
    monkeypatch.setattr("os.link", refuse)
    assert lakespark.Repository.open(tmp_path / "demo").id == "demo"
