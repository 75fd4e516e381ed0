"""A client that leaves in the middle is no fault of the gateway, and what fails after the first
byte is said as it is."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from blockstore.client import dbapi
from blockstore.world import World
from tests.reader.http.gateways import READ, Served, make_lake, serving, settings

MUCH = "select a.n, b.s from flights a, flights b, range(100)"


@pytest.fixture(params=[True, False], ids=["process", "thread"])
def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    asked = settings(make_lake(tmp_path), tmp_path)
    query = replace(asked.query, isolated=request.param, max_rows=3_000_000)
    with serving(replace(asked, query=query)) as one:
        yield one


def _troubles(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize("fetched", [0, 1, 70_000])
def test_closing_a_cursor_early_is_no_fault(
    gateway: Served, caplog: pytest.LogCaptureFixture, fetched: int
) -> None:
    for _ in range(3):
        with dbapi.connect(gateway.url, READ) as connection:
            cursor = connection.cursor()
            cursor.execute(MUCH)
            assert len(cursor.fetchmany(fetched)) == fetched
            cursor.close()
    world = World.real()
    for _ in range(300):
        if not gateway.gateway.engine.running():
            break
        world.clock.sleep(0.1)
    assert gateway.gateway.engine.running() == 0, "what no one waits for was ended"
    assert gateway.rows("select 1 as a") == [{"a": 1}]
    assert _troubles(caplog) == []


def test_an_error_after_the_first_byte_is_logged_in_its_own_words(
    gateway: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        gateway.query(
            "select i from range(4_000_000) t(i)", accept="application/vnd.apache.arrow.stream"
        )
    ours = [
        one
        for one in caplog.records
        if one.levelno >= logging.WARNING and not one.name.startswith("uvicorn")
    ]
    (said,) = ours
    assert "limit of 3,000,000 rows" in said.getMessage()
    assert said.exc_info is None, "no traceback for what the caller is reported in words"
