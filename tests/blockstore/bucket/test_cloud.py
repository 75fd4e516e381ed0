"""What only the obstore adapter has: three stores' conditions, its own idea of time, prefixes, and
forks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from blockstore.bucket import NotModified, cloud_stores, open_bucket
from blockstore.bucket.cloud import CloudBucket
from blockstore.bucket.cloud_stores import Kind
from blockstore.clock import ManualClock
from blockstore.errors import (
    AlreadyExists,
    Contended,
    Invalid,
    ObjectMissing,
    PreconditionFailed,
    Unavailable,
)
from blockstore.world import World
from tests.support.scripted_s3 import Answer, Scripted

DATE = {"Date": "Tue, 14 Nov 2023 23:13:20 GMT"}
"""One hour after the manual clock's start."""

HEADERS = {"ETag": '"e"', "Last-Modified": "Tue, 14 Nov 2023 23:13:20 GMT"}
PLACES = {Kind.S3: "/bucket/a/b", Kind.GS: "/bucket/a%2Fb", Kind.AZ: "/account/bucket/a/b"}

Open = Callable[..., tuple[CloudBucket, Scripted]]


@pytest.fixture
def scripted(scripted_server: Scripted, monkeypatch: pytest.MonkeyPatch) -> Open:
    """``scripted(kind, *responses)``: a bucket of a kind of store, and the server that answers it
    so."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)
    endpoint = scripted_server.endpoint
    settings = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "scripted",
        "AWS_SECRET_ACCESS_KEY": "scripted",
        "GOOGLE_BASE_URL": endpoint,
        "GOOGLE_BEARER_TOKEN": "scripted",
        "AZURE_STORAGE_ENDPOINT": f"{endpoint}/account",
        "AZURE_STORAGE_ACCOUNT_NAME": "account",
        "AZURE_SKIP_SIGNATURE": "true",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    def make(
        kind: Kind, *responses: Answer, clock: ManualClock | None = None
    ) -> tuple[CloudBucket, Scripted]:
        scripted_server.script(*responses)
        return CloudBucket(kind, "bucket", clock or ManualClock()), scripted_server

    return make


def header(server: Scripted, name: str) -> str | None:
    """A header of the last request."""
    return {key.lower(): value for key, value in server.requests[-1].headers.items()}.get(name)


@pytest.mark.parametrize("kind", Kind)
def test_a_create_is_conditional_on_every_store(scripted: Open, kind: Kind) -> None:
    bucket, server = scripted(kind, Answer(headers={**HEADERS, "x-goog-generation": "7"}))
    bucket.put_if_absent("a/b", b"x")
    assert (server.requests[0].method, server.requests[0].path) == ("PUT", PLACES[kind])
    if kind is Kind.GS:
        assert header(server, "x-goog-if-generation-match") == "0"
    else:
        assert header(server, "if-none-match") == "*"
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", Kind)
def test_a_compare_and_set_compares_what_the_store_knows_the_object_by(
    scripted: Open, kind: Kind
) -> None:
    bucket, server = scripted(
        kind, Answer(body=b"x", headers={**HEADERS, "x-goog-generation": "7"})
    )
    etag = bucket.get("a/b").etag
    assert '"' not in etag
    bucket.put_if_match("a/b", b"y", etag)
    sent = {
        Kind.S3: header(server, "if-match") == "e",
        Kind.AZ: header(server, "if-match") == '"e"',
        Kind.GS: header(server, "x-goog-if-generation-match") == "7",
    }
    assert sent[kind]


@pytest.mark.parametrize("kind", Kind)
def test_a_get_of_the_known_etag_asks_for_another_one(scripted: Open, kind: Kind) -> None:
    found = Answer(body=b"x", headers={**HEADERS, "x-goog-generation": "7"})
    bucket, server = scripted(kind, found, Answer(status=304, headers={"ETag": '"e"'}))
    with pytest.raises(NotModified):
        bucket.get("a/b", if_none_match=bucket.get("a/b").etag)
    assert header(server, "if-none-match") == ("e" if kind is Kind.S3 else '"e"')


def test_googles_etag_of_a_put_is_that_of_a_get(scripted: Open) -> None:
    bucket, _ = scripted(Kind.GS, Answer(body=b"x", headers={**HEADERS, "x-goog-generation": "7"}))
    assert bucket.put("a/b", b"x") == bucket.get("a/b").etag == bucket.head("a/b").etag == "e@7"


def test_the_stores_clock_is_that_of_the_endpoint_and_goes_on_with_ours(scripted: Open) -> None:
    clock = ManualClock()
    bucket, server = scripted(Kind.S3, Answer(status=403, headers=DATE), clock=clock)
    hour_ahead = clock.now_ms() + 3_600_000
    assert bucket.now_ms() == hour_ahead
    clock.advance(30)
    assert bucket.now_ms() == hour_ahead + 30_000
    assert [(request.method, request.path) for request in server.requests] == [("HEAD", "/")]
    assert header(server, "authorization") is None
    clock.advance(31)
    bucket.now_ms()
    assert len(server.requests) == 2


@pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}])
def test_an_endpoint_without_a_date_leaves_our_clock(
    scripted: Open, headers: dict[str, str]
) -> None:
    clock = ManualClock()
    assert scripted(Kind.GS, Answer(headers=headers), clock=clock)[0].now_ms() == clock.now_ms()


def test_an_endpoint_that_does_not_answer_is_no_time(scripted: Open) -> None:
    with pytest.raises(Unavailable):
        scripted(Kind.AZ, Answer(reset=True))[0].now_ms()


def test_a_store_that_does_not_know_ranges_is_cut_here(scripted: Open) -> None:
    bucket, _ = scripted(Kind.S3, Answer(body=b"0123456789", headers=HEADERS))
    assert bucket.get_range("a", 3, 4) == b"3456"


def test_a_conflict_on_a_key_that_is_free_is_to_be_sent_again_and_on_a_taken_one_lost(
    scripted: Open,
) -> None:
    """obstore calls both "already exists"."""
    conflict = Answer(status=409, code="ConditionalRequestConflict")
    bucket, server = scripted(Kind.S3, conflict, Answer(status=404))
    with pytest.raises(Contended):
        bucket.put_if_absent("a", b"x")
    assert [request.method for request in server.requests] == ["PUT", "HEAD"]
    bucket, _ = scripted(Kind.S3, conflict, Answer(headers=HEADERS))
    with pytest.raises(AlreadyExists):
        bucket.put_if_absent("a", b"x")
    bucket, server = scripted(Kind.S3, conflict)
    with pytest.raises(Contended):
        bucket.put_if_match("a", b"x", "e")
    assert len(server.requests) == 1


def test_azures_word_for_a_lost_create_is_understood(scripted: Open) -> None:
    bucket, _ = scripted(
        Kind.AZ, Answer(status=409, code="BlobAlreadyExists"), Answer(headers=HEADERS)
    )
    with pytest.raises(AlreadyExists):
        bucket.put_if_absent("a", b"x")


def test_a_missing_object_is_a_failed_condition(scripted: Open) -> None:
    bucket, _ = scripted(Kind.S3, Answer(status=404, code="NoSuchKey"))
    with pytest.raises(PreconditionFailed):
        bucket.put_if_match("a/b", b"x", "e")


def test_deletes_go_one_by_one_and_a_missing_key_is_no_error(scripted: Open) -> None:
    bucket, server = scripted(
        Kind.S3, Answer(status=204), Answer(status=404, code="NoSuchKey"), Answer(status=204)
    )
    bucket.delete(f"block/{name}" for name in ("meta", "z", "mark"))
    assert [(request.method, request.path) for request in server.requests] == [
        ("DELETE", f"/bucket/block/{name}") for name in ("meta", "z", "mark")
    ]


def test_a_listing_asks_for_what_comes_after_and_never_for_a_folders_name(scripted: Open) -> None:
    empty = Answer(body=b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
    bucket, server = scripted(Kind.S3, empty)
    list(bucket.list("index/", start_after="index/00000000000000000042.json", recursive=False))
    assert "start-after=index%2F0000000000000000004" in server.requests[-1].path
    list(bucket.list("", start_after="a/b"))
    assert "start-after" not in server.requests[-1].path


def test_a_listing_of_a_partial_name_asks_only_for_folders_that_begin_so() -> None:
    store = MemoryStore()
    bucket = CloudBucket(Kind.AZ, "memory", ManualClock(), store=lambda: store)
    for key in ("ab", "ab/c", "abc/d/e", "b/x"):
        bucket.put(key, b"")
    assert sorted(found.key for found in bucket.list("ab")) == ["ab", "ab/c", "abc/d/e"]
    assert sorted(bucket.prefixes("a")) == ["ab/", "abc/"]


def test_opening_sends_nothing_and_each_url_names_its_client(scripted: Open) -> None:
    _, server = scripted(Kind.S3, Answer())
    for url in ("s3://bucket/lake?client=obstore", "gs://bucket/lake", "az://container/lake"):
        bucket = open_bucket(url, World.manual())
        assert bucket.url == url
        assert open_bucket(bucket.url, World.manual()).url == url
    assert server.requests == []


@pytest.mark.s3
def test_a_profile_of_boto3_is_a_credential_here_too(
    s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = tmp_path / "credentials"
    profile.write_text(
        "[default]\n"
        f"aws_access_key_id = {os.environ['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {os.environ['AWS_SECRET_ACCESS_KEY']}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profile))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    bucket = open_bucket(f"{s3_url}?client=obstore", World.real())
    bucket.put("a", b"x")
    assert bucket.get("a").data == b"x"


@pytest.mark.s3
def test_both_clients_of_one_store_see_one_table(s3_url: str) -> None:
    ours, other = (
        open_bucket(s3_url, World.real()),
        open_bucket(f"{s3_url}?client=obstore", World.real()),
    )
    etag = other.put_if_absent("a/b", b"x")
    assert ours.get("a/b").etag == etag
    ours.put_if_match("a/b", b"y", etag)
    assert other.get("a/b").data == b"y"
    assert abs(ours.now_ms() - other.now_ms()) < 3_000


def in_a_child(act: Callable[[], object]) -> int:
    """The exit code of a forked child: 0 if the act ended, 1 if it was refused as invalid, else a
    signal."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            act()
        except Invalid:
            os._exit(1)
        except BaseException:
            os._exit(2)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_of_a_process_that_used_obstore_is_refused_instead_of_waiting_for_ever(
    scripted: Open,
) -> None:
    bucket, _ = scripted(Kind.S3, Answer(body=b"x", headers=HEADERS))
    bucket.get("a")
    assert in_a_child(lambda: bucket.get("a")) == 1
    assert in_a_child(lambda: CloudBucket(Kind.S3, "bucket", ManualClock()).get("a")) == 1
    assert bucket.get("a").data == b"x"


def test_who_forks_first_may_open_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_stores, "_used_in", None)
    assert in_a_child(cloud_stores.mark_used) == 0
    cloud_stores.mark_used()
    assert in_a_child(cloud_stores.mark_used) == 1


def test_a_missing_object_names_its_place(scripted: Open) -> None:
    bucket, _ = scripted(Kind.GS, Answer(status=404))
    with pytest.raises(ObjectMissing, match="gs://bucket/a/b"):
        bucket.get("a/b")
