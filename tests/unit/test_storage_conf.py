"""One configuration for both: what Spark is told of a lake's stores."""

from __future__ import annotations

import pytest

from lakespark.spark import storage_conf

S3A = "spark.hadoop.fs.s3a."
HADOOP = "org.apache.hadoop.fs.s3a."
ABFS = "spark.hadoop.fs.azure."
ACCOUNT = "acc.dfs.core.windows.net"


def test_without_options_spark_finds_its_own_way():
    assert storage_conf("s3://bucket/lake", {}) == {}
    assert storage_conf("/folder", {"timeout": 30}) == {}
    assert storage_conf("/folder", {"durable": True}) == {}


def test_keys_endpoint_and_style_of_s3():
    options = {"endpoint": "http://host:9", "region": "eu-west-1", "access_key_id": "a", "secret_access_key": "b"}
    expected = {
        f"{S3A}endpoint": "http://host:9",
        f"{S3A}endpoint.region": "eu-west-1",
        f"{S3A}path.style.access": "true",
        f"{S3A}connection.ssl.enabled": "false",
        f"{S3A}access.key": "a",
        f"{S3A}secret.key": "b",
        f"{S3A}aws.credentials.provider": f"{HADOOP}SimpleAWSCredentialsProvider",
    }
    for location in ("s3://bucket/lake", "s3a://bucket/lake", "/folder"):
        assert storage_conf(location, options) == expected


def test_a_provider_is_asked_for_the_credentials_of_the_moment():
    provided = {"access_key_id": "a", "secret_access_key": "b", "token": "t", "expires_at": None}
    found = storage_conf("s3://bucket", {"credential_provider": lambda: provided})
    assert found[f"{S3A}session.token"] == "t"
    assert found[f"{S3A}aws.credentials.provider"] == f"{HADOOP}TemporaryAWSCredentialsProvider"


def test_other_options_of_s3():
    options = {"anonymous": True, "path_style": False, "request_payer": True}
    options |= {"server_side_encryption": "aws:kms", "sse_kms_key_id": "k"}
    assert storage_conf("s3://bucket", options) == {
        f"{S3A}path.style.access": "false",
        f"{S3A}requester.pays.enabled": "true",
        f"{S3A}encryption.algorithm": "SSE-KMS",
        f"{S3A}encryption.key": "k",
        f"{S3A}aws.credentials.provider": f"{HADOOP}AnonymousAWSCredentialsProvider",
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"account_key": "k"}, {f"{ABFS}account.key.{ACCOUNT}": "k"}),
        (
            {"sas_token": "s"},
            {f"{ABFS}account.auth.type.{ACCOUNT}": "SAS", f"{ABFS}sas.fixed.token.{ACCOUNT}": "s"},
        ),
        (
            {"client_id": "i", "client_secret": "s", "tenant_id": "t"},
            {
                f"{ABFS}account.oauth2.client.id.{ACCOUNT}": "i",
                f"{ABFS}account.oauth2.client.secret.{ACCOUNT}": "s",
                f"{ABFS}account.oauth2.client.endpoint.{ACCOUNT}": "https://login.microsoftonline.com/t/oauth2/token",
            },
        ),
    ],
)
def test_credentials_of_azure(options, expected):
    for location, account in ((f"abfss://c@{ACCOUNT}/lake", {}), ("az://c/lake", {"account_name": "acc"})):
        assert storage_conf(location, {**options, **account}).items() >= expected.items()


def test_a_service_account_of_google():
    assert storage_conf("gs://bucket/lake", {"service_account": "/key.json"}) == {
        "spark.hadoop.fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
        "spark.hadoop.fs.gs.auth.service.account.json.keyfile": "/key.json",
    }
