"""The bucket policies of ``conf/policies``, in force in an S3 server: what each role may do, and what it may not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import boto3
import pytest
from botocore.exceptions import ClientError
from s3_server import REGION, S3Server

import lakespark
from lakespark.errors import AccessDeniedError

POLICIES = Path(__file__).parents[2] / "conf" / "policies"
ROLES = ("reader", "writer", "merger", "collector")
EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


class Office(NamedTuple):
    """A server that asks who may do what, and the access keys of its users."""

    endpoint: str
    keys: dict[str, dict[str, str]]

    def lake(self, role: str, bucket: str) -> lakespark.Lake:
        location = f"s3://{bucket}/lake"
        return lakespark.Lake(location, user=role, endpoint=self.endpoint, region=REGION, **self.keys[role])

    def client(self, role: str) -> Any:
        names = {"aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key"}
        given = {name: self.keys[role][key] for name, key in names.items()}
        return boto3.client("s3", endpoint_url=self.endpoint, region_name=REGION, **given)


@pytest.fixture(scope="module")
def office() -> Iterator[Office]:
    """An owner who may do everything, and a user for each policy."""
    with S3Server() as server:
        bucket = server.make_bucket()
        iam = boto3.client("iam", endpoint_url=server.endpoint, region_name=REGION, **credentials())
        keys = {name: make_user(iam, name, policy(name, bucket)) for name in ROLES}
        keys["owner"] = make_user(iam, "owner", EVERYTHING)
        plain = {"Content-Type": "text/plain"}
        urlopen(Request(f"{server.endpoint}/moto-api/reset-auth", b"0", plain, method="POST")).close()
        yield Office(server.endpoint, keys)


def credentials() -> dict[str, str]:
    return {"aws_access_key_id": "test-access-key", "aws_secret_access_key": "test-secret-key"}


def policy(role: str, bucket: str) -> dict[str, Any]:
    """A policy for the repository ``demo`` of the lake in a bucket."""
    text = (POLICIES / f"{role}.json").read_text()
    for name, value in (("BUCKET", bucket), ("LAKE", "lake"), ("NAMESPACE", "lake/demo")):
        text = text.replace(name, value)
    return json.loads(text)


def make_user(iam: Any, name: str, document: dict[str, Any]) -> dict[str, str]:
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName=name, PolicyDocument=json.dumps(document))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"access_key_id": key["AccessKeyId"], "secret_access_key": key["SecretAccessKey"]}


@pytest.fixture(scope="module")
def owned(office: Office) -> lakespark.Repository:
    """The owner's repository, with something on its main branch."""
    bucket = office.client("owner").list_buckets()["Buckets"][0]["Name"]
    repo = office.lake("owner", bucket).repository("demo").create()
    repo.branch("main").object("a").upload("1")
    repo.branch("main").commit("first")
    return repo


@pytest.fixture
def repo(owned: lakespark.Repository) -> Iterator[lakespark.Repository]:
    """The same with a branch ``dev`` that has changed since it parted; what a test makes of it is taken away."""
    first = next(commit for commit in owned.branch("main").log() if commit.message == "first")
    dev = owned.branch("dev").create(first.id)
    dev.object("b").upload("2")
    dev.commit("on dev")
    yield owned
    for rule in owned.protection_rules():
        owned.unprotect(rule.pattern)
    for ref in [*owned.tags(), *owned.branches()]:
        if ref.id != "main":
            ref.delete()


@pytest.fixture
def as_role(office: Office, repo: lakespark.Repository) -> Any:
    """The repository opened by a role through its lake."""
    bucket = repo.properties.storage_namespace.split("/")[2]
    return lambda role: office.lake(role, bucket).repository("demo")


def seen(repo: lakespark.Repository) -> dict[str, Any]:
    return {b.id: (b.head.id, [o.path for o in b.objects()]) for b in repo.branches(hidden=True)}


