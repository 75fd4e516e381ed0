"""Beyond a limit, connections without a call are closed, those first that were idle longest."""

from __future__ import annotations

from collections.abc import Callable

from blockstore.reader.flight.connections import Connections
from blockstore.world import World
from tests.reader.flight.doors import Client, Opened
from tests.reader.http.gateways import READ

ALONE = [("grpc.use_local_subchannel_pool", 1)]
"""gRPC shares a connection between the clients of a process, but for these."""
ROWS = 2_000_000


def _until(holds: Callable[[], bool]) -> bool:
    """gRPC closes a connection a moment after it was shut down."""
    clock = World.real().clock
    for _ in range(200):
        if holds():
            return True
        clock.sleep(0.05)
    return False


def test_connections_of_calls_stay_and_clients_of_others_connect_again(door: Opened) -> None:
    url, calls = door.door.url, door.door._calls
    assert calls is not None
    allowed = [100]
    connections = Connections(int(url.rpartition(":")[2]), calls.peers, lambda: allowed[0])
    with (
        Client(url, READ, generic_options=ALONE) as busy,
        Client(url, READ, generic_options=ALONE) as early,
        Client(url, READ, generic_options=ALONE) as late,
    ):
        stream = busy.stream(f"SELECT i FROM range({ROWS}) t(i)")
        rows = stream.read_chunk().data.num_rows
        assert early.query("SELECT 1 AS a").num_rows == 1
        assert connections.look() == 0, "few files are open"
        assert connections.counts().used == door.door.connections.used >= 2
        assert (connections.counts().limit, connections.counts().refused) == (100, 0)
        allowed[0] = 1_000
        assert connections.look() == 0
        allowed[0] = 0
        assert connections.look() >= 1
        assert late.query("SELECT 1 AS a").num_rows == 1
        assert connections.look() >= 1
        assert _until(lambda: connections.look() == 0), "nothing but the busy one is left"
        assert _until(lambda: connections.counts().used == 1)
        assert connections.counts().refused >= 2
        for one in (early, late):
            assert one.query("SELECT 1 AS a").num_rows == 1
        for chunk in stream:
            rows += chunk.data.num_rows
    assert rows == ROWS
    connections.close()
