"""A query is answered by the gateway that caches its table, once; and where that one cannot, by the
one that it came to."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import blockstore as bs
from blockstore.reader.http.passing import PASSED_ON
from blockstore.reader.http.tokens import Scope, Token, hashed
from blockstore.reader.settings import TableSettings
from blockstore.reader.tables.policies import Policy
from blockstore.world import World
from tests.reader.http.gateways import ADMIN, READ, TOKENS, WRITE, rows_of, serving, settings
from tests.reader.http.groups import (
    ROWS,
    TABLES,
    Member,
    free_ports,
    make_tables,
    member,
    odd_member,
    owned,
    until_ready,
    urls_of,
)

LIMITED, FENCED = "bsk_limited", "bsk_fenced"
MORE = (
    *TOKENS,
    Token(
        name="limited",
        sha256=hashed(LIMITED),
        scopes=frozenset({Scope.READ}),
        bytes_a_day=1 << 20,
        queries_at_once=1,
    ),
    Token(
        name="fenced",
        sha256=hashed(FENCED),
        scopes=frozenset({Scope.READ}),
        policies=(Policy(name="few", tables=("t*",), rows="n < 10"),),
    ),
)
MUCH = "select a.n, b.s from {0} a, {0} b, range(10_000_000) /* {1} */"


@dataclass(frozen=True)
class Pair:
    """Two gateways: what comes to ``here`` about a table of ``there`` is passed on."""

    lake: str
    here: Member
    there: Member
    mine: str
    """A table whose owner is ``here``."""
    others: str
    """One whose owner is ``there``."""

    def ask(self, sql: str, token: str = WRITE, **headers: str) -> httpx.Response:
        return self.here.post(sql, token, **headers)


@contextmanager
def pair(folder: Path, **more: Any) -> Iterator[Pair]:
    lake = make_tables(folder)
    while True:
        urls = urls_of(free_ports(2))
        mine, others = owned(urls, urls[0]), owned(urls, urls[1])
        if mine and others:
            break
    more = {"tokens": MORE, **more}
    with (
        member(lake, folder, urls[0], urls, **more) as here,
        member(lake, folder, urls[1], urls, **more) as there,
    ):
        until_ready(here, there, others=1)
        yield Pair(lake, here, there, mine[0], others[0])


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("two")) as made:
        yield made


def test_a_query_runs_at_the_owner_and_is_audited_there_alone(two: Pair) -> None:
    before = two.here.ran, two.there.ran, two.here.passed("answered")
    sql = f"select count(*) as c from {two.others} where n < 50 and n > -1 /* once */"
    found = two.ask(sql, READ, **{"X-Request-Id": "mine"})
    assert (found.status_code, found.json()) == (200, [{"c": 50}])
    assert json.loads(found.headers["x-blockstore-versions"]) == {two.others: 2}
    assert found.headers["x-request-id"] == "mine"
    assert (found.headers["vary"], found.headers["cache-control"]) == ("Accept", "no-store")
    assert (two.here.ran, two.there.ran) == (before[0], before[1] + 1)
    assert two.here.passed("answered") == before[2] + 1
    [line] = two.there.lines("once", 1)
    assert (line["token"], line["request_id"], line["rows"]) == ("reader", "mine", 1)
    assert (line["outcome"], line["bytes"]) == ("ok", len(found.content))
    two.ask(f"select 1 as a from {two.mine} /* last */")
    two.here.lines("last", 1)
    assert two.here.lines("once") == []


def test_what_is_its_own_or_names_no_table_is_answered_where_it_comes(two: Pair) -> None:
    before = two.there.ran
    assert two.ask(f"select max(n) as m from {two.mine}").json() == [{"m": ROWS - 1}]
    assert two.ask("select 7 as a").json() == [{"a": 7}]
    assert two.ask(f"explain select * from {two.others}").status_code == 200
    assert two.there.ran == before


def test_both_gateways_agree_and_all_tables_are_answered_at_both(two: Pair) -> None:
    before = two.here.ran + two.there.ran
    for name in TABLES:
        for one in (two.here, two.there):
            found = one.served.query(f"select sum(n) as s from {name} where n >= 0")
            assert found.json() == [{"s": str(ROWS * (ROWS - 1) // 2)}] or found.json() == [
                {"s": ROWS * (ROWS - 1) // 2}
            ]
    assert two.here.ran + two.there.ran == before + 2 * len(TABLES), "each ran once"


def test_one_that_was_passed_on_is_never_passed_on_again(two: Pair) -> None:
    before = two.here.ran, two.there.ran
    for given in ("{}", "1", "", "nonsense", '{"t0": "x"}', "[" * 5_000):
        found = two.ask(f"select count(*) as c from {two.others}", **{PASSED_ON: given})
        assert found.json() == [{"c": ROWS}]
    assert (two.here.ran, two.there.ran) == (before[0] + 6, before[1])


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.apache.arrow.stream",
        "application/json;numbers=text",
        "text/csv",
        "text/tab-separated-values",
        "application/vnd.apache.parquet",
    ],
)
def test_every_form_is_byte_for_byte_the_owners(two: Pair, accept: str) -> None:
    body = {
        "sql": f"select n, s, n / ? as q from {two.others} order by n",
        "parameters": [{"$decimal": "2.50"}],
        "limit": 40,
    }
    found = [
        one.served.http.post("/v1/query", json=body, headers={"Accept": accept})
        for one in (two.here, two.there)
    ]
    assert [one.status_code for one in found] == [200, 200]
    assert found[0].content == found[1].content
    assert found[0].headers["content-type"] == found[1].headers["content-type"]


def test_an_error_of_the_owner_is_the_clients(two: Pair) -> None:
    before = two.here.ran
    found = two.ask(f"select cast(s as int) as i from {two.others} /* error */")
    assert (found.status_code, found.json()["error"]) == (400, "invalid_sql")
    assert found.json()["request_id"] == found.headers["x-request-id"]
    assert two.here.ran == before
    [line] = two.there.lines("error */", 1)
    assert line["outcome"] == "error"
    assert two.here.lines("error */") == []


@pytest.mark.parametrize(("token", "status"), [("bsk_unknown", 401), ("bsk_ddl", 403)])
def test_the_header_lets_nobody_in(two: Pair, token: str, status: int) -> None:
    sql = f"select * from {two.others}"
    before = two.here.ran, two.there.ran
    for one in (two.here, two.there):
        for headers in ({}, {PASSED_ON: "{}"}, {PASSED_ON: json.dumps({two.others: 9_999})}):
            assert one.post(sql, token, **headers).status_code == status
    found = two.ask(sql, "bsk_few")
    assert found.status_code == 404, "a table that this token may not know"
    assert (two.here.ran, two.there.ran) <= (before[0] + 1, before[1])


def test_a_policy_holds_at_the_owner_and_versions_of_the_header_tell_nothing(two: Pair) -> None:
    sql = f"select count(*) as c from {two.others} /* fenced */"
    before = two.here.ran
    found = two.ask(sql, FENCED)
    assert found.json() == [{"c": 10}]
    assert two.here.ran == before
    [line] = two.there.lines("fenced", 1)
    assert line["policies"] == {two.others: "few"}
    told = {
        two.there.post(sql, FENCED, **{PASSED_ON: json.dumps({two.others: version})}).text
        for version in (1, 2, 3, 99)
    }
    assert [json.loads(one) for one in told] == [[{"c": 10}]], (
        "the same, whatever versions there are"
    )


def test_bytes_and_places_of_a_token_are_counted_once(two: Pair) -> None:
    token = next(one for one in MORE if one.name == "limited").caller
    found = two.ask(f"select s from {two.others}", LIMITED)
    assert found.status_code == 200
    there, here = (one.served.gateway.quotas for one in (two.there, two.here))
    assert there._sent[token.fingerprint] == len(found.content)
    assert here._sent[token.fingerprint] == 0
    assert there.taken(token) == here.taken(token) == 0


def _until(done: Any) -> None:
    for _ in range(300):
        if done():
            return
        World.real().clock.sleep(0.05)
    raise AssertionError("it did not come to that within 15 s")


def _listed(one: Member, mark: str) -> list[dict[str, Any]]:
    with one.served.as_(ADMIN) as client:
        found = client.get("/v1/queries").json()["queries"]
    return [query for query in found if mark in query["sql"]]


def test_rows_come_while_they_are_made_and_a_client_that_leaves_ends_the_query(
    two: Pair,
) -> None:
    sql = MUCH.format(two.others, "leaves")
    with two.here.served.http.stream(
        "POST", "/v1/query", json={"sql": sql}, headers={"Accept": "text/csv"}
    ) as found:
        assert found.status_code == 200
        pieces = found.iter_raw()
        taken = sum(len(next(pieces)) for _ in range(20))
        assert taken > 0, "long before its end, which would never come"
        [query] = _listed(two.there, "leaves")
        assert query["state"] == "running"
        World.real().clock.sleep(0.5)
        [later] = _listed(two.there, "leaves")
        assert later["bytes"] < 64 << 20, "nothing is made that nobody takes"
        assert _listed(two.here, "leaves") == []
    _until(lambda: not _listed(two.there, "leaves"))
    _until(lambda: not two.there.served.gateway.engine.running())
    [line] = two.there.lines("leaves", 1)
    assert line["outcome"] == "cancelled"
    assert two.here.lines("leaves") == []


def test_a_client_that_leaves_before_the_first_row_ends_the_query(two: Pair) -> None:
    sql = (
        f"select count(*) from {two.others} a, {two.others} b, {two.others} c, range(100_000) "
        "where a.n + b.n * c.n > range /* early */"
    )
    with two.here.served.as_(WRITE) as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/query", json={"sql": sql}, timeout=2.0)
    _until(lambda: not _listed(two.there, "early"))
    _until(lambda: not two.there.served.gateway.engine.running())
    [line] = two.there.lines("early", 1)
    assert line["outcome"] == "cancelled"
    assert two.here.lines("early") == []
    assert two.ask(f"select count(*) as c from {two.others}").json() == [{"c": ROWS}]


def test_a_query_that_is_cancelled_at_the_owner_is_an_error_here(two: Pair) -> None:
    sql = MUCH.format(two.others, "cancel")
    with two.here.served.http.stream(
        "POST", "/v1/query", json={"sql": sql}, headers={"Accept": "text/csv"}
    ) as found:
        pieces = found.iter_raw()
        next(pieces)
        [query] = _listed(two.there, "cancel")
        done = two.there.served.http.delete(f"/v1/queries/{query['id']}")
        assert done.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in pieces:
                pass


def test_http_1_0_gets_its_rows_with_their_length(two: Pair) -> None:
    place = httpx.URL(two.here.url)
    body = json.dumps({"sql": f"select n from {two.others} order by n"}).encode()
    before = two.there.ran
    with socket.create_connection((place.host, place.port or 0), timeout=60) as wire:
        wire.sendall(
            b"POST /v1/query HTTP/1.0\r\nAuthorization: Bearer bsk_read\r\nAccept: text/csv\r\n"
            b"Content-Type: application/json\r\nContent-Length: "
            + str(len(body)).encode()
            + b"\r\n\r\n"
            + body
        )
        answer = b""
        while piece := wire.recv(1 << 16):
            answer += piece
    head, _, rows = answer.partition(b"\r\n\r\n")
    assert rows.split() == [b'"n"', *(str(n).encode() for n in range(ROWS))]
    assert f"content-length: {len(rows)}".encode() in head.lower()
    assert two.there.ran == before + 1


def test_the_owner_reads_what_is_known_here(tmp_path: Path) -> None:
    slow = TableSettings(urls=(f"{tmp_path}/lake?durable=false",), poll_s=300, max_staleness_s=600)
    with pair(tmp_path, tables=slow) as two:
        count = f"select count(*) as c from {two.others} where n >= 0"
        assert two.ask(count).json() == [{"c": ROWS}]
        with bs.Client(two.here.url, WRITE) as client:
            done = client.upload(two.others, rows_of(range(ROWS, ROWS + 5))).wait()
        assert done.told["state"] == "done"
        assert two.ask(count).json() == [{"c": ROWS + 5}], "the job is done: its rows are read"
        url = f"{tmp_path}/lake/{two.others}?durable=false"
        bs.open(url).append(rows_of(range(ROWS + 5, ROWS + 7)))
        version = 4
        body = {"sql": count, "min_version": {two.others: version}}
        found = two.there.served.http.post(
            "/v1/query", json=body, headers={"Accept": "application/json"}
        )
        assert found.json() == [{"c": ROWS + 7}]
        assert two.ask(count).json() == [{"c": ROWS + 7}]
        last = two.ask(count, **{PASSED_ON: "{}"})
        assert last.json() == [{"c": ROWS + 7}], "an answer is never followed by an older one"


# Where the owner cannot


@contextmanager
def beside(folder: Path, how: str) -> Iterator[tuple[Member, Any, str]]:
    """A gateway, an odd one, and a table of the odd one."""
    lake = make_tables(folder)
    while True:
        urls = urls_of(free_ports(2))
        others = owned(urls, urls[1])
        if others:
            break
    with odd_member(urls[1], how) as odd, member(lake, folder, urls[0], urls) as here:
        until_ready(here, others=1)
        yield here, odd, others[0]


def test_an_owner_that_does_not_respond_costs_one_connection(tmp_path: Path) -> None:
    with beside(tmp_path, "hangup") as (here, odd, name):
        odd.ready = False
        before = odd.connections
        for _ in range(5):
            assert here.served.rows(f"select count(*) as c from {name} /* down */") == [{"c": ROWS}]
        assert len(odd.queries) == 1
        assert here.ran == 5
        assert here.passed("unreachable") == 1
        assert len(here.lines("down", 5)) == 5
        assert odd.queries[0][PASSED_ON] == "{}" or json.loads(odd.queries[0][PASSED_ON])
        assert odd.queries[0]["Authorization"] == f"Bearer {WRITE}"
        _until(lambda: odd.connections > before + 1)
        assert here.served.rows(f"select 1 as a from {name} limit 1") == [{"a": 1}]
        assert len(odd.queries) == 1, "it was asked whether it is ready, and nothing else"
        odd.ready = True
        until_ready(here, others=1)
        here.served.rows(f"select count(*) as c from {name}")
        assert len(odd.queries) == 2


def test_a_gateway_that_is_gone_is_answered_for_and_comes_back(tmp_path: Path) -> None:
    lake = make_tables(tmp_path)
    while True:
        urls = urls_of(free_ports(2))
        others = owned(urls, urls[1])
        if others:
            break
    sql = f"select sum(n) as s from {others[0]} where n < 10"
    with member(lake, tmp_path, urls[0], urls) as here:
        assert here.served.rows(sql) == [{"s": 45}]
        with member(lake, tmp_path, urls[1], urls) as there:
            until_ready(here, others=1)
            for _ in range(3):
                assert here.served.rows(sql) == [{"s": 45}]
            assert (here.ran, there.ran) == (1, 3)
        for _ in range(3):
            assert here.served.rows(sql) == [{"s": 45}]
        assert here.ran == 4
        with member(lake, tmp_path, urls[1], urls) as there:
            until_ready(here, others=1)
            assert here.served.rows(sql) == [{"s": 45}]
            assert (here.ran, there.ran) == (4, 1)


@pytest.mark.parametrize("how", ["refuse", "unknown"])
def test_an_owner_that_declines_is_answered_for_and_stays_a_member(
    tmp_path: Path, how: str
) -> None:
    with beside(tmp_path, how) as (here, odd, name):
        for _ in range(3):
            assert here.served.rows(f"select count(*) as c from {name} /* no */") == [{"c": ROWS}]
        assert here.passed("declined") == len(odd.queries) == 3
        assert len(here.lines("no */", 3)) == 3
        odd.how, odd.ready = "refuse", False
        here.served.rows(f"select count(*) as c from {name}")
        peers = here.served.gateway.peers
        assert peers is not None
        _until(lambda: peers.members.counts() == (0, 1))


def test_an_answer_that_breaks_off_is_not_taken_for_complete(tmp_path: Path) -> None:
    with beside(tmp_path, "break") as (here, _, name), pytest.raises(httpx.RemoteProtocolError):
        here.served.query(f"select n from {name}", accept="text/csv")


def test_an_owner_with_a_queue_is_answered_for_and_writes_no_line(
    two: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = two.there.served.gateway
    queue = there.settings.query.at_once
    before = two.here.passed("queue")
    monkeypatch.setattr(there.engine, "waiting", lambda: queue)
    found = two.ask(f"select count(*) as c from {two.others} where n < 7 /* spilt */")
    assert found.json() == [{"c": 7}]
    assert two.here.passed("queue") == before + 1
    assert len(two.here.lines("spilt", 1)) == 1
    direct = two.there.post(f"select count(*) as c from {two.others} /* direct */", READ)
    assert direct.json() == [{"c": ROWS}], "what came to it waits for its turn, as ever"
    assert two.there.lines("spilt") == []
    peers = two.here.served.gateway.peers
    assert peers is not None
    assert peers.members.counts() == (1, 0), "it is well"
    monkeypatch.setattr(there.engine, "waiting", lambda: queue - 1)
    assert two.ask(f"select min(n) as m from {two.others} /* fits */").json() == [{"m": 0}]
    assert len(two.there.lines("fits", 1)) == 1


def test_gateways_without_a_group_take_no_notice(tmp_path: Path) -> None:
    lake = make_tables(tmp_path)
    with serving(settings(lake, tmp_path)) as served:
        assert served.gateway.peers is None
        found = served.http.post(
            "/v1/query",
            json={"sql": "select count(*) as c from t0"},
            headers={PASSED_ON: '{"t0": 99}', "Accept": "application/json"},
        )
        assert found.json() == [{"c": ROWS}]
