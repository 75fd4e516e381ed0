"""Tokens that end, are revoked, are changed, and are read again, at every door."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pyarrow import flight

from blockstore.clock import ManualClock
from blockstore.errors import Invalid
from blockstore.reader.http.gate import Gate
from blockstore.reader.http.problems import Refusal
from blockstore.reader.http.tokens import Scope, Token, hashed
from blockstore.reader.settings import Watched, load_settings
from tests.reader.doors.three import Three, three
from tests.reader.flight.doors import Client
from tests.reader.http.gateways import ADMIN, FEW, READ, TOKENS, make_lake, settings
from tests.reader.postgres.raw import SERIES, error_of, parse

ONE = Token(name="one", sha256=hashed("bsk_one"), scopes=frozenset({Scope.READ}))
CSV = {"content-type": "text/csv"}
COUNT = "select count(*) as c from flights"


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("tokens")
    with three(settings(make_lake(folder), folder), folder / "audit.jsonl") as made:
        yield made


@pytest.fixture(autouse=True)
def _as_before(doors: Three) -> Iterator[None]:
    yield
    doors.gateway.gate.exchange(TOKENS)


def _expired(doors: Three) -> None:
    doors.tokens("reader", expires_ms=1_000)


def _revoked(doors: Three) -> None:
    doors.without("reader")


def _narrowed(doors: Three) -> None:
    doors.tokens("reader", tables=frozenset({"salaries"}))


def test_a_token_is_over_at_its_moment_and_not_before() -> None:
    clock = ManualClock(1_000_000)
    gate = Gate([replace(ONE, expires_ms=1_000_001)], clock)
    caller = gate.caller("Bearer bsk_one")
    gate.check(caller)
    clock.advance(0.001)
    with pytest.raises(Refusal, match=r"the token 'one' expired at 1970-01-01T00:16:40Z") as found:
        gate.caller("Bearer bsk_one")
    assert found.value.token == "one"
    with pytest.raises(Refusal, match="expired"):
        gate.check(caller)


def test_the_last_token_that_is_removed_leaves_the_gate_closed() -> None:
    gate = Gate([ONE], ManualClock())
    caller = gate.caller("Bearer bsk_one")
    assert gate.exchange([])
    for header in (None, "", "Bearer bsk_two"):
        with pytest.raises(Refusal, match="missing or unknown"):
            gate.caller(header)
    for refused in (lambda: gate.caller("Bearer bsk_one"), lambda: gate.check(caller)):
        with pytest.raises(Refusal, match="'one' was revoked"):
            refused()
    assert gate.exchange([ONE])
    assert gate.caller("Bearer bsk_one") == caller


def test_two_tokens_with_the_same_hash_change_nothing() -> None:
    gate = Gate([ONE], ManualClock())
    with pytest.raises(Invalid, match="same sha256"):
        gate.exchange([replace(ONE, name="two"), replace(ONE, scopes=frozenset({Scope.ADMIN}))])
    assert gate.caller("Bearer bsk_one") == ONE.caller


def test_a_token_under_another_name_is_another_caller() -> None:
    gate = Gate([ONE], ManualClock())
    caller = gate.caller("Bearer bsk_one")
    gate.exchange([replace(ONE, name="two")])
    with pytest.raises(Refusal, match="rights of the token 'two' have changed"):
        gate.check(caller)


CHANGES = [(_expired, "expired at"), (_revoked, "was revoked")]


def test_an_engine_learns_how_long_its_token_may_be_used(doors: Three) -> None:
    form = {"grant_type": "client_credentials", "client_secret": READ}
    with doors.served.as_(None) as http:
        assert http.post("/iceberg/v1/oauth/tokens", data=form).json()["expires_in"] == 86_400
        now_ms = doors.served.gateway.world.clock.now_ms()
        doors.tokens("reader", expires_ms=now_ms + 600_000)
        assert 500 < http.post("/iceberg/v1/oauth/tokens", data=form).json()["expires_in"] <= 600


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_http_refuses_the_next_request(
    doors: Three, change: Callable[[Three], None], said: str
) -> None:
    with doors.served.as_(READ) as http:
        assert http.post("/v1/query", json={"sql": COUNT}).status_code == 200
        change(doors)
        for found in (http.post("/v1/query", json={"sql": COUNT}), http.get("/v1/tables")):
            assert found.status_code == 401
            assert said in found.json()["message"]
            assert "'reader'" in found.json()["message"]
        form = {"grant_type": "client_credentials", "client_secret": READ}
        assert http.post("/iceberg/v1/oauth/tokens", data=form).status_code == 401
        assert http.get("/iceberg/v1/config").status_code == 401
        assert http.get("/metrics").status_code == 401


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_flight_refuses_the_next_call_of_an_open_connection(
    doors: Three, change: Callable[[Three], None], said: str
) -> None:
    with doors.client(READ) as client:
        (end,) = client.info("CommandStatementQuery", query=COUNT).endpoints
        change(doors)
        with pytest.raises(flight.FlightUnauthenticatedError, match=said):
            client.flight.do_get(end.ticket, client.options()).read_all()
        with pytest.raises(flight.FlightUnauthenticatedError, match=said):
            client.get("CommandGetTables")


@pytest.mark.parametrize(
    ("change", "said"), [*CHANGES, (_narrowed, "rights of the token 'reader' have changed")]
)
@pytest.mark.parametrize("extended", [False, True])
def test_postgres_refuses_the_next_statement_of_an_open_connection_and_ends_it(
    doors: Three, change: Callable[[Three], None], said: str, extended: bool
) -> None:
    with doors.raw(READ) as raw:
        if extended:
            raw.send(parse(COUNT, "kept"))
            assert raw.rows("begin") == []
        assert raw.rows(COUNT) == [["1000"]]
        change(doors)
        if extended:
            raw.send(parse(COUNT), *SERIES)
        else:
            raw.send(b"Q" + (len(COUNT) + 5).to_bytes(4, "big") + COUNT.encode() + b"\0")
        kind, body = raw.next()
        found = error_of(body)
        assert (kind, found["S"], found["C"]) == ("E", "FATAL", "28000")
        assert said in found["M"]
        assert raw.ended()


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_postgres_refuses_to_sign_in(
    doors: Three, change: Callable[[Three], None], said: str
) -> None:
    change(doors)
    with pytest.raises(PermissionError, match=said):
        doors.raw(READ)


def test_what_was_pipelined_before_is_answered_and_what_comes_after_is_not(doors: Three) -> None:
    """Messages that were sent at once are still single statements."""
    with doors.raw(READ) as raw:
        slow = "select count(*) from range(30_000_000) a(i), (select 1 from flights limit 1)"
        sent = [b"Q" + (len(one) + 5).to_bytes(4, "big") + one.encode() + b"\0"
                for one in (slow, "select 2")]  # fmt: skip
        raw.send(*sent)
        while not doors.gateway.engine.running():
            doors.gateway.world.clock.sleep(0.005)
        doors.without("reader")
        kinds = []
        while kinds[-1:] != ["E"]:
            kinds.append(raw.next()[0])
        assert kinds == ["T", "D", "C", "Z", "E"]
        assert raw.ended()


def test_a_stream_of_changes_ends_with_its_token(doors: Three) -> None:
    with (
        doors.served.as_(READ) as http,
        http.stream(
            "GET",
            "/v1/tables/flights/changes?after=2",
            headers={"Accept": "text/event-stream"},
        ) as response,
    ):
        assert response.status_code == 200
        lines = response.iter_lines()
        while not next(lines).startswith("event: version"):
            pass
        doors.without("reader")
        with pytest.raises(httpx.RemoteProtocolError):
            list(lines)


def _file(path: Path, *tokens: str) -> None:
    path.write_text("".join(f'[tokens."{one}"]\nsha256 = "{hashed(one)}"\n' for one in tokens))


def test_a_file_is_read_at_once_where_an_operator_asks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "reader.toml"
    _file(path, "a")
    gate = Gate(load_settings(path, {}).tokens, ManualClock())
    watched = Watched(path, gate)
    _file(path, "b")
    with caplog.at_level("INFO"):
        watched.look(asked=True)
    assert gate.caller("Bearer b").name == "b"
    assert "as SIGHUP asks" in caplog.text
    path.write_text("[tokens")
    watched.look(asked=True)
    assert gate.broken is not None
    assert gate.caller("Bearer b").name == "b"


def test_a_file_that_changes_is_used_at_the_second_look(tmp_path: Path) -> None:
    path = tmp_path / "reader.toml"
    _file(path, "a", "b")
    gate = Gate(load_settings(path, {}).tokens, ManualClock())
    watched = Watched(path, gate)
    _file(path, "b", "c")
    watched.look()
    gate.caller("Bearer a")
    watched.look()
    with pytest.raises(Refusal, match="'a' was revoked"):
        gate.caller("Bearer a")
    assert [gate.caller(f"Bearer {one}").name for one in ("b", "c")] == ["b", "c"]


@pytest.mark.parametrize(
    "broken",
    [
        "[tokens.a",
        '[tokens."a"]\nsha256 = "abc"\n',
        '[tokens."a"]\nsha256 = "{hash}"\n[tokens."b"]\nsha256 = "{hash}"\n',
        '[tokens."a"]\nsha256 = "{hash}"\nexpires = "2027-01-01"\n',
        '[tokens."a"]\nsha256 = "{hash}"\n[http]\nstall = "soon"\n',
        "\x00\xff",
        None,
    ],
)
def test_a_file_that_is_broken_changes_nothing_and_is_said(
    tmp_path: Path, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "reader.toml"
    _file(path, "a")
    gate = Gate(load_settings(path, {}).tokens, ManualClock())
    watched = Watched(path, gate)
    if broken is None:
        path.unlink()
    else:
        path.write_bytes(broken.replace("{hash}", hashed("a")).encode("latin-1"))
    for _ in range(3):
        watched.look()
    assert gate.caller("Bearer a").name == "a"
    assert gate.broken is not None
    assert "cannot be used" in gate.broken
    assert len(caplog.records) == 1
    _file(path, "a")
    for _ in range(2):
        watched.look()
    assert gate.broken is None


def test_a_secret_of_kubernetes_is_swapped_by_its_folder(tmp_path: Path) -> None:
    for name, tokens in (("one", ("a",)), ("two", ("b",))):
        (tmp_path / name).mkdir()
        _file(tmp_path / name / "reader.toml", *tokens)
    data, path = tmp_path / "..data", tmp_path / "reader.toml"
    data.symlink_to("one")
    path.symlink_to("..data/reader.toml")
    gate = Gate(load_settings(path, {}).tokens, ManualClock())
    watched = Watched(path, gate)
    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").rename(data)
    for _ in range(2):
        watched.look()
    assert gate.caller("Bearer b").name == "b"


def test_a_gateway_whose_file_is_broken_says_so_and_stays_ready(doors: Three) -> None:
    doors.gateway.gate.broken = "the configuration has changed and cannot be used"
    try:
        found = doors.served.http.get("/-/ready")
        assert found.status_code == 200
        assert found.json()["warnings"] == ["the configuration has changed and cannot be used"]
        assert "blockstore_tokens_current 0.0" in _metrics(doors)
    finally:
        doors.gateway.gate.broken = None
    assert "warnings" not in doors.served.http.get("/-/ready").json()
    assert "blockstore_tokens_current 1.0" in _metrics(doors)


def _metrics(doors: Three) -> str:
    with doors.served.as_(ADMIN) as http:
        return http.get("/metrics").text


def _says_only_sales(client: Client) -> None:
    found = client.get("CommandGetTables").column("table_name").to_pylist()
    assert found == ["salaries"]


def test_a_pattern_of_tables_is_a_limit_at_every_door(doors: Three) -> None:
    doors.tokens("few", tables=frozenset({"sal*"}))
    with doors.served.as_(FEW) as http:
        assert [one["name"] for one in http.get("/v1/tables").json()["tables"]] == ["salaries"]
        count = http.post("/v1/query", json={"sql": "select count(*) as c from salaries"},
                          headers={"Accept": "application/json"})  # fmt: skip
        assert count.json() == [{"c": 10}]
        hidden = [
            http.post("/v1/query", json={"sql": COUNT}),
            http.post("/v1/jobs", json={"kind": "download", "table": "flights"}),
            http.post("/v1/jobs?table=flights", content="n\n1\n", headers=CSV),
            http.post("/v1/statements", json={"sql": "DELETE FROM flights"}),
            *(http.get(f"/v1/tables/flights{one}") for one in
              ("", "/blocks", "/history", "/tags", "/timeline", "/changes?after=0", "/rows/1")),
            http.get("/iceberg/v1/namespaces/lake/tables/flights"),
        ]  # fmt: skip
        for found in hidden:
            assert found.status_code == 404, found.request.url
            assert "flights" not in found.text.replace("no table flights", "")
        listed = http.get("/iceberg/v1/namespaces/lake/tables").json()["identifiers"]
        assert [one["name"] for one in listed] == ["salaries"]
        sql = {"kind": "query", "sql": COUNT, "format": "csv"}
        mine = doors.served.http.post("/v1/jobs", json=sql).json()["id"]
        assert http.get(f"/v1/jobs/{mine}").status_code == 404
        assert http.get("/metrics").status_code == 403
    with doors.client(FEW) as client:
        _says_only_sales(client)
        with pytest.raises(pa.ArrowKeyError, match="no table flights: the tables are salaries"):
            client.query(COUNT)
    with doors.raw(FEW) as raw:
        names = "select relname from pg_catalog.pg_class where relkind = 'r' order by 1"
        assert raw.rows(names) == [["salaries"]]
        assert raw.fails(COUNT)["C"] == "42P01"


def test_a_pattern_admits_a_table_that_is_created_later(tmp_path: Path) -> None:
    writes = frozenset({Scope.READ, Scope.WRITE, Scope.DDL})
    token = replace(ONE, scopes=writes, tables=frozenset({"new_*"}))
    asked = replace(settings(make_lake(tmp_path), tmp_path), tokens=(token,))
    body = {"columns": [{"name": "n", "type": "int64"}]}
    with three(asked, tmp_path / "audit.jsonl") as doors, doors.served.as_("bsk_one") as http:
        assert http.post("/v1/tables", json={"name": "old_one", **body}).status_code == 403
        assert http.post("/v1/tables", json={"name": "new_one", **body}).status_code == 200
        sent = http.post("/v1/statements", json={"sql": "INSERT INTO new_one VALUES (1)"})
        assert sent.status_code == 200, sent.text
        mine = sent.json()["id"]
        assert http.get(f"/v1/jobs/{mine}").json()["state"] == "done"
