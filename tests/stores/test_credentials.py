"""Where credentials come from, and that bytes, tables and foreign keys all use them."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import deltalake
import pyarrow as pa
import pytest
from fault_proxy import Answer

import lakespark
from lakespark import errors
from lakespark.storage import open_store

KEY_OF_REQUEST = re.compile(r"Credential=([\w-]+)/")


@pytest.fixture(autouse=True)
def _no_aws_user(monkeypatch, tmp_path):
    """No credentials of this machine."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def bucket(s3_server) -> str:
    return s3_server.make_bucket()


class Provider:
    """Gives new keys each time that it is asked, good for so many seconds."""

    def __init__(self, seconds: float = 3600) -> None:
        self.seconds = seconds
        self.asked = 0

    def __call__(self) -> dict:
        self.asked += 1
        expires_at = datetime.now(UTC) + timedelta(seconds=self.seconds)
        return {
            "access_key_id": f"key-{self.asked}",
            "secret_access_key": "secret",
            "token": f"token-{self.asked}",
            "expires_at": expires_at,
        }


def keys_used(proxy) -> list[str]:
    """The access keys that signed the requests, in order; "" for none."""
    found = (KEY_OF_REQUEST.search(request.headers.get("authorization", "")) for request in proxy.requests)
    return [match[1] if match else "" for match in found]


def at_proxy(proxy, **options) -> dict:
    return {"endpoint": proxy.endpoint, "region": "us-east-1", **options}


def test_a_provider_is_asked_again_before_its_answer_expires(proxy, bucket):
    provider = Provider(seconds=1)
    store = open_store(f"s3://{bucket}", **at_proxy(proxy, credential_provider=provider))
    store.put("file", b"1")
    time.sleep(1.1)
    store.get("file")
    assert provider.asked >= 2
    first, last = keys_used(proxy)[0], keys_used(proxy)[-1]
    assert first != last
    assert proxy.requests[-1].headers["x-amz-security-token"] == last.replace("key", "token")


def test_a_provider_whose_answer_is_good_is_not_asked_for_each_request(proxy, bucket):
    provider = Provider()
    store = open_store(f"s3://{bucket}", **at_proxy(proxy, credential_provider=provider))
    for number in range(10):
        store.put(f"file-{number}", b"1")
    assert provider.asked == 1


def test_bytes_tables_imports_and_foreign_keys_are_signed_by_the_provider(s3_server, proxy, bucket):
    provider = Provider()
    lake = lakespark.Lake(f"s3://{bucket}/lake", **at_proxy(proxy, credential_provider=provider))
    main = lake.repository("demo").create().branch("main")
    main.object("a").upload(b"1")
    main.commit("one")
    options = {"aws_endpoint": s3_server.endpoint, "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    options |= {"aws_region": "us-east-1", "aws_allow_http": "true"}
    deltalake.write_deltalake(f"s3://{bucket}/table", pa.table({"x": [1]}), storage_options=options)
    s3_server.client().put_object(Bucket=bucket, Key="in//odd", Body=b"odd")
    main.import_data().delta_table(f"s3://{bucket}/table", "table").object(f"s3://{bucket}/in//odd", "odd").run()
    assert main.object("odd").reader().read() == b"odd"
    assert set(keys_used(proxy)) <= {f"key-{number}" for number in range(1, provider.asked + 1)}
    assert {request.headers["user-agent"].split("/")[0] for request in proxy.requests} >= {"object_store", "Boto3"}


def test_a_token_that_expires_in_the_middle_of_work_is_renewed(proxy, bucket):
    provider = Provider()
    lake = lakespark.Lake(f"s3://{bucket}/lake", **at_proxy(proxy, credential_provider=provider))
    main = lake.repository("demo").create().branch("main")
    main.object("a").upload(b"1")
    before = provider.asked
    proxy.break_first(1, Answer(400, "ExpiredToken"))
    main.commit("one")
    assert provider.asked > before
    assert main.get_commit().message == "one"


def upload(branch):
    branch.object("file").upload(b"1")


def commit(branch):
    branch.commit("work", idempotency_key=f"{branch.id}-1")


@pytest.mark.parametrize("work", [upload, commit])
def test_keys_that_expire_at_any_request_are_named_and_leave_old_or_new(proxy, bucket, work):
    """Nobody renews them. With other keys the same work is done, once."""
    keys = {"access_key_id": "a", "secret_access_key": "b", "session_token": "c"}
    repo = lakespark.Lake(f"s3://{bucket}/lake", **at_proxy(proxy, **keys)).repository("demo").create()
    for lifetime in itertools.count():
        branch = repo.branch(f"b{lifetime}").create("main")
        if work is commit:
            upload(branch)
        requests = itertools.count()
        proxy.rule = lambda _, requests=requests, lifetime=lifetime: (
            Answer(400, "ExpiredToken") if next(requests) >= lifetime else None
        )
        failure = None
        try:
            work(branch)
        except (errors.CredentialsError, errors.StateUnknownError) as error:
            failure = str(error)
        proxy.heal()
        work(branch)
        assert [found.path for found in branch.objects()] == ["file"]
        assert len(list(branch.log())) == (2 if work is commit else 1)
        if failure is None:
            break
        assert "have expired" in failure
    assert lifetime >= 4
    assert repo.fsck(objects=True).is_clean


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"access_key_id": "a", "secret_access_key": "b"}, "the answer of the credential_provider has no 'expires_at'"),
        ({"access_key_id": "a", "secret_access_key": "b", "expires_at": datetime(2030, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"access_key_id": "a", "expires_at": None}, "has no 'secret_access_key'"),
    ],
)
def test_a_provider_that_answers_wrongly_is_told_so(proxy, bucket, answer, words):
    store = open_store(f"s3://{bucket}", **at_proxy(proxy, credential_provider=lambda: answer))
    with pytest.raises(errors.CredentialsError, match=words):
        store.put("file", b"1")
    assert proxy.requests == []


