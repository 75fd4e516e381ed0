"""Every answer of an S3 store as a typed error, through the real client: what was sent, and how
often."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blockstore.bucket import Bucket, s3_client
from blockstore.errors import (
    AccessDenied,
    AlreadyExists,
    BlockstoreError,
    Contended,
    Invalid,
    NoSpace,
    NotFound,
    ObjectMissing,
    PreconditionFailed,
    Throttled,
    Unanswered,
    Unavailable,
)
from tests.blockstore.bucket.conftest import Script
from tests.support.scripted_s3 import Answer

READS: dict[str, Callable[[Bucket], object]] = {
    "get": lambda bucket: bucket.get("a/b"),
    "get_range": lambda bucket: bucket.get_range("a/b", 0, 10),
    "head": lambda bucket: bucket.head("a/b"),
    "list": lambda bucket: list(bucket.list("a/")),
    "prefixes": lambda bucket: list(bucket.prefixes("a/")),
}
PLAIN_WRITES: dict[str, Callable[[Bucket], object]] = {
    "put": lambda bucket: bucket.put("a/b", b"x"),
    "delete": lambda bucket: bucket.delete(["a/b"]),
}
CONDITIONAL_WRITES: dict[str, Callable[[Bucket], object]] = {
    "put_if_absent": lambda bucket: bucket.put_if_absent("a/b", b"x"),
    "put_if_match": lambda bucket: bucket.put_if_match("a/b", b"x", "etag"),
}
WRITES = PLAIN_WRITES | CONDITIONAL_WRITES
METHODS = READS | WRITES

EVERYWHERE: list[tuple[int, str, type[BlockstoreError]]] = [
    (503, "SlowDown", Throttled),
    (429, "TooManyRequests", Throttled),
    (409, "ConditionalRequestConflict", Contended),
    (409, "OperationAborted", Contended),
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


def exact(request: Callable[[Bucket], object], bucket: Bucket) -> type[BaseException]:
    """The class of what ``request`` raises."""
    with pytest.raises(BlockstoreError) as raised:
        request(bucket)
    assert "bucket" in str(raised.value)
    return raised.type


@pytest.mark.parametrize(("status", "code", "expected"), EVERYWHERE)
@pytest.mark.parametrize("method", METHODS)
def test_an_answer_means_the_same_to_every_method(
    s3_script: Script, method: str, status: int, code: str, expected: type[BlockstoreError]
) -> None:
    bucket, server = s3_script(Answer(status=status, code=code))
    found = exact(METHODS[method], bucket)
    if method == "head" and code in {"SlowDown", "ExpiredToken", "NoSuchBucket"}:
        # The answer to HEAD has no body, hence no code: only the status speaks.
        assert found in {Unavailable, Invalid, ObjectMissing}
    else:
        assert found is expected
    # In case the bucket is in another region, botocore requests it once; it finds out nothing
    # here.
    asked = [request for request in server.requests if request.path.partition("?")[0] != "/bucket"]
    assert len(asked or server.requests[:1]) == 1
    assert len(server.requests) == 1 or status == 301 or (method, status) == ("head", 400)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("method", METHODS)
def test_a_server_error_leaves_a_write_unanswered_and_is_sent_once(
    s3_script: Script, method: str, status: int
) -> None:
    bucket, server = s3_script(Answer(status=status, code="InternalError" if status == 500 else ""))
    assert exact(METHODS[method], bucket) is (Unanswered if method in WRITES else Unavailable)
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", METHODS)
def test_a_connection_that_breaks_leaves_a_write_unanswered_and_is_sent_once(
    s3_script: Script, method: str
) -> None:
    bucket, server = s3_script(Answer(reset=True))
    assert exact(METHODS[method], bucket) is (Unanswered if method in WRITES else Unavailable)
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["get", "put", "put_if_absent", "put_if_match"])
def test_a_store_that_says_nothing_leaves_a_write_unanswered_and_is_asked_once(
    s3_script: Script, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_client, "_READ_TIMEOUT_S", 0.2)
    monkeypatch.setenv("AWS_EXECUTION_ENV", "impatient")  # another environment, another client
    bucket, server = s3_script(Answer(silent=True))
    assert exact(METHODS[method], bucket) is (Unanswered if method in WRITES else Unavailable)
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", METHODS)
def test_a_connection_that_never_opened_carried_nothing(
    s3_script: Script, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, _ = s3_script(Answer())
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert exact(METHODS[method], bucket) is Unavailable


@pytest.mark.parametrize("method", ["get", "get_range"])
def test_a_body_cut_short_is_not_an_object(s3_script: Script, method: str) -> None:
    answer = Answer(body=b"half", claimed_length=8, headers={"ETag": '"e"'})
    assert exact(READS[method], s3_script(answer)[0]) is Unavailable


def test_a_failed_condition_is_the_callers_answer(s3_script: Script) -> None:
    bucket, server = s3_script(Answer(status=412, code="PreconditionFailed"))
    assert exact(WRITES["put_if_absent"], bucket) is AlreadyExists
    assert exact(WRITES["put_if_match"], bucket) is PreconditionFailed
    headers = [
        {name.lower(): value for name, value in request.headers.items()}
        for request in server.requests
    ]
    assert headers[0]["if-none-match"] == "*"
    assert headers[1]["if-match"] == "etag"


def test_if_match_on_a_missing_object_is_a_failed_condition_whatever_the_status(
    s3_script: Script,
) -> None:
    bucket, _ = s3_script(Answer(status=404, code="NoSuchKey"))
    assert exact(WRITES["put_if_match"], bucket) is PreconditionFailed


@pytest.mark.parametrize("method", ["get", "get_range", "head"])
def test_a_missing_object_is_missing(s3_script: Script, method: str) -> None:
    assert exact(READS[method], s3_script(Answer(status=404, code="NoSuchKey"))[0]) is ObjectMissing


def test_deleting_what_is_missing_is_no_error(s3_script: Script) -> None:
    bucket, server = s3_script(Answer(status=404, code="NoSuchKey"))
    bucket.delete(["a"])
    assert [request.method for request in server.requests] == ["DELETE"]


def test_a_missing_bucket_says_how_to_make_it(s3_script: Script) -> None:
    bucket, _ = s3_script(Answer(status=404, code="NoSuchBucket"))
    with pytest.raises(NotFound, match="aws s3 mb s3://bucket"):
        bucket.put("a", b"")


def test_missing_credentials_say_which(s3_script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, server = s3_script(Answer())
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(AccessDenied, match="AWS_ACCESS_KEY_ID"):
        bucket.get("a")
    assert server.requests == []


def test_a_listing_that_breaks_off_midway_ends_with_an_error(s3_script: Script) -> None:
    page = (
        b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
        b"<Contents><Key>a/1</Key><LastModified>2024-01-01T00:00:00.123Z</LastModified><Size>3</Size></Contents>"
        b"<Contents><Key>a/</Key><LastModified>2024-01-01T00:00:00.123Z</LastModified><Size>0</Size></Contents>"
        b"</ListBucketResult>"
    )
    bucket, server = s3_script(Answer(body=page), Answer(status=500, code="InternalError"))
    listing = bucket.list("a/")
    first = next(listing)
    assert (first.key, first.size, first.modified_ms, first.etag) == (
        "a/1",
        3,
        1_704_067_200_123,
        None,
    )
    with pytest.raises(Unavailable):
        next(listing)
    assert "continuation-token=t" in server.requests[1].path
