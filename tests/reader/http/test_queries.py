"""``POST /v1/query``: forms, versions, errors with their place, and what half an answer looks
like."""

from __future__ import annotations

import io
import json
import socket
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from tests.reader.http.gateways import READ, Served, make_lake, serving, settings

FORMS = {
    "application/vnd.apache.arrow.stream": lambda data: pa.ipc.open_stream(data).read_all(),
    "application/vnd.apache.parquet": lambda data: pq.read_table(io.BytesIO(data)),
    "application/json": lambda data: pa.Table.from_pylist(json.loads(data)),
    "text/csv": lambda data: pacsv.read_csv(io.BytesIO(data)),
    "text/tab-separated-values": lambda data: pacsv.read_csv(
        io.BytesIO(data), parse_options=pacsv.ParseOptions(delimiter="\t")
    ),
}


@pytest.mark.parametrize("accept", FORMS)
def test_every_form_holds_the_same_rows(served: Served, accept: str) -> None:
    answer = served.query("select n, s from flights order by n", accept=accept)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(accept)
    table = FORMS[accept](answer.content)
    assert table["n"].to_pylist() == list(range(1000))
    assert table["s"].to_pylist()[-1] == "row 999"
    assert json.loads(answer.headers["x-blockstore-versions"]) == {"flights": 3}


@pytest.mark.parametrize("accept", FORMS)
def test_an_answer_without_rows_is_whole_in_every_form(served: Served, accept: str) -> None:
    answer = served.query("select n, s from flights where n < 0", accept=accept)
    assert answer.status_code == 200
    assert FORMS[accept](answer.content).num_rows == 0


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/vnd.apache.arrow.stream"),
        ("*/*", "application/vnd.apache.arrow.stream"),
        ("text/csv;q=0.5, application/json", "application/json"),
        ("text/*", "text/csv"),
        ("image/png, application/json;q=0.1", "application/json"),
    ],
)
def test_accept_says_the_form(served: Served, accept: str | None, kind: str) -> None:
    headers = {} if accept is None else {"Accept": accept}
    answer = served.http.post(
        "/v1/query", json={"sql": "select 1 as one from flights limit 1"}, headers=headers
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(kind)


def test_long_numbers_are_texts_where_json_is_asked_for_so(served: Served) -> None:
    sql = (
        "select 9007199254740993 as long, 18446744073709551615::ubigint as huge, "
        "1234567890123456789.12::decimal(21,2) as price, "
        "sum(n::hugeint) as sum, 7::integer as short, 0.5::double as half, [9007199254740993, "
        "null] as list, "
        "{'a': 9007199254740993, 'b': 1::tinyint} as struct, null::bigint as none, "
        "0.00000001::decimal(10,8) as small from salaries"
    )
    answer = served.query(sql, accept="application/json; numbers=text")
    assert answer.headers["content-type"] == "application/json;numbers=text"
    assert answer.json() == [
        {
            "long": "9007199254740993",
            "huge": "18446744073709551615",
            "price": "1234567890123456789.12",
            "sum": "45",
            "short": 7,
            "half": 0.5,
            "list": ["9007199254740993", None],
            "struct": {"a": "9007199254740993", "b": 1},
            "none": None,
            "small": "0.00000001",
        }
    ]
    plain = served.query(sql)
    assert plain.headers["content-type"] == "application/json"
    assert plain.json()[0]["long"] == 9007199254740993


def test_no_form_that_is_asked_for_is_406(served: Served) -> None:
    answer = served.query("select 1", accept="image/png")
    assert (answer.status_code, answer.json()["error"]) == (406, "not_acceptable")


def test_versions_moments_and_tags_are_read(served: Served) -> None:
    assert served.rows("select count(*) as c from flights", version=2) == [{"c": 500}]
    assert served.rows("select count(*) as c from flights", version={"flights": 2}) == [{"c": 500}]
    assert served.rows("select count(*) as c from flights") == [{"c": 1000}]
    sql = "select count(*) as c from flights join salaries using (n)"
    assert served.rows(sql) == [{"c": 10}]
    assert served.rows(sql, version={"flights": 2, "salaries": 2}) == [{"c": 5}]
    assert served.query("select 1 from flights", version=99).status_code == 404
    assert served.query("select 1 from flights", tag="nope").status_code == 404
    assert served.query("select 1 from flights", version=1, tag="nope").status_code == 400


def test_a_limit_and_parameters_are_heeded(served: Served) -> None:
    assert len(served.rows("select n from flights", limit=7)) == 7
    assert served.rows("select n from flights where n = ?", parameters=[42]) == [{"n": 42}]


@pytest.mark.parametrize(
    ("sql", "line", "column"),
    [("selec 1", 1, 1), ("select nope from flights", 1, 8), ("select\n  nope2 from flights", 2, 3)],
)
def test_wrong_sql_says_where_and_shows_no_stack(
    served: Served, sql: str, line: int, column: int
) -> None:
    answer = served.query(sql)
    body = answer.json()
    assert (answer.status_code, body["error"]) == (400, "invalid_sql")
    assert body["position"] == {"line": line, "column": column}
    assert "Traceback" not in answer.text
    assert body["request_id"] == answer.headers["x-request-id"]


def test_an_unknown_table_names_the_nearest(served: Served) -> None:
    body = served.query("select * from flihgts").json()
    assert (body["error"], body["nearest"]) == ("unknown_table", ["flights"])
    assert "flights" in body["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"sql": 3}',
        b'{"sql": "select 1", "wish": 1}',
        b'{"sql": "select 1", "version": 0}',
        b'{"sql": "select 1", "limit": -1}',
        b'{"sql": "\\ud800"}',
        b'{"sql": "select 1", "version": 1e300}',
    ],
)
def test_a_body_that_is_no_question_is_400(served: Served, body: bytes) -> None:
    answer = served.http.post(
        "/v1/query", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] in ("invalid", "invalid_sql")


