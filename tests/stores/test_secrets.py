"""A secret that a caller passes is in no text and no file of lakespark's, whatever fails."""

from __future__ import annotations

import logging
import traceback
from datetime import UTC, datetime, timedelta

import pytest
from fault_proxy import Answer, LoseRequest

import lakespark
from lakespark.errors import LakesparkError
from lakespark.storage import StorageOptions, open_store
from lakespark.storage.delta_options import delta_options
from lakespark.storage.location import parse_location

SECRET, TOKEN = "CANARY-secret/access+key", "CANARY-session-token"
FAULTS = [
    Answer(403, "SignatureDoesNotMatch", f"<StringToSign>{SECRET}</StringToSign>"),
    Answer(400, "ExpiredToken", f"<Token-0>{TOKEN}</Token-0>"),
    Answer(403, "AccessDenied", f"<Message>{TOKEN}</Message>"),
    Answer(418, "Odd", f"<Message>{SECRET}</Message>"),
    Answer(503, "SlowDown"),
    LoseRequest(),
]


def _provider() -> dict:
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    return {"access_key_id": "a", "secret_access_key": SECRET, "token": TOKEN, "expires_at": expires_at}


@pytest.fixture(params=["keys", "provider"])
def secrets(request, proxy) -> dict:
    """Options with the secrets, given in both ways."""
    keys = {"access_key_id": "a", "secret_access_key": SECRET, "session_token": TOKEN}
    given = keys if request.param == "keys" else {"credential_provider": _provider}
    return {"endpoint": proxy.endpoint, "region": "us-east-1", "retry_seconds": 0.2, "timeout": 5, **given}


def test_no_text_of_a_value_shows_them(secrets):
    lake = lakespark.Lake("s3://bucket/lake", **secrets)
    store = open_store("s3://bucket/lake", **secrets)
    for value in (
        lake,
        lake.repository("demo"),
        lake.repository("demo").branch("main"),
        store,
        StorageOptions(**secrets),
    ):
        assert "CANARY" not in f"{value!r} {value!s}"


def test_no_error_shows_them(s3_server, proxy, secrets, caplog, capfd):
    caplog.set_level(logging.DEBUG, "lakespark")
    bucket = s3_server.make_bucket()
    for fault in FAULTS:
        for act in (
            lambda: open_store(f"s3://{bucket}", **secrets).get("file"),
            lambda: open_store(f"s3://{bucket}", **secrets).get("odd//file"),
            lambda: open_store(f"s3://{bucket}", **secrets).put_if_absent("file", b"1"),
            lambda: list(open_store(f"s3://{bucket}", **secrets).list("")),
            lambda: open_store(f"s3://{bucket}", **secrets).stat("file"),
            lambda: lakespark.Lake(f"s3://{bucket}/lake", **secrets).repository("demo").create(),
        ):
            proxy.break_first(1000, fault)
            with pytest.raises(LakesparkError) as caught:
                act()
            shown = "".join(traceback.format_exception(caught.value))
            assert "s3://bucket" in shown
            assert "CANARY" not in shown
    assert "CANARY" not in caplog.text
    assert "CANARY" not in "".join(capfd.readouterr())


def test_no_file_of_a_lake_holds_them(s3_server, secrets):
    bucket = s3_server.make_bucket()
    lake = lakespark.Lake(f"s3://{bucket}/lake", **secrets)
    repo = lake.repository("demo").create(metadata={"team": "a"})
    main = repo.branch("main")
    main.object("a").upload(b"1")
    main.commit("one")
    main.object("a").stat()
    client = s3_server.client()
    found = [page["Key"] for page in client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert len(found) > 5
    for key in found:
        body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        assert b"CANARY" not in body
        assert "CANARY" not in key


@pytest.mark.parametrize(
    "options",
    [
        {"endpoint": "https://user:CANARY@host"},
        {"endpoint": "https://host?token=CANARY"},
        {"secret_access_key": "CANARY"},
        {"session_token": "CANARY"},
        {"timeout": "CANARY"},
        {"access_key_id": "a", "secret_access_key": "CANARY", "profile": "p"},
    ],
)
def test_an_option_that_is_refused_is_not_quoted(options):
    with pytest.raises(LakesparkError) as caught:
        lakespark.Lake("s3://bucket/lake", **options)
    assert "CANARY" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("az://container/lake", {"account_name": "a", "account_key": "CANARY not base64"}),
        ("az://container/lake", {"account_name": "a", "sas_token": "sv=1&sig=CANARY"}),
        ("abfss://c@a.dfs.core.windows.net/lake", {"bearer_token": "CANARY"}),
        ("gs://bucket/lake", {"service_account_key": '{"private_key": "CANARY"}'}),
        ("gs://bucket/lake", {"bearer_token": "CANARY"}),
    ],
)
def test_secrets_of_azure_and_google_are_in_no_error(url, options):
    endpoint = {"endpoint": "http://127.0.0.1:9", "retry_seconds": 0.1}
    with pytest.raises(LakesparkError) as caught:
        open_store(url, **options, **endpoint).get("file")
    shown = "".join(traceback.format_exception(caught.value))
    assert url.split("/")[2] in shown
    assert "CANARY" not in shown
    assert "CANARY" in str(delta_options(parse_location(url), options))  # which goes to delta-rs alone
