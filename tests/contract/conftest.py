"""Every bucket that there is, each as one parameter of the contract suite."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from moto import mock_aws
from obstore.store import MemoryStore

from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.cloud import CloudBucket
from blockstore.bucket.cloud_stores import Kind
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.bucket.prefixed import Prefixed
from blockstore.bucket.retrying import Retrying
from blockstore.bucket.s3_client import shared_client
from blockstore.world import World
from tests.support.faulty import FaultyBucket

WORLD = World.real()

WRAPPERS: dict[str, Callable[[Bucket], Bucket]] = {
    "prefixed": lambda bucket: Prefixed(bucket, "some/where"),
    "retrying": lambda bucket: Retrying(bucket, WORLD),
    "metered": Metered,
    "faulty": FaultyBucket,
}
RGW = [pytest.mark.s3, pytest.mark.xdist_group("rgw")]
"""One worker runs all that needs Ceph: a gateway for each would cost more than it saves."""

EXACT = [
    "memory",
    "local",
    "local-durable",
    pytest.param("s3", marks=pytest.mark.s3),
    pytest.param("rgw", marks=RGW),
    "obstore-memory",
    pytest.param("boto3-s3", marks=pytest.mark.s3),
    pytest.param("boto3-rgw", marks=RGW),
    pytest.param("obstore-s3", marks=pytest.mark.s3),
    pytest.param("obstore-rgw", marks=RGW),
    *WRAPPERS,
]
"""Buckets on which races are run: moto is not atomic."""


@pytest.fixture(params=[*EXACT, "s3-moto"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """An empty bucket of every kind."""
    return make(request.param, request)


@pytest.fixture(params=EXACT)
def exact_bucket(request: pytest.FixtureRequest) -> Bucket:
    """An empty bucket of every kind that promises exactly one winner."""
    return make(request.param, request)


def make(kind: str, request: pytest.FixtureRequest) -> Bucket:
    if kind in WRAPPERS:
        return WRAPPERS[kind](MemoryBucket(WORLD.clock))
    if kind == "memory":
        return MemoryBucket(WORLD.clock)
    if kind in ("s3", "rgw"):
        return open_bucket(request.getfixturevalue(f"{kind}_url"), WORLD)
    if kind in ("boto3-s3", "boto3-rgw", "obstore-s3", "obstore-rgw"):
        client, _, store = kind.partition("-")
        place = request.getfixturevalue(f"{store}_url")
        return open_bucket(f"{place}?client={client}", WORLD)
    if kind == "obstore-memory":
        store = MemoryStore()
        return CloudBucket(Kind.AZ, "memory", WORLD.clock, store=lambda: store)
    if kind == "s3-moto":
        return open_bucket(request.getfixturevalue("moto"), WORLD)
    folder: Path = request.getfixturevalue("tmp_path") / "lake" / "table"
    return open_bucket(f"{folder}?durable={'true' if kind == 'local-durable' else 'false'}", WORLD)


@pytest.fixture(scope="session")
def mocked_s3() -> Iterator[None]:
    """S3 in this process.

    Requests to other endpoints pass, so that it can stay while the real server is used.
    """
    with mock_aws(config={"core": {"mock_credentials": False}}):
        yield


@pytest.fixture
def moto(mocked_s3: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh place in the mocked S3; not atomic, so never race on it.

    It replaces boto3's requests; those of another client would reach the real S3.
    """
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mocked")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mocked")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    shared_client(16).create_bucket(Bucket="mocked")
    return f"s3://mocked/pre fix/{WORLD.ids.token()}?client=boto3"
