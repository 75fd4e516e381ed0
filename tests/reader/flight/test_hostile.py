"""What strangers may send over Flight SQL: bytes that are no messages, messages that are no
requests, and every known way past the tables. All of it ends in a sentence; the gateway goes on."""

from __future__ import annotations

import random
import socket
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from blockstore.reader.flight.handles import Ticket
from blockstore.reader.flight.messages import _MESSAGES, packed
from blockstore.reader.query.sql.syntax import Syntax
from blockstore.table import create
from tests.reader.flight.doors import Opened, opened
from tests.reader.http.gateways import FEW, READ, settings
from tests.reader.query.test_escapes import SECRET, attempts
from tests.support.open_files import allow_files

CLEAN = (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError)


def test_malformed_messages_are_refused_in_words_and_the_gateway_goes_on(door: Opened) -> None:
    dice = random.Random(20_261_126)
    client, options = door.client.flight, door.client.options()
    said: list[str] = []
    for turn in range(200):
        data = _odd(dice, turn)
        call = turn % 5
        try:
            if call == 0:
                client.get_flight_info(flight.FlightDescriptor.for_command(data), options)
            elif call == 1:
                client.do_get(flight.Ticket(data), options).read_all()
            elif call == 2:
                name = dice.choice(["CreatePreparedStatement", "CancelFlightInfo", "x\x00"])
                list(client.do_action(flight.Action(name, data), options))
            elif call == 3:
                client.get_schema(flight.FlightDescriptor.for_command(data), options)
            else:
                descriptor = flight.FlightDescriptor.for_command(data)
                writer, reader = client.do_put(descriptor, pa.schema([]), options)
                with writer:
                    writer.done_writing()
                    reader.read()
        except CLEAN as error:
            said.append(str(error))
    assert len(said) > 190
    assert [text for text in said if "Traceback" in text or "internal" in text] == []
    assert door.client.query("SELECT 1 AS a").to_pydict() == {"a": [1]}
    assert door.idle()


def _odd(dice: random.Random, turn: int) -> bytes:
    """Random bytes; a message of Flight SQL with random bytes inside; a damaged one."""
    noise = dice.randbytes(dice.randrange(200))
    name = dice.choice([*_MESSAGES, "CommandStatementSubstraitPlan", "Nothing"])
    kind = turn // 5 % 4
    if kind == 0:
        return noise
    url = f"type.googleapis.com/arrow.flight.protocol.sql.{name}".encode()
    if kind == 1:
        return b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(noise) & 127]) + noise
    handle = dice.choice([noise, b"blockstore1:" + noise, b"blockstore1:{}", b"blockstore1:[1]"])
    whole = packed("TicketStatementQuery", statement_handle=handle)
    if kind == 2:
        return whole
    at = dice.randrange(len(whole))
    return whole[:at] + bytes([dice.randrange(256)]) + whole[at + 1 :]


@pytest.mark.parametrize(
    "handle",
    [
        b'{"sql": 1}',
        b'{"sql": "SELECT 1", "parameters": 5}',
        b'{"sql": "SELECT 1", "versions": [], "until": 1}',
        b'{"sql": "SELECT 1", "versions": {}, "until": "x"}',
        b'{"sql": "SELECT 1", "versions": {"flights": "x"}, "until": 99999999999999}',
        b'{"sql": "SELECT 1", "versions": {"flights": -1}, "until": 99999999999999}',
        b'{"sql": "SELECT ?", "parameters": [{"$date": 1}], "versions": {}, "until": 1e13}',
        b'{"sql": "SELECT 1", "versions": {"t": 18446744073709551615}, "until": 9999999999999}',
        b'{"sql": "SELECT 1", "versions": {"flights": true}, "until": 99999999999999}',
        b'{"sql": "", "count": "x"}',
        b'{"sql": "", "count": true}',
        b'{"sql": "", "count": 18446744073709551615}',
        b'{"sql": "", "count": 1e300}',
        b"[" * 10_000,
    ],
)
def test_a_forged_handle_is_refused_in_words(door: Opened, handle: bytes) -> None:
    for name, field in (
        ("TicketStatementQuery", "statement_handle"),
        ("CommandPreparedStatementQuery", "prepared_statement_handle"),
    ):
        forged = packed(name, **{field: b"blockstore1:" + handle})
        with pytest.raises(CLEAN) as failed:
            door.client.flight.do_get(flight.Ticket(forged), door.client.options()).read_all()
        assert "Traceback" not in str(failed.value)


