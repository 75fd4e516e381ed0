"""Faults are drawn from a seed, counted by kind, and reach the client as what they are."""

from __future__ import annotations

import http.client
from collections import Counter
from collections.abc import Iterator

import pytest

from bench.latency.fate import Course, Fault
from bench.latency.faults import FAILURES, Faults, Faulty
from bench.latency.framing import Head
from bench.latency.proxy import Proxy
from tests.bench.latency.upstream import Objects, running

GET = Head(b"", ("GET", "/b/a", "HTTP/1.1"), {"range": "bytes=0-9"})
HEAD = Head(b"", ("HEAD", "/b/a", "HTTP/1.1"), {})
PUT = Head(b"", ("PUT", "/b/a", "HTTP/1.1"), {"content-length": "10"})
WHOLE = b"x" * 1_000


class Still:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def courses(faults: Faults, request: Head, count: int) -> list[Course]:
    fate = Faulty(faults, delay_s=0.025, clock=Still())
    return [fate(request) for _ in range(count)]


def test_the_same_seed_draws_the_same_faults_and_another_seed_others() -> None:
    first = courses(Faults(seed=1), GET, 2_000)
    assert courses(Faults(seed=1), GET, 2_000) == first
    assert courses(Faults(seed=2), GET, 2_000) != first


def test_shares_are_those_that_were_set_and_all_kinds_come() -> None:
    found = Counter(course.fault for course in courses(Faults(burst_every_s=0), GET, 40_000))
    assert 300 < found[Fault.SLOW] < 500
    assert 300 < sum(found[kind] for kind in FAILURES) < 500
    assert {kind for kind in FAILURES if found[kind]} == set(FAILURES) - {Fault.RESET_UPLOAD}


def test_what_was_drawn_is_counted_by_kind() -> None:
    fate = Faulty(Faults(failing=0.2, slow=0.2), delay_s=0, clock=Still())
    drawn = Counter(course.fault for course in (fate(PUT) for _ in range(500)))
    drawn.pop(None)
    assert fate.injected == drawn


def test_only_what_can_happen_to_a_request_happens_to_it() -> None:
    always = Faults(failing=1, slow=0, burst_every_s=0)
    puts = {course.fault for course in courses(always, PUT, 2_000)}
    assert Fault.RESET_UPLOAD in puts
    assert not puts & {Fault.TRUNCATED, Fault.IGNORES_RANGE, Fault.SHORT_LENGTH, Fault.RESET_BODY}
    heads = {course.fault for course in courses(always, HEAD, 2_000)}
    assert heads == puts - {Fault.RESET_UPLOAD}
    assert courses(Faults(failing=1, slow=0, kinds=(Fault.RESET_UPLOAD,)), GET, 1)[0].fault is None


def test_a_burst_refuses_everything_for_its_time_and_ends() -> None:
    clock = Still()
    fate = Faulty(Faults(slow=0, failing=0, burst_every_s=10, burst_s=1), delay_s=0, clock=clock)
    refused = []
    for tick in range(2_000):
        clock.now_s = tick / 10
        refused.append(fate(GET).fault is Fault.BURST)
    lengths = [len(run) for run in "".join("01"[one] for one in refused).split("0") if run]
    assert len(lengths) > 5
    assert {9, 10, 11} >= set(lengths[:-1])
    assert fate.injected == {Fault.BURST: sum(refused)}


def test_faults_pass_the_control_port_as_they_are() -> None:
    faults = Faults(seed=7, kinds=(Fault.ERROR, Fault.TRUNCATED), burst_every_s=0)
    assert Faults.of(faults.plain()) == faults


@pytest.fixture(scope="module")
def store() -> Iterator[Objects]:
    with running() as server:
        server.objects["/b/a"] = WHOLE
        yield server


@pytest.fixture(scope="module")
def proxy(store: Objects) -> Iterator[Proxy]:
    with Proxy.between(f"http://127.0.0.1:{store.server_port}", delay_ms=0) as started:
        yield started


def requested(
    proxy: Proxy, fault: Fault, method: str = "GET", path: str = "/b/a", body: bytes | None = None
) -> tuple[int, bytes]:
    """Status and body of one request that meets ``fault``; raises what http.client does."""
    slow = float(fault is Fault.SLOW)
    proxy.inject(Faults(slow=slow, slow_s=0.2, failing=1 - slow, kinds=(fault,), burst_every_s=0))
    host, _, port = proxy.endpoint.removeprefix("http://").partition(":")
    client = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        client.request(method, path, body=body)
        response = client.getresponse()
        return response.status, response.read()
    finally:
        client.close()
        assert proxy.inject(None) == {fault: 1}


@pytest.mark.parametrize(("fault", "status"), [(Fault.ERROR, 500), (Fault.SLOW_DOWN, 503)])
def test_a_refused_request_never_reaches_the_store(
    proxy: Proxy, store: Objects, fault: Fault, status: int
) -> None:
    found, body = requested(proxy, fault, "PUT", "/b/refused", b"1")
    assert found == status
    assert {500: b"InternalError", 503: b"SlowDown"}[status] in body
    assert "/b/refused" not in store.objects


@pytest.mark.parametrize("fault", [Fault.RESET_BEFORE, Fault.RESET_UPLOAD])
def test_a_reset_before_the_store_has_it_all_applies_nothing(
    proxy: Proxy, store: Objects, fault: Fault
) -> None:
    with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
        requested(proxy, fault, "PUT", "/b/lost", WHOLE)
    assert store.objects.get("/b/lost") != WHOLE


def test_a_reset_after_the_store_has_it_loses_the_response_only(
    proxy: Proxy, store: Objects
) -> None:
    with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
        requested(proxy, Fault.RESET_AFTER, "PUT", "/b/applied", WHOLE)
    assert store.objects["/b/applied"] == WHOLE


def test_an_error_may_hide_what_was_applied(proxy: Proxy, store: Objects) -> None:
    assert requested(proxy, Fault.ERROR_APPLIED, "PUT", "/b/hidden", WHOLE)[0] == 500
    assert store.objects["/b/hidden"] == WHOLE


@pytest.mark.parametrize("fault", [Fault.RESET_BODY, Fault.TRUNCATED])
def test_a_response_that_breaks_off_says_how_long_it_would_be(proxy: Proxy, fault: Fault) -> None:
    with pytest.raises((ConnectionError, http.client.IncompleteRead)):
        requested(proxy, fault)
    with pytest.raises((ConnectionError, http.client.IncompleteRead)):
        requested(proxy, fault, path="/chunked")


def test_a_small_content_length_hides_half_of_the_bytes(proxy: Proxy) -> None:
    assert requested(proxy, Fault.SHORT_LENGTH) == (200, WHOLE[:500])


def test_a_slow_response_is_right(proxy: Proxy) -> None:
    assert requested(proxy, Fault.SLOW) == (200, WHOLE)


def test_without_faults_everything_is_as_before(proxy: Proxy) -> None:
    proxy.inject(Faults(failing=1, slow=0))
    proxy.inject(None)
    host, _, port = proxy.endpoint.removeprefix("http://").partition(":")
    client = http.client.HTTPConnection(host, int(port), timeout=10)
    for _ in range(5):
        client.request("GET", "/b/a")
        assert client.getresponse().read() == WHOLE
    client.close()
