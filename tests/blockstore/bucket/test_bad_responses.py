"""Stores and proxies that respond wrongly: never a wrong byte, by either client."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from blockstore.bucket import Bucket, ranges
from blockstore.bucket.cloud import CloudBucket
from blockstore.bucket.cloud_stores import Kind
from blockstore.bucket.retrying import Retrying
from blockstore.bucket.s3 import S3Bucket
from blockstore.bucket.s3_boto3 import Boto3Bucket
from blockstore.clock import ManualClock
from blockstore.errors import BlockstoreError, Unavailable
from blockstore.world import World
from tests.support.scripted_s3 import Answer, Scripted

HEADERS = {"ETag": '"e"', "Last-Modified": "Tue, 14 Nov 2023 23:13:20 GMT"}
DIGITS = b"0123456789"
CLIENTS: dict[str, Callable[[], Bucket]] = {
    "s3": lambda: S3Bucket("bucket", ManualClock()),
    "boto3": lambda: Boto3Bucket("bucket", ManualClock()),
    "obstore": lambda: CloudBucket(Kind.S3, "bucket", ManualClock()),
}

Open = Callable[..., tuple[Bucket, Scripted]]


@pytest.fixture(params=CLIENTS)
def scripted(
    request: pytest.FixtureRequest,
    scripted_server: Scripted,
    monkeypatch: pytest.MonkeyPatch,
) -> Open:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", scripted_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "scripted")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "scripted")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")

    def make(*responses: Answer) -> tuple[Bucket, Scripted]:
        scripted_server.script(*responses)
        return CLIENTS[request.param](), scripted_server

    return make


def part(body: bytes, content_range: str, *, claimed_length: int | None = None) -> Answer:
    said = {"Content-Range": content_range} if content_range else {}
    return Answer(status=206, body=body, headers={**HEADERS, **said}, claimed_length=claimed_length)


RIGHT = part(b"3456", "bytes 3-6/10")
WRONG = {
    "another-place": part(b"0123", "bytes 0-3/10"),
    "fewer-bytes": part(b"345", "bytes 3-5/10"),
    "more-bytes": part(b"34567", "bytes 3-7/10"),
    "a-short-body": part(b"345", "bytes 3-6/10"),
    "a-long-body": part(b"34567", "bytes 3-6/10"),
    "a-small-content-length": part(b"3456", "bytes 3-6/10", claimed_length=2),
    "a-body-that-breaks-off": part(b"34", "bytes 3-6/10", claimed_length=4),
    "no-content-range": part(b"3456", ""),
    "an-unknown-unit": part(b"3456", "items 3-6/10"),
    "an-object-that-breaks-off": Answer(body=b"01234567", claimed_length=10, headers=HEADERS),
    "a-reset": Answer(reset=True),
}
"""Responses to a request for bytes 3 to 7 of ten."""


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_response_for_a_range_is_no_data(scripted: Open, kind: str) -> None:
    bucket, _ = scripted(WRONG[kind])
    with pytest.raises(Unavailable, match="bucket/a"):
        bucket.get_range("a", 3, 4)


@pytest.mark.parametrize("kind", WRONG)
def test_it_is_requested_again(scripted: Open, kind: str) -> None:
    # A store that ignored the range once does so again.
    ignores = kind == "an-object-that-breaks-off"
    right = Answer(body=DIGITS, headers=HEADERS) if ignores else RIGHT
    bucket, server = scripted(WRONG[kind], right)
    assert Retrying(bucket, World.manual()).get_range("a", 3, 4) == b"3456"
    assert len(server.requests) == 2


def test_the_end_of_an_object_is_shorter_than_requested(scripted: Open) -> None:
    bucket, _ = scripted(part(b"89", "bytes 8-9/10"))
    assert bucket.get_range("a", 8, 4) == b"89"
    bucket, _ = scripted(Answer(status=416, code="InvalidRange"))
    assert bucket.get_range("a", 10, 4) == b""


def test_a_store_that_ignores_ranges_costs_bytes_and_changes_none_and_is_reported_once(
    scripted: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_ignoring", set())
    bucket, _ = scripted(Answer(body=DIGITS, headers=HEADERS))
    assert bucket.get_range("a", 3, 4) == b"3456"
    assert bucket.get_range("a", 8, 4) == b"89"
    assert bucket.get_range("a", 20, 4) == b""
    said = [record.getMessage() for record in caplog.records if record.name == ranges.__name__]
    assert len(said) == 1
    assert said[0].startswith("s3://bucket ignores ranges")


def test_an_object_whose_body_breaks_off_is_requested_again(scripted: Open) -> None:
    short = Answer(body=b"0123", claimed_length=10, headers=HEADERS)
    bucket, server = scripted(short, Answer(body=DIGITS, headers=HEADERS))
    assert Retrying(bucket, World.manual()).get("a").data == DIGITS
    assert len(server.requests) == 2


LISTED = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix></Prefix>
<KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>
<Contents><Key>a</Key><LastModified>2023-11-14T23:13:20.000Z</LastModified><ETag>"e"</ETag>
<Size>1</Size></Contents>
<Contents><Key>b</Key><LastModified>2023-11-14T23:13:20.000Z</LastModified><ETag>"e"</ETag>
<Size>1</Size></Contents></ListBucketResult>"""
BETWEEN = LISTED.index(b"<Contents><Key>b")
XML = {"Content-Type": "application/xml"}
BROKEN_LISTINGS = {
    "breaks-off": Answer(body=LISTED[:BETWEEN], claimed_length=len(LISTED), headers=XML),
    "a-small-content-length": Answer(body=LISTED, claimed_length=BETWEEN, headers=XML),
    "ends-within-an-entry": Answer(body=LISTED[: BETWEEN + 20], headers=XML),
    "empty": Answer(body=b"", headers=XML),
    "a-reset": Answer(reset=True),
}
"""Responses to a request for a listing of two keys."""


@pytest.mark.parametrize("kind", BROKEN_LISTINGS)
def test_a_broken_listing_is_no_listing_and_is_requested_again(scripted: Open, kind: str) -> None:
    bucket, _ = scripted(BROKEN_LISTINGS[kind])
    with pytest.raises(Unavailable, match="bucket"):
        list(bucket.list(""))
    bucket, server = scripted(BROKEN_LISTINGS[kind], Answer(body=LISTED, headers=XML))
    found = list(Retrying(bucket, World.manual()).list(""))
    assert [info.key for info in found] == ["a", "b"]
    assert len(server.requests) == 2


@pytest.mark.parametrize("response", [Answer(reset=True), Answer(status=500, code="InternalError")])
def test_a_conditional_write_is_never_sent_again(scripted: Open, response: Answer) -> None:
    bucket, server = scripted(response, Answer(headers=HEADERS))
    with pytest.raises(BlockstoreError):
        Retrying(bucket, World.manual()).put_if_absent("a", b"x")
    assert len(server.requests) == 1


def test_a_connection_that_was_closed_while_idle_costs_no_error(scripted: Open) -> None:
    bucket, _ = scripted(Answer(body=DIGITS, headers=HEADERS, hangs_up=True))
    patient = Retrying(bucket, World.manual())
    for _ in range(5):
        assert patient.get("a").data == DIGITS
        assert patient.get("a").etag == "e"
