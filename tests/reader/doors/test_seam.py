"""What every door calls: the same queries, changes, scopes and ends of jobs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.doors.access import caller_of
from blockstore.reader.doors.changes import Change, changed, is_query, rows_changed
from blockstore.reader.doors.queries import Asked, Stopper, begun, described, parameters_of
from blockstore.reader.errors import BadSql, Canceled
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.tokens import Caller
from blockstore.reader.tables import At
from blockstore.world import World
from tests.reader.http.gateways import FEW, READ, WRITE, make_lake, settings


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("doors")
    made = Gateway(settings(make_lake(folder), folder), World.real())
    made.start()
    yield made
    made.close()


def caller(gateway: Gateway, token: str) -> Caller:
    return caller_of(gateway, f"Bearer {token}")


def test_a_query_is_described_without_a_file_of_its_tables(tmp_path: Path) -> None:
    url = make_lake(tmp_path)
    gateway = Gateway(settings(url, tmp_path), World.real())
    try:
        sql = "SELECT time, n + ? AS more, count(*) AS c FROM flights WHERE s = ? GROUP BY ALL"
        asked = Asked(sql=sql, parameters=[1, "row 1"])
        with begun(gateway, caller(gateway, READ), asked, Stopper()) as answer:
            schema = answer.schema
        for path in tmp_path.rglob("*.parquet"):
            path.unlink()
        found = described(gateway, caller(gateway, READ), asked)
        assert found.schema == schema
        assert found.versions == {"flights": 3}
        nameless = described(gateway, caller(gateway, READ), Asked(sql=sql))
        assert nameless.schema.names == schema.names
    finally:
        gateway.close()


def test_the_parameters_of_a_text_are_named_in_order(gateway: Gateway) -> None:
    assert parameters_of(gateway, "SELECT ?, ? + 1") == ("1", "2")
    assert parameters_of(gateway, "SELECT " + ", ".join("?" * 11))[-2:] == ("10", "11")
    assert parameters_of(gateway, "SELECT $b, $a") == ("a", "b")
    with pytest.raises(BadSql):
        parameters_of(gateway, "SELEC")


def test_a_query_that_is_stopped_before_it_begins_never_runs(gateway: Gateway) -> None:
    stopper = Stopper()
    stopper.cancel()
    with pytest.raises(Canceled):
        begun(gateway, caller(gateway, READ), Asked(sql="SELECT n FROM flights"), stopper)
    assert gateway.engine.running() == 0


def test_what_is_a_query_and_what_is_none(gateway: Gateway) -> None:
    assert is_query(gateway, "SELECT 1")
    assert is_query(gateway, "FROM flights")
    for sql in ("DESCRIBE flights", "SUMMARIZE flights", "PIVOT flights ON s", "VALUES (1)"):
        assert is_query(gateway, sql), sql
    assert is_query(gateway, "UPDATE EXTENSIONS"), "running it says why not"
    assert not is_query(gateway, "DELETE FROM flights")
    assert not is_query(gateway, "CREATE TABLE t (a INT)")
    assert not is_query(gateway, "SELECT 1; DELETE FROM flights")
    assert not is_query(gateway, "BEGIN; INSERT INTO flights SELECT * FROM flights; COMMIT")


def test_a_change_is_one_job_with_its_scope_its_key_and_its_count(gateway: Gateway) -> None:
    folder = gateway.settings.tables.urls[0].partition("?")[0]
    schema = pa.schema([("k", pa.string()), ("v", pa.binary()), ("d", pa.date32())])
    table = bs.create(f"{folder}/blobs?durable=false", schema=schema, key="k")
    gateway.tables.poll_now()
    sql = "INSERT INTO blobs SELECT ?, ?, ? WHERE '?' <> 'a' -- ?"
    change = Change(sql=sql, parameters=["a", b"\x00\xff", dt.date(2026, 1, 31)], key="once")
    for _ in range(2):
        job = changed(gateway, caller(gateway, WRITE), change, wait_s=20)
        assert rows_changed(job) == 1
    rows = [{"k": "a", "v": b"\x00\xff", "d": dt.date(2026, 1, 31)}]
    table.poll()
    assert table.snapshot().scan().to_table().to_pylist() == rows
    with pytest.raises(Problem, match="lacks scope 'write'"):
        changed(gateway, caller(gateway, READ), change, wait_s=20)
    other = Change(sql=sql, parameters=["b", None, None], key="once")
    with pytest.raises(Problem, match="another request"):
        changed(gateway, caller(gateway, WRITE), other, wait_s=20)
    with pytest.raises(bs.NotFound, match="no table blobs"):
        changed(gateway, caller(gateway, FEW), change, wait_s=20)


def test_a_client_that_is_gone_has_its_job_cancelled(gateway: Gateway) -> None:
    folder = gateway.settings.tables.urls[0].partition("?")[0]
    table = bs.create(f"{folder}/slow?durable=false", schema=pa.schema([("n", pa.int64())]))
    gateway.tables.poll_now()
    sql = "INSERT INTO slow SELECT sum(a.n * b.n) FROM flights a, flights b, flights c, flights d"
    with pytest.raises(Problem, match="was cancelled: nothing was changed"):
        changed(gateway, caller(gateway, WRITE), Change(sql=sql), wait_s=60, gone=lambda: True)
    assert table.poll() == 1


def test_a_query_reads_the_version_that_it_names(gateway: Gateway) -> None:
    asked = Asked(sql="SELECT count(*) AS c FROM flights", at=At(version=2))
    with begun(gateway, caller(gateway, READ), asked, Stopper()) as answer:
        assert answer.reader.read_all().to_pydict() == {"c": [500]}
