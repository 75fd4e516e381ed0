"""Gateways as processes: killed while they work, and answering what others append."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.errors import BlockstoreError, Unavailable
from blockstore.world import World
from tests.end_to_end.gateway_killing import SCHEMA, run
from tests.end_to_end.gateway_large import run as large
from tests.end_to_end.gateway_load import run as load
from tests.end_to_end.gateway_tpch import run as tpch
from tests.end_to_end.gateways import GatewayProcess
from tests.support.certificates import certificate

pytestmark = pytest.mark.slow


@pytest.mark.timeout(1200)
def test_jobs_of_a_gateway_that_is_killed_are_ended_by_another_and_rows_come_once(
    tmp_path: Path,
) -> None:
    """Slow because its gateways are real processes;

    ``gateway_killing --kills 20`` is the long series.
    """
    report = run(3, 7, tmp_path)
    assert report.violations == []
    assert report.kills == 3


def test_a_block_appended_by_another_process_is_answered_within_a_poll(tmp_path: Path) -> None:
    url = f"{tmp_path}/lake/t?durable=false"
    table = bs.create(url, schema=SCHEMA, time_column="time")
    world = World.real()
    with GatewayProcess(f"{tmp_path}/lake", tmp_path, "gateway") as gateway:
        for number in range(1, 4):
            one = {"time": pa.array([0], SCHEMA.field(0).type), "upload": [number], "n": [number]}
            version = table.append(pa.table(one)).version
            asked = {"sql": "select count(*) as c from t"}
            for _ in range(600):
                answer = gateway.http.post(
                    "/v1/query", json=asked, headers={"Accept": "application/json"}
                )
                if answer.json() == [{"c": number}]:
                    break
                world.clock.sleep(0.05)
            assert answer.json() == [{"c": number}]
            assert f'"t":{version}' in answer.headers["x-blockstore-versions"]
        assert gateway.end() == 0


def test_over_https_a_client_that_trusts_the_certificate_is_answered_and_no_other(
    tmp_path: Path,
) -> None:
    bs.create(f"{tmp_path}/lake/t?durable=false", schema=SCHEMA, time_column="time")
    cert, key = certificate(tmp_path)
    https = {"BLOCKSTORE_HTTP_TLS_CERT": str(cert), "BLOCKSTORE_HTTP_TLS_KEY": str(key)}
    file = tmp_path / "rows.csv"
    file.write_text("time,upload,n\n2026-01-01T00:00:00Z,1,1\n2026-01-01T00:00:01Z,1,2\n")
    with GatewayProcess(f"{tmp_path}/lake", tmp_path, "gateway", **https) as gateway:
        assert gateway.url.startswith("https://")
        with bs.Client(gateway.url, verify=str(cert)) as client:
            assert client.upload("t", file).wait().told["written"]["rows"] == 2
            assert client.sql("select sum(n) as s from t", version=2).to_arrow()[
                "s"
            ].to_pylist() == [3]
        with (
            bs.Client(gateway.url) as stranger,
            pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            stranger.sql("select 1").to_arrow()
        plain = gateway.url.replace("https://", "http://")
        with bs.Client(plain) as careless, pytest.raises(BlockstoreError):
            careless.sql("select 1").to_arrow()
        assert gateway.end() == 0


@pytest.mark.timeout(600)
def test_clients_are_answered_right_while_others_append_merge_and_remove(tmp_path: Path) -> None:
    """Slow because it runs for a while;

    ``gateway_load --clients 64 --seconds 60`` is the long one.
    """
    report = load(tmp_path, clients=8, seconds=20)
    assert report.failed == []
    assert report.wrong == []
    assert report.queries > 0
    assert report.appends > 4
    assert report.merges > 0


@pytest.mark.timeout(600)
def test_a_file_larger_than_its_buffers_goes_up_and_comes_down(tmp_path: Path) -> None:
    """Slow because a file of some size goes both ways;

    ``gateway_large --mib 1024`` watches the memory of a large one.
    """
    report = large(tmp_path, mib=8)
    assert report.rows == report.rows_down > 50_000
    assert report.bytes_down > 6 << 20
    assert report.progress_up >= 1
    assert report.progress_down >= 1


@pytest.mark.timeout(600)
def test_the_questions_of_tpch_have_one_answer_by_gateway_and_command(tmp_path: Path) -> None:
    """Slow because each question is a process; ``gateway_tpch --scale 1`` is the long one."""
    report = tpch(tmp_path, scale=0.01, runs=1)
    assert report.failed == []
    assert report.wrong == []
    assert report.by_command == len(report.bare_s) == 22
    assert report.answered == 22 + report.again == 24
