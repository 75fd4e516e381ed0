"""Serving: a bound port, a graceful end, careful headers, probes that say why."""

from __future__ import annotations

import ssl
import threading
import time
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from blockstore.errors import Invalid
from blockstore.service.config import ConfigFile, Section
from blockstore.service.listening import Listening, http_keys, listening
from blockstore.service.serving import Health, SecurityHeaders, Server, health_routes
from tests.support.asking import HERE, asking
from tests.support.certificates import certificate

HTTP = Section(name="http", sentence="Where.", build=listening, keys=http_keys("127.0.0.1:1"))
FILE = ConfigFile(name="f.toml", about="A file.", sections=(HTTP,))


def app(*routes: Route) -> Starlette:
    return Starlette(routes=[Route("/", lambda request: PlainTextResponse("here")), *routes])


def test_an_application_is_served_and_its_port_is_free_afterwards() -> None:
    with Server(app(), HERE) as server:
        assert server.alive
        assert httpx.get(server.url).text == "here"
        port = httpx.URL(server.url).port
        assert port
        with pytest.raises(Invalid, match=f"port {port} of 127.0.0.1 is in use"):
            Server(app(), Listening(host="127.0.0.1", port=port))
    assert not server.alive
    Server(app(), Listening(host="127.0.0.1", port=port)).stop()


def test_an_answer_on_a_connection_that_is_kept_does_not_wait_for_the_client() -> None:
    """A kernel holds the second piece of an answer back for 40 ms, unless it is told not to."""
    taken = []
    with Server(app(), HERE) as server, httpx.Client() as client:
        for _ in range(30):
            began = time.perf_counter()
            assert client.get(server.url).text == "here"
            taken.append(time.perf_counter() - began)
    assert min(taken[15:]) < 0.035


def test_an_address_that_this_machine_has_not_is_refused() -> None:
    with pytest.raises(Invalid, match="cannot listen on"):
        Server(app(), Listening(host="192.0.2.1", port=0))


def test_an_answer_under_way_is_ended_before_the_server_stops() -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(_: Request) -> Response:
        entered.set()
        assert release.wait(60)
        return PlainTextResponse("whole")

    answers: list[str] = []
    server = Server(app(Route("/slow", slow)), HERE, grace_s=60)
    server.start()
    asking = threading.Thread(
        target=lambda: answers.append(httpx.get(f"{server.url}/slow", timeout=60).text)
    )
    asking.start()
    assert entered.wait(60)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    release.set()
    asking.join(60)
    stopping.join(60)
    assert answers == ["whole"]


def test_every_answer_has_the_headers_and_a_route_may_say_otherwise() -> None:
    def own(_: Request) -> Response:
        return PlainTextResponse("x", headers={"Cache-Control": "max-age=60"})

    with asking(
        SecurityHeaders(app(Route("/own", own)), {"X-Frame-Options": "SAMEORIGIN"})
    ) as client:
        for path in ("/", "/nowhere"):
            headers = client.get(path).headers
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "SAMEORIGIN"
            assert "strict-transport-security" not in headers
        assert client.get("/own").headers["cache-control"] == "max-age=60"


def test_the_probes_answer_503_with_the_reasons() -> None:
    states = {"healthy": Health(), "ready": Health(reasons=("the first pass has not ended",))}
    routes = health_routes(lambda: states["healthy"], lambda: states["ready"])
    with asking(Starlette(routes=routes)) as client:
        assert client.get("/-/healthy").status_code == 200
        answer = client.get("/-/ready")
        assert (answer.status_code, answer.json()) == (
            503,
            {"ok": False, "reasons": ["the first pass has not ended"]},
        )
        states["ready"] = Health()
        assert client.get("/-/ready").json() == {"ok": True, "reasons": []}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("0.0.0.0:80", "0.0.0.0", 80), ("[::1]:0", "::1", 0), ("localhost:9", "localhost", 9)],
)
def test_an_address_reads_as_people_write_it(text: str, host: str, port: int) -> None:
    found = FILE.load(None, {"BLOCKSTORE_HTTP_LISTEN": text}).of(HTTP)
    assert (found.host, found.port, found.loopback) == (host, port, host != "0.0.0.0")


def test_an_empty_address_serves_nothing() -> None:
    assert FILE.load(None, {"BLOCKSTORE_HTTP_LISTEN": ""}).of(HTTP).off


@pytest.mark.parametrize("text", ["80", ":80", "here:", "here:port", "here:99999"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="expected an address and a port"):
        FILE.load(None, {"BLOCKSTORE_HTTP_LISTEN": text})


def test_with_a_certificate_it_speaks_tls(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with Server(
        SecurityHeaders(app()), Listening(host="127.0.0.1", port=0, tls_cert=cert, tls_key=key)
    ) as server:
        assert server.url.startswith("https://")
        url = server.url.replace("127.0.0.1", "localhost")
        answer = httpx.get(url, verify=ssl.create_default_context(cafile=str(cert)))
        assert answer.text == "here"
        assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_a_certificate_that_cannot_be_used_is_refused_before_anything_is_served(
    tmp_path: Path,
) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")
    bad = Listening(
        host="127.0.0.1", port=0, tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "cert.pem"
    )
    with pytest.raises(Invalid, match="cannot be used"):
        Server(app(), bad)
    with pytest.raises(Invalid, match="both or none"):
        Listening(host="127.0.0.1", port=0, tls_key=tmp_path / "cert.pem")


def test_a_new_certificate_is_used_without_a_start(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    listening = Listening(host="127.0.0.1", port=0, tls_cert=cert, tls_key=key)

    def answers(server: Server, trusted: bytes) -> bool:
        context = ssl.create_default_context(cadata=trusted.decode())
        try:
            httpx.get(server.url.replace("127.0.0.1", "localhost"), verify=context)
        except httpx.ConnectError:
            return False
        return True

    with Server(app(), listening) as server:
        before = cert.read_bytes()
        assert answers(server, before)
        (tmp_path / "next").mkdir()
        newer, its_key = certificate(tmp_path / "next")
        cert.write_bytes(newer.read_bytes())  # without its key
        server.certificate.look()
        server.certificate.look()
        assert answers(server, before)
        key.write_bytes(its_key.read_bytes())
        ends = time.monotonic() + 30
        while not answers(server, newer.read_bytes()):
            assert time.monotonic() < ends, "the server looks by itself"
            time.sleep(0.1)
        assert not answers(server, before)
        cert.unlink()
        server.certificate.look()
        server.certificate.look()
        assert answers(server, newer.read_bytes())
