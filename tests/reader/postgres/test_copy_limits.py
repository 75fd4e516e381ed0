"""COPY FROM STDIN: the limits of uploads, the token, a cancel and a time limit."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.reader.http.gateways import FEW, TOKENS, WRITE, Scope, make_lake, settings
from tests.reader.postgres.raw import (
    Doors,
    Raw,
    both,
    error_of,
    frame,
    query,
    until,
)

COPY = "COPY flights FROM STDIN (FORMAT csv)"
LINE = b"2026-03-01T00:00:00Z,7," + b"x" * 900 + b"\n"
SLOW = (
    "INSERT INTO flights SELECT TIMESTAMPTZ '2026-01-01 00:00:00Z', i, 'x' "
    "FROM range(1000000000000) a(i) WHERE hash(i) = 1"
)


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("copy_limits")
    asked = settings(make_lake(folder), folder)
    http = replace(asked.http, uploads_at_once=2)
    with both(replace(asked, http=http)) as made:
        yield made


def copying(one: Raw) -> Raw:
    """It sends the rows of a COPY from now on."""
    one.send(query(COPY))
    kind, body = one.next()
    assert kind == "G", error_of(body)
    return one


def error(one: Raw) -> dict[str, str]:
    """The only error before the session is ready again."""
    errors = [error_of(body) for kind, body in one.until_ready() if kind == "E"]
    assert len(errors) == 1, errors
    return errors[0]


def count(own: Doors) -> int:
    with own.client() as one:
        return int(one.rows("SELECT count(*) FROM flights")[0][0] or 0)


def inputs(own: Doors) -> list[str]:
    """What is left of files that came."""
    found = own.served.gateway.lake.list("")
    return [one.key for one in found if "input" in one.key]


def test_a_copy_beyond_the_limit_of_an_upload_is_refused(own: Doors) -> None:
    one = copying(own.client())
    for _ in range(12):
        one.send(frame(b"d", LINE * 100))
    one.send(frame(b"c"))
    found = error(one)
    assert (found["C"], "limit of 1,048,576 bytes" in found["M"]) == ("54000", True)
    assert inputs(own) == []
    copying(one).send(frame(b"d", LINE), frame(b"c"))
    assert one.until_ready()[0] == ("C", b"COPY 1\0")


def test_so_many_copies_at_once_as_uploads(own: Doors) -> None:
    held = [copying(own.client()) for _ in range(2)]
    third = own.client()
    assert third.fails(COPY)["C"] == "53300"
    assert third.rows("SELECT 1") == [["1"]]
    held[0].send(frame(b"f", b"not any more\0"))
    assert error(held[0])["C"] == "57014"
    copying(third).send(frame(b"d", LINE), frame(b"c"))
    assert third.until_ready()[0] == ("C", b"COPY 1\0")
    held[1].close()
    assert until(lambda: own.served.gateway.receiving._value == 2)


def test_a_copy_ends_at_its_timeout(own: Doors) -> None:
    one = own.client()
    one.ask("SET statement_timeout = '300ms'")
    assert error(copying(one))["C"] == "57014"
    one.send(frame(b"d", LINE), frame(b"c"))  # what a client was about to send is ignored
    assert one.rows("SHOW statement_timeout") == [["300ms"]]
    assert count(own) == 1000
    assert inputs(own) == []


def test_a_copy_is_cancelled(own: Doors) -> None:
    one = copying(own.client())
    one.send(frame(b"d", LINE))
    with own.raw() as other:
        process, secret = one.key
        other.send(struct.pack("!iii", 16, 80_877_102, process) + secret)
        assert other.ended()
    assert error(one)["C"] == "57014"
    assert one.rows("SELECT 1") == [["1"]]
    assert count(own) == 1000


def test_a_change_that_waits_for_its_job_and_is_cancelled_is_no_conflict(own: Doors) -> None:
    """After a conflict clients send a statement again."""
    one = own.client()
    one.ask("SET statement_timeout = '1s'")
    assert one.fails(SLOW)["C"] == "57014"


def test_a_copy_that_sends_nothing_gives_its_place_back(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("silent")
    asked = settings(make_lake(folder), folder)
    with both(replace(asked, http=replace(asked.http, stall_s=0.5))) as made:
        one = copying(made.client())
        found = error(one)
        assert (found["C"], found["M"].startswith("nothing of the COPY came")) == ("57014", True)
        assert one.rows("SELECT 1") == [["1"]]


@pytest.mark.parametrize("way", ["revoked", "expired"])
def test_rows_that_come_after_the_end_of_the_token_are_not_written(own: Doors, way: str) -> None:
    gate = own.served.gateway.gate
    one = copying(own.client(FEW))
    one.send(frame(b"d", LINE))
    left = [token for token in TOKENS if token.name != "few"]
    if way == "expired":
        left += [replace(token, expires_ms=1) for token in TOKENS if token.name == "few"]
    gate.exchange(left)
    one.send(frame(b"d", LINE), frame(b"c"))
    assert error(one)["C"] == "28000"
    assert one.ended()
    assert count(own) == 1000
    assert inputs(own) == []


def test_a_token_with_other_rights_by_the_end_of_a_copy_writes_nothing(own: Doors) -> None:
    one = copying(own.client(WRITE))
    one.send(frame(b"d", LINE))
    own.served.gateway.gate.exchange(
        [replace(token, scopes=frozenset({Scope.READ})) for token in TOKENS]
    )
    one.send(frame(b"c"))
    assert error(one)["C"] == "28000"
