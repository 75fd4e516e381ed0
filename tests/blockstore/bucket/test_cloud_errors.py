"""Every answer of a store as a typed error, through obstore: what was sent, and how often."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from obstore.exceptions import GenericError

from blockstore.bucket import Bucket, cloud_stores
from blockstore.bucket.cloud import CloudBucket
from blockstore.bucket.cloud_errors import classify
from blockstore.bucket.cloud_stores import Kind
from blockstore.clock import ManualClock
from blockstore.errors import (
    AccessDenied,
    AlreadyExists,
    BlockstoreError,
    Contended,
    Invalid,
    NoSpace,
    NotFound,
    PreconditionFailed,
    Throttled,
    Unanswered,
    Unavailable,
)
from tests.support.scripted_s3 import Answer, Scripted

READS: dict[str, Callable[[Bucket], object]] = {
    "get": lambda bucket: bucket.get("a/b"),
    "get_range": lambda bucket: bucket.get_range("a/b", 0, 10),
    "list": lambda bucket: list(bucket.list("a/")),
    "prefixes": lambda bucket: list(bucket.prefixes("a/")),
}
WRITES: dict[str, Callable[[Bucket], object]] = {
    "put": lambda bucket: bucket.put("a/b", b"x"),
    "put_if_absent": lambda bucket: bucket.put_if_absent("a/b", b"x"),
    "put_if_match": lambda bucket: bucket.put_if_match("a/b", b"x", "etag"),
    "delete": lambda bucket: bucket.delete(["a/b"]),
}
METHODS = READS | WRITES

EVERYWHERE: list[tuple[int, str, type[BlockstoreError]]] = [
    (503, "SlowDown", Throttled),
    (429, "TooManyRequests", Throttled),
    (403, "AccessDenied", AccessDenied),
    (403, "SignatureDoesNotMatch", AccessDenied),
    (401, "Unauthorized", AccessDenied),
    (400, "ExpiredToken", AccessDenied),
    (404, "NoSuchBucket", NotFound),
    (507, "InsufficientStorage", NoSpace),
    (501, "NotImplemented", Invalid),
    (400, "EntityTooLarge", Invalid),
    (301, "PermanentRedirect", Invalid),
]

Open = Callable[..., tuple[CloudBucket, Scripted]]


@pytest.fixture
def scripted(scripted_server: Scripted, monkeypatch: pytest.MonkeyPatch) -> Open:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", scripted_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "scripted")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "scripted")

    def make(*responses: Answer) -> tuple[CloudBucket, Scripted]:
        scripted_server.script(*responses)
        return CloudBucket(Kind.S3, "bucket", ManualClock()), scripted_server

    return make


def exact(request: Callable[[Bucket], object], bucket: Bucket) -> type[BaseException]:
    """The class of what ``request`` raises."""
    with pytest.raises(BlockstoreError) as raised:
        request(bucket)
    assert "bucket" in str(raised.value)
    assert "Debug source" not in str(raised.value)
    return raised.type


@pytest.mark.parametrize("token", ["", "one"])
def test_an_empty_session_token_is_none(
    scripted: Open, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many environments have it: sent, it makes a store refuse the keys."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    bucket, server = scripted(Answer(status=404, code="NoSuchKey"))
    with pytest.raises(NotFound):
        bucket.get("a/b")
    sent = {name.lower(): value for name, value in server.requests[0].headers.items()}
    assert sent.get("x-amz-security-token", "") == token
    assert ("x-amz-security-token" in sent["authorization"]) == bool(token)


@pytest.mark.parametrize(("status", "code", "expected"), EVERYWHERE)
@pytest.mark.parametrize("method", METHODS)
def test_an_answer_means_the_same_to_every_method(
    scripted: Open, method: str, status: int, code: str, expected: type[BlockstoreError]
) -> None:
    bucket, server = scripted(Answer(status=status, code=code))
    assert exact(METHODS[method], bucket) is expected
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["put", "put_if_match", "delete"])
def test_a_conflict_was_not_applied_and_may_be_sent_again(scripted: Open, method: str) -> None:
    assert (
        exact(WRITES[method], scripted(Answer(status=409, code="OperationAborted"))[0]) is Contended
    )


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("method", METHODS)
def test_a_server_error_leaves_a_write_unanswered_and_is_sent_once(
    scripted: Open, method: str, status: int
) -> None:
    bucket, server = scripted(Answer(status=status, code="UnknownError" if status == 500 else ""))
    assert exact(METHODS[method], bucket) is (Unanswered if method in WRITES else Unavailable)
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", METHODS)
def test_a_connection_that_breaks_leaves_a_write_unanswered_and_is_sent_once(
    scripted: Open, method: str
) -> None:
    bucket, server = scripted(Answer(reset=True))
    assert exact(METHODS[method], bucket) is (Unanswered if method in WRITES else Unavailable)
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["get", "put", "put_if_absent", "put_if_match"])
def test_a_store_that_says_nothing_leaves_a_write_unanswered_and_is_asked_once(
    scripted: Open, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_stores, "_WHOLE_TIMEOUT", "0.2s")
    monkeypatch.setenv("AWS_EXECUTION_ENV", "impatient")  # another environment, another store
    bucket, server = scripted(Answer(silent=True))
    assert exact(METHODS[method], bucket) is (Unanswered if method in WRITES else Unavailable)
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", METHODS)
def test_a_connection_that_never_opened_carried_nothing(
    scripted: Open, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, _ = scripted(Answer())
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert exact(METHODS[method], bucket) is Unavailable


@pytest.mark.parametrize("method", ["get", "get_range"])
def test_a_body_cut_short_is_not_an_object(scripted: Open, method: str) -> None:
    headers = {"ETag": '"e"', "Last-Modified": "Tue, 14 Nov 2023 23:13:20 GMT"}
    answer = Answer(body=b"half", claimed_length=8, headers=headers)
    assert exact(READS[method], scripted(answer)[0]) is Unavailable


def test_a_failed_condition_is_the_callers_answer(scripted: Open) -> None:
    bucket, server = scripted(Answer(status=412, code="PreconditionFailed"))
    assert exact(WRITES["put_if_absent"], bucket) is AlreadyExists
    assert exact(WRITES["put_if_match"], bucket) is PreconditionFailed
    assert len(server.requests) == 2


def test_a_listing_that_breaks_off_midway_ends_with_an_error(scripted: Open) -> None:
    page = (
        b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
        b"<Contents><Key>a/1</Key><LastModified>2024-01-01T00:00:00.123Z</LastModified><Size>3</Size></Contents>"
        b"</ListBucketResult>"
    )
    bucket, server = scripted(Answer(body=page), Answer(status=500, code="InternalError"))
    with pytest.raises(Unavailable):
        list(bucket.list("a/"))
    assert "continuation-token=t" in server.requests[1].path


def test_a_words_that_nobody_knows_yet_make_us_ask_again() -> None:
    """A later obstore may change its texts: then nothing is assumed."""
    error = GenericError("a sentence of the future")
    assert type(classify(error, "s3://bucket/a", "bucket", write=True)) is Unanswered
    assert type(classify(error, "s3://bucket/a", "bucket", write=False)) is Unavailable


def test_missing_credentials_are_called_that() -> None:
    error = GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 1ms")
    assert type(classify(error, "s3://bucket/a", "bucket", write=True)) is AccessDenied
