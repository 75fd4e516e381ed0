"""Deleting many objects of S3: a thousand a request, and no key taken for deleted that the store
did not name."""

from __future__ import annotations

import re

import pytest

from blockstore.errors import AccessDenied, Throttled, Unanswered
from tests.blockstore.bucket.conftest import Script
from tests.support.scripted_s3 import Answer, Scripted


def result(*deleted: str, **errors: str) -> Answer:
    """The answer to a batch: keys deleted, and keys with the code of their error."""
    parts = [f"<Deleted><Key>{key}</Key></Deleted>" for key in deleted]
    parts += [
        f"<Error><Key>{key}</Key><Code>{code}</Code><Message>so it is</Message></Error>"
        for key, code in errors.items()
    ]
    return Answer(body=f"<DeleteResult>{''.join(parts)}</DeleteResult>".encode())


def asked(server: Scripted) -> list[tuple[str, list[str]]]:
    """Each request: its method and the keys that it names."""
    return [
        (
            request.method,
            re.findall(rb"<Key>(.*?)</Key>", request.body)
            or [request.path.partition("?")[0].encode()],
        )
        for request in server.requests
    ]  # type: ignore[misc]


def test_a_thousand_keys_are_one_request(s3_script: Script) -> None:
    keys = [f"block/{number:04d}" for number in range(2_001)]
    bucket, server = s3_script(
        result(*keys[:1_000]), result(*keys[1_000:2_000]), Answer(status=204)
    )
    bucket.delete(iter(keys))
    assert [(method, len(names)) for method, names in asked(server)] == [
        ("POST", 1_000),
        ("POST", 1_000),
        ("DELETE", 1),
    ]


def test_one_key_is_a_plain_delete(s3_script: Script) -> None:
    bucket, server = s3_script(Answer(status=204))
    bucket.delete(["a"])
    assert asked(server) == [("DELETE", [b"/bucket/a"])]


def test_a_key_that_the_answer_does_not_name_is_deleted_by_itself(s3_script: Script) -> None:
    """A server that does not know batches may answer 200 to anything."""
    bucket, server = s3_script(result("a"), Answer(status=204))
    bucket.delete(["a", "b", "c"])
    assert asked(server)[1:] == [("DELETE", [b"/bucket/b"]), ("DELETE", [b"/bucket/c"])]


@pytest.mark.parametrize(
    "refusal",
    [
        Answer(status=501, code="NotImplemented"),
        Answer(status=405, code="MethodNotAllowed"),
        Answer(status=400, code="MalformedXML"),
        Answer(status=404, code="NoSuchKey"),
    ],
)
def test_a_store_without_batches_is_asked_key_by_key_from_then_on(
    s3_script: Script, refusal: Answer
) -> None:
    bucket, server = s3_script(refusal, Answer(status=204))
    bucket.delete(["a", "b"])
    bucket.delete(["c", "d"])
    assert [method for method, _ in asked(server)] == [
        "POST",
        "DELETE",
        "DELETE",
        "DELETE",
        "DELETE",
    ]


def test_a_missing_key_is_no_error_in_a_batch(s3_script: Script) -> None:
    bucket, server = s3_script(result("a", b="NoSuchKey"))
    bucket.delete(["a", "b"])
    assert len(server.requests) == 1


def test_a_key_that_may_not_be_deleted_is_named(s3_script: Script) -> None:
    bucket, _ = s3_script(result("a", locked="AccessDenied"))
    with pytest.raises(AccessDenied, match=r"s3://bucket/locked.*so it is"):
        bucket.delete(["a", "locked"])


def test_what_can_be_tried_again_is_raised_before_what_cannot(s3_script: Script) -> None:
    bucket, _ = s3_script(result(locked="AccessDenied", busy="SlowDown"))
    with pytest.raises(Throttled, match="busy"):
        bucket.delete(["locked", "busy"])


def test_an_answer_that_was_lost_leaves_it_open(s3_script: Script) -> None:
    bucket, _ = s3_script(Answer(status=500, code="InternalError"))
    with pytest.raises(Unanswered):
        bucket.delete(["a", "b"])
    bucket, _ = s3_script(result(a="InternalError"))
    with pytest.raises(Unanswered):
        bucket.delete(["a", "b"])


def test_no_access_to_batches_is_no_reason_to_try_key_by_key(s3_script: Script) -> None:
    bucket, server = s3_script(Answer(status=403, code="AccessDenied"))
    with pytest.raises(AccessDenied):
        bucket.delete(["a", "b"])
    assert len(server.requests) == 1
