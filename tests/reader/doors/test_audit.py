"""The audit log: each statement once, at every door, whatever ends it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

import blockstore as bs
from blockstore.errors import Invalid
from blockstore.reader.audit import AuditLog, Outcome, Statement
from blockstore.reader.audit.statement import MOST_TEXT
from blockstore.reader.http.callers import LOOKS
from blockstore.reader.http.problems import Problem
from blockstore.world import World
from tests.reader.doors.three import Three, lines_of, three
from tests.reader.http.gateways import DDL, READ, TOKENS, WRITE, make_lake, settings
from tests.reader.postgres.raw import SYNC, bind, describe, error_of, execute, frame, parse, query
from tests.repo.fenced import blocks

PEOPLE = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
MUCH = "select a.n, b.s from flights a, flights b, range(1000) /* {} */"


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("audit")
    url = make_lake(folder)
    bs.create(f"{folder}/lake/people?durable=false", schema=PEOPLE, key=["id"])
    with three(settings(url, folder), folder / "audit.jsonl") as made:
        yield made


@pytest.fixture(autouse=True)
def _as_before(doors: Three) -> Iterator[None]:
    yield
    doors.gateway.gate.exchange(TOKENS)


def _one(doors: Three, mark: str) -> dict[str, Any]:
    found = doors.about(mark)
    assert len(found) == 1, found
    return found[0]


# Rows


def test_http_says_what_was_read_and_how_much_was_given(doors: Three) -> None:
    sql = "select n from flights where n < ? /* h1 */"
    found = doors.served.http.post(
        "/v1/query",
        json={"sql": sql, "parameters": [424_242]},
        headers={"Accept": "text/csv", "X-Request-Id": "mine"},
    )
    line = _one(doors, "h1")
    assert line["statement"] == sql
    assert (line["token"], line["door"], line["outcome"], line["error"]) == (
        "writer", "http", "ok", None,
    )  # fmt: skip
    assert line["read"] == {"flights": 3}
    assert (line["rows"], line["bytes"]) == (1000, len(found.content))
    assert (line["request"], line["request_id"]) == ("POST /v1/query", "mine")
    assert line["seconds"] > 0
    assert b"424242" not in doors.log.read_bytes()


def test_the_guide_shows_a_line_as_it_is(doors: Three) -> None:
    pages = blocks("docs/guides/gateway.md")
    (shown,) = [json.loads(one.text) for one in pages if one.language == "json"]
    doors.served.query(f"{shown['statement']} -- guide")
    line = _one(doors, "-- guide")
    assert list(line) == list(shown)
    assert line["statement_length"] == shown["statement_length"] + len(" -- guide")
    assert {name: type(value) for name, value in line.items()} == {
        name: type(value) for name, value in shown.items()
    }


def test_the_guide_shows_how_every_line_becomes_a_row_of_a_table(tmp_path: Path) -> None:
    (shown,) = [one.text for one in blocks("docs/guides/gateway.md") if "logs/audit" in one.text]
    log = tmp_path / "audit.jsonl"
    with three(settings(make_lake(tmp_path), tmp_path), log) as doors:
        doors.served.query("select count(*) as c from flights")
        sql = "insert into flights values (now(), 5000, 'new')"
        with doors.served.as_(WRITE) as http:
            assert http.post("/v1/statements?wait=60", json={"sql": sql}).status_code == 200
    written = AuditLog(log, World.real(), most_kept=1)
    written.record({"event": "gap", "at_ms": 1, "refused": 3, "error": "full"})
    written.close()
    lines = lines_of(log)
    assert {one["event"] for one in lines} == {"statement", "job", "gap"}
    command = f"alias blockstore={Path(sys.executable).parent / 'blockstore'}\n{shown}"
    run = subprocess.run(
        ["bash", "-O", "expand_aliases", "-ec", command.replace("sleep 1\n", "")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "writer" in run.stdout
    rows = bs.open(str(tmp_path / "logs" / "audit")).snapshot().scan().to_table().to_pylist()
    assert len(rows) == len(lines)
    by_id = {(one["event"], one["id"]): one for one in rows}
    for line in lines:
        row = by_id[line["event"], line.get("id")]
        for name, value in line.items():
            found = dict(row[name]) if isinstance(value, dict) else row[name]
            assert found == value, name


def test_the_line_is_there_when_the_client_has_its_answer(doors: Three) -> None:
    for place in range(10):
        doors.served.query(f"select 1 as a /* before {place}. */")
        assert len([one for one in doors.lines() if f"before {place}." in str(one)]) == 1
        with doors.raw(READ) as raw:
            raw.rows(f"select 1 /* after {place}. */")
            assert len([one for one in doors.lines() if f"after {place}." in str(one)]) == 1


def test_flight_has_one_line_for_a_query_that_is_prepared_described_and_taken(doors: Three) -> None:
    with doors.client(READ) as client:
        handle = client.prepare("select n, s from flights /* f1 */").prepared_statement_handle
        client.get("CommandPreparedStatementQuery", prepared_statement_handle=handle)
        with pytest.raises(pa.ArrowInvalid):
            client.prepare("select nothing /* f2 */")
    line = _one(doors, "f1")
    assert (line["door"], line["outcome"], line["rows"], line["read"]) == (
        "flight", "ok", 1000, {"flights": 3},
    )  # fmt: skip
    assert line["bytes"] > 8000
    assert _one(doors, "f2")["outcome"] == "error"


def test_postgres_has_one_line_a_statement_in_both_protocols(doors: Three) -> None:
    with doors.raw(WRITE) as raw:
        first = "select 1 as p1; select n as p2 from flights limit 7"
        raw.ask(f"{first}; select p3; select 4 as p4")
        prepared = parse("select n from flights where n < $1 /* p5 */", "one")
        raw.send(prepared, describe(b"S", "one"), SYNC)
        raw.until_ready()
        assert doors.about("p5", 0) == [], "it was described, and has not run"
        raw.send(bind((b"30",), "one"), describe(b"P"), execute(10), execute(10), execute(0), SYNC)
        raw.until_ready()
        raw.send(parse("select y /* p6 */"), bind(), execute(), SYNC)
        raw.until_ready()
        raw.send(parse("select $1::int /* p7 */"), bind((b"x",)), execute(), SYNC)
        raw.until_ready()
    rows = {f"p{at}": _one(doors, f"p{at}") for at in (1, 2, 3, 5, 6, 7)}
    assert [rows[at]["outcome"] for at in rows] == ["ok", "ok", "error", "ok", "error", "error"]
    assert (rows["p2"]["rows"], rows["p2"]["read"]) == (7, {"flights": 3})
    assert rows["p5"]["rows"] == 30
    assert doors.about("p4", 0) == [], "nothing runs after an error"


# Changes


def test_every_door_says_which_version_was_committed(doors: Three) -> None:
    sent = doors.served.http.post(
        "/v1/statements", json={"sql": "INSERT INTO people VALUES (1, 'a') /* c1 */"}
    ).json()
    first = _one(doors, "c1")
    assert first["committed"] == {"people": sent["written"]["version"]}
    assert first["job"] == sent["id"]
    with doors.client(WRITE) as client:
        client.update("INSERT INTO people VALUES (2, 'b') /* c2 */")
        client.ingest("people", pa.table({"id": [3], "name": ["c"]}, schema=PEOPLE))
    with doors.raw(WRITE) as raw:
        raw.ask("INSERT INTO people VALUES (4, 'd') /* c4 */")
        raw.ask("begin; INSERT INTO people VALUES (5, 'c5')")
        raw.ask("commit /* c6 */")
        raw.send(query("COPY people (id, name) FROM STDIN WITH (FORMAT csv)"))
        raw.next()
        raw.send(frame(b"d", b"6,f\n"), frame(b"c"))
        raw.until_ready()
    version = first["committed"]["people"]
    lines = [_one(doors, mark) for mark in ("c2", "INGEST INTO people", "c4", "c6", "COPY people")]
    assert [one["committed"] for one in lines] == [{"people": version + at} for at in range(1, 6)]
    assert {one["outcome"] for one in lines} == {"ok"}
    assert _one(doors, "c5")["committed"] == {}, "the transaction's COMMIT has it"
    jobs = [one for one in doors.lines() if one["event"] == "job"]
    assert {one["id"] for one in jobs} >= {first["job"]}
    (own,) = [one for one in jobs if one["id"] == first["job"]]
    assert (own["token"], own["state"], own["committed"]) == ("writer", "done", first["committed"])


def test_a_job_is_accepted_and_its_end_has_a_line(doors: Three) -> None:
    sql = "select count(*) as c from flights /* j1 */"
    http = doors.served.http
    sent = http.post("/v1/jobs", json={"kind": "query", "sql": sql, "format": "csv"}).json()["id"]
    line = _one(doors, "j1")
    assert (line["outcome"], line["job"]) == ("accepted", sent)
    clock = World.real().clock
    found: list[dict[str, Any]] = []
    for _ in range(200):
        if found:
            break
        clock.sleep(0.05)
        found = [one for one in doors.lines() if one["event"] == "job" and one["id"] == sent]
    assert (found[0]["state"], found[0]["rows"], found[0]["read"]) == ("done", 1, {"flights": 3})
    http.get(f"/v1/jobs/{sent}/result")
    taken = [one for one in doors.lines() if one.get("request") == f"GET /v1/jobs/{sent}/result"]
    assert [one["outcome"] for one in taken] == ["ok"]


# Refusals


def test_a_refusal_is_one_line_at_every_door(doors: Three) -> None:
    with doors.served.as_(DDL) as http:
        assert http.post("/v1/query", json={"sql": "select 1 /* r1 */"}).status_code == 403
    with doors.client(DDL) as client, pytest.raises(flight.FlightUnauthorizedError):
        client.query("select 1 /* r2 */")
    with doors.raw(DDL) as raw:
        raw.fails("select 1 /* r3 */")
        raw.send(parse("select 1 /* r4 */"), SYNC)
        raw.until_ready()
    with doors.raw(READ) as raw:
        raw.fails("delete from people /* r5 */")
    for mark in ("r1", "r2", "r3", "r4", "r5"):
        line = _one(doors, mark)
        assert line["outcome"] == "refused", line
        assert "lacks scope" in line["error"]


def test_a_token_that_is_over_is_refused_in_its_name(doors: Three) -> None:
    raw, other = doors.raw(READ), doors.raw(READ)
    with raw, other, doors.client(READ) as client:
        other.send(parse("select 2 /* t2 */", "kept"), SYNC)
        other.until_ready()
        doors.tokens("reader", expires_ms=1)
        before = len(doors.lines())
        with doors.served.as_(READ) as http:
            http.post("/v1/query", json={"sql": "select 0"})
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.query("select 1")
        raw.send(query("select 1 /* t1 */"))
        assert raw.ended()
        other.send(bind((), "kept"), execute(), SYNC)
        assert other.ended()
        with pytest.raises(PermissionError):
            doors.raw(READ)
        lines = doors.lines()[before:]
    assert [one["request"] for one in lines] == [
        "POST /v1/query", "get_flight_info", "", "", "connect",
    ]  # fmt: skip
    assert {(one["outcome"], one["token"]) for one in lines} == {("refused", "reader")}
    assert [one["statement"] for one in lines][2:4] == ["select 1 /* t1 */", "select 2 /* t2 */"]


def test_a_stranger_writes_nothing(doors: Three) -> None:
    before = len(doors.lines())
    for token in ("bsk_stranger", "x"):
        with doors.served.as_(token) as http:
            http.post("/v1/query", json={"sql": "select 1"})
        with doors.client(token) as client, pytest.raises(flight.FlightUnauthenticatedError):
            client.query("select 1")
        with pytest.raises(PermissionError):
            doors.raw(token)
    assert len(doors.lines()) == before


# Clients that leave


def test_a_client_that_leaves_is_one_cancelled_line(doors: Three) -> None:
    stream = {"Accept": "application/vnd.apache.arrow.stream"}
    with doors.served.http.stream(
        "POST", "/v1/query", json={"sql": MUCH.format("l1")}, headers=stream
    ) as response:
        next(response.iter_raw())
    client = doors.client(READ)
    reader = client.stream(MUCH.format("l2"))
    reader.read_chunk()
    reader.cancel()
    client.flight.close()
    with doors.raw(READ) as raw:
        raw.send(query(MUCH.format("l3")))
        raw.next()
    with doors.raw(READ) as raw:
        raw.send(parse(MUCH.format("l4")), bind(), execute(5), SYNC)
        raw.until_ready()
    for mark in ("l1", "l2", "l3"):
        line = _one(doors, mark)
        assert line["outcome"] == "cancelled", line
        assert line["rows"] > 0 or mark == "l3"
    assert (_one(doors, "l4")["outcome"], _one(doors, "l4")["rows"]) == ("ok", 5)


def test_a_cancelled_query_is_one_cancelled_line(doors: Three) -> None:
    with doors.raw(READ) as raw, doors.raw(READ) as other:
        raw.send(
            query("select sum(a.i * b.i) from range(999999) a(i), range(999999) b(i) /* k1 */")
        )
        while not doors.gateway.engine.running():
            World.real().clock.sleep(0.01)
        process, secret = raw.key
        with socket.create_connection(("127.0.0.1", doors.postgres.port)) as asking:
            asking.sendall((16).to_bytes(4, "big") + (80877102).to_bytes(4, "big")
                           + process.to_bytes(4, "big") + secret)  # fmt: skip
        assert [error_of(body)["C"] for kind, body in raw.until_ready() if kind == "E"] == ["57014"]
        other.rows("select 1")
    assert _one(doors, "k1")["outcome"] == "cancelled"


def test_a_stream_that_is_left_open_has_its_line_when_it_is_given_up(tmp_path: Path) -> None:
    asked = settings(make_lake(tmp_path), tmp_path)
    asked = replace(asked, http=replace(asked.http, stall_s=0.5))
    with (
        three(asked, tmp_path / "audit.jsonl") as doors,
        doors.client(READ) as client,
        contextlib.closing(doors.raw(READ)) as raw,
    ):
        reader = client.stream(MUCH.format("o1"))
        reader.read_chunk()
        raw.send(query(MUCH.format("o2")))
        for mark in ("o1", "o2"):
            assert _one(doors, mark)["outcome"] == "cancelled"
        assert doors.flight.running == 1, "the client has not left"
        reader.cancel()


def test_what_runs_when_the_gateway_stops_is_one_cancelled_line(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with three(settings(make_lake(tmp_path), tmp_path), log) as doors:
        raw, client = doors.raw(READ), doors.client(READ)
        raw.send(query(MUCH.format("s1")))
        raw.next()
        reader = client.stream(MUCH.format("s2"))
        reader.read_chunk()
        http = doors.served.http.send(
            doors.served.http.build_request("POST", "/v1/query", json={"sql": MUCH.format("s3")}),
            stream=True,
        )
        next(http.iter_raw())
    raw.close()
    http.close()
    client.flight.close()
    for mark in ("s1", "s2", "s3"):
        found = [one for one in lines_of(log) if mark in str(one)]
        assert [one["outcome"] for one in found] == ["cancelled"], found


# What a text contains


def test_a_text_cannot_forge_a_line_or_steer_a_terminal(doors: Three) -> None:
    evil = 'select 1 /* x1 \n{"event":"statement"}\r\x1b[2J\x00\u2028\u0085\u009b31m" \\ */'
    doors.served.query(evil)
    (line,) = doors.about("x1")
    assert line["statement"] == evil
    data = doors.log.read_bytes()
    assert all(32 <= one < 127 or one == 10 for one in data)
    for one in data.splitlines():
        json.loads(one)


def test_a_huge_text_is_cut_and_a_token_in_it_is_not_kept(doors: Three) -> None:
    huge = f"select 1 /* x2 {WRITE}_0123456789abcdef */ -- {'x' * 90_000}"
    doors.served.query(huge)
    line = _one(doors, "x2")
    assert len(line["statement"]) == MOST_TEXT
    assert line["statement_length"] == len(huge)
    assert "0123456789abcdef" not in doors.log.read_text()


def test_looks_at_what_there_is_are_not_audited_and_all_else_is(doors: Three) -> None:
    before = len(doors.lines())
    http = doors.served.http
    for path in ("/v1/tables", "/v1/tables/flights", "/v1/tables/flights/history", "/v1/jobs",
                 "/iceberg/v1/config", "/-/ready", "/docs"):  # fmt: skip
        assert http.get(path).status_code == 200
    assert len(doors.lines()) == before
    http.get("/v1/tables/flights/changes?after=2")
    http.get("/iceberg/v1/namespaces/lake/tables/flights")
    http.get("/v1/tables/people/rows/1")
    http.post("/v1/query", content=b"{", headers={"Content-Type": "application/json"})
    http.post("/v1/query", json={"sql": 1})
    http.put("/iceberg/v1/namespaces")
    found = [(one["request"], one["outcome"]) for one in doors.lines()[before:]]
    assert found[:3] == [
        ("GET /v1/tables/flights/changes", "ok"),
        ("GET /iceberg/v1/namespaces/lake/tables/flights", "ok"),
        ("GET /v1/tables/people/rows/1", found[2][1]),
    ]
    assert ("POST /v1/query", "error") in found
    paths = set(http.get("/openapi.json").json()["paths"])
    templates = {one.replace(":path", "") for one in LOOKS}
    iceberg = {"/v1/config", *(one for one in templates if "namespace" in one)}
    assert templates - iceberg <= paths


# The file


def _log(path: Path, **options: int) -> AuditLog:
    return AuditLog(path, World.real(), **options)


def began(log: AuditLog, text: str | None = None) -> Statement:
    """A statement of a token."""
    made = log.began("http", text=text)
    made.is_of("a")
    return made


def test_a_file_that_is_moved_away_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = _log(path)
    for place in range(3):
        began(log, str(place)).end()
        if place < 2:
            path.rename(tmp_path / f"old-{place}")
    log.close()
    found = [lines_of(one)[0]["statement"] for one in
             (tmp_path / "old-0", tmp_path / "old-1", path)]  # fmt: skip
    assert found == ["0", "1", "2"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_line_that_a_process_did_not_finish_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"event":"state')
    log = _log(path)
    began(log).end()
    log.close()
    torn, whole = path.read_bytes().splitlines()
    assert torn == b'{"event":"state'
    assert json.loads(whole)["token"] == "a"


def test_an_audit_log_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="check file of \\[audit\\]"):
        _log(tmp_path / "missing" / "audit.jsonl")


class _Full:
    """``os.write`` to a disk with room for so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def __call__(self, file: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        wrote = self._write(file, data[: self.room])
        self.room -= wrote
        return wrote


def test_a_full_disk_loses_no_line_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    log = _log(path)
    disk = _Full(500)
    monkeypatch.setattr("blockstore.reader.audit.log.os.write", disk)
    for place in range(5):
        began(log, f"statement {place}").end()
    assert log.broken == f"the audit log {path} cannot be written: No space left on device"
    assert path.stat().st_size == 500, "a part of a line is there"
    log.check()
    disk.room = 1 << 20
    log.settle()
    assert log.broken is None
    assert [one["statement"] for one in lines_of(path)] == [f"statement {at}" for at in range(5)]


def test_a_part_of_a_line_that_was_moved_away_is_written_whole_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    log = _log(path)
    disk = _Full(500)
    monkeypatch.setattr("blockstore.reader.audit.log.os.write", disk)
    for place in range(3):
        began(log, f"statement {place}").end()
    path.rename(tmp_path / "old")
    disk.room = 1 << 20
    log.settle()
    log.close()
    whole = [json.loads(one) for one in (tmp_path / "old").read_bytes().splitlines()[:-1]]
    assert [one["statement"] for one in (*whole, *lines_of(path))] == [
        f"statement {at}" for at in range(3)
    ]


def test_statements_are_refused_when_no_more_lines_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    log = _log(path, most_kept=500)
    disk = _Full(0)
    monkeypatch.setattr("blockstore.reader.audit.log.os.write", disk)
    for place in range(2):
        log.check()
        began(log, f"statement {place}").end()
    for _ in range(3):
        with pytest.raises(Problem, match="the audit log cannot be written"):
            log.check()
    disk.room = 1 << 20
    log.settle()
    log.check()
    lines = lines_of(path)
    assert [one["event"] for one in lines] == ["statement", "statement", "gap"]
    assert lines[2]["refused"] == 3


def test_a_gateway_whose_audit_log_cannot_be_written_is_not_ready(
    doors: Three, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _Full(0)
    with monkeypatch.context() as patched:
        patched.setattr("blockstore.reader.audit.log.os.write", disk)
        assert doors.served.rows("select 1 as a /* d1 */") == [{"a": 1}]
        found = doors.served.http.get("/-/ready")
        assert found.status_code == 503
        assert "cannot be written: No space left" in found.json()["reasons"][0]
        monkeypatch.setattr(doors.gateway.audit, "_most_kept", 1)
        refused = doors.served.query("select 1 as a /* d2 */")
        assert (refused.status_code, refused.json()["error"]) == (503, "unavailable")
        with doors.client(READ) as client, pytest.raises(flight.FlightUnavailableError):
            client.query("select 1 /* d3 */")
        with pytest.raises(PermissionError):
            doors.raw(READ)
    monkeypatch.undo()
    doors.gateway.audit.settle()
    assert doors.served.http.get("/-/ready").status_code == 200
    assert _one(doors, "d1")["outcome"] == "ok"
    (gap,) = [one for one in doors.lines() if one["event"] == "gap"]
    assert gap["refused"] >= 3


def test_lines_of_many_threads_are_whole_and_each_is_there(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = _log(path)

    def write(place: int) -> None:
        one = began(log, f"{place} " + "y" * 3_000)
        each = [threading.Thread(target=one.end, args=(Outcome.OK,)) for _ in range(2)]
        for thread in each:
            thread.start()
        for thread in each:
            thread.join()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(200)))
    log.close()
    found = sorted(int(one["statement"].split()[0]) for one in lines_of(path))
    assert found == list(range(200)), "once, also when it is ended twice"


# Quotas


def test_a_token_runs_so_many_queries_at_once_at_all_doors_together(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    limited = [replace(one, queries_at_once=1) if one.name == "reader" else one for one in TOKENS]
    asked = replace(settings(make_lake(tmp_path), tmp_path), tokens=tuple(limited))
    with three(asked, log) as doors, doors.raw(READ) as raw, doors.client(READ) as client:
        raw.ask("begin; declare c cursor for select n from flights")
        with doors.served.as_(READ) as http:
            found = http.post("/v1/query", json={"sql": "select 1 /* q1 */"})
            assert (found.status_code, found.headers["Retry-After"]) == (429, "1")
            assert "the token 'reader' runs 1 queries at once" in found.json()["message"]
        with pytest.raises(flight.FlightUnavailableError, match="retry in a second"):
            client.query("select 1 /* q2 */")
        with doors.raw(READ) as other:
            assert other.fails("select 1 /* q3 */")["C"] == "53300"
        assert doors.served.rows("select 1 as a") == [{"a": 1}], "another token has its own places"
        for mark in ("q1", "q2", "q3"):
            assert [one["outcome"] for one in doors.about(mark)] == ["refused"]
        raw.ask("close c; rollback")
        assert client.query("select 1 as a").to_pylist() == [{"a": 1}]
        with doors.served.as_(READ) as http:
            for _ in range(3):
                bad = http.post("/v1/query", json={"sql": "select nothing"})
                assert bad.status_code == 400
            assert http.post("/v1/query", json={"sql": "select 1"}).status_code == 200