STAGING = {
    "upload": lambda repo: repo.branch("dev").object("x").upload("x"),
    "delete": lambda repo: repo.branch("dev").delete_objects("b"),
    "reset": lambda repo: repo.branch("dev").reset_changes(),
}
CHANGES = {
    "commit": lambda repo: repo.branch("dev").commit("mine", allow_empty=True),
    "merge": lambda repo: repo.ref("dev").merge_into("main", allow_empty=True),
    "create a branch": lambda repo: repo.branch("new").create("main"),
    "create a tag": lambda repo: repo.tag("v1").create("main"),
    "move": lambda repo: repo.branch("dev").move_to("dev"),
    "undo": lambda repo: repo.undo(next(info.id for info, _ in repo.operations(ref="dev"))),
    "protect": lambda repo: repo.protect("main"),
    "delete a branch": lambda repo: repo.branch("dev").delete(),
}


@pytest.mark.parametrize("role", ROLES)
def test_every_role_reads(repo: lakespark.Repository, as_role: Any, role: str) -> None:
    mine = as_role(role)
    assert mine.branch("main").object("a").reader().read() == b"1"
    assert [change.path for change in mine.ref("main").diff("dev")] == ["b"]
    assert [commit.message for commit in mine.branch("dev").log(2)] == ["on dev", "first"]
    assert next(mine.operations()) == next(repo.operations())


@pytest.mark.parametrize("name", [*STAGING, *CHANGES])
def test_a_reader_changes_nothing(repo: lakespark.Repository, as_role: Any, name: str) -> None:
    before = seen(repo)
    with pytest.raises(AccessDeniedError):
        {**STAGING, **CHANGES}[name](as_role("reader"))
    assert seen(repo) == before


@pytest.mark.parametrize("name", CHANGES)
def test_a_writer_moves_no_ref(repo: lakespark.Repository, as_role: Any, name: str) -> None:
    before = seen(repo)
    with pytest.raises(AccessDeniedError):
        CHANGES[name](as_role("writer"))
    assert seen(repo) == before


@pytest.mark.parametrize("name", STAGING)
def test_a_writer_stages(repo: lakespark.Repository, as_role: Any, name: str) -> None:
    STAGING[name](as_role("writer"))
    assert [change.path for change in repo.branch("dev").uncommitted()] == {"upload": ["x"], "delete": ["b"]}.get(
        name, []
    )


@pytest.mark.usefixtures("repo")
@pytest.mark.parametrize("name", [*STAGING, *CHANGES])
def test_a_merger_does_everything(as_role: Any, name: str) -> None:
    mine = as_role("merger")
    {**STAGING, **CHANGES}[name](mine)
    assert name in STAGING or next(mine.operations())[0].user == "merger"


@pytest.mark.parametrize("name", STAGING)
def test_a_collector_stages_nothing(repo: lakespark.Repository, as_role: Any, name: str) -> None:
    before = seen(repo)
    with pytest.raises(AccessDeniedError):
        STAGING[name](as_role("collector"))
    assert seen(repo) == before


@pytest.mark.parametrize("role", ROLES)
def test_who_deletes_what(office: Office, repo: lakespark.Repository, role: str) -> None:
    """The collector alone deletes, and nobody the log of the ledger or what makes the folder a repository."""
    bucket, client = repo.properties.storage_namespace.split("/")[2], office.client(role)
    for place in ("data", "_lakespark/staging", "_lakespark/ranges", "_lakespark/metaranges", "_lakespark/views"):
        assert deletes(client, bucket, f"lake/demo/{place}/not-there") == (role == "collector")
    for place in ("_lakespark/ledger/_delta_log/00000000000000000000.json", "_lakespark/format.json"):
        assert not deletes(client, bucket, f"lake/demo/{place}")


def deletes(client: Any, bucket: str, key: str) -> bool:
    try:
        client.delete_object(Bucket=bucket, Key=key)
    except ClientError as error:
        return error.response["Error"]["Code"] != "AccessDenied"
    return True


def test_nobody_but_the_owner_gets_at_other_folders(office: Office, repo: lakespark.Repository) -> None:
    bucket = repo.properties.storage_namespace.split("/")[2]
    office.client("owner").put_object(Bucket=bucket, Key="lake/other/secret", Body=b"x")
    for role in ROLES:
        client = office.client(role)
        for act in (
            lambda client=client: client.get_object(Bucket=bucket, Key="lake/other/secret"),
            lambda client=client: client.put_object(Bucket=bucket, Key="lake/other/mine", Body=b"x"),
            lambda client=client: client.put_object(Bucket=bucket, Key="lake/demo/_lakespark/format.json", Body=b"x"),
        ):
            with pytest.raises(ClientError, match="AccessDenied"):
                act()
