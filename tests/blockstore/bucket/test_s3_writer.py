"""Multipart uploads: bounded memory, lost responses, nothing visible early, nothing left behind."""

from __future__ import annotations

import hashlib

import pytest

from blockstore.bucket import s3_writer
from blockstore.bucket.retrying import Retrying
from blockstore.bucket.s3_writer import S3Writer
from blockstore.errors import Invalid, Unanswered
from blockstore.world import World
from tests.blockstore.bucket.conftest import Script
from tests.support.scripted_s3 import Answer, Scripted

PART = 1000
CREATED = Answer(body=b"<R><UploadId>upload-1</UploadId></R>")
COMPLETED = Answer(body=b'<R><ETag>"done"</ETag></R>')
FAILED = Answer(status=500, code="InternalError")
GONE = Answer(status=404, code="NoSuchUpload")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_writer, "PART_BYTES", PART)
    monkeypatch.setattr(s3_writer, "SMALL_BYTES", PART)


def part(data: bytes) -> Answer:
    return Answer(headers={"ETag": f'"{hashlib.md5(data).hexdigest()}"'})


def asked(server: Scripted) -> list[str]:
    """The requests in short: method and what distinguishes it."""
    found = []
    for request in server.requests:
        query = request.path.partition("?")[2]
        found.append(f"{request.method} {query.replace('uploadId=upload-1&', '')}".strip())
    return found


def test_a_small_object_is_one_plain_put(s3_script: Script) -> None:
    bucket, server = s3_script(Answer(headers={"ETag": '"e"'}))
    writer = bucket.writer("a")
    writer.write(b"x" * (PART - 1))
    assert server.requests == []
    writer.close()
    assert asked(server) == ["PUT"]
    assert server.requests[0].body == b"x" * (PART - 1)


def test_a_large_object_goes_in_parts_of_equal_size(s3_script: Script) -> None:
    data = bytes(range(256)) * 10
    bucket, server = s3_script(
        CREATED, part(data[:PART]), part(data[PART : 2 * PART]), part(data[2 * PART :]), COMPLETED
    )
    writer = bucket.writer("a")
    for start in range(0, len(data), 7):
        writer.write(memoryview(data)[start : start + 7])
        assert len(writer._buffer) < PART
    writer.close()
    writer.close()
    assert asked(server) == [
        "POST uploads",
        "PUT partNumber=1",
        "PUT partNumber=2",
        "PUT partNumber=3",
        "POST uploadId=upload-1",
    ]
    assert b"".join(request.body for request in server.requests[1:4]) == data


def test_an_aborted_upload_gives_its_parts_back(s3_script: Script) -> None:
    bucket, server = s3_script(CREATED, part(b"x" * PART), Answer(status=204))
    writer = bucket.writer("a")
    writer.write(b"x" * PART)
    writer.abort()
    writer.abort()
    assert asked(server) == ["POST uploads", "PUT partNumber=1", "DELETE uploadId=upload-1"]


def test_an_abort_that_the_store_does_not_answer_hides_no_other_error(s3_script: Script) -> None:
    bucket, server = s3_script(CREATED, part(b"x" * PART), FAILED)
    writer = bucket.writer("a")
    writer.write(b"x" * PART)
    writer.abort()
    assert len(server.requests) == 3


def test_a_part_that_failed_is_kept_and_sent_again(s3_script: Script) -> None:
    bucket, server = s3_script(CREATED, FAILED, part(b"x" * PART), part(b"end"), COMPLETED)
    writer = bucket.writer("a")
    with pytest.raises(Unanswered):
        writer.write(b"x" * PART)
    writer.write(b"")
    writer.write(b"end")
    writer.close()
    assert asked(server)[1:4] == ["PUT partNumber=1", "PUT partNumber=1", "PUT partNumber=2"]
    assert [request.body for request in server.requests[1:4]] == [b"x" * PART, b"x" * PART, b"end"]


def test_the_retrying_wrapper_carries_a_writer_through_every_failure(s3_script: Script) -> None:
    bucket, server = s3_script(
        FAILED, CREATED, FAILED, part(b"x" * PART), FAILED, part(b"end"), FAILED, COMPLETED
    )
    writer = Retrying(bucket, World.manual()).writer("a")
    assert writer.write(b"x" * PART) == PART
    assert writer.write(b"end") == 3
    writer.close()
    assert len(server.requests) == 8
    assert [request.body for request in server.requests if "partNumber=2" in request.path] == [
        b"end",
        b"end",
    ]


def complete_twice(s3_script: Script, etag_there: str | None) -> S3Writer:
    """A writer whose completion was applied, or not, and whose answer was lost; the store forgot
    the upload."""
    there = (
        Answer(status=404)
        if etag_there is None
        else Answer(
            headers={"ETag": f'"{etag_there}"', "Last-Modified": "Tue, 14 Nov 2023 23:13:20 GMT"}
        )
    )
    bucket, _ = s3_script(CREATED, part(b"x" * PART), FAILED, GONE, there)
    writer = bucket.writer("a")
    writer.write(b"x" * PART)
    with pytest.raises(Unanswered):
        writer.close()
    return writer


def test_a_completion_whose_answer_was_lost_is_found_by_its_etag(s3_script: Script) -> None:
    digest = hashlib.md5(hashlib.md5(b"x" * PART).digest()).hexdigest()
    complete_twice(s3_script, f"{digest}-1").close()


@pytest.mark.parametrize("etag_there", ["0" * 32, None])
def test_an_upload_that_is_gone_without_its_object_is_not_called_done(
    s3_script: Script, etag_there: str | None
) -> None:
    with pytest.raises(Unanswered, match="write it again"):
        complete_twice(s3_script, etag_there).close()


def test_more_parts_than_s3_takes_are_refused(
    s3_script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_writer, "_MAX_PARTS", 2)
    bucket, _ = s3_script(CREATED, part(b"x" * PART))
    writer = bucket.writer("a")
    writer.write(b"x" * 2 * PART)
    with pytest.raises(Invalid, match="more than 2 parts"):
        writer.write(b"x" * PART)
