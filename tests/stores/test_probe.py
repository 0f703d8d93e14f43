"""A store that overwrites what it was told to create is refused, when a repository is created and when it is opened."""

from __future__ import annotations

import pytest
from fault_proxy import Answer, IgnoreCondition

import lakespark
from lakespark import errors


@pytest.fixture
def lake(s3_server, options):
    return lakespark.Lake(f"s3://{s3_server.make_bucket()}/lake", **options)


def ignore_conditions(proxy):
    proxy.rule = lambda _request: IgnoreCondition()


def keys(s3_server, lake) -> list[str]:
    bucket = lake.location.split("/")[2]
    return [found["Key"] for found in s3_server.client().list_objects_v2(Bucket=bucket).get("Contents", ())]


def test_a_store_that_ignores_conditions_is_refused_before_anything_is_written(s3_server, proxy, lake):
    ignore_conditions(proxy)
    with pytest.raises(errors.UnsafeStoreError, match=r"no safe place for a lake.*If-None-Match"):
        lake.repository("demo").create()
    assert keys(s3_server, lake) == []


def test_a_store_without_conditional_writes_is_refused(s3_server, proxy, lake):
    proxy.rule = lambda request: Answer(501, "NotImplemented") if "if-none-match" in request.headers else None
    with pytest.raises(errors.UnsafeStoreError, match="has no conditional writes"):
        lake.repository("demo").create()
    assert keys(s3_server, lake) == []


def test_a_repository_that_was_moved_to_such_a_store_is_not_opened(proxy, lake, options):
    namespace = lake.repository("demo").create().properties.storage_namespace
    ignore_conditions(proxy)
    with pytest.raises(errors.UnsafeStoreError, match="no safe place"):
        lakespark.Repository.open(namespace, **options)
    with pytest.raises(errors.UnsafeStoreError, match="no safe place"):
        lakespark.Lake(lake.location, **options).repository("demo").branch("main").get_commit()
    proxy.heal()
    assert lakespark.Repository.open(namespace, **options).branch("main").get_commit().message == "Repository created"


def test_opening_asks_the_store_once(proxy, lake, options):
    repo = lake.repository("demo").create()
    proxy.requests = []
    namespace = repo.properties.storage_namespace
    proxy.requests = []
    opened = lakespark.Repository.open(namespace, **options)
    opened.branch("main").get_commit()
    assert [request.method for request in proxy.requests].count("PUT") == 1


def test_who_may_not_write_can_read(proxy, lake, options):
    main = lake.repository("demo").create().branch("main")
    main.object("a").upload(b"1")
    proxy.rule = lambda request: Answer(403, "AccessDenied") if request.method != "GET" else None
    opened = lakespark.Repository.open(lake.repository("demo").properties.storage_namespace, **options)
    assert opened.branch("main").object("a").reader().read() == b"1"
    with pytest.raises(errors.AccessDeniedError, match="do not allow it"):
        opened.branch("main").object("b").upload(b"2")


def test_the_probe_leaves_nothing(s3_server, lake):
    lake.repository("demo").create()
    assert not [key for key in keys(s3_server, lake) if "probe" in key]
