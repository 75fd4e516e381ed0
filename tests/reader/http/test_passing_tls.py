"""HTTPS in a group: a token goes only to who has the certificate of the name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from blockstore.errors import Unavailable
from blockstore.reader.peers import Call, Peers, PeerSettings
from blockstore.reader.peers.address import Address, parsed
from blockstore.world import World
from tests.reader.http.gateways import READ
from tests.reader.http.groups import (
    ROWS,
    Member,
    free_ports,
    make_tables,
    member,
    owned,
    until_ready,
)
from tests.support.certificates import certificate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[tuple[Member, Member, str]]:
    """Two gateways by HTTPS, and a table whose owner is the second."""
    lake, tls = make_tables(folder), certificate(folder)
    while True:
        urls = [f"https://localhost:{port}" for port in free_ports(2)]
        others = owned(urls, urls[1])
        if others:
            break
    with (
        member(lake, folder, urls[0], urls, tls=tls) as here,
        member(lake, folder, urls[1], urls, tls=tls) as there,
    ):
        until_ready(here, there, others=1)
        yield here, there, others[0]


def test_a_query_is_passed_on_by_https(pair: tuple[Member, Member, str]) -> None:
    here, there, name = pair
    for _ in range(3):
        found = here.post(f"select count(*) as c from {name} where n >= 0 /* tls */", READ)
        assert found.json() == [{"c": ROWS}]
    assert (here.ran, there.ran) == (0, 3)
    assert len(there.lines("tls", 3)) == 3


@pytest.mark.parametrize(
    ("name", "trusted", "ready"),
    [("localhost", True, True), ("gateways.test", True, False), ("localhost", False, False)],
)
def test_an_address_that_dns_names_needs_the_certificate_of_the_name(
    pair: tuple[Member, Member, str], folder: Path, name: str, trusted: bool, ready: bool
) -> None:
    _, there, _ = pair
    port = parsed(there.url, "url").port
    settings = PeerSettings(
        own=Address("https", "127.0.0.99", port),
        dns=Address("https", name, port),
        tls_ca=folder / "cert.pem" if trusted else None,
    )
    peers = Peers(settings, World.real(), patience_s=5, resolve=lambda *_: ["127.0.0.1"])
    with closing(peers):
        peers.members.look()
        url = f"https://127.0.0.1:{port}"
        assert (url in peers.members.ready()) is ready
        before = there.ran
        if not ready:
            with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
                peers.begin(Call(), url, "/v1/query", {"Authorization": f"Bearer {READ}"}, b"{}")
        assert there.ran == before


def test_connections_to_a_member_that_left_are_closed(
    pair: tuple[Member, Member, str], folder: Path
) -> None:
    here, there, _ = pair
    world = World.manual()
    ports = [parsed(one.url, "url").port for one in (here, there)]
    settings = PeerSettings(
        own=Address("https", "127.0.0.99", ports[0]),
        urls=(
            Address("https", "127.0.0.99", ports[0]),
            *(Address("https", "localhost", port) for port in ports),
        ),
        tls_ca=folder / "cert.pem",
    )
    with closing(Peers(settings, world, patience_s=5)) as peers:
        first, second = (f"https://localhost:{port}" for port in ports)
        call = Call()
        peers.begin(call, first, "/v1/query", {}, b"{}")
        assert call.status in (400, 401, 415)
        call.close()
        kept = peers._connections[first]
        assert len(kept._kept) == 1
        again = Call()
        peers.begin(again, first, "/v1/query", {}, b"{}")
        assert kept._kept == [], "the connection is used again"
        again.close()
        del peers.members._others[first]
        other = Call()
        peers.begin(other, second, "/v1/query", {}, b"{}")
        other.close()
        assert kept._kept == []
        with pytest.raises(Unavailable, match="has left"):
            peers.begin(Call(), first, "/v1/query", {}, b"{}")
