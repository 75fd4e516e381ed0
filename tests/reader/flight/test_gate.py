"""Tokens, scopes and certificates at the Flight SQL door: those of HTTP, with the same words."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from blockstore.errors import Invalid
from blockstore.reader.flight.door import FlightDoor
from blockstore.reader.flight.messages import packed
from blockstore.reader.http.tokens import hashed
from blockstore.service.listening import Listening
from tests.reader.flight.doors import Client, Opened, opened
from tests.reader.http.gateways import FEW, READ, WRITE, make_lake, settings
from tests.support.certificates import certificate

CALLS: list[Callable[[Client], object]] = [
    lambda one: one.query("SELECT 1"),
    lambda one: one.info("CommandGetTables"),
    lambda one: one.flight.do_get(flight.Ticket(b"x"), one.options()).read_all(),
    lambda one: one.prepare("SELECT 1"),
    lambda one: one.update("DELETE FROM flights"),
    lambda one: one.ingest("flights", pa.table({"n": [1]})),
    lambda one: list(one.flight.list_actions(one.options())),
    lambda one: list(one.flight.list_flights(options=one.options())),
    lambda one: one.flight.get_schema(
        flight.FlightDescriptor.for_command(packed("CommandGetTables")), one.options()
    ),
]


@pytest.mark.parametrize("token", [None, "", "wrong", READ[:-1], READ + "x", hashed(READ)])
def test_an_unknown_token_is_refused_by_every_call(door: Opened, token: str | None) -> None:
    with door.as_(token) as stranger:
        for call in CALLS:
            # Of a stream that it writes, the client reports any end as an OSError.
            with pytest.raises(
                (flight.FlightUnauthenticatedError, OSError), match="token is missing or unknown"
            ):
                call(stranger)
    assert door.http.gateway.engine.running() == 0


def test_the_handshake_takes_the_token_as_a_password(door: Opened) -> None:
    with flight.FlightClient(door.door.url) as client:
        name, value = client.authenticate_basic_token(b"anyone", READ.encode())
        assert (name, value) == (b"authorization", f"Bearer {READ}".encode())
        for password in (b"wrong", b"", READ.encode() + b"\xff"):
            with pytest.raises(flight.FlightUnauthenticatedError):
                client.authenticate_basic_token(b"anyone", password)


def test_a_token_that_is_revoked_or_expired_is_one_that_is_no_longer_known(
    tmp_path: Path,
) -> None:
    asked = settings(make_lake(tmp_path), tmp_path)
    left = tuple(one for one in asked.tokens if one.name != "writer")
    with opened(replace(asked, tokens=left)) as door:
        with pytest.raises(flight.FlightUnauthenticatedError):
            door.client.query("SELECT 1")
        with door.as_(READ) as reader:
            assert reader.query("SELECT 1 AS a").to_pydict() == {"a": [1]}


def test_a_scope_that_is_missing_is_refused_and_nothing_is_changed(door: Opened) -> None:
    with door.as_(READ) as reader:
        for change in (
            lambda: reader.update("DELETE FROM flights WHERE n = 1"),
            lambda: reader.query("DELETE FROM flights WHERE n = 1"),
            lambda: reader.ingest("flights", pa.table({"n": [1]})),
            lambda: reader.ingest("fresh", pa.table({"n": [1]}), missing=1),
        ):
            with pytest.raises(flight.FlightUnauthorizedError, match="lacks scope 'write'"):
                change()
        assert reader.query("SELECT count(*) AS c FROM flights").to_pydict() == {"c": [1000]}


def test_a_token_of_some_tables_learns_of_no_other(door: Opened) -> None:
    with door.as_(FEW) as few:
        assert few.get("CommandGetTables")["table_name"].to_pylist() == ["flights"]
        said = []
        for name in ("salaries", "salariez"):
            for call in (
                lambda name=name: few.query(f'SELECT * FROM "{name}"'),
                lambda name=name: few.prepare(f"SELECT * FROM flights JOIN {name} USING (n)"),
                lambda name=name: few.update(f"INSERT INTO {name} SELECT * FROM {name}"),
                lambda name=name: few.ingest(name, pa.table({"n": [1]})),
                lambda name=name: few.get("CommandGetPrimaryKeys", table=name),
            ):
                with pytest.raises(pa.ArrowKeyError) as failed:
                    call()
                # Older releases of Arrow add the connection's address and the time.
                own = str(failed.value).partition(" gRPC client debug context")[0]
                said.append(own.replace(name, "NAME"))
        assert said[: len(said) // 2] == said[len(said) // 2 :]
        with pytest.raises(flight.FlightUnauthorizedError, match="none of them"):
            few.ingest("fresh", pa.table({"n": [1]}), missing=1)


def test_a_certificate_makes_the_door_one_of_tls(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    asked = settings(make_lake(tmp_path), tmp_path)
    with opened(asked, tls_cert=cert, tls_key=key) as door:
        assert door.door.url.startswith("grpc+tls://")
        assert door.client.query("SELECT 1 AS a").to_pydict() == {"a": [1]}
        port = door.door.url.rpartition(":")[2]
        options = {"tls_root_certs": cert.read_bytes(), "override_hostname": "localhost"}
        with Client(f"grpc+tls://127.0.0.1:{port}", WRITE, **options) as careful:
            assert careful.query("SELECT 1 AS a").to_pydict() == {"a": [1]}
        with Client(f"grpc://127.0.0.1:{port}") as plain, pytest.raises(flight.FlightError):
            plain.query("SELECT 1")


def test_a_port_and_a_certificate_that_cannot_be_used_are_one_sentence(
    door: Opened, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = Listening(host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(Invalid, match="is in use by another process: choose another"):
            FlightDoor(door.http.gateway, used).start()
    (tmp_path / "cert.pem").write_text("no certificate")
    for cert in (tmp_path / "cert.pem", tmp_path / "missing.pem"):
        listening = Listening(host="127.0.0.1", port=0, tls_cert=cert, tls_key=cert)
        with pytest.raises(Invalid, match=r"certificate|cannot be read"):
            FlightDoor(door.http.gateway, listening).start()


def test_a_call_has_one_line_in_the_log_without_its_statement_and_its_token(
    door: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "blockstore.access")
    before = _counted(door)
    door.client.query("SELECT 'private' AS a")
    with pytest.raises(pa.ArrowInvalid):
        door.client.query("SELECT private FROM flights")
    assert door.idle()
    lines = [one for one in caplog.records if one.getMessage().startswith("flight ")]
    assert [one.getMessage() for one in lines] == [
        "flight get_flight_info ok",
        "flight do_get ok",
        "flight get_flight_info refused",
    ]
    assert {one.caller for one in lines} == {"writer"}
    after = _counted(door)
    assert after["ok"] - before["ok"] == 2
    assert after["refused"] - before["refused"] == 1


def _counted(door: Opened) -> dict[str, float]:
    lines = door.http.http.get("/metrics").text.splitlines()
    name = "blockstore_flight_calls_total{status="
    return {
        line.removeprefix(name).split('"')[1]: float(line.split()[-1])
        for line in lines
        if line.startswith(name)
    }
