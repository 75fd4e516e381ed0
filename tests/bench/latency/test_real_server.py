"""A real S3 server accepts, through the proxy, what clients sign for the proxy's address."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.latency.fate import Fault
from bench.latency.faults import Faults
from bench.latency.proxy import Proxy


@pytest.mark.s3
def test_signed_requests_pass_and_boto3_waits_for_a_go_ahead(
    s3_server: str, tmp_path: Path
) -> None:
    import boto3

    with Proxy.between(s3_server, delay_ms=20) as proxy:
        client = boto3.client("s3", endpoint_url=proxy.endpoint)
        bucket = "blockstore-tests"
        proxy.reset()
        client.put_object(Bucket=bucket, Key="proxied/a", Body=b"a" * 100_000)
        put = proxy.take()
        proxy.reset()
        found = client.get_object(Bucket=bucket, Key="proxied/a", Range="bytes=10-19")[
            "Body"
        ].read()
        listed = client.list_objects_v2(Bucket=bucket, Prefix="proxied/")
        client.delete_object(Bucket=bucket, Key="proxied/a")
        rest = proxy.take()
    assert found == b"a" * 10
    assert [entry["Key"] for entry in listed["Contents"]] == ["proxied/a"]
    assert (put.requests, put.depth, put.up >= 100_000) == (1, 2, True)
    assert [exchange.status for exchange in rest.exchanges] == [206, 200, 204]
    assert rest.depth == 3


@pytest.mark.s3
def test_a_range_that_is_ignored_is_the_complete_object(s3_server: str) -> None:
    import boto3

    ignores = Faults(failing=1, slow=0, kinds=(Fault.IGNORES_RANGE,), burst_every_s=0)
    with Proxy.between(s3_server, delay_ms=0) as proxy:
        client = boto3.client("s3", endpoint_url=proxy.endpoint)
        client.put_object(Bucket="blockstore-tests", Key="whole/a b", Body=b"0123456789")
        proxy.inject(ignores)
        found = client.get_object(Bucket="blockstore-tests", Key="whole/a b", Range="bytes=3-6")
        assert found["Body"].read() == b"0123456789"
        assert found["ResponseMetadata"]["HTTPStatusCode"] == 200
        assert proxy.inject(None) == {Fault.IGNORES_RANGE: 1}