def test_a_provider_that_fails_is_the_cause_of_the_error(proxy, bucket):
    def fail():
        raise LookupError("the vault is closed")

    store = open_store(f"s3://{bucket}", **at_proxy(proxy, credential_provider=fail))
    with pytest.raises(errors.CredentialsError, match="the credential_provider raised LookupError") as caught:
        store.get("file")
    assert isinstance(caught.value.__cause__, LookupError)
    assert proxy.requests == []


def test_keys_are_not_mixed_with_the_environment(proxy, bucket, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another-user")
    keys = {"access_key_id": "mine", "secret_access_key": "secret"}
    open_store(f"s3://{bucket}", **at_proxy(proxy, **keys)).put("file", b"1")
    assert keys_used(proxy) == ["mine"]
    assert "x-amz-security-token" not in proxy.requests[0].headers


def test_the_environment_is_used_where_the_caller_says_nothing(proxy, bucket, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    open_store(f"s3://{bucket}").put("file", b"1")
    assert keys_used(proxy) == ["of-environment"]
    assert proxy.requests[0].headers["x-amz-security-token"] == "token"


def test_a_profile_gives_keys_region_and_endpoint(proxy, bucket, tmp_path):
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = of-work\naws_secret_access_key = s\n")
    (tmp_path / "config").write_text(f"[profile work]\nregion = eu-west-3\nendpoint_url = {proxy.endpoint}\n")
    store = open_store(f"s3://{bucket}", profile="work")
    store.put("file", b"1")
    store.put("in/odd", b"1")
    assert store.get("in//odd") is None  # through boto3
    assert set(keys_used(proxy)) == {"of-work"}
    assert "/eu-west-3/s3/" in proxy.requests[0].headers["authorization"]


def test_a_profile_that_is_not_there_is_named(bucket):
    with pytest.raises(errors.CredentialsError, match=r"profile \(nobody\) could not be found"):
        open_store(f"s3://{bucket}", profile="nobody").get("file")


def test_a_role_is_assumed_by_a_profile_or_by_keys(s3_server, proxy, bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3_server.endpoint)
    role = "arn:aws:iam::123456789012:role/analyst"
    (tmp_path / "credentials").write_text("[base]\naws_access_key_id = base\naws_secret_access_key = s\n")
    (tmp_path / "config").write_text(f"[profile work]\nrole_arn = {role}\nsource_profile = base\nregion = us-east-1\n")
    for who in ({"profile": "work"}, {"role_arn": role, "access_key_id": "base", "secret_access_key": "s"}):
        proxy.heal()
        open_store(f"s3://{bucket}", **at_proxy(proxy, **who)).put("file", b"1")
        assert keys_used(proxy)[0].startswith("ASIA")  # temporary keys
        assert proxy.requests[0].headers["x-amz-security-token"]


@pytest.fixture
def container() -> Iterator[str]:
    """Where a container's credentials are served, as on ECS and EKS."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            expires = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
            keys = {"AccessKeyId": "of-container", "SecretAccessKey": "s", "Token": "t", "Expiration": expires}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(keys).encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_role_of_a_container_is_found(proxy, bucket, container, monkeypatch):
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", container)
    open_store(f"s3://{bucket}", **at_proxy(proxy)).put("file", b"1")
    assert keys_used(proxy) == ["of-container"]


def test_without_any_credentials_the_error_names_the_ways_at_once(proxy, bucket):
    began = time.monotonic()
    with pytest.raises(errors.CredentialsError, match="no AWS credentials: none in the environment"):
        open_store(f"s3://{bucket}", **at_proxy(proxy)).get("file")
    assert time.monotonic() - began < 2
    assert proxy.requests == []


def test_anonymous_requests_are_not_signed(s3_server, proxy, bucket):
    s3_server.client().put_object(Bucket=bucket, Key="public", Body=b"1", ACL="public-read")
    store = open_store(f"s3://{bucket}", **at_proxy(proxy, anonymous=True))
    assert store.get("public") == b"1"
    assert keys_used(proxy) == [""]


def test_a_url_expires_with_the_credentials_that_signed_it(proxy, bucket):
    provider = Provider(seconds=600)
    store = open_store(f"s3://{bucket}", **at_proxy(proxy, credential_provider=provider))
    store.put("file", b"1")
    assert store.presign("file", 86400).expires <= time.time() + 600