JSON = "application/json"


@pytest.mark.parametrize(
    ("kind", "body", "status", "said"),
    [
        (None, b'{"sql": "select 1"}', 415, "Content-Type: application/json"),
        (
            "application/x-www-form-urlencoded",
            b'{"sql": "select 1"}',
            415,
            "Content-Type: application/json",
        ),
        ("text/plain", b"select 1", 415, "Content-Type: application/json"),
        (JSON, b"", 400, "the body is empty, expected an object"),
        (JSON, b"[1]", 400, "the body is not an object, expected an object"),
        (JSON, b'{"sql": }', 400, "the body is not valid JSON: Expecting value, at character 9"),
        (JSON, b'{"foo": 1}', 400, "the body lacks the key 'sql'"),
        (JSON, b'{"sql": "select 1", "foo": 1}', 400, "the body has the unknown key 'foo'"),
        (
            JSON,
            b'{"sql": 3}',
            400,
            "the body's key 'sql' is invalid: input should be a valid string",
        ),
        (
            JSON,
            b'{"sql": "select 1", "version": {"t": 0}}',
            400,
            "'version' is invalid: input should be greater",
        ),
    ],
)
def test_what_is_wrong_with_a_body_names_the_body_and_the_key(
    served: Served, kind: str | None, body: bytes, status: int, said: str
) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = served.http.post("/v1/query", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["message"]


def test_a_body_that_is_too_large_is_413(served: Served) -> None:
    answer = served.http.post("/v1/query", json={"sql": "x" * 2_000_000})
    assert (answer.status_code, answer.json()["error"]) == (413, "too_large")


def test_two_columns_of_one_name_cannot_be_json(served: Served) -> None:
    assert served.query("select 1 as a, 2 as a").status_code == 400
    assert served.query("select 1 as a, 2 as a", accept="text/csv").status_code == 200


def test_an_error_after_the_first_byte_leaves_the_answer_unfinished(served: Served) -> None:
    """Rows come until one cannot be made: a client that reads by the protocol sees that the rest is
    missing."""
    raw = _raw(served, _FAILS_LATE, "1.1")
    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert len(body) > 1000
    assert not body.endswith(b"0\r\n\r\n")


def test_http_1_0_gets_a_whole_answer_with_its_length_or_an_error(served: Served) -> None:
    raw = _raw(served, "select n from flights order by n", "1.0")
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0]
    assert f"content-length: {len(body)}".encode() in head.lower()
    assert b" 400 " in _raw(served, _FAILS_LATE, "1.0").splitlines()[0]


def test_http_1_0_gets_no_more_than_the_disk_may_hold(tmp_path: Path) -> None:
    asked = settings(make_lake(tmp_path), tmp_path)
    few = replace(asked, query=replace(asked.query, spill_bytes=10_000))
    with serving(few) as small:
        assert b" 200 " in _raw(small, "select n from flights", "1.0").splitlines()[0]
        head, _, body = _raw(small, "select n, s from flights", "1.0").partition(b"\r\n\r\n")
        assert b" 413 " in head.splitlines()[0]
        assert "use HTTP/1.1" in json.loads(body)["message"]
        assert b" 200 " in _raw(small, "select n, s from flights", "1.1").splitlines()[0]


def test_every_answer_carries_careful_headers_and_an_id(served: Served) -> None:
    answer = served.http.get("/v1/tables", headers={"X-Request-Id": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "access-control-allow-origin" not in answer.headers
    odd = served.http.get("/v1/tables", headers={"X-Request-Id": "a b\tc"})
    assert odd.headers["x-request-id"] not in ("", "a b\tc")


_FAILS_LATE = (
    "select case when a.n * 1000 + b.n > 300000 then cast('x' || a.s as bigint) else 1 end as v "
    "from flights a, flights b"
)


def _raw(served: Served, sql: str, version: str) -> bytes:
    """Everything that the gateway sends over one connection."""
    place = urlsplit(served.url)
    body = json.dumps({"sql": sql}).encode()
    head = (
        f"POST /v1/query HTTP/{version}\r\nHost: {place.netloc}\r\nAuthorization: Bearer {READ}\r\n"
        "Accept: text/csv\r\nContent-Type: application/json\r\nContent-Length: "
        f"{len(body)}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=60) as wire:
        wire.sendall(head.encode() + body)
        parts = []
        while part := wire.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)
