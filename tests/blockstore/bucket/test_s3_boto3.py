"""What only the S3 adapter has: the store's clock, ranges, versions, processes, what it asks of a
listing."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from blockstore.bucket.s3_boto3 import Boto3Bucket
from blockstore.bucket.s3_client import parse_time, shared_client
from blockstore.clock import ManualClock, SystemClock
from blockstore.errors import AccessDenied, NotFound, Unavailable
from tests.blockstore.bucket.conftest import Script
from tests.support.scripted_s3 import Answer
from tests.support.two_clocks import TwoClocks

DATE = {"Date": "Tue, 14 Nov 2023 23:13:20 GMT"}
"""One hour after the manual clock's start."""


def test_the_stores_clock_is_read_from_an_answer_and_goes_on_with_ours(s3_script: Script) -> None:
    clock = ManualClock()
    bucket, server = s3_script(Answer(headers=DATE), clock=clock)
    hour_ahead = clock.now_ms() + 3_600_000
    assert bucket.now_ms() == hour_ahead
    clock.advance(30)
    assert bucket.now_ms() == hour_ahead + 30_000
    assert [request.method for request in server.requests] == ["HEAD"]
    clock.advance(31)
    bucket.now_ms()
    assert len(server.requests) == 2


def test_any_answer_tells_the_time_a_refusal_too(s3_script: Script) -> None:
    clock = ManualClock()
    bucket, server = s3_script(Answer(status=403, code="AccessDenied", headers=DATE), clock=clock)
    with pytest.raises(AccessDenied):
        bucket.get("a")
    assert bucket.now_ms() == clock.now_ms() + 3_600_000
    assert len(server.requests) == 1


def test_a_clock_of_ours_that_is_set_meanwhile_does_not_set_the_stores(s3_script: Script) -> None:
    clock = TwoClocks()
    date_ms = clock.now_ms() + 3_600_000
    bucket, server = s3_script(Answer(headers=DATE), Answer(headers=DATE), clock=clock)
    assert bucket.now_ms() == date_ms
    clock.wall_ms -= 7_200_000
    clock.steady_s += 30
    assert bucket.now_ms() == date_ms + 30_000
    assert len(server.requests) == 1
    clock.wall_ms += 20_000_000
    assert bucket.now_ms() == date_ms
    assert len(server.requests) == 2


def test_no_answer_is_no_time(s3_script: Script) -> None:
    bucket, _ = s3_script(Answer(reset=True))
    with pytest.raises(Unavailable):
        bucket.now_ms()


@pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}])
def test_a_store_without_a_date_leaves_our_clock(
    s3_script: Script, headers: dict[str, str]
) -> None:
    clock = ManualClock()
    bucket, _ = s3_script(Answer(headers=headers), clock=clock)
    assert bucket.now_ms() == clock.now_ms()


def test_a_store_that_does_not_know_ranges_is_cut_here(s3_script: Script) -> None:
    bucket, _ = s3_script(Answer(body=b"0123456789", headers={"ETag": '"e"'}))
    assert bucket.get_range("a", 3, 4) == b"3456"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>", True),
        (b"<VersioningConfiguration/>", False),
    ],
)
def test_a_bucket_says_whether_it_keeps_versions(
    s3_script: Script, body: bytes, expected: bool
) -> None:
    assert s3_script(Answer(body=body))[0].keeps_versions() is expected


def test_a_store_that_does_not_say_whether_it_keeps_versions_leaves_it_open(
    s3_script: Script,
) -> None:
    assert s3_script(Answer(status=501, code="NotImplemented"))[0].keeps_versions() is None
    with pytest.raises(NotFound):
        s3_script(Answer(status=404, code="NoSuchBucket"))[0].keeps_versions()


def test_a_forked_child_makes_a_client_of_its_own(s3_script: Script) -> None:
    bucket, _ = s3_script(Answer(body=b"x", headers={"ETag": '"e"'}))
    bucket.get("a")
    before = bucket._client
    child = os.fork()
    if child == 0:
        answered = bucket.get("a").data == b"x"
        os._exit(0 if answered and bucket._client is not before else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert bucket._client is before


def test_buckets_share_a_client_until_the_environment_changes(
    s3_script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_script(Answer())
    first = shared_client(16)
    assert shared_client(16) is first
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    assert shared_client(16) is not first


def test_the_client_sends_each_request_once_and_keeps_a_connection_a_thread(
    s3_script: Script,
) -> None:
    s3_script(Answer())
    config = shared_client(23).meta.config
    assert config.retries["total_max_attempts"] == 1
    assert config.max_pool_connections == 23


def test_opening_sends_no_request_and_needs_no_credentials() -> None:
    assert Boto3Bucket("name", SystemClock()).url == "s3://name?client=boto3"


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-02T03:04:05.678Z",
        "2024-01-02T03:04:05.678000+00:00",
        "2024-01-02T04:04:05.678+01:00",
    ],
)
def test_times_of_listings_are_parsed(text: str) -> None:
    assert parse_time(text) == datetime(2024, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def test_times_of_headers_are_parsed() -> None:
    assert parse_time("Tue, 14 Nov 2023 23:13:20 GMT").timestamp() == 1_700_003_600
