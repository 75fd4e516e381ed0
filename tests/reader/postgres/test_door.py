"""The Postgres door: who comes in, what happens to clients that misbehave, and cancel."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import ssl
import struct
import time
import warnings
from dataclasses import replace
from pathlib import Path
from select import select

import pytest

import blockstore as bs
from blockstore.errors import Invalid
from blockstore.reader.postgres.door import PostgresDoor
from blockstore.reader.postgres.peer import Peer
from blockstore.service.listening import Listening
from blockstore.world import World
from tests.reader.http.gateways import FEW, READ, Token, hashed
from tests.reader.http.gateways import Scope as TokenScope
from tests.reader.postgres.raw import (
    SERIES,
    SYNC,
    Doors,
    Raw,
    both,
    frame,
    parse,
    query,
    settings_of,
    startup,
    text,
    until,
)
from tests.support.certificates import certificate
from tests.support.open_files import allow_files

SLOW = "SELECT count(*) FROM range(100_000_000_000) t(i) WHERE i % 7 = 3"
TLS_REQUEST = struct.pack("!ii", 8, 80_877_103)
GSS_REQUEST = struct.pack("!ii", 8, 80_877_104)


def test_a_token_is_the_password_and_the_user_name_is_free(doors: Doors) -> None:
    with doors.client(READ) as one:
        assert one.rows("SELECT count(*) FROM flights") == [["1000"]]
        assert one.rows("SELECT current_user, current_database()") == [["tester", "lake"]]


@pytest.mark.parametrize("token", ["", "bsk_unknown", "bsk_write ", "x" * 5_000])
def test_an_unknown_token_is_refused_with_the_state_of_a_wrong_password(
    doors: Doors, token: str
) -> None:
    with Raw(doors.door.port) as one:
        if token == "bsk_write ":
            one.sign_in(token)  # as over HTTP, spaces around a token do not count
            return
        with pytest.raises(PermissionError, match="28P01"):
            one.sign_in(token)
        assert one.ended()


def test_a_token_without_the_scope_read_reads_nothing_and_learns_no_name(tmp_path: Path) -> None:
    write_only = Token(
        name="w", sha256=hashed("bsk_w"), scopes=frozenset({TokenScope.WRITE}), tables=None
    )
    asked = replace(settings_of(tmp_path), tokens=(write_only,))
    with both(asked) as made, made.client("bsk_w") as one:
        for sql in ("SELECT * FROM flights", "SELECT * FROM nope", "TABLE flights"):
            found = one.fails(sql)
            assert found["C"] == "42501"
            assert "flights" not in found["M"]
        assert one.fails("COPY flights TO STDOUT")["C"] == "42501"
        assert one.fails("SELECT relname FROM pg_class")["C"] == "42501"
        assert one.fails("EXPLAIN SELECT * FROM flights")["C"] == "42501"


def test_a_token_for_some_tables_sees_no_other_one(doors: Doors) -> None:
    with doors.client(FEW) as one:
        assert one.rows("SELECT tablename FROM pg_tables") == [["flights"]]
        assert one.rows("SELECT table_name FROM information_schema.tables") == [["flights"]]
        assert "salaries" not in str(one.fails("SELECT * FROM salaries")["M"]).replace(
            "there is no table salaries", ""
        )


def test_a_database_is_a_lake_and_others_are_refused(doors: Doors) -> None:
    for name in ("lake", "postgres", "tester"):
        doors.client(database=name).close()
    with Raw(doors.door.port) as one, pytest.raises(PermissionError, match="3D000"):
        one.sign_in(database="another")


def test_without_tokens_no_password_is_asked_for(tmp_path: Path) -> None:
    with both(replace(settings_of(tmp_path), tokens=())) as made, Raw(made.door.port) as one:
        one.send(startup(user="me"))
        assert one.next() == ("R", struct.pack("!i", 0))


def test_a_token_never_travels_without_tls(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with pytest.raises(Invalid, match="would carry tokens without TLS"):
        PostgresDoor(None, Listening(host="0.0.0.0", port=0))  # type: ignore[arg-type]
    secure = Listening(host="127.0.0.1", port=0, tls_cert=cert, tls_key=key)
    with both(settings_of(tmp_path), secure) as made:
        with Raw(made.door.port) as one:
            one.send(startup(user="me"))
            kind, body = one.next()
            assert kind == "E"
            assert b"sslmode=require" in body
            assert one.ended()
        with Raw(made.door.port) as one:
            one.send(TLS_REQUEST)
            assert one.byte() == b"S"
            context = ssl.create_default_context(cafile=cert)
            one.socket = context.wrap_socket(one.socket, server_hostname="localhost")
            one.sign_in()
            assert one.rows("SELECT 42") == [["42"]]


def test_a_new_certificate_is_used_for_the_next_client(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    secure = Listening(host="127.0.0.1", port=0, tls_cert=cert, tls_key=key)
    (tmp_path / "next").mkdir()
    newer = certificate(tmp_path / "next")
    trusted = ssl.create_default_context(cafile=newer[0])

    def connects(port: int) -> bool:
        with Raw(port) as one:
            one.send(TLS_REQUEST)
            assert one.byte() == b"S"
            try:
                one.socket = trusted.wrap_socket(one.socket, server_hostname="localhost")
            except ssl.SSLError:
                return False
            one.sign_in()
            return True

    with both(settings_of(tmp_path), secure) as made:
        assert not connects(made.door.port)
        for old, new in zip((cert, key), newer, strict=True):
            old.write_bytes(new.read_bytes())
        ends = time.monotonic() + 30
        while not connects(made.door.port):
            assert time.monotonic() < ends, "the door looks by itself"
            time.sleep(0.1)


def test_what_comes_before_tls_is_never_taken_for_the_clients(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    secure = Listening(host="127.0.0.1", port=0, tls_cert=cert, tls_key=key)
    with both(settings_of(tmp_path), secure) as made, Raw(made.door.port) as one:
        one.send(TLS_REQUEST + startup(user="mallory"))
        assert one.ended()


def test_a_client_that_resets_while_tls_begins_leaves_its_place_at_once(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    secure = Listening(host="127.0.0.1", port=0, tls_cert=cert, tls_key=key)
    with both(settings_of(tmp_path), secure) as made:
        began = time.monotonic()
        for _ in range(3):
            one = Raw(made.door.port)
            one.send(TLS_REQUEST)
            assert one.byte() == b"S"
            one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()
        assert until(lambda: made.door.connected == 0)
        assert time.monotonic() - began < made.served.gateway.settings.http.stall_s / 2


def test_tls_and_gssapi_are_declined_where_there_are_none(doors: Doors) -> None:
    with Raw(doors.door.port) as one:
        one.send(GSS_REQUEST)
        assert one.byte() == b"N"
        one.send(TLS_REQUEST)
        assert one.byte() == b"N"
        one.sign_in()


def test_a_cancel_request_ends_what_its_connection_runs_and_frees_the_place(doors: Doors) -> None:
    engine = doors.served.gateway.engine
    with doors.client() as one:
        one.send(query(SLOW))
        assert until(lambda: engine.running() == 1)
        cancel(doors, one.key[0], b"\0\0\0\0")  # a wrong key is ignored
        assert engine.running() == 1
        cancel(doors, *one.key)
        found = one.until_ready()
        assert b"57014" in found[0][1]
        assert engine.running() == 0
        assert one.rows("SELECT 1") == [["1"]]


def cancel(doors: Doors, process: int, secret: bytes) -> None:
    with Raw(doors.door.port) as other:
        body = struct.pack("!ii", 80_877_102, process) + secret
        other.send(struct.pack("!i", len(body) + 4) + body)
        assert other.ended()


def test_a_client_that_leaves_in_the_middle_frees_its_place(doors: Doors) -> None:
    engine = doors.served.gateway.engine
    for sql in (SLOW, "SELECT * FROM range(50_000_000)"):
        one = doors.client()
        one.send(query(sql))
        assert until(lambda: engine.running() == 1)
        one.close()
        assert until(lambda: engine.running() == 0), sql


def test_a_client_that_reads_nothing_is_disconnected(tmp_path: Path) -> None:
    asked = settings_of(tmp_path)
    asked = replace(asked, http=replace(asked.http, stall_s=0.5))
    with both(asked) as made:
        one = made.client()
        one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        one.send(query("SELECT i, repeat('x', 100) FROM range(5_000_000) t(i)"))
        assert until(lambda: made.served.gateway.engine.running() == 1)
        assert until(lambda: made.served.gateway.engine.running() == 0)
        assert until(lambda: made.door.connected == 0)


def test_a_slow_loris_is_disconnected_and_an_idle_client_is_not(tmp_path: Path) -> None:
    asked = settings_of(tmp_path)
    asked = replace(asked, http=replace(asked.http, stall_s=0.4))
    with both(asked) as made:
        idle = made.client()
        silent, half = made.raw(), made.raw()
        half.send(b"\0\0")
        drips = made.client()
        drips.send(b"Q\0\0\1")
        for one in (silent, half, drips):
            assert one.ended()
        World.real().clock.sleep(0.5)
        assert idle.rows("SELECT 1") == [["1"]]


def test_a_thousand_idle_clients_do_not_delay_another(doors: Doors) -> None:
    allow_files(4_096)
    refused = doors.door.connections.refused
    many = [doors.client() for _ in range(999)]
    try:
        with doors.client() as one:
            assert one.rows("SELECT count(*) FROM flights") == [["1000"]]
            with pytest.raises(PermissionError, match="connection limit reached"):
                doors.client()
        assert many[-1].rows("SELECT 1") == [["1"]]
        found = doors.door.connections
        assert (found.limit, found.refused) == (1_000, refused + 1)
        assert found.used in (999, 1_000), "the one that has left may not be gone"
    finally:
        for one in many:
            one.close()
    assert until(lambda: doors.door.connected == 0)


@pytest.mark.parametrize("seed", range(12))
def test_random_bytes_in_every_state_end_one_connection_and_nothing_else(
    doors: Doors, seed: int
) -> None:
    chance = random.Random(seed)
    noise = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 400)))
    kinds = [bytes([chance.choice(b"QPBDECSHdcfXp?\0")]) for _ in range(6)]
    bodies = [bytes(chance.randrange(256) for _ in range(chance.randrange(40))) for _ in kinds]
    framed = b"".join(frame(kind, body) for kind, body in zip(kinds, bodies, strict=True))
    with Raw(doors.door.port, timeout=5) as fresh:
        fresh.send(noise)
        fresh.socket.shutdown(socket.SHUT_WR)
        assert fresh.ended()
    with Raw(doors.door.port, timeout=5) as asked:
        asked.send(startup(user="me"))
        asked.next()
        asked.send(noise)
        asked.socket.shutdown(socket.SHUT_WR)
        assert asked.ended()
    for data in (noise, framed, parse("SELECT 1") + framed, query("COPY flights TO STDOUT")[:9]):
        with doors.client() as one:
            one.send(data)
            one.socket.shutdown(socket.SHUT_WR)
            assert one.ended()
    with doors.client() as one:
        assert one.rows("SELECT 1") == [["1"]]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!i", 3),
        struct.pack("!i", 2**31 - 1),
        struct.pack("!i", -5),
        struct.pack("!ii", 8, 131_072),
        struct.pack("!i", 20_000) + b"\0" * 8,
    ],
)
def test_a_length_that_no_first_message_has_is_refused_at_once(doors: Doors, data: bytes) -> None:
    with Raw(doors.door.port, timeout=5) as one:
        one.send(data)
        kind, body = one.next()
        assert kind == "E"
        assert b"08P01" in body
        assert one.ended()


def test_a_message_larger_than_the_limit_is_refused_before_it_is_read(doors: Doors) -> None:
    with doors.client() as one:
        one.send(b"Q" + struct.pack("!i", 64 << 20))
        kind, body = one.next()
        assert kind == "E"
        assert b"send less at a time" in body
        assert one.ended()


@pytest.mark.parametrize(
    "body",
    [
        b"\0\0\0\1\0\0\0\1\x7f\xff\xff\xffx\0\0",  # a value longer than its message
        b"\0\0\0\1\0\0\0\1\xff\xff\xff\xf0\0\0",  # a negative length
        b"\0\0\0\0\0\0\0\0\0\0more",  # more bytes than fields
        b"\xff\xfe\0\0\0\0\0\0\0\0",  # a name that is not UTF-8
        b"no end",
    ],
)
def test_a_bind_that_does_not_fit_its_length_ends_the_connection(doors: Doors, body: bytes) -> None:
    with doors.client() as one:
        one.send(parse("SELECT $1"), frame(b"B", body))
        kind, error = one.next()
        assert kind == "E"
        assert b"08P01" in error
        assert one.ended()


def test_parts_of_a_copy_that_has_ended_are_ignored(doors: Doors) -> None:
    with doors.client() as one:
        one.send(frame(b"d", b"x"), frame(b"c"), frame(b"f", text("why")))
        assert one.rows("SELECT 1") == [["1"]]


def test_after_an_error_messages_are_skipped_until_sync(doors: Doors) -> None:
    with doors.client() as one:
        one.send(parse("SELECT * FROM unknown"), *SERIES)
        assert [kind for kind, _ in one.until_ready()] == ["E", "Z"]
        one.send(parse("SELECT 1"), *SERIES)
        assert [kind for kind, _ in one.until_ready()] == ["1", "2", "T", "D", "C", "Z"]
        one.send(SYNC)
        assert one.until_ready() == [("Z", b"I")]


def test_a_gateway_that_stops_disconnects_its_clients(tmp_path: Path) -> None:
    with both(settings_of(tmp_path)) as made:
        idle, busy = made.client(), made.client()
        busy.send(query(SLOW))
        assert until(lambda: made.served.gateway.engine.running() == 1)
        made.door.stop()
        assert not made.door.alive
        assert idle.ended()
        assert busy.ended()


def test_a_gateway_that_stops_leaves_no_connection_of_a_client_that_reads_nothing(
    tmp_path: Path,
) -> None:
    with both(settings_of(tmp_path)) as made:
        one = made.client()
        one.send(query("SELECT repeat('x', 1000) FROM range(100000)"))
        assert until(lambda: made.door.connected == 1 and select([one.socket], [], [], 0)[0])
        began = time.monotonic()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            made.door.stop()
            gc.collect()
        assert not made.door.alive
        assert time.monotonic() - began < 5
        assert [str(one.message) for one in seen if one.category is ResourceWarning] == []


@pytest.mark.parametrize(("size", "patience_s", "taken"), [(16 << 20, 0.2, False), (8, 20, True)])
def test_a_connection_ends_once_its_last_bytes_are_taken_or_after_a_while(
    size: int, patience_s: float, taken: bool
) -> None:
    async def run() -> bytes:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with theirs:
            made: list[Peer] = []
            transport, peer = await loop.create_connection(
                lambda: Peer(1 << 20, 20, made.append), sock=ours
            )
            transport.write(bytes(size))
            await peer.end(patience_s)
            assert transport.get_write_buffer_size() == 0
            return theirs.recv(100)

    assert (asyncio.run(run()) == bytes(size)) == taken


def test_a_table_that_is_written_is_read_at_the_version_that_was_written(tmp_path: Path) -> None:
    with both(settings_of(tmp_path)) as made, made.client() as one:
        sql = "INSERT INTO flights VALUES ('2026-02-01 00:00:00+00', 4000, 'new')"
        assert one.ask(sql)[0] == ("C", text("INSERT 0 1"))
        assert one.rows("SELECT s FROM flights WHERE n = 4000") == [["new"]]
        table = bs.open(made.served.gateway.tables.table("flights").bucket.url)
        assert table.snapshot().version == 4


def test_the_address_of_a_client_is_known_after_its_connection_has_ended() -> None:
    class Ended(asyncio.Transport):
        """As a TLS transport of asyncio: it has nothing to say when it has ended."""

        ends = False

        def get_extra_info(self, name: str, default: object = None) -> object:
            if self.ends:
                raise AttributeError(name)
            return ("192.0.2.7", 5432) if name == "peername" else default

    transport = Ended()
    peer = Peer(1 << 20, 20, lambda _: None)
    assert peer.address == ""
    peer.connection_made(transport)
    transport.ends = True
    assert peer.address == "192.0.2.7"
