"""Queries over Flight SQL: what they return, what they read, and how they fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

import blockstore as bs
from blockstore.errors import Invalid
from blockstore.reader.flight.handles import Statement, Ticket
from blockstore.reader.flight.messages import message, packed
from blockstore.reader.flight.streams import BYTES, ROWS, pieces
from tests.reader.flight.doors import Opened, opened
from tests.reader.http.gateways import FEW, make_lake, rows_of, settings


def lake(door: Opened) -> str:
    return door.http.gateway.settings.tables.urls[0].partition("?")[0]


def test_a_query_returns_what_http_returns(door: Opened) -> None:
    sql = "SELECT time, n, s FROM flights WHERE n % 7 = 0 ORDER BY n"
    assert door.client.query(sql).to_pylist() == rows_of(range(0, 1000, 7)).to_pylist()
    body = door.http.query(sql, accept="application/vnd.apache.arrow.stream").content
    assert door.client.query(sql) == pa.ipc.open_stream(body).read_all()


def test_a_prepared_statement_says_its_columns_and_takes_parameters(door: Opened) -> None:
    made = door.client.prepare(
        "SELECT n, s FROM flights WHERE n >= ? AND s <> ? ORDER BY n LIMIT 2"
    )
    columns = pa.ipc.read_schema(pa.py_buffer(made.dataset_schema))
    assert columns == pa.schema([("n", pa.int64()), ("s", pa.string())])
    values = pa.ipc.read_schema(pa.py_buffer(made.parameter_schema))
    assert len(values) == 2
    batch = pa.record_batch({"a": [5], "b": ["row 6"]})
    answer = door.client.put(
        "CommandPreparedStatementQuery",
        batch.schema,
        [batch],
        prepared_statement_handle=made.prepared_statement_handle,
    )
    bound = message("DoPutPreparedStatementResult").FromString(answer).prepared_statement_handle
    for _ in range(2):
        found = door.client.get("CommandPreparedStatementQuery", prepared_statement_handle=bound)
        assert found.to_pydict() == {"n": [5, 7], "s": ["row 5", "row 7"]}
    body = packed("ActionClosePreparedStatementRequest", prepared_statement_handle=bound)
    assert door.client.act("ClosePreparedStatement", body) == []


def test_named_parameters_are_bound_by_name(door: Opened) -> None:
    made = door.client.prepare("SELECT $b - $a AS d")
    batch = pa.record_batch({"$a": [1], "$b": [10]})
    answer = door.client.put(
        "CommandPreparedStatementQuery",
        batch.schema,
        [batch],
        prepared_statement_handle=made.prepared_statement_handle,
    )
    bound = message("DoPutPreparedStatementResult").FromString(answer).prepared_statement_handle
    found = door.client.get("CommandPreparedStatementQuery", prepared_statement_handle=bound)
    assert found.to_pydict() == {"d": [9]}


def test_a_query_whose_parameters_have_no_values_fails_before_its_ticket(door: Opened) -> None:
    handle = Statement(sql="SELECT n FROM flights WHERE n = ?").dump()
    with pytest.raises(pa.ArrowInvalid, match="has parameters \\(1\\) and no values"):
        door.client.info("CommandPreparedStatementQuery", prepared_statement_handle=handle)


def test_several_rows_of_parameters_are_refused(door: Opened) -> None:
    handle = Statement(sql="SELECT ?").dump()
    batch = pa.record_batch({"a": [1, 2]})
    with pytest.raises(pa.ArrowInvalid, match="one row of parameters"):
        door.client.put(
            "CommandPreparedStatementQuery",
            batch.schema,
            [batch],
            prepared_statement_handle=handle,
        )


def test_a_ticket_reads_the_versions_of_its_query_again_and_again(door: Opened) -> None:
    url = f"{lake(door)}/pinned?durable=false"
    table = bs.create(url, schema=pa.schema([("n", pa.int64())]))
    table.append(pa.table({"n": [1]}))
    door.http.gateway.tables.poll_now()
    (end,) = door.client.info("CommandStatementQuery", query="SELECT n FROM pinned").endpoints
    written = table.append(pa.table({"n": [2]}))
    door.http.gateway.tables.catch_up("pinned", written.version or 0)
    for _ in range(2):
        read = door.client.flight.do_get(end.ticket, door.client.options()).read_all()
        assert read.to_pydict() == {"n": [1]}
    assert door.client.query("SELECT count(*) AS c FROM pinned").to_pydict() == {"c": [2]}
    assert end.expiration_time.as_py() is not None


def test_a_ticket_expires() -> None:
    ticket = Ticket(sql="SELECT 1", parameters=None, versions={}, until_ms=1_000)
    assert Ticket.load(ticket.dump(), 1_000) == ticket
    with pytest.raises(Invalid, match="has expired: run the query again"):
        Ticket.load(ticket.dump(), 1_001)


def test_a_ticket_gives_no_permission(door: Opened) -> None:
    sql = "SELECT count(*) FROM salaries"
    (end,) = door.client.info("CommandStatementQuery", query=sql).endpoints
    with door.as_(FEW) as few, pytest.raises(pa.ArrowKeyError, match="no table salaries"):
        few.flight.do_get(end.ticket, few.options()).read_all()


@pytest.mark.parametrize(
    ("headers", "count"),
    [
        ({}, 1000),
        ({"blockstore_version": "2"}, 500),
        ({"blockstore_as_of": "2100-01-01T00:00:00Z"}, 1000),
    ],
)
def test_a_call_names_the_snapshot_that_it_reads(
    door: Opened, headers: dict[str, str], count: int
) -> None:
    found = door.client.query("SELECT count(n) AS c FROM flights", **headers)
    assert found.to_pydict() == {"c": [count]}


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"blockstore_version": "0"}, "version"),
        ({"blockstore_version": "9" * 5000}, "version"),
        ({"blockstore_version": "two"}, "expected the number of a version"),
        ({"blockstore_as_of": "9" * 5000}, "9"),
        ({"blockstore_as_of": "yesterday"}, "yesterday"),
        ({"blockstore_version": "2", "blockstore_tag": "x"}, "only one of"),
        ({"blockstore_tag": "nothing"}, "nothing"),
    ],
)
def test_a_snapshot_that_is_none_is_one_sentence(
    door: Opened, headers: dict[str, str], said: str
) -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowKeyError), match=said):
        door.client.query("SELECT count(n) AS c FROM flights", **headers)


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("SELEC 1", pa.ArrowInvalid, 'syntax error at or near "SELEC"'),
        ("SELECT m FROM flights", pa.ArrowInvalid, '"m" not found'),
        ("SELECT * FROM flight", pa.ArrowKeyError, "did you mean flights?"),
        ("SELECT CAST(s AS INT) FROM flights", pa.ArrowInvalid, "Conversion Error"),
        ("SELECT 1; SELECT 2", pa.ArrowInvalid, "one SELECT"),
        ("SELECT n FROM flights AT (VERSION => 99)", pa.ArrowKeyError, "99"),
    ],
)
def test_an_error_is_the_sentence_of_the_gateway(
    door: Opened, sql: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as failed:
        door.client.query(sql)
    message = str(failed.value)
    assert said in message
    assert "Traceback" not in message
    assert ".py" not in message


def test_a_limit_of_the_gateway_is_one_here_too(tmp_path: Path) -> None:
    asked = settings(make_lake(tmp_path), tmp_path)
    with opened(replace(asked, query=replace(asked.query, max_rows=10, time_limit_s=1))) as door:
        assert door.client.query("SELECT n FROM flights LIMIT 10").num_rows == 10
        with pytest.raises(pa.ArrowInvalid, match="exceeds the limit of 10 rows"):
            door.client.query("SELECT n FROM flights")
        slow = "SELECT sum(a.n * b.n) FROM flights a, flights b, flights c, flights d"
        with pytest.raises(flight.FlightTimedOutError, match="time limit of 1 s"):
            door.client.query(slow)
        assert door.idle()


def test_what_is_no_query_and_no_command_is_refused(door: Opened) -> None:
    path = flight.FlightDescriptor.for_path("flights")
    with pytest.raises(pa.ArrowInvalid, match="expected a command of Flight SQL"):
        door.client.flight.get_flight_info(path, door.client.options())
    with pytest.raises(pa.ArrowNotImplementedError, match="no action 'BeginTransaction'"):
        door.client.act("BeginTransaction", b"")
    with pytest.raises(pa.ArrowNotImplementedError, match="no transactions over several calls"):
        door.client.info("CommandStatementQuery", query="SELECT 1", transaction_id=b"1")
    with pytest.raises(pa.ArrowNotImplementedError, match="list the tables"):
        list(door.client.flight.list_flights(options=door.client.options()))


def test_no_batch_is_larger_than_a_client_takes() -> None:
    wide = pa.record_batch({"s": ["x" * 10_000] * 5_000})
    tall = pa.record_batch({"n": pa.array(range(200_000))})
    uneven = pa.record_batch({"s": ["x"] * 1_000 + ["x" * (1 << 20)] * 20})
    one = pa.record_batch({"s": ["x" * (20 << 20)]})
    for batch in (wide, tall, uneven, one, wide.slice(4_000), tall.slice(0, 0)):
        parts = list(pieces(batch))
        assert pa.Table.from_batches(parts, batch.schema) == pa.Table.from_batches([batch])
        assert all(part.num_rows <= ROWS for part in parts)
        assert all(part.nbytes <= 2 * BYTES or part.num_rows == 1 for part in parts)
