"""The proxy adds what it promises, once for each request, and sees what passed."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.latency.proxy import GIGABIT, Proxy
from tests.bench.latency.upstream import Objects, running

pytestmark = pytest.mark.alone
NEAR_MS = 10.0
"""The best of several is not later than that; other work on the machine may delay any of them."""
TRIES = 25


@pytest.fixture(scope="module")
def store() -> Iterator[Objects]:
    with running() as server:
        server.objects["/b/small"] = b"x" * 100
        server.objects["/b/large"] = b"y" * 2_000_000
        yield server


@pytest.fixture(scope="module")
def started(store: Objects) -> Iterator[Proxy]:
    with Proxy.between(f"http://127.0.0.1:{store.server_port}", delay_ms=0) as proxy:
        yield proxy


@pytest.fixture
def proxy(started: Proxy) -> Proxy:
    started.set(delay_ms=0)
    started.reset()
    return started


@pytest.fixture
def client(proxy: Proxy) -> Iterator[http.client.HTTPConnection]:
    connection = connect(proxy)
    yield connection
    connection.close()


def connect(proxy: Proxy) -> http.client.HTTPConnection:
    host, _, port = proxy.endpoint.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def get(client: http.client.HTTPConnection, path: str) -> bytes:
    client.request("GET", path)
    return client.getresponse().read()


def put(client: http.client.HTTPConnection, path: str, data: bytes) -> int:
    client.request("PUT", path, body=data)
    response = client.getresponse()
    response.read()
    return response.status


def milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1_000


def best(call: Callable[[], object], tries: int = TRIES) -> float:
    return min(milliseconds(call) for _ in range(tries))


def raw(proxy: Proxy) -> socket.socket:
    host, _, port = proxy.endpoint.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=10)


@pytest.mark.parametrize("delay_ms", [5, 25])
def test_a_small_get_and_a_put_take_the_delay_and_little_more(
    proxy: Proxy, client: http.client.HTTPConnection, delay_ms: int
) -> None:
    get(client, "/b/small")
    proxy.set(delay_ms=delay_ms)
    assert delay_ms <= best(lambda: get(client, "/b/small")) <= delay_ms + NEAR_MS
    assert delay_ms <= best(lambda: put(client, "/b/new", b"z" * 100_000)) <= delay_ms + NEAR_MS


def test_a_body_that_comes_in_many_pieces_is_delayed_once(proxy: Proxy) -> None:
    def send(peer: socket.socket) -> None:
        peer.sendall(b"PUT /b/pieces HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n")
        for _ in range(20):
            peer.sendall(b"p")
            time.sleep(0.001)
        assert peer.recv(1_000).startswith(b"HTTP/1.1 200")

    proxy.set(delay_ms=50)
    with raw(proxy) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert best(lambda: send(peer), tries=5) < 50 + 20 * 3 + 40
    assert [exchange.up for exchange in proxy.take().exchanges] == [20] * 5


def test_requests_side_by_side_wait_side_by_side(proxy: Proxy) -> None:
    clients = [connect(proxy) for _ in range(16)]
    proxy.set(delay_ms=100)

    def all_at_once() -> None:
        list(pool.map(lambda each: get(each, "/b/small"), clients))

    with ThreadPoolExecutor(16) as pool:
        taken = best(all_at_once, tries=5)
    for each in clients:
        each.close()
    assert 100 <= taken < 200


def test_the_depth_of_a_chain_is_seen(proxy: Proxy) -> None:
    """Two in turn, four side by side, one: four deep."""
    proxy.set(delay_ms=300)
    clients = [connect(proxy) for _ in range(4)]
    proxy.reset()
    get(clients[0], "/b/small")
    put(clients[0], "/b/a", b"1")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: get(each, "/b/small"), clients))
    get(clients[1], "/b/small")
    for each in clients:
        each.close()
    record = proxy.take()
    assert (record.requests, record.depth) == (7, 4)


def test_expect_costs_its_round_trip_and_is_counted(proxy: Proxy) -> None:
    def send() -> None:
        peer.sendall(
            b"PUT /b/asked HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        )
        assert peer.recv(1_000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.sendall(b"body")
        assert peer.recv(1_000).startswith(b"HTTP/1.1 200")

    proxy.set(delay_ms=30)
    with raw(proxy) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert 60 <= best(send) <= 60 + 2 * NEAR_MS
        proxy.reset()
        send()
    (exchange,) = proxy.take().exchanges
    assert exchange.go_ahead is not None
    assert exchange.go_ahead - exchange.begin >= 0.03
    assert (proxy.take().depth, exchange.up) == (2, 4)


def test_a_final_answer_without_a_go_ahead_ends_the_connection(proxy: Proxy) -> None:
    with raw(proxy) as peer:
        peer.sendall(
            b"PUT /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        )
        received = b""
        while data := peer.recv(1_000):
            received += data
    assert received.startswith(b"HTTP/1.1 412")
    (exchange,) = proxy.take().exchanges
    assert (exchange.status, exchange.go_ahead, exchange.up) == (412, None, 0)


def test_bytes_are_those_of_the_bodies_and_the_connection_is_kept(
    proxy: Proxy, client: http.client.HTTPConnection
) -> None:
    assert get(client, "/b/small") == b"x" * 100
    assert put(client, "/b/new?partNumber=1", b"1234567") == 200
    assert get(client, "/chunked") == b"abcdefgh"
    client.request("HEAD", "/b/small")
    assert client.getresponse().read() == b""
    assert get(client, "/missing") == b""
    record = proxy.take()
    assert [(each.method, each.target, each.status) for each in record.exchanges] == [
        ("GET", "/b/small", 200),
        ("PUT", "/b/new?partNumber=1", 200),
        ("GET", "/chunked", 200),
        ("HEAD", "/b/small", 200),
        ("GET", "/missing", 404),
    ]
    assert [each.up for each in record.exchanges] == [0, 7, 0, 0, 0]
    assert [each.down for each in record.exchanges] == [100, 0, 8, 0, 0]
    assert (record.connections, record.unfinished) == (1, 0)
    assert record.depth == 5


def test_large_bodies_arrive_whole_in_both_directions(
    proxy: Proxy, client: http.client.HTTPConnection, store: Objects
) -> None:
    data = bytes(range(256)) * 8_000
    put(client, "/b/whole", data)
    assert store.objects["/b/whole"] == data
    assert get(client, "/b/whole") == data


def test_all_bytes_share_one_line(proxy: Proxy) -> None:
    """2 MB at 80 Mbit/s are 0.2 s; three at once are 0.6 s. Small requests do not wait for a slow
    line that is free."""
    clients = [connect(proxy) for _ in range(3)]
    proxy.set(delay_ms=0, mbit_per_s=80)
    one = best(lambda: get(clients[0], "/b/large"), tries=4)
    with ThreadPoolExecutor(3) as pool:
        three = best(lambda: list(pool.map(lambda each: get(each, "/b/large"), clients)), tries=2)
    small = best(lambda: get(clients[0], "/b/small"))
    upward = best(lambda: put(clients[0], "/b/up", b"u" * 2_000_000), tries=4)
    for each in clients:
        each.close()
    assert 190 <= one < 260
    assert 590 <= three < 780
    assert 190 <= upward < 260
    assert small < NEAR_MS


def test_the_server_sees_the_host_that_the_client_named(
    proxy: Proxy, client: http.client.HTTPConnection, store: Objects
) -> None:
    client.request("GET", "/b/small", headers={"Host": "signed.example:1"})
    client.getresponse().read()
    assert store.hosts[-1] == "signed.example:1"


def test_a_body_that_the_server_cuts_is_cut_for_the_client(
    proxy: Proxy, client: http.client.HTTPConnection
) -> None:
    with pytest.raises(http.client.IncompleteRead):
        get(client, "/short")
    again = connect(proxy)
    assert get(again, "/b/small") == b"x" * 100
    again.close()


def test_a_server_that_is_gone_ends_the_connection() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Proxy.between(f"http://127.0.0.1:{port}", delay_ms=0) as alone:
        client = connect(alone)
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            get(client, "/b/small")
        client.close()


def test_an_unknown_command_is_refused(proxy: Proxy) -> None:
    with pytest.raises(ValueError, match="'stop' is not a command: use set, faults, reset or take"):
        proxy._ask(do="stop")
    assert GIGABIT == 1_000
