"""A token that was sent its bytes of today is refused at every door until the day ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import flight

from blockstore.clock import ManualClock
from blockstore.reader.errors import Busy
from blockstore.reader.http.quotas import Quotas
from blockstore.reader.http.tokens import Caller, Scope
from tests.reader.doors.three import Three, three
from tests.reader.http.gateways import READ, TOKENS, WRITE, make_lake, settings
from tests.reader.postgres.raw import SYNC, bind, describe, execute, parse

DAY_MS = 86_400_000
LIMIT = 10_000
LARGE = "select repeat('x', 20000) as x"
ONE = Caller(name="one", fingerprint="1", scopes=frozenset({Scope.READ}), bytes_a_day=100)


def add(quotas: Quotas, caller: Caller, size: int) -> None:
    count = quotas.counting(caller)
    assert count is not None
    count(size)


def test_the_bytes_of_a_day_are_refused_once_they_are_sent_and_until_the_day_ends() -> None:
    clock = ManualClock(20_000 * DAY_MS + DAY_MS - 5_000)
    quotas = Quotas(clock)
    quotas.check_bytes(ONE)
    add(quotas, ONE, 99)
    quotas.check_bytes(ONE)
    add(quotas, ONE, 1)
    with pytest.raises(
        Busy, match=r"'one' was sent its bytes_a_day \(100\).* 2024-10-05T00:00:00Z"
    ) as found:
        quotas.check_bytes(ONE)
    assert found.value.retry_after_s == 5
    quotas.check_bytes(replace(ONE, bytes_a_day=101))
    quotas.check_bytes(replace(ONE, fingerprint="2"))
    clock.advance(5)
    quotas.check_bytes(ONE)
    add(quotas, ONE, 99)
    quotas.check_bytes(ONE)


def test_bytes_that_come_at_the_turn_of_the_day_are_of_the_new_day() -> None:
    clock = ManualClock(20_000 * DAY_MS - 1)
    quotas = Quotas(clock)
    count = quotas.counting(ONE)
    assert count is not None
    count(99)
    clock.advance(0.001)
    count(99)
    quotas.check_bytes(ONE)


def test_nothing_is_counted_of_a_token_without_a_limit() -> None:
    quotas = Quotas(ManualClock())
    free = replace(ONE, bytes_a_day=None)
    assert quotas.counting(free) is None
    quotas.check_bytes(free)


def by_http(doors: Three) -> None:
    with doors.served.as_(READ) as http:
        assert len(http.post("/v1/query", json={"sql": LARGE}).content) > 20_000


def by_flight(doors: Three) -> None:
    with doors.client(READ) as client:
        assert client.query(LARGE).num_rows == 1


def by_postgres(doors: Three) -> None:
    with doors.raw(READ) as raw:
        assert len(str(raw.rows(LARGE)[0][0])) == 20_000


@pytest.mark.parametrize("spend", [by_http, by_flight, by_postgres])
def test_what_one_door_sent_counts_at_all_doors(tmp_path: Path, spend: object) -> None:
    limited = [replace(one, bytes_a_day=LIMIT) if one.name == "reader" else one for one in TOKENS]
    asked = replace(settings(make_lake(tmp_path), tmp_path), tokens=tuple(limited))
    with (
        three(asked, tmp_path / "audit.jsonl") as doors,
        doors.raw(READ) as raw,
        doors.client(READ) as client,
        doors.served.as_(READ) as http,
    ):
        assert raw.rows("select 1") == [["1"]]
        assert client.query("select 1 as a").to_pylist() == [{"a": 1}]
        assert callable(spend)
        spend(doors)
        for found in (
            http.post("/v1/query", json={"sql": "select 1 /* q1 */"}),
            http.get("/v1/tables"),
        ):
            assert found.status_code == 429
            assert 0 < int(found.headers["Retry-After"]) <= 86_400
            assert "the token 'reader' was sent its bytes_a_day (10000)" in found.json()["message"]
        with pytest.raises(flight.FlightUnavailableError, match="its bytes_a_day"):
            client.query("select 1 /* q2 */")
        refused = raw.fails("select 1 /* q3 */")
        assert (refused["S"], refused["C"]) == ("ERROR", "53300")
        assert "its bytes_a_day" in refused["M"]
        with pytest.raises(PermissionError, match="its bytes_a_day"):
            doors.raw(READ)
        assert [one["outcome"] for one in doors.about("q3")] == ["refused"]
        statuses = [
            one["outcome"] for one in doors.lines() if "its bytes_a_day" in (one["error"] or "")
        ]
        assert set(statuses) == {"refused"}
        assert len(statuses) == 5
        assert doors.served.rows("select 1 as a") == [{"a": 1}], "another token goes on"


def test_what_was_begun_below_the_limit_is_sent_and_committed(tmp_path: Path) -> None:
    limited = [replace(one, bytes_a_day=LIMIT) if one.name == "writer" else one for one in TOKENS]
    asked = replace(settings(make_lake(tmp_path), tmp_path), tokens=tuple(limited))
    with three(asked, tmp_path / "audit.jsonl") as doors:
        with doors.raw(WRITE) as raw:
            raw.send(
                parse("select repeat('x', 4000) from range(8)"), bind(), describe(b"P"), execute(3)
            )
            raw.send(execute(2), execute(0), SYNC)
            assert [kind for kind, _ in raw.until_ready()].count("D") == 8
            assert raw.fails("select 1")["C"] == "53300"
        doors.tokens("writer", bytes_a_day=2 * LIMIT + 20_000)
        with doors.raw(WRITE) as raw:
            raw.ask("begin")
            raw.ask("insert into flights values (now(), 7000, 'kept')")
            raw.ask("select repeat('x', 30000)")
            assert raw.ask("commit")[0] == ("C", b"COMMIT\0")
            assert raw.fails("select 1")["C"] == "53300"
        with doors.raw(READ) as raw:
            assert raw.rows("select s from flights where n = 7000") == [["kept"]]
