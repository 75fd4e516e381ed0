"""A bucket on a scripted server, for the S3 adapter's tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from blockstore.bucket.s3_boto3 import Boto3Bucket
from blockstore.clock import Clock, ManualClock
from tests.support.scripted_s3 import Answer, Scripted, scripted_s3

Script = Callable[..., tuple[Boto3Bucket, Scripted]]


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[Scripted]:
    """One server for all tests: a client is made once an endpoint, and takes its time."""
    with scripted_s3() as server:
        yield server


@pytest.fixture
def s3_script(scripted_server: Scripted, monkeypatch: pytest.MonkeyPatch) -> Script:
    """``s3_script(*responses)`` returns a Boto3Bucket and its server, which sends these."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "scripted")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "scripted")
    monkeypatch.setenv("AWS_ENDPOINT_URL", scripted_server.endpoint)

    def script(*responses: Answer, clock: Clock | None = None) -> tuple[Boto3Bucket, Scripted]:
        scripted_server.script(*responses)
        return Boto3Bucket("bucket", clock or ManualClock()), scripted_server

    return script
