"""A gateway with few files, and a crowd at one of its doors: the others serve, the crowd is refused
in words, and files are left."""

from __future__ import annotations

import os
import re
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from blockstore.world import World
from tests.end_to_end.gateways import GatewayProcess
from tests.reader.flight.doors import Client
from tests.reader.http.gateways import make_lake
from tests.reader.postgres.raw import Raw
from tests.support.open_files import allow_files

FILES, SHARE, CROWD = 600, 150, 400
COUNT = "SELECT count(*) AS c FROM flights"
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
DOORS = ("http", "grpc", "postgresql")
LABELS = {"http": "http", "grpc": "flight", "postgresql": "postgres"}


class Crowded:
    """A gateway that may open few files, by its ports."""

    def __init__(self, process: GatewayProcess) -> None:
        self.process = process
        said = process.log.read_text()
        found = re.findall(r"(http|grpc|postgresql)://127\.0\.0\.1:(\d+)", said)
        self.ports = {name: int(port) for name, port in found}
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def metrics(self, door: str) -> dict[str, float]:
        """What the metrics say of a door's connections."""
        text = httpx.get(f"http://127.0.0.1:{self.ports['http']}/metrics", timeout=60).text
        found = re.findall(
            rf'^blockstore_connections(\w*){{door="{LABELS[door]}"}} (.+)$', text, re.M
        )
        return {name: float(value) for name, value in found}

    def count(self, door: str) -> int:
        """The number of rows, as a new client of a door gets it."""
        if door == "http":
            sent = {"sql": COUNT}
            answer = httpx.post(
                f"http://127.0.0.1:{self.ports['http']}/v1/query",
                json=sent,
                headers={"Accept": "application/json"},
                timeout=60,
            )
            assert answer.status_code == 200, answer.text
            return int(answer.json()[0]["c"])
        if door == "grpc":
            with Client(f"grpc://127.0.0.1:{self.ports['grpc']}", None) as client:
                return int(client.query(COUNT)["c"][0].as_py())
        with Raw(self.ports["postgresql"], timeout=60) as one:
            one.sign_in()
            return int(one.rows(COUNT)[0][0] or 0)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowded]:
    folder = tmp_path_factory.mktemp("crowds")
    listens = {
        "BLOCKSTORE_FLIGHT_LISTEN": "127.0.0.1:0",
        "BLOCKSTORE_POSTGRES_LISTEN": "127.0.0.1:0",
    }
    with GatewayProcess(make_lake(folder), folder, "gateway", **listens) as process:
        process.http.close()
        yield Crowded(process)


def _until(holds: Callable[[], bool]) -> bool:
    clock = World.real().clock
    for _ in range(600):
        if holds():
            return True
        clock.sleep(0.1)
    return False


def _said(wire: socket.socket) -> bytes | None:
    """What the gateway said; None if it keeps the connection and says nothing."""
    try:
        return wire.recv(1 << 16)
    except TimeoutError:
        return None
    except OSError:
        return b""


def _signed_in(one: Raw) -> str:
    """Why a client of PostgreSQL's protocol was refused; empty for one that was not."""
    try:
        one.sign_in()
    except PermissionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("door", DOORS)
def test_a_crowd_at_a_door_is_refused_and_the_other_doors_serve(
    gateway: Crowded, door: str
) -> None:
    allow_files(4_096)
    assert [gateway.count(one) for one in DOORS] == [1_000] * 3
    quiet = gateway.open_files()
    before = gateway.metrics(door)
    assert (before["_limit"], before["_refused_total"]) == (SHARE, 0)
    with ExitStack() as crowd:
        wires = []
        refused = 0
        for _ in range(CROWD):
            if door == "postgresql":
                one = crowd.enter_context(Raw(gateway.ports[door], timeout=60))
                refused += f"connection limit reached ({SHARE})" in _signed_in(one)
                continue
            address = ("127.0.0.1", gateway.ports[door])
            wires.append(crowd.enter_context(socket.create_connection(address, timeout=60)))
            if door == "grpc":
                wires[-1].sendall(GREETING)
        if door == "http":
            for wire in wires:
                wire.settimeout(0.01)
            heard = list(map(_said, wires))
            assert all("retry in a few seconds" in one.decode() for one in heard if one)
            refused = sum(one is not None for one in heard)
        if door != "grpc":
            assert refused == CROWD - SHARE
        # gRPC accepts all; the gateway shuts down those that were idle longest.
        most = quiet + SHARE + 10
        assert _until(lambda: gateway.open_files() <= most), gateway.open_files()
        served = [one for one in DOORS if one != door or door == "grpc"]
        if door != "http":
            during = gateway.metrics(door)
            assert SHARE - 1 <= during[""] <= SHARE
            assert during["_refused_total"] >= CROWD - SHARE
        for _ in range(3):
            assert [gateway.count(one) for one in served] == [1_000] * len(served)
    assert _until(lambda: gateway.open_files() <= quiet + 10)
    assert [gateway.count(one) for one in DOORS] == [1_000] * 3
    after = gateway.metrics(door)
    assert after[""] < 10
    assert CROWD - SHARE <= after["_refused_total"] <= CROWD
    names = {"http": "connection limit reached (150)", "grpc": "at the Flight SQL port (150)"}
    assert names.get(door, "") in gateway.process.log.read_text()
