"""What a store says when requests fail: each cause its class, in bounded time, and nothing half done."""

from __future__ import annotations

import itertools
import time
from typing import NamedTuple

import pytest
from fault_proxy import Answer, Delay, LoseRequest, LoseResponse

import lakespark
from lakespark import errors
from lakespark.storage import open_store


class Refusal(NamedTuple):
    """What a store answers, the class of the error that this is, and a pattern of its message."""

    answer: Answer
    kind: type[errors.StoreRefusedError]
    words: str


REFUSALS = [
    Refusal(Answer(403, "InvalidAccessKeyId"), errors.CredentialsError, "does not accept the credentials"),
    Refusal(Answer(403, "SignatureDoesNotMatch"), errors.CredentialsError, "does not accept the credentials"),
    Refusal(Answer(400, "ExpiredToken"), errors.CredentialsError, "have expired"),
    Refusal(Answer(403, "AccessDenied"), errors.AccessDeniedError, "do not allow it"),
    Refusal(Answer(403, "RequestTimeTooSkewed"), errors.ClockSkewError, "clock"),
    Refusal(Answer(404, "NoSuchBucket"), errors.BucketNotFoundError, "no such bucket"),
    Refusal(Answer(301, "PermanentRedirect"), errors.WrongEndpointError, "another region"),
    Refusal(
        Answer(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"),
        errors.WrongEndpointError,
        "another region, eu-west-1",
    ),
]
CALLS = {
    "get": lambda store: store.get("file"),
    "get_range": lambda store: store.get_range("file", 0, 1),
    "list": lambda store: list(store.list("")),
    "put": lambda store: store.put("file", b"1"),
    "put_if_absent": lambda store: store.put_if_absent("file", b"1"),
    "delete": lambda store: store.delete("file"),
}
TRANSIENT = [
    Answer(503, "SlowDown"),
    Answer(500, "InternalError"),
    Answer(429, "TooManyRequests"),
    LoseRequest(),
    LoseResponse(),
    Delay(1.2),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.answer.code)
def test_a_refusal_says_what_to_mend_at_once(broken, proxy, call, refusal):
    proxy.break_first(100, refusal.answer)
    began = time.monotonic()
    with pytest.raises(refusal.kind, match=f"cannot [a-z ]+ s3://bucket-.*{refusal.words}"):
        CALLS[call](broken)
    assert time.monotonic() - began < 1
    assert len(proxy.requests) == 1


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "ExpiredToken", "RequestTimeTooSkewed"])
def test_a_look_up_learns_the_reason_that_its_own_refusal_lacks(broken, proxy, code):
    refusal = next(refusal for refusal in REFUSALS if refusal.answer.code == code)
    proxy.break_first(100, refusal.answer)
    with pytest.raises(refusal.kind, match=refusal.words):
        broken.stat("file")
    assert [request.method for request in proxy.requests] == ["HEAD", "GET"]


@pytest.mark.parametrize("fault", TRANSIENT, ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_a_passing_failure_is_repeated_unnoticed(broken, proxy, call, fault):
    if call in ("get", "get_range"):
        broken.put("file", b"1")
    proxy.break_first(1, fault)
    CALLS[call](broken)
    assert len(proxy.requests) > 1


@pytest.mark.parametrize("fault", TRANSIENT, ids=str)
def test_a_create_whose_response_was_lost_knows_its_own_file_from_another_s(broken, proxy, fault):
    proxy.break_first(1, fault, method="PUT")
    assert broken.put_if_absent("mine", b"mine")
    proxy.heal()
    assert broken.put_if_absent("other", b"another's")
    proxy.break_first(1, fault, method="PUT")
    assert not broken.put_if_absent("other", b"mine")
    assert broken.get("other") == b"another's"


def test_a_conflict_with_another_request_is_tried_again(broken, proxy):
    """S3 answers 409 while another conditional write is under way: that says nothing about who wins."""
    proxy.break_first(2, Answer(409, "ConditionalRequestConflict"))
    assert broken.put_if_absent("file", b"1")
    assert len(proxy.requests) == 3


@pytest.mark.parametrize("call", CALLS)
def test_a_store_that_stays_overloaded_is_given_up_in_bounded_time(broken, proxy, call):
    proxy.break_first(1000, Answer(503, "SlowDown"))
    began = time.monotonic()
    with pytest.raises(errors.StoreUnavailableError, match=r"overloaded or failing.*503 SlowDown"):
        CALLS[call](broken)
    assert time.monotonic() - began < 3
    assert 3 < len(proxy.requests) < 20


def test_the_pauses_between_tries_grow_and_differ(s3_server, options, proxy):
    pauses = []
    for _ in range(3):
        store = open_store(f"s3://{s3_server.make_bucket()}", **options)
        times = []
        proxy.rule = lambda _request, times=times: times.append(time.monotonic()) or Answer(503, "SlowDown")
        with pytest.raises(errors.StoreUnavailableError):
            store.get("file")
        pauses.append([round(after - before, 3) for before, after in itertools.pairwise(times)])
    assert all(sum(found[2:4]) > sum(found[:2]) for found in pauses)
    assert len({found[0] for found in pauses}) > 1


def test_a_store_that_stays_silent_is_given_up(broken, proxy):
    proxy.break_first(1000, Delay(1.5))
    began = time.monotonic()
    with pytest.raises(errors.StoreUnavailableError, match="did not answer in time"):
        broken.put_if_absent("file", b"1")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "http://no-such-host.invalid"])
