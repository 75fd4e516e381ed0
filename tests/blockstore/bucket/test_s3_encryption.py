"""Every object that is made says how the store is to encrypt it, whichever client sends it."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.cloud import CloudBucket
from blockstore.bucket.cloud_stores import Kind
from blockstore.bucket.s3 import S3Bucket
from blockstore.bucket.s3_boto3 import Boto3Bucket
from blockstore.bucket.s3_settings import encryption
from blockstore.clock import ManualClock
from blockstore.errors import Invalid
from tests.support.scripted_s3 import Answer, Scripted

CLIENTS: dict[str, Callable[[], Bucket]] = {
    "s3": lambda: S3Bucket("bucket", ManualClock()),
    "boto3": lambda: Boto3Bucket("bucket", ManualClock()),
    "obstore": lambda: CloudBucket(Kind.S3, "bucket", ManualClock()),
}
HEADER = "x-amz-server-side-encryption"
DONE = Answer(
    body=b'<Result><UploadId>one</UploadId><ETag>"e"</ETag></Result>', headers={"ETag": '"e"'}
)


@pytest.fixture(autouse=True)
def bare(scripted_server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", scripted_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "scripted")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "scripted")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")


def _made(scripted: Scripted, bucket: Bucket) -> list[dict[str, str]]:
    """What the requests that make objects say of encryption: three small ones, and a large one."""
    scripted.script(DONE)
    bucket.put("one", b"1")
    bucket.put_if_absent("two", b"2")
    bucket.put_if_match("three", b"3", "e")
    writer = bucket.writer("large")
    writer.write(b"x" * (20 << 20))
    writer.close()
    return [
        {name.lower(): value for name, value in one.headers.items() if HEADER in name.lower()}
        for one in scripted.requests
        if (one.method == "PUT" and "uploadId" not in one.path)
        or (one.method == "POST" and "uploadId" not in one.path)
    ]


@pytest.mark.parametrize("client", CLIENTS)
def test_each_object_is_made_with_the_key_of_the_environment(
    client: str, scripted_server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms")
    monkeypatch.setenv("AWS_SSE_KMS_KEY_ID", "key/1")
    wanted = {HEADER: "aws:kms", f"{HEADER}-aws-kms-key-id": "key/1"}
    assert _made(scripted_server, CLIENTS[client]()) == [wanted] * 4


@pytest.mark.parametrize("client", CLIENTS)
def test_without_a_setting_nothing_is_said(client: str, scripted_server: Scripted) -> None:
    assert _made(scripted_server, CLIENTS[client]()) == [{}] * 4


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("algorithm", ["sse-c", "kms", "aes256"])
def test_what_cannot_be_meant_writes_nothing(
    client: str, algorithm: str, scripted_server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", algorithm)
    scripted_server.script(DONE)
    with pytest.raises(Invalid, match="AWS_SERVER_SIDE_ENCRYPTION is"):
        CLIENTS[client]().put("one", b"1")
    assert [one.method for one in scripted_server.requests if one.method == "PUT"] == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, {}),
        ({"AWS_SERVER_SIDE_ENCRYPTION": "AES256"}, {"ServerSideEncryption": "AES256"}),
        (
            {"AWS_SERVER_SIDE_ENCRYPTION": "aws:kms"},
            {"ServerSideEncryption": "aws:kms"},
        ),
    ],
)
def test_boto3_is_given_what_obstore_reads(
    settings: dict[str, str], said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert encryption() == said


@pytest.mark.parametrize("algorithm", ["", "AES256"])
def test_a_key_without_its_algorithm_is_refused(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", algorithm)
    monkeypatch.setenv("AWS_SSE_KMS_KEY_ID", "key/1")
    with pytest.raises(Invalid, match="needs AWS_SERVER_SIDE_ENCRYPTION=aws:kms"):
        encryption()
