"""Who is in a group and counts: those that are ready, and whom DNS names."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

import pytest

from blockstore.reader.peers.address import Address, of_host, parsed
from blockstore.reader.peers.members import Members
from blockstore.world import World

A, B, C = (parsed(f"http://10.0.0.{number}:8080", "urls") for number in (1, 2, 3))
NAME = parsed("http://gateways.test:8080", "dns")


class Network:
    """Which gateways are ready and what the name means, and what was asked."""

    def __init__(self) -> None:
        self.world = World.manual()
        self.ready = {A, B, C}
        self.asked: list[Address] = []
        self.hosts: Iterable[str] | None = ()
        self.lookups = 0

    def is_ready(self, address: Address) -> bool:
        self.asked.append(address)
        return address in self.ready

    def resolve(self, host: str, port: int) -> Iterable[str]:
        assert (host, port) == ("gateways.test", 8080)
        self.lookups += 1
        if self.hosts is None:
            raise OSError("no answer")
        return self.hosts

    def members(self, *urls: Address, dns: Address | None = None) -> Members:
        return Members(
            A,
            urls,
            dns=dns,
            lookup_s=10,
            retry_s=5,
            world=self.world,
            is_ready=self.is_ready,
            resolve=self.resolve,
        )


def test_a_gateway_counts_once_it_has_said_that_it_is_ready() -> None:
    network = Network()
    network.ready = {C}
    members = network.members(A, B, C)
    assert members.ready() == (A.url,)
    members.look()
    assert members.ready() == (A.url, C.url)
    assert members.counts() == (1, 1)
    assert sorted(network.asked) == [B, C], "never itself"
    members.look()
    assert len(network.asked) == 2, "not again before its time"
    network.ready = {B, C}
    network.world.clock.sleep(5)
    members.look()
    assert members.ready() == (A.url, B.url, C.url)
    assert network.asked[2:] == [B], "one that is ready is not asked"


def test_one_that_failed_is_left_out_for_a_while_and_until_it_is_ready(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    members = network.members(A, B, C)
    members.look()
    network.asked.clear()
    members.failed(B.url, "refused")
    members.failed(B.url, "refused")
    assert members.ready() == (A.url, C.url)
    assert [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING] == [
        f"gateway {B.url} is left out: refused"
    ]
    network.world.clock.sleep(4.9)
    members.look()
    assert network.asked == []
    network.ready = {C}
    network.world.clock.sleep(0.2)
    members.look()
    assert network.asked == [B]
    assert members.ready() == (A.url, C.url)
    network.ready = {B, C}
    network.world.clock.sleep(5)
    members.look()
    assert members.ready() == (A.url, B.url, C.url)


def test_one_in_doubt_is_asked_at_once_and_counts_meanwhile() -> None:
    network = Network()
    members = network.members(A, B)
    members.look()
    members.doubted(B.url)
    assert members.ready() == (A.url, B.url)
    members.look()
    assert members.ready() == (A.url, B.url)
    assert network.asked == [B, B]
    network.ready = set()
    members.doubted(B.url)
    members.look()
    assert members.ready() == (A.url,)


def test_an_answer_from_before_a_failure_does_not_bring_it_back() -> None:
    network = Network()
    members = network.members(A, B)

    def failing(address: Address) -> bool:
        members.failed(address.url, "it failed while it was asked")
        return True

    members._is_ready = failing  # type: ignore[method-assign]
    network.world.clock.sleep(0.001)
    members.look()
    assert members.ready() == (A.url,)


def test_the_members_are_the_addresses_of_the_name_which_is_looked_up_again() -> None:
    network = Network()
    network.hosts = ["10.0.0.1", "10.0.0.2"]
    members = network.members(dns=NAME)
    members.look()
    assert members.ready() == (A.url, B.url)
    network.hosts = ["10.0.0.3", "10.0.0.1"]
    network.world.clock.sleep(9)
    members.look()
    assert (members.ready(), network.lookups) == ((A.url, B.url), 1)
    network.world.clock.sleep(1)
    members.look()
    assert members.ready() == (A.url, C.url)
    assert members.address(B.url) is None
    assert members.address(C.url) == C


def test_a_name_that_cannot_be_looked_up_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    network.hosts = ["10.0.0.2"]
    members = network.members(dns=NAME)
    members.look()
    network.hosts = None
    for _ in range(3):
        network.world.clock.sleep(10)
        members.look()
    assert network.lookups == 4
    assert members.ready() == (A.url, B.url)
    assert [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING] == [
        "gateways.test cannot be looked up: no answer"
    ]


@pytest.mark.parametrize(
    ("scheme", "host", "taken"),
    [
        ("http", "10.1.2.3", True),
        ("http", "127.0.0.2", True),
        ("http", "100.64.0.9", True),
        ("http", "fd00::7", True),
        ("http", "93.184.216.34", False),
        ("http", "2606:2800:220:1::1", False),
        ("http", "::ffff:93.184.216.34", False),
        ("https", "93.184.216.34", True),
    ],
)
def test_plain_http_is_never_spoken_to_an_address_of_the_internet_that_dns_names(
    scheme: str, host: str, taken: bool, caplog: pytest.LogCaptureFixture
) -> None:
    network = Network()
    network.hosts = [host]
    there = of_host(scheme, host, 8080)
    network.ready = {there}
    members = network.members(dns=of_host(scheme, "gateways.test", 8080))
    members.look()
    assert (there.url in members.ready()) is taken
    assert network.asked == ([there] if taken else [])
    warned = "nothing is sent there without TLS" in caplog.text
    assert warned is not taken


def test_a_thread_keeps_them_current() -> None:
    network = Network()
    asked = threading.Event()
    network.is_ready = lambda address: bool(asked.set() or True)  # type: ignore[method-assign]
    members = network.members(A, B)
    members.start()
    try:
        assert asked.wait(30)
    finally:
        members.close()
    assert members.ready() == (A.url, B.url)