def test_an_endpoint_where_nothing_answers_is_named_at_once(options, endpoint):
    store = open_store("s3://bucket/lake", **{**options, "endpoint": endpoint, "retry_seconds": 60})
    began = time.monotonic()
    with pytest.raises(errors.WrongEndpointError, match=r"nothing answers at the endpoint.*check endpoint and region"):
        store.get("file")
    assert time.monotonic() - began < 2


def test_a_store_that_restarts_is_waited_for(broken, proxy):
    """A connection that is refused means a wrong endpoint only before the first answer."""
    broken.put("file", b"1")
    proxy.break_first(2, LoseRequest())
    assert broken.get("file") == b"1"


def test_a_bucket_that_is_not_there_is_no_absent_file(options):
    store = open_store("s3://no-such-bucket/lake", **options)
    for call in CALLS.values():
        with pytest.raises(errors.BucketNotFoundError, match="no such bucket"):
            call(store)


def test_a_listing_goes_on_where_it_broke(broken, proxy):
    for number in range(5):
        broken.put(f"log/{number}", b"")
    proxy.break_first(1, LoseResponse(), method="GET")
    assert sorted(file.key for file in broken.list("log")) == [f"log/{number}" for number in range(5)]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.answer.code)
def test_a_refused_creation_leaves_nothing_and_can_be_repeated(s3_server, options, proxy, refusal):
    bucket = s3_server.make_bucket()
    lake = lakespark.Lake(f"s3://{bucket}/lake", **options)
    proxy.break_first(1000, refusal.answer, method="PUT")
    with pytest.raises(refusal.kind, match=refusal.words):
        lake.repository("demo").create()
    proxy.heal()
    assert s3_server.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    lake.repository("demo").create()


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.answer.code)
def test_a_refusal_in_the_middle_of_work_leaves_the_branch_as_it_was(s3_server, options, proxy, refusal):
    lake = lakespark.Lake(f"s3://{s3_server.make_bucket()}/lake", **options)
    main = lake.repository("demo").create().branch("main")
    main.object("a").upload(b"1")
    before = main.get_commit().id
    for act in (lambda: main.commit("one"), lambda: main.object("b").upload(b"2")):
        proxy.break_first(1000, refusal.answer, method="PUT")
        with pytest.raises(refusal.kind, match=refusal.words):
            act()
        proxy.heal()
        assert main.get_commit().id == before
        assert [change.path for change in main.uncommitted()] == ["a"]
    main.commit("two")
    assert [commit.message for commit in main.log()][:1] == ["two"]


def test_an_upload_in_parts_survives_throttling_and_is_absent_if_it_fails(broken, proxy):
    body = bytes(range(256)) * (160 << 10)
    proxy.break_first(2, Answer(503, "SlowDown"), method="PUT")
    writer = broken.open_writer("large")
    writer.write(body)
    writer.close()
    assert broken.size("large") == len(body)
    proxy.break_first(1000, Answer(403, "AccessDenied"), method="PUT")
    writer = broken.open_writer("denied")
    with pytest.raises(errors.AccessDeniedError, match=r"cannot write .*denied"):
        _write_all(writer, body)
    proxy.heal()
    assert broken.get("denied") is None


def _write_all(writer, body):
    writer.write(body)
    writer.close()
