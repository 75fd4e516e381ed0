"""Policies at every door: what a caller sees of a table, and everything else that is refused.

A route, a command or a statement that is new must be among the decisions here: what is not decided
fails a test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import flight
from starlette.types import ASGIApp

from blockstore.reader.flight import messages
from blockstore.reader.flight.messages import message, packed
from blockstore.reader.http.app import application
from blockstore.reader.http.people import Group, Issuer
from blockstore.reader.http.tokens import Scope
from blockstore.reader.postgres.texts import Kind
from blockstore.world import World
from tests.reader.doors.restricted import (
    ANN,
    CHANGES,
    HER,
    HERS,
    MARK,
    NOTHING,
    OWN,
    QUERIES,
    make_lake,
    orders,
)
from tests.reader.doors.three import Three, three
from tests.reader.flight.doors import Client
from tests.reader.http.gateways import ADMIN, TOKENS, WRITE, settings, until_ended
from tests.reader.http.issuer import AUDIENCE, URL, Signer, claims, published

SIGNER = Signer("ES256")
SAID = "restricted for you by a policy"


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("policies")
    (folder / "keys.json").write_bytes(published(SIGNER))
    issuer = Issuer(name="company", url=URL, audience=AUDIENCE, keys=str(folder / "keys.json"))
    group = Group(name="tenants", scopes=frozenset({Scope.READ}), policies=(OWN,))
    asked = settings(
        make_lake(folder), folder, tokens=(*TOKENS, HER), issuers=(issuer,), groups=(group,)
    )
    with three(asked, folder / "audit.jsonl") as made:
        made.gateway.gate.people.look()
        yield made


@pytest.fixture(autouse=True)
def _as_before(doors: Three) -> Iterator[None]:
    """Whatever was tried, no row of the table has changed."""
    yield
    assert doors.gateway.gate.exchange((*TOKENS, HER)) in (True, False)
    with doors.served.as_(WRITE) as client:
        sql = "SELECT count(*) AS c, count(note) AS n FROM orders"
        assert _rows(client, sql) == [{"c": 50, "n": 50}]
        names = [one["name"] for one in client.get("/v1/tables").json()["tables"]]
        assert [one for one in names if one != "mine"] == ["open", "orders"]
        assert _rows(client, "SELECT count(*) AS c FROM open") == [{"c": 2}]


def _rows(client: httpx.Client, sql: str, **more: Any) -> Any:
    json_ = {"Accept": "application/json"}
    answer = client.post("/v1/query", json={"sql": sql, **more}, headers=json_)
    assert answer.status_code == 200, answer.text
    return answer.json()


# HTTP


@dataclass(frozen=True)
class Refused:
    """A route that does not honour a policy, with a request for the restricted table."""

    path: str
    given: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[Mapping[str, Any], ...] = ()


HONOURS, NO_TABLE, OWN_JOBS = "honours it", "says nothing of a table", "hides jobs of others"
OWN_QUERIES = "hides queries of others"
CSV = {"content": "id\n1\n", "headers": {"Content-Type": "text/csv"}}
FIELD = {"id": 1, "name": "a", "type": "int", "required": False}
ADD = {"action": "add-schema", "schema": {"type": "struct", "fields": [FIELD]}}
CURRENT = {"action": "set-current-schema", "schema-id": -1}
SETS_OUT = [
    {"type": "assert-table-uuid", "uuid": "x"},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
]
T = "/v1/tables/{table:path}"
I = "/iceberg/v1/namespaces/{namespace}/tables"  # noqa: E741
ROUTES: Mapping[tuple[str, str], Refused | str] = {
    ("GET", "/"): NO_TABLE,
    ("GET", "/assets/{release}/{path:path}"): NO_TABLE,
    ("GET", "/-/healthy"): NO_TABLE,
    ("GET", "/-/ready"): NO_TABLE,
    ("GET", "/docs"): NO_TABLE,
    ("GET", "/docs/style.css"): NO_TABLE,
    ("GET", "/openapi.json"): NO_TABLE,
    ("GET", "/metrics"): "needs a token for all tables",
    ("GET", "/v1/whoami"): HONOURS,
    ("POST", "/v1/query"): HONOURS,
    ("POST", "/v1/explain"): Refused(
        "/v1/explain",
        {"json": {"sql": "SELECT amount FROM orders WHERE amount > 1000"}},
        also=(
            {"json": {"sql": "SELECT count(*) FROM Orders"}},
            {"json": {"sql": "SELECT 1 FROM open, orders"}},
            {"json": {"sql": "SELECT 1 FROM orders", "version": 1}},
            {"json": {"sql": "SELECT 1 FROM orders.blocks"}},
        ),
    ),
    ("GET", "/v1/queries"): OWN_QUERIES,
    ("DELETE", "/v1/queries/{query}"): OWN_QUERIES,
    ("POST", "/v1/statements"): Refused(
        "/v1/statements", {"json": {"sql": "DELETE FROM orders WHERE amount > 0"}}
    ),
    ("GET", "/v1/tables"): HONOURS,
    ("GET", T): HONOURS,
    ("POST", "/v1/tables"): Refused(
        "/v1/tables",
        {"json": {"name": "Orders", "columns": [{"name": "a", "type": "int64"}]}},
    ),
    ("PATCH", T): Refused("/v1/tables/orders", {"json": {"drop": ["note"]}}),
    ("DELETE", T): Refused("/v1/tables/orders"),
    ("POST", f"{T}/undrop"): Refused("/v1/tables/orders/undrop"),
    ("POST", f"{T}/rows"): Refused(
        "/v1/tables/orders/rows", {"json": {"rows": [{"id": 1, "tenant": "ann"}]}}
    ),
    ("PATCH", f"{T}/rows"): Refused(
        "/v1/tables/orders/rows", {"json": {"rows": [{"id": 1, "tenant": "ann"}]}}
    ),
    ("DELETE", f"{T}/rows"): Refused("/v1/tables/orders/rows", {"json": {"rows": [{"id": 1}]}}),
    ("POST", f"{T}/rows/fetch"): Refused(
        "/v1/tables/orders/rows/fetch", {"json": {"rows": [{"id": 1, "_version": 2}]}}
    ),
    ("GET", f"{T}/rows/{{row:text}}"): Refused(
        "/v1/tables/orders/rows/1", also=({"path": "/v1/tables/ORDERS/rows/0"},)
    ),
    ("GET", f"{T}/rows/{{row:text}}/history"): Refused("/v1/tables/orders/rows/1/history"),
    ("GET", f"{T}/rows/{{row:text}}/files/{{column}}"): Refused(
        "/v1/tables/orders/rows/1/files/note"
    ),
    ("HEAD", f"{T}/rows/{{row:text}}/files/{{column}}"): Refused(
        "/v1/tables/orders/rows/1/files/note"
    ),
    ("POST", f"{T}/files"): Refused("/v1/tables/orders/files?name=f", {"content": b"x"}),
    ("GET", f"{T}/blocks"): Refused(
        "/v1/tables/orders/blocks", also=({"path": "/v1/tables/orders/blocks?version=2"},)
    ),
    ("GET", f"{T}/history"): Refused("/v1/tables/orders/history"),
    ("GET", f"{T}/changes"): Refused(
        "/v1/tables/orders/changes?after=0",
        also=({"path": "/v1/tables/orders/changes?after=0&follow=true"},),
    ),
    ("GET", f"{T}/diff"): Refused("/v1/tables/orders/diff?from=1&to=2"),
    ("GET", f"{T}/tags"): Refused("/v1/tables/orders/tags"),
    ("GET", f"{T}/statistics"): Refused(
        "/v1/tables/orders/statistics",
        also=(
            {"path": "/v1/tables/ORDERS/statistics"},
            {"path": "/v1/tables/orders/statistics?version=1"},
        ),
    ),
    ("GET", f"{T}/timeline"): Refused("/v1/tables/orders/timeline"),
    ("GET", f"{T}/timeline/block"): Refused(
        "/v1/tables/orders/timeline/block?ulid=01JD0000000000000000000000"
    ),
    ("POST", "/v1/jobs"): Refused(
        "/v1/jobs",
        {"json": {"kind": "download", "table": "orders"}},
        also=(
            {"json": {"kind": "query", "sql": "SELECT * FROM orders"}},
            {"json": {"kind": "query", "sql": "SELECT * FROM orders", "row_ids": True}},
            {"json": {"kind": "query", "sql": "SELECT * FROM open, Orders"}},
            {"path": "/v1/jobs?table=orders", **CSV},
        ),
    ),
    ("GET", "/v1/jobs"): OWN_JOBS,
    ("GET", "/v1/jobs/{job}"): OWN_JOBS,
    ("DELETE", "/v1/jobs/{job}"): OWN_JOBS,
    ("GET", "/v1/jobs/{job}/result"): OWN_JOBS,
    ("GET", "/iceberg/openapi.json"): NO_TABLE,
    ("GET", "/iceberg/v1/config"): NO_TABLE,
    ("POST", "/iceberg/v1/oauth/tokens"): NO_TABLE,
    ("GET", "/iceberg/v1/namespaces"): NO_TABLE,
    ("GET", "/iceberg/v1/namespaces/{namespace}"): NO_TABLE,
    ("HEAD", "/iceberg/v1/namespaces/{namespace}"): NO_TABLE,
    ("GET", I): HONOURS,
    ("POST", I): Refused(
        "/iceberg/v1/namespaces/lake/tables",
        {"json": {"name": "ORDERS", "schema": {"type": "struct", "fields": [FIELD]}}},
    ),
    ("GET", f"{I}/{{table}}"): Refused("/iceberg/v1/namespaces/lake/tables/orders"),
    ("HEAD", f"{I}/{{table}}"): Refused("/iceberg/v1/namespaces/lake/tables/orders"),
    ("POST", f"{I}/{{table}}"): Refused(
        "/iceberg/v1/namespaces/lake/tables/orders",
        {
            "json": {
                "requirements": SETS_OUT,
                "updates": [ADD, CURRENT],
            }
        },
    ),
    ("DELETE", f"{I}/{{table}}"): Refused("/iceberg/v1/namespaces/lake/tables/orders"),
    ("POST", f"{I}/{{table}}/metrics"): Refused(
        "/iceberg/v1/namespaces/lake/tables/orders/metrics", {"json": {}}
    ),
    **{
        (method, "/iceberg/v1/{rest:path}"): NO_TABLE
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    },
}


def _routes(app: ASGIApp) -> set[tuple[str, str]]:
    """Every route of the application, with those of what it mounts."""
    inner: Any = app
    while not hasattr(inner, "routes"):
        inner = inner._app

    def each(routes: Any, before: str) -> Iterator[tuple[str, str]]:
        for route in routes:
            path = before + getattr(route, "path", "")
            own = getattr(getattr(route, "original_router", route), "routes", None)
            if own:
                yield from each(own, path)
            for method in getattr(route, "methods", None) or ():
                yield method, path

    return set(each(inner.routes, ""))


def test_every_route_of_the_application_has_a_decision(doors: Three) -> None:
    found = _routes(application(doors.gateway))
    assert len(found) > 50
    gets = {path for method, path in ROUTES if method == "GET"}
    # Starlette serves HEAD of a GET by the same handler.
    undecided = {
        (method, path) for method, path in found if method != "HEAD" or path not in gets
    } - set(ROUTES)
    assert not undecided
    assert not set(ROUTES) - found


@pytest.mark.parametrize(
    ("method", "refused"),
    [
        pytest.param(method, one, id=f"{method} {path}")
        for (method, path), one in ROUTES.items()
        if isinstance(one, Refused)
    ],
)
def test_a_route_that_honours_no_policy_refuses_the_table(
    doors: Three, method: str, refused: Refused
) -> None:
    with doors.served.as_(ANN) as ann, doors.served.as_(WRITE) as whole:
        for given in ({}, *refused.also):
            asked = dict(given) if "json" in given or "content" in given else {**refused.given}
            path = str(given.get("path", refused.path))
            asked.pop("path", None)
            answer = ann.request(method, path, **asked)
            assert answer.status_code == 403, (method, path, answer.text)
            assert method == "HEAD" or SAID in answer.text, answer.text
            assert MARK not in answer.text
        if method == "GET":  # what it refuses is there for others
            assert whole.get(refused.path).status_code != 403


def test_lists_and_descriptions_have_what_is_seen(doors: Three) -> None:
    with doors.served.as_(ANN) as ann:
        who = ann.get("/v1/whoami").json()
        assert (who["tables"], who["restricted"]) == (None, ["Orders"])
        listed = {one["name"]: one for one in ann.get("/v1/tables").json()["tables"]}
        assert set(listed) >= {"open", "orders"}
        one = listed["orders"]
        assert one["restricted"] is True
        assert {one[name] for name in ("version", "rows", "bytes", "blocks")} == {None}
        assert listed["open"]["rows"] == 2
        assert listed["open"]["restricted"] is False
        for path in ("/v1/tables/orders", "/v1/tables/ORDERS"):
            shown = ann.get(path).json()
            names = [column["name"] for column in shown["columns"]]
            assert names == ["id", "time", "tenant", "amount", "code"]
            assert {shown[name] for name in ("version", "rows", "bytes", "blocks")} == {None}
            assert shown["tags"] == {}
            assert "note" not in json.dumps(shown)
        for more in ("version=1", "tag=first", "as_of=2026-01-01T00:00:00Z", "min_version=1"):
            assert ann.get(f"/v1/tables/orders?{more}").status_code == 403
        assert ann.get("/metrics").status_code == 403
        found = ann.get("/iceberg/v1/namespaces/lake/tables").json()["identifiers"]
        assert "orders" not in [one["name"] for one in found]


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_over_http_gets_her_rows(doors: Three, sql: str) -> None:
    with doors.served.as_(ANN) as ann:
        for accept in ("application/json", "text/csv"):
            answer = ann.post("/v1/query", json={"sql": sql}, headers={"Accept": accept})
            _check(answer.status_code < 300, answer.text)
            assert answer.status_code in (200, 400), answer.text


def _check(worked: bool, text: str) -> None:
    """Nothing of the rows and columns of others is in an answer or an error."""
    assert MARK not in text, text
    assert "70000" not in text, text
    assert not worked or "note" not in text, text


@pytest.mark.parametrize("sql", NOTHING)
def test_what_is_not_a_query_of_her_rows_is_refused_over_http(doors: Three, sql: str) -> None:
    sql = sql.replace("{folder}", str(doors.log.parent))
    with doors.served.as_(ANN) as ann:
        answer = ann.post("/v1/query", json={"sql": sql})
    assert answer.status_code in (400, 403, 404), answer.text
    _check(False, answer.text)


@pytest.mark.parametrize("sql", CHANGES)
def test_no_change_touches_the_table_or_copies_it(doors: Three, sql: str) -> None:
    with doors.served.as_(ANN) as ann:
        answer = ann.post("/v1/statements", json={"sql": sql})
    assert answer.status_code in (400, 403), answer.text
    assert SAID in answer.text, answer.text
    assert MARK not in answer.text


@pytest.mark.parametrize(
    "more",
    [
        {"version": 1},
        {"version": {"orders": 1}},
        {"version": {"ORDERS": 1}},
        {"as_of": "2026-01-01T00:00:00Z"},
        {"tag": "first"},
        {"tag": {"orders": "first"}},
        {"row_ids": True},
        {"min_version": {"orders": 1}},
    ],
)
def test_a_query_reads_the_table_as_it_is_now(doors: Three, more: dict[str, Any]) -> None:
    with doors.served.as_(ANN) as ann:
        answer = ann.post("/v1/query", json={"sql": "SELECT * FROM orders", **more})
    assert answer.status_code == 403, answer.text
    assert SAID in answer.text


def test_the_version_of_the_table_is_not_shown(doors: Three) -> None:
    asked = {"sql": "SELECT 1 FROM orders, open"}
    for token, names in ((ANN, {"open"}), (WRITE, {"open", "orders"})):
        with doors.served.as_(token) as client:
            answer = client.post("/v1/query", json=asked)
            assert set(json.loads(answer.headers["x-blockstore-versions"])) == names


def test_parameters_reach_no_other_row(doors: Three) -> None:
    with doors.served.as_(ANN) as ann:
        for sql, values in (
            ("SELECT count(*) AS c FROM orders WHERE tenant = ?", [f"{MARK}-1"]),
            ("SELECT count(*) AS c FROM orders WHERE tenant LIKE ?", [f"{MARK}%"]),
            ("SELECT count(*) AS c FROM orders WHERE amount > $a", {"a": 6_000_000}),
        ):
            assert _rows(ann, sql, parameters=values) == [{"c": 0}]


def test_the_same_query_of_others_is_theirs(doors: Three) -> None:
    sql = "SELECT count(*) AS c FROM orders"
    for token, count in ((ANN, HERS), (WRITE, 50), (ANN, HERS), (ADMIN, 50)):
        with doors.served.as_(token) as client:
            assert _rows(client, sql) == [{"c": count}]


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "download", "table": "Orders"},
        {"kind": "query", "sql": "SELECT id FROM orders WHERE amount > 3"},
        {"kind": "query", "sql": "SELECT 1 FROM open, orders", "row_ids": True},
        {"kind": "query", "sql": "SELECT nope FROM orders"},
    ],
)
def test_a_job_of_a_restricted_table_is_refused_in_one_sentence(
    doors: Three, asked: dict[str, Any]
) -> None:
    doors.gateway.gate.exchange((*TOKENS, HER))
    with doors.served.as_(ANN) as ann:
        before = ann.get("/v1/jobs").json()["jobs"]
        answer = ann.post("/v1/jobs", json=asked)
        assert (answer.status_code, answer.json()["message"]) == (
            403,
            (
                "table orders is restricted for you by a policy, and no job reads such a "
                "table: query it by POST /v1/query, which returns what the policy shows"
            ),
        )
        assert ann.get("/v1/jobs").json()["jobs"] == before


def test_jobs_of_a_time_before_the_policy_are_hidden(doors: Three) -> None:
    without = replace(HER, policies=())
    doors.gateway.gate.exchange((*TOKENS, without))
    with doors.served.as_(ANN) as ann:
        asked = {"kind": "query", "sql": "SELECT * FROM orders"}
        job = ann.post("/v1/jobs", json=asked).json()["id"]
        assert until_ended(ann, job)["state"] == "done"
        other = ann.post("/v1/jobs", json={"kind": "query", "sql": "SELECT * FROM open"})
        until_ended(ann, other.json()["id"])
        assert MARK in ann.get(f"/v1/jobs/{job}/result").text
        doors.gateway.gate.exchange((*TOKENS, HER))
        for path in (f"/v1/jobs/{job}", f"/v1/jobs/{job}/result"):
            assert ann.get(path).status_code == 404
        assert ann.delete(f"/v1/jobs/{job}").status_code == 404
        assert job not in ann.get("/v1/jobs").text
        assert ann.get(f"/v1/jobs/{other.json()['id']}/result").status_code == 200


def test_the_audit_log_says_which_policies_held(doors: Three) -> None:
    with doors.served.as_(ANN) as ann:
        ann.post("/v1/query", json={"sql": "SELECT 1 AS mark_a FROM orders, open"})
        ann.post("/v1/query", json={"sql": "SELECT 1 AS mark_b FROM open"})
        ann.post("/v1/query", json={"sql": "SELECT 'mark_c' FROM orders.blocks"})
    (line,) = doors.about("mark_a")
    assert line["policies"] == {"orders": "own"}
    assert set(line["read"]) == {"open", "orders"}
    (line,) = doors.about("mark_b")
    assert line["policies"] == {}
    (line,) = doors.about("mark_c")
    assert line["outcome"] == "refused"


def test_a_policy_that_does_not_fit_a_table_shows_nothing_of_it(doors: Three) -> None:
    for odd in (
        replace(OWN, rows="owner = 'ann'"),
        replace(OWN, rows="amount = current_user"),
        replace(OWN, hide=frozenset({"notes"})),
        replace(OWN, rows=None, hide=frozenset(), columns=frozenset({"nothing"})),
    ):
        doors.gateway.gate.exchange((*TOKENS, replace(HER, policies=(odd,))))
        with doors.served.as_(ANN) as ann:
            answer = ann.post("/v1/query", json={"sql": "SELECT 1 FROM orders"})
            assert answer.status_code == 403, answer.text
            assert "polic" in answer.json()["message"]
            assert not {"owner", "notes", "nothing"} & set(answer.text.split())
            assert ann.get("/v1/tables/orders").status_code == 403
            assert ann.get("/v1/tables").status_code == 200


def test_all_policies_about_a_table_hold(doors: Three) -> None:
    few = replace(OWN, name="few", tables=frozenset({"o*"}), rows="amount < 20", hide=frozenset())
    narrow = replace(
        OWN, name="narrow", rows=None, hide=frozenset(), columns=frozenset({"AMOUNT", "note", "b"})
    )
    doors.gateway.gate.exchange((*TOKENS, replace(HER, policies=(few, narrow, OWN))))
    with doors.served.as_(ANN) as ann:
        found = _rows(ann, "SELECT * FROM orders ORDER BY amount")
        assert found == [{"amount": n} for n in (0, 5, 10, 15)]
        # A pattern restricts the other table too, and does not fit it.
        assert ann.post("/v1/query", json={"sql": "SELECT * FROM open"}).status_code == 403


def test_a_person_sees_rows_by_the_name_of_the_provider(doors: Three) -> None:
    exp = World.real().clock.now_ms() / 1000 + 600
    for name, count in (("ann", HERS), ("bob", 0), ("%", 0), ("ann' OR '1'='1", 0)):
        token = SIGNER.token(claims(groups=["tenants"], exp=exp, email=name))
        with doors.served.as_(token) as client:
            assert _rows(client, "SELECT count(*) AS c FROM orders") == [{"c": count}]


# Flight SQL

_COUNT = "SELECT count(*) AS c FROM orders"
_HONOUR = "honours it"
COMMANDS = {
    "CommandGetSqlInfo": NO_TABLE,
    "CommandGetXdbcTypeInfo": NO_TABLE,
    "CommandGetCatalogs": NO_TABLE,
    "CommandGetDbSchemas": NO_TABLE,
    "CommandGetTables": _HONOUR,
    "CommandGetTableTypes": NO_TABLE,
    "CommandGetPrimaryKeys": _HONOUR,
    "CommandGetExportedKeys": NO_TABLE,
    "CommandGetImportedKeys": NO_TABLE,
    "CommandGetCrossReference": NO_TABLE,
    "CommandStatementQuery": _HONOUR,
    "CommandStatementUpdate": "refuses it",
    "CommandPreparedStatementQuery": _HONOUR,
    "CommandPreparedStatementUpdate": "refuses it",
    "CommandStatementIngest": "refuses it",
    "TicketStatementQuery": _HONOUR,
    "ActionCreatePreparedStatementRequest": _HONOUR,
    "ActionClosePreparedStatementRequest": NO_TABLE,
    "CancelFlightInfoRequest": NO_TABLE,
}
_ERRORS = (pa.ArrowException, flight.FlightError, KeyError, OSError)


def test_every_command_of_flight_sql_has_a_decision() -> None:
    asked = {
        name
        for name in messages._MESSAGES
        if name.startswith(("Command", "Ticket", "Action", "Cancel"))
        and not name.endswith("Result")
    }
    assert asked == set(COMMANDS)


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_over_flight_gets_her_rows(doors: Three, sql: str) -> None:
    with doors.client(ANN) as ann:
        try:
            found = ann.query(sql)
        except _ERRORS as error:
            _check(False, str(error))
        else:
            _check(True, f"{found.schema} {found.to_pylist()}")


@pytest.mark.parametrize("sql", [*NOTHING, *CHANGES])
def test_all_else_is_refused_over_flight(doors: Three, sql: str) -> None:
    sql = sql.replace("{folder}", str(doors.log.parent))
    with doors.client(ANN) as ann:
        for call in (ann.query, ann.prepare, ann.update):
            if call == ann.prepare and (sql in CHANGES or sql.startswith("EXPLAIN")):
                continue  # it is prepared without being carried out
            with pytest.raises(_ERRORS) as raised:
                call(sql)
            _check(False, str(raised.value))


def test_metadata_of_flight_have_what_is_seen(doors: Three) -> None:
    with doors.client(ANN) as ann:
        found = ann.get("CommandGetTables", include_schema=True).to_pylist()
        columns = {
            one["table_name"]: pa.ipc.read_schema(pa.py_buffer(one["table_schema"])).names
            for one in found
        }
        assert columns["orders"] == ["id", "time", "tenant", "amount", "code"]
        keys = ann.get("CommandGetPrimaryKeys", table="ORDERS").to_pylist()
        assert [(one["table_name"], one["column_name"]) for one in keys] == [("orders", "id")]


def test_versions_and_ingests_are_refused_over_flight(doors: Three) -> None:
    rows = orders(range(100, 101))
    with doors.client(ANN) as ann:
        for header in (
            {"blockstore_version": "1"},
            {"blockstore_as_of": "2026-01-01"},
            {"blockstore_tag": "first"},
        ):
            with pytest.raises(_ERRORS, match=SAID):
                ann.query(_COUNT, **header)
        for missing, there in ((2, 2), (2, 3), (1, 2), (1, 1)):
            with pytest.raises(_ERRORS, match=SAID):
                ann.ingest("orders", rows, missing, there)
        with pytest.raises(_ERRORS, match=SAID):
            ann.ingest("orders", rows, headers={"blockstore-ingest": "upsert"})


def test_a_ticket_is_of_its_taker_not_of_its_maker(doors: Three) -> None:
    with doors.client(WRITE) as writer, doors.client(ANN) as ann:
        (end,) = writer.info("CommandStatementQuery", query=_COUNT).endpoints
        with pytest.raises(_ERRORS, match=SAID):  # it has the version that the writer was shown
            ann.flight.do_get(end.ticket, ann.options()).read_all()
        (end,) = ann.info("CommandStatementQuery", query=_COUNT).endpoints
        assert ann.flight.do_get(end.ticket, ann.options()).read_all().to_pydict() == {"c": [HERS]}
        assert writer.flight.do_get(end.ticket, writer.options()).read_all().to_pydict() == {
            "c": [50]
        }


def test_a_prepared_statement_is_of_its_sender(doors: Three) -> None:
    sql = "SELECT count(*) AS c FROM orders WHERE amount >= $1"
    with doors.client(WRITE) as writer, doors.client(ANN) as ann:
        handle = writer.prepare(sql).prepared_statement_handle
        assert _bound(writer, handle, 0) == 50
        assert _bound(ann, handle, 0) == HERS
        assert _bound(ann, handle, 6_000_000) == 0


def _bound(client: Client, handle: bytes, value: int) -> int:
    rows = pa.record_batch({"1": [value]})
    made = client.put(
        "CommandPreparedStatementQuery", rows.schema, [rows], prepared_statement_handle=handle
    )
    bound = message("DoPutPreparedStatementResult").FromString(made).prepared_statement_handle
    found = client.get("CommandPreparedStatementQuery", prepared_statement_handle=bound)
    return int(found["c"][0].as_py())


def test_the_columns_of_a_query_over_flight_are_those_that_are_seen(doors: Three) -> None:
    with doors.client(ANN) as ann:
        command = packed("CommandStatementQuery", query="SELECT * FROM orders")
        descriptor = flight.FlightDescriptor.for_command(command)
        shown = ann.flight.get_schema(descriptor, ann.options()).schema
        assert "note" not in shown.names


# PostgreSQL

KINDS = {
    Kind.QUERY: _HONOUR,
    Kind.CHANGE: "refuses it",
    Kind.DEFINE: "refuses it",
    Kind.EXPLAIN: "refuses it",
    Kind.COPY: "honours it to a client, and refuses it from one",
    Kind.DECLARE: _HONOUR,
    Kind.FETCH: _HONOUR,
    **dict.fromkeys(
        (
            Kind.SET,
            Kind.SHOW,
            Kind.RESET,
            Kind.DISCARD,
            Kind.BEGIN,
            Kind.COMMIT,
            Kind.ROLLBACK,
            Kind.SAVEPOINT,
            Kind.CLOSE,
            Kind.DEALLOCATE,
            Kind.NOTHING,
            Kind.EMPTY,
            Kind.OTHER,
        ),
        NO_TABLE,
    ),
}


def test_every_kind_of_statement_of_postgres_has_a_decision() -> None:
    assert set(KINDS) == set(Kind)


def _asked(doors: Three, *texts: str) -> str:
    """Everything that the server sends for some texts."""
    with doors.raw(ANN) as raw:
        return "\n".join(repr(raw.ask(one)) for one in texts)


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_over_postgres_gets_her_rows(doors: Three, sql: str) -> None:
    for said in (_asked(doors, sql), _asked(doors, "BEGIN", sql, "ROLLBACK")):
        _check("SERROR" not in said, said)


@pytest.mark.parametrize("sql", [*NOTHING, *CHANGES])
def test_all_else_is_refused_over_postgres(doors: Three, sql: str) -> None:
    sql = sql.replace("{folder}", str(doors.log.parent))
    if "current_setting" in sql:
        return  # PostgreSQL's own, which has no setting of the engine
    for said in (_asked(doors, sql), _asked(doors, "BEGIN", sql, "ROLLBACK")):
        assert "SERROR" in said, said
        _check(False, said)


def test_transactions_cursors_and_copies_have_her_rows(doors: Three) -> None:
    with doors.raw(ANN) as raw:
        for text in ("BEGIN", "BEGIN READ ONLY", "START TRANSACTION"):
            raw.ask(text)
            for sql in (_COUNT, "SELECT count(*) FROM orders o, open"):
                assert int(raw.rows(sql)[0][0] or 0) in (HERS, 2 * HERS)
            found = raw.ask("DECLARE c CURSOR FOR SELECT id FROM orders ORDER BY id")
            assert "E" not in [kind for kind, _ in found], found
            assert raw.rows("FETCH 3 FROM c") == [["0"], ["5"], ["10"]]
            assert len(raw.rows("FETCH ALL FROM c")) == HERS - 3
            raw.ask("COMMIT")
        raw.ask("BEGIN")
        assert raw.fails("INSERT INTO open (b) SELECT code FROM orders")["C"] == "42501"
        raw.ask("ROLLBACK")
        for sql in ("COPY orders TO STDOUT", "COPY (SELECT * FROM orders) TO STDOUT (FORMAT csv)"):
            found = raw.ask(sql)
            assert len([1 for kind, _ in found if kind == "d"]) >= 1
            _check(True, repr(found))
        assert raw.fails("COPY orders (note) TO STDOUT")["C"] == "42703"
        assert raw.fails("COPY orders (id) FROM STDIN")["C"] == "42501"
        assert raw.fails("DELETE FROM orders RETURNING *")["C"] == "42501"


CATALOGS = (
    "SELECT * FROM pg_class",
    "SELECT * FROM pg_attribute",
    "SELECT * FROM pg_catalog.pg_tables",
    "SELECT * FROM information_schema.columns",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM information_schema.key_column_usage",
    "SELECT * FROM pg_stats",
    "SELECT * FROM pg_statistic",
    "SELECT * FROM pg_stat_user_tables",
    "SELECT reltuples, relpages FROM pg_class WHERE relname = 'orders'",
    "SELECT pg_total_relation_size('orders')",
    "SELECT pg_relation_size('orders'), pg_table_size('orders')",
    "SELECT * FROM pg_description",
    "SELECT * FROM pg_constraint",
)


@pytest.mark.parametrize("sql", CATALOGS)
def test_catalogs_of_postgres_have_what_is_seen(doors: Three, sql: str) -> None:
    said = _asked(doors, sql)
    assert "note" not in said.replace("denoted", "").replace("attnotnull", "")
    assert MARK not in said
    if "reltuples" in sql:
        with doors.raw(ANN) as ann, doors.raw(WRITE) as whole:
            assert ann.ask(sql)[:1] == whole.ask(sql)[:1]
            assert ann.rows(sql) == whole.rows(sql)


def test_the_columns_of_a_catalog_are_those_of_a_query(doors: Three) -> None:
    sql = "SELECT column_name FROM information_schema.columns WHERE table_name = '{}' ORDER BY 1"
    with doors.raw(ANN) as ann, doors.raw(WRITE) as whole:
        seen = [row[0] for row in ann.rows(sql.format("orders"))]
        assert seen == ["amount", "code", "id", "tenant", "time"]
        assert "note" in [row[0] for row in whole.rows(sql.format("orders"))]
        assert ann.rows('SELECT count(*) FROM public."orders"') == [[str(HERS)]]


def test_a_policy_that_changes_ends_an_open_session(doors: Three) -> None:
    with doors.raw(ANN) as raw:
        assert raw.rows(_COUNT) == [[str(HERS)]]
        less = replace(OWN, rows="amount < 20")
        doors.gateway.gate.exchange((*TOKENS, replace(HER, policies=(less,))))
        raw.send(b"Q" + (len(_COUNT) + 5).to_bytes(4, "big") + _COUNT.encode() + b"\0")
        found = raw.next()
        assert found[0] == "E"
        assert b"have changed" in found[1]
