"""Clients that cancel, go away or take nothing: their slots are free again, and nothing is left."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

import blockstore as bs
from blockstore.reader.flight.messages import message
from tests.reader.flight.doors import Client, Opened, opened
from tests.reader.http.gateways import make_lake, settings

MUCH = "SELECT a.n, b.s FROM flights a, flights b, range(100)"
SLOW = "SELECT sum(a.n * b.n * c.n) FROM flights a, flights b, flights c, range(100)"


@pytest.fixture(scope="module", params=[True, False], ids=["process", "thread"])
def busy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """One query at a time; who takes nothing for a second is let go."""
    folder = tmp_path_factory.mktemp("leaving")
    asked = settings(make_lake(folder), folder)
    query = replace(asked.query, at_once=1, waiting=0, time_limit_s=300, isolated=request.param)
    with opened(replace(asked, query=query, http=replace(asked.http, stall_s=1.0))) as one:
        yield one


def test_a_client_that_goes_away_in_mid_stream_frees_its_slot(busy: Opened) -> None:
    client = Client(busy.door.url)
    stream = client.stream(MUCH)
    assert stream.read_chunk().data.num_rows > 0
    with pytest.raises(flight.FlightUnavailableError, match="query limit reached"):
        busy.client.query("SELECT n FROM flights")
    stream.cancel()
    client.flight.close()
    assert busy.idle()
    assert busy.client.query("SELECT count(n) AS c FROM flights").to_pydict() == {"c": [1000]}


def test_a_client_that_is_gone_before_the_first_row_frees_its_slot(busy: Opened) -> None:
    options = flight.FlightCallOptions(
        headers=[(b"authorization", b"Bearer bsk_write")], timeout=1.0
    )
    (end,) = busy.client.info("CommandStatementQuery", query=SLOW).endpoints
    with pytest.raises(flight.FlightTimedOutError):
        busy.client.flight.do_get(end.ticket, options).read_all()
    assert busy.idle()


def test_a_query_is_cancelled_by_its_flight_info(busy: Opened) -> None:
    info = busy.client.info("CommandStatementQuery", query=SLOW)
    body = message("CancelFlightInfoRequest", info=info.serialize()).SerializeToString()
    ended: list[BaseException] = []

    def take() -> None:
        try:
            options = busy.client.options()
            busy.client.flight.do_get(info.endpoints[0].ticket, options).read_all()
        except flight.FlightError as error:
            ended.append(error)

    taking = threading.Thread(target=take)
    taking.start()
    clock = busy.http.gateway.world.clock
    while not busy.http.gateway.engine.running():
        clock.sleep(0.05)
    with busy.as_("bsk_read") as other:
        (answer,) = other.act("CancelFlightInfo", body)
        assert message("CancelFlightInfoResult").FromString(answer).status == 3, "it is another's"
    (answer,) = busy.client.act("CancelFlightInfo", body)
    assert message("CancelFlightInfoResult").FromString(answer).status == 1
    taking.join(30)
    assert isinstance(ended[0], flight.FlightCancelledError), ended
    assert busy.idle()


def test_a_client_that_takes_nothing_is_let_go_and_the_error_says_so(busy: Opened) -> None:
    with Client(busy.door.url) as client:
        stream = client.stream(MUCH)
        stream.read_chunk()
        engine, clock = busy.http.gateway.engine, busy.http.gateway.world.clock
        until_s = clock.monotonic_s() + 20
        while engine.running() and clock.monotonic_s() < until_s:
            clock.sleep(0.05)
        assert engine.running() == 0
        assert busy.client.query("SELECT 1 AS a").to_pydict() == {"a": [1]}
        with pytest.raises(flight.FlightTimedOutError, match="neither read nor sent anything"):
            stream.read_all()
    assert busy.idle()


def test_none_of_it_is_a_fault_of_the_gateway(
    busy: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        stream = busy.client.stream(MUCH)
        stream.read_chunk()
        stream.cancel()
        assert busy.idle()
    bad = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert bad == []


def _until(door: Opened, holds: Callable[[], bool]) -> None:
    clock = door.http.gateway.world.clock
    until_s = clock.monotonic_s() + 20
    while not holds():
        assert clock.monotonic_s() < until_s
        clock.sleep(0.02)


DIES = """
import os, sys
import pyarrow as pa
from pyarrow import flight
from blockstore.reader.flight.messages import packed
client = flight.FlightClient(sys.argv[1])
options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer bsk_write")])
rows = pa.record_batch({"n": pa.array(range(1000))})
command = packed("CommandStatementIngest", table="numbers")
descriptor = flight.FlightDescriptor.for_command(command)
writer, _ = client.do_put(descriptor, rows.schema, options)
for _ in range(10):
    writer.write_batch(rows)
print("sent", flush=True)
sys.stdin.readline()
os._exit(1)
"""


@pytest.mark.parametrize("waits", [False, True])
def test_rows_of_a_client_that_dies_or_stops_are_not_written(busy: Opened, waits: bool) -> None:
    gateway = busy.http.gateway
    url = f"{gateway.settings.tables.urls[0].partition('?')[0]}/numbers?durable=false"
    if "numbers" not in gateway.tables.names():
        bs.create(url, schema=pa.schema([("n", pa.int64())]))
        gateway.tables.poll_now()
    bucket = gateway.need_jobs().store.bucket
    before = {one.key for one in bucket.list("jobs/")}
    with subprocess.Popen(
        [sys.executable, "-c", DIES, busy.door.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sent\n"
        places = gateway.settings.http.uploads_at_once
        _until(busy, lambda: gateway.receiving._value < places)
        if waits:  # longer than a client may: its place is free while it still waits
            _until(busy, lambda: gateway.receiving._value == places)
            assert busy.door.running
        process.kill()
    assert busy.idle()
    assert {one.key for one in bucket.list("jobs/")} == before
    assert bs.open(url).log.poll().version == 1
    assert gateway.receiving.acquire(blocking=False)
    gateway.receiving.release()


def test_a_gateway_ends_while_a_client_takes_nothing(tmp_path: Path) -> None:
    with opened(settings(make_lake(tmp_path), tmp_path)) as door:
        client = Client(door.door.url)
        stream = client.stream(MUCH)
        stream.read_chunk()
        clock = door.http.gateway.world.clock
        begun_s = clock.monotonic_s()
        door.door.stop()
        assert clock.monotonic_s() - begun_s < 15
        assert door.door.running == 0
        with pytest.raises(flight.FlightError):
            stream.read_all()
        client.flight.close()


def test_a_result_that_a_client_takes_for_too_long_is_ended(tmp_path: Path) -> None:
    asked = settings(make_lake(tmp_path), tmp_path)
    asked = replace(asked, http=replace(asked.http, answer_s=1.0))
    with opened(asked) as door:
        stream = door.client.stream(f"{MUCH}, range(1000)")
        with pytest.raises(flight.FlightTimedOutError, match="not done within 1 s"):
            stream.read_all()
        assert door.idle()


def test_calls_beyond_the_limit_are_refused(busy: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockstore.reader.flight.calls._MOST", 0)
    with pytest.raises(flight.FlightUnavailableError, match="call limit reached"):
        busy.client.query("SELECT 1")
    monkeypatch.undo()
    assert busy.client.query("SELECT 1 AS a").to_pydict() == {"a": [1]}
