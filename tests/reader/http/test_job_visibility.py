"""A token that lost a scope or a table since it asked for a job sees no more of the job than it
could ask for today."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import orjson
import pytest

import blockstore as bs
from blockstore.names import job_outcome_key
from blockstore.reader.http.job_visibility import concerns, sees
from blockstore.reader.http.tokens import Caller, Scope, Token, hashed
from blockstore.reader.jobs.record import Failure, Kind, Outcome, Request, Result, State
from blockstore.reader.jobs.store import Job
from tests.reader.http.gateways import (
    SCHEMA,
    Served,
    csv_of,
    make_lake,
    rows_of,
    serving,
    settings,
    until_ended,
)

TOKEN = "bsk_narrowed"
BOTH = frozenset({Scope.READ, Scope.WRITE})
FLIGHTS = frozenset({"flights"})
NOBODYS = "01JD0000000000000000000000"

Rights = tuple[frozenset[Scope], frozenset[str] | None]


@contextmanager
def _started_with(folder: Path, url: str, rights: Rights) -> Iterator[Served]:
    """A gateway over the lake that knows the token with these rights; jobs of earlier ones lie in
    the bucket."""
    scopes, tables = rights
    token = Token(name="one", sha256=hashed(TOKEN), scopes=scopes, tables=tables)
    with serving(replace(settings(url, folder), tokens=(token,))) as served:
        yield served


def _asked(client: httpx.Client, sql: str) -> str:
    return str(
        client.post("/v1/jobs", json={"kind": "query", "sql": sql, "format": "csv"}).json()["id"]
    )


def _answers(client: httpx.Client, job: str) -> list[tuple[int, str]]:
    """What each door of a job answers, the job's id and the request's aside."""
    found = [
        client.get(f"/v1/jobs/{job}"),
        client.get(f"/v1/jobs/{job}/result"),
        client.delete(f"/v1/jobs/{job}"),
    ]
    return [(one.status_code, str(one.json().get("message")).replace(job, "ID")) for one in found]


def test_a_narrowed_token_sees_jobs_over_the_tables_that_are_left_to_it_and_no_others(
    tmp_path: Path,
) -> None:
    url = make_lake(tmp_path)
    bs.create(
        f"{tmp_path}/lake/loose?durable=false", schema=SCHEMA, time_column="time", index=False
    ).append(rows_of(range(3)))
    texts = {"content-type": "text/csv"}
    with _started_with(tmp_path, url, (BOTH, None)) as wide, wide.as_(TOKEN) as me:
        kept = [
            _asked(me, "select max(n) as c from flights"),
            _asked(me, "select 1 as c"),
            str(me.post("/v1/jobs", json={"kind": "download", "table": "flights"}).json()["id"]),
            str(
                me.post("/v1/jobs?table=flights", content=csv_of(range(5)), headers=texts).json()[
                    "id"
                ]
            ),
        ]
        hidden = [
            _asked(me, "select max(n) as c from salaries"),
            _asked(me, "select max(n) as c from flights join Salaries using (n)"),
            _asked(me, "select max(flights.n) as c from flights, loose"),
            _asked(me, "select max(n) as c from salarie"),
            str(me.post("/v1/jobs", json={"kind": "download", "table": "salaries"}).json()["id"]),
            str(
                me.post("/v1/jobs?table=salaries", content=csv_of(range(5)), headers=texts).json()[
                    "id"
                ]
            ),
        ]
        states = {job: until_ended(me, job)["state"] for job in kept + hidden}
        assert [job for job, state in states.items() if state != "done"] == hidden[3:4]
    with _started_with(tmp_path, url, (BOTH, FLIGHTS)) as narrow, narrow.as_(TOKEN) as me:
        for job in hidden:
            assert _answers(me, job) == _answers(me, NOBODYS), job
        assert {one["id"] for one in me.get("/v1/jobs").json()["jobs"]} == set(kept)
        assert me.get(f"/v1/jobs/{kept[0]}/result").text == '"c"\n999\n'
        assert me.delete(f"/v1/jobs/{kept[3]}").status_code == 200
    with _started_with(tmp_path, url, (BOTH, None)) as wide, wide.as_(TOKEN) as me:
        assert me.get(f"/v1/jobs/{hidden[0]}/result").text == '"c"\n9\n'


def test_a_result_of_an_older_release_is_seen_only_where_nothing_was_taken_from_the_token(
    tmp_path: Path,
) -> None:
    url = make_lake(tmp_path)
    with _started_with(tmp_path, url, (BOTH, None)) as wide, wide.as_(TOKEN) as me:
        job = _asked(me, "select max(n) as c from flights")
        until_ended(me, job)
        bucket = wide.gateway.need_jobs().store.bucket
        record = orjson.loads(bucket.get(job_outcome_key(job)).data)
        assert record["result"].pop("tables") == ["flights"]
        bucket.put(job_outcome_key(job), orjson.dumps(record))
        assert me.get(f"/v1/jobs/{job}/result").text == '"c"\n999\n'
    with _started_with(tmp_path, url, (BOTH, FLIGHTS)) as narrow, narrow.as_(TOKEN) as me:
        assert _answers(me, job) == _answers(me, NOBODYS)


ASKED = Request(kind=Kind.QUERY, owner="me", created_ms=0, form="csv", sql="select 1")
UPLOAD = replace(ASKED, kind=Kind.UPLOAD, sql=None, table="flights")
DONE = Outcome(state=State.DONE, attempt=1, ended_ms=0)
FAILED = replace(
    DONE, state=State.FAILED, failure=Failure(error="invalid", message="did you mean salaries?")
)


def _caller(scopes: set[Scope], *tables: str, fingerprint: str = "me") -> Caller:
    seen = frozenset(tables) if tables else None
    return Caller(name="me", fingerprint=fingerprint, scopes=frozenset(scopes), tables=seen)


@pytest.mark.parametrize(
    ("request_", "outcome", "scopes", "tables", "seen"),
    [
        (ASKED, None, {Scope.READ}, (), True),
        (ASKED, None, {Scope.WRITE}, (), False),
        (UPLOAD, None, {Scope.WRITE}, (), True),
        (UPLOAD, None, {Scope.READ}, (), False),
        (UPLOAD, DONE, {Scope.WRITE}, ("flights",), True),
        (UPLOAD, DONE, {Scope.WRITE}, ("salaries",), False),
        (UPLOAD, FAILED, {Scope.WRITE}, ("flights",), False),
        (replace(UPLOAD, allowed=("flights",)), FAILED, {Scope.WRITE}, ("flights",), True),
        (ASKED, None, {Scope.READ}, ("flights", "salaries"), False),
        (replace(ASKED, allowed=("a", "b")), None, {Scope.READ}, ("a", "b", "c"), True),
        (replace(ASKED, allowed=("a", "b")), None, {Scope.READ}, ("a",), False),
        (replace(ASKED, allowed=("a", "b")), FAILED, {Scope.READ}, ("a",), False),
    ],
)
def test_what_the_token_may_now_decides(
    request_: Request,
    outcome: Outcome | None,
    scopes: set[Scope],
    tables: tuple[str, ...],
    seen: bool,
) -> None:
    job = Job(id=NOBODYS, request=request_, outcome=outcome)
    assert sees(_caller(scopes, *tables), job) is seen
    assert not sees(_caller(set(BOTH), *tables, fingerprint="another"), job)
    assert sees(_caller({Scope.ADMIN}, fingerprint="another"), job)
    assert concerns(_caller(scopes, *tables), request_)


def test_the_tables_that_were_read_survive_the_record() -> None:
    result = Result(key="k", bytes=1, rows=1, versions={"a": 2}, tables=("a", "b"))
    ended = replace(DONE, result=result)
    assert Outcome.load(ended.dump(), "key") == ended


def test_an_admin_of_some_tables_sees_the_jobs_over_those() -> None:
    admin = _caller({Scope.ADMIN}, "flights", fingerprint="another")
    of = {
        name: Result(key="k", bytes=1, rows=1, versions={}, tables=(name,))
        for name in ("flights", "salaries")
    }
    seen = {
        name
        for name, result in of.items()
        if sees(admin, Job(id=NOBODYS, request=ASKED, outcome=replace(DONE, result=result)))
    }
    assert seen == {"flights"}