EXPLAINS = "EXPLAIN FROM t"
"""Of the attempts the one that is a query here, over a table of the caller."""


def test_no_attempt_gets_past_the_tables(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    for name, value in (("t", "open"), ("hidden", SECRET)):
        table = create(f"{folder}/{name}?durable=false", schema=pa.schema([("a", pa.string())]))
        table.append(pa.table({"a": [value]}))
    (folder / "t" / "loose.csv").write_text(f"a\n{SECRET}\n")
    parquet = next(folder.glob("hidden/*/chunks/*.parquet"))
    asked = settings(f"{folder}?durable=false", tmp_path)
    few = next(one for one in asked.tokens if one.name == "few")
    only_t = replace(few, tables=frozenset({"t"}), scopes=frozenset({*few.scopes} - {"write"}))
    others = tuple(one for one in asked.tokens if one is not few)
    came_through: list[object] = []
    said: list[str] = []
    explained: list[str] = []
    with opened(replace(asked, tokens=(*others, only_t))) as door, door.as_(FEW) as stranger:
        before = _files(folder)
        for attempt in attempts():
            sql = attempt.format(p=parquet, c=f"{folder}/t/loose.csv", d=folder)
            try:
                stranger.query(sql if sql == EXPLAINS else f"EXPLAIN {sql}")
                explained.append(sql)
            except (*CLEAN, flight.FlightUnauthorizedError) as error:
                said.append(str(error))
            if sql == EXPLAINS:
                continue
            forged = Ticket(sql=sql, parameters=None, versions={}, until_ms=2**60).dump()
            ticket = flight.Ticket(packed("TicketStatementQuery", statement_handle=forged))
            for way in (
                lambda sql=sql: stranger.query(sql),
                lambda ticket=ticket: stranger.flight.do_get(ticket, stranger.options()).read_all(),
            ):
                try:
                    came_through.append((sql, way().to_pylist()))
                except (*CLEAN, flight.FlightUnauthorizedError) as error:
                    said.append(str(error))
        assert came_through == []
        assert len(said) > 600
        # A change of a table that the caller may read can be explained to it, and nothing else.
        assert EXPLAINS in explained
        assert [one for one in explained if "hidden" in one.lower() or str(folder) in one] == []
        assert [text for text in said if SECRET in text or "Traceback" in text] == []
        assert _files(folder) == before
        assert stranger.query("SELECT a FROM t").to_pydict() == {"a": ["open"]}


def _files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def test_a_command_that_is_too_large_is_refused_before_it_is_parsed(
    door: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []
    for name in ("parameters", "split"):
        monkeypatch.setattr(Syntax, name, lambda _, sql: parsed.append(len(sql)))
    for sql in ("SELECT " + "1," * 600_000 + "1", "SELECT '" + "x" * (5 << 20) + "'"):
        with pytest.raises(pa.ArrowInvalid, match="expected at most"):
            door.client.query(sql)
        command = packed("CommandStatementQuery", query=sql)
        with pytest.raises(pa.ArrowInvalid, match="expected at most"):
            door.client.flight.get_schema(
                flight.FlightDescriptor.for_command(command), door.client.options()
            )
    assert parsed == []


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def test_a_thousand_connections_that_ask_nothing_or_half_of_it_do_not_delay_a_query(
    door: Opened,
) -> None:
    allow_files(4_096)
    address = ("127.0.0.1", int(door.door.url.rpartition(":")[2]))
    begun = (b"", PREFACE[:9], PREFACE, PREFACE + b"\0\0\0\4\0\0\0\0\0", b"\x16\x03\x01")
    wires = []
    try:
        for place in range(1_000):
            wires.append(socket.create_connection(address, timeout=60))
            wires[-1].sendall(begun[place % len(begun)])
        for one in (door.client, door.as_(READ)):
            assert one.query("SELECT count(*) AS c FROM flights").to_pydict() == {"c": [1000]}
    finally:
        for wire in wires:
            wire.close()
    assert door.idle()
