"""The client against a gateway that is served, and against one that misbehaves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import blockstore as bs
from blockstore.client import Client, dbapi
from blockstore.errors import AccessDenied, Invalid, NotFound, Unavailable
from blockstore.service.serving import Server
from blockstore.world import World
from tests.reader.http.gateways import READ, WRITE, Served, csv_of, make_lake, serving, settings
from tests.support.asking import HERE


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("client")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.fixture
def client(gateway: Served) -> Iterator[Client]:
    with bs.Client(gateway.url, WRITE) as one:
        yield one


def test_rows_come_in_the_shape_that_is_asked_for(client: Client) -> None:
    rows = client.sql("select n, s from flights where n < ? order by n", [3])
    assert rows.to_arrow()["n"].to_pylist() == [0, 1, 2]
    assert rows.versions == {"flights": 3}
    assert list(rows.to_pandas()["s"]) == ["row 0", "row 1", "row 2"]
    assert rows.to_polars()["n"].to_list() == [0, 1, 2]
    assert rows.to_pylist()[0] == {"n": 0, "s": "row 0"}
    with client.sql("select n from flights").stream() as batches:
        assert sum(batch.num_rows for batch in batches) == 1000
    assert client.sql("select count(*) as c from flights", version=2).to_pylist() == [{"c": 500}]


def test_tables_and_their_history_are_reported(client: Client) -> None:
    assert [table["name"] for table in client.tables()] == ["flights", "salaries"]
    assert [column["name"] for column in client.table("flights")["columns"]] == ["time", "n", "s"]
    assert [entry["operation"] for entry in client.history("flights")] == [
        "append",
        "append",
        "create",
    ]


def test_an_upload_goes_up_with_progress_and_a_download_comes_down_whole(
    gateway: Served, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "new.csv"
    file.write_text(csv_of(range(2000, 2500)))
    sent: list[int] = []
    job = client.upload("salaries", file, message="from a test", progress=sent.append).wait()
    assert job.told["written"]["rows"] == 500
    assert sent[-1] == file.stat().st_size
    gateway.gateway.tables.poll_now("salaries")
    seen: list[object] = []
    client.download("salaries", tmp_path / "back.parquet", progress=seen.append)
    assert pq.read_table(tmp_path / "back.parquet").num_rows == 510
    assert seen
    assert list(tmp_path.glob("*.part")) == list(tmp_path.glob(".*.part")) == []
    done = client.query_job("select max(n) as m from salaries", form="csv").wait()
    done.save(tmp_path / "m.csv")
    assert (tmp_path / "m.csv").read_text() == '"m"\n2499\n'
    assert done.id in [one.id for one in client.jobs()]
    assert client.job(done.id).state == "done"


def test_jobs_are_listed_beyond_one_page(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [client.query_job(f"select {number}").id for number in range(5)]
    monkeypatch.setattr("blockstore.client.client._PAGE", 2)
    every = [one.id for one in client.jobs(limit=None)]
    assert set(made) <= set(every)
    assert len(every) == len(set(every)) >= 5
    assert [one.id for one in client.jobs(limit=3)] == every[:3]
    assert [one.id for one in client.jobs()] == every[:100]


def test_an_upload_under_one_key_happens_once(client: Client) -> None:
    data = csv_of(range(5)).encode()
    first = client.upload("salaries", data, form="csv", key="april")
    again = client.upload("salaries", io.BytesIO(data), form="csv", key="april")
    assert first.id == again.id
    assert first.wait().told["written"] == again.wait().told["written"]


def test_a_bad_row_is_reported_by_wait_and_in_the_job(client: Client) -> None:
    job = client.upload("salaries", b"time,n,s\n2026-01-01T00:00:00Z,x,y\n", form="csv")
    with pytest.raises(Invalid, match="line 2"):
        job.wait()
    assert job.told["error"]["column"] == "n"


def test_errors_are_those_of_the_tree(gateway: Served, client: Client, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="line 1, column 8"):
        client.sql("select nope from flights").to_arrow()
    with pytest.raises(NotFound, match="flights"):
        client.sql("select * from flihgts").to_arrow()
    with bs.Client(gateway.url, "wrong") as stranger, pytest.raises(AccessDenied):
        stranger.tables()
    with bs.Client(gateway.url, READ) as reader, pytest.raises(AccessDenied, match="write"):
        reader.upload("salaries", b"x", form="csv")
    with pytest.raises(Invalid, match="form="):
        client.upload("salaries", tmp_path / "new.xlsx")
    with pytest.raises(Invalid, match="https://"):
        bs.Client("gateway:8080")
    with (
        bs.Client("http://127.0.0.1:9", timeout_s=5) as anonymous,
        pytest.raises(Unavailable, match="does not respond"),
    ):
        anonymous.tables()


def test_the_dbapi_door_reads(gateway: Served) -> None:
    with dbapi.connect(gateway.url, READ) as connection:
        with connection.cursor() as cursor:
            cursor.execute("select n, s from flights where n >= ? order by n", [998])
            assert [one[0] for one in cursor.description or ()] == ["n", "s"]
            assert cursor.fetchone() == (998, "row 998")
            assert cursor.fetchall() == [(999, "row 999")]
            assert cursor.fetchone() is None
            with pytest.raises(dbapi.ProgrammingError):
                cursor.execute("selec")
            with pytest.raises(dbapi.InterfaceError):
                cursor.fetchone()
            assert list(cursor.execute("select 1")) == [(1,)]
        connection.commit()
        connection.rollback()
        with pytest.raises(dbapi.InterfaceError):
            cursor.execute("select 1")
    for closed in (connection.cursor, connection.commit, connection.rollback):
        with pytest.raises(dbapi.InterfaceError):
            closed()
    names = ("Warning", "Error", "InterfaceError", "DatabaseError", "DataError", "OperationalError")
    assert all(hasattr(dbapi, name) for name in names)
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "qmark")


class Rude:
    """A gateway that answers 503 at first, and keeps what it was sent."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.keys: list[str] = []
        self.bodies: list[bytes] = []

    async def jobs(self, request: Request) -> Response:
        self.keys.append(request.headers["idempotency-key"])
        self.bodies.append(await request.body())
        if len(self.keys) <= self.refusals:
            return JSONResponse({"message": "later"}, status_code=503, headers={"Retry-After": "7"})
        return JSONResponse(
            {"id": "01JD0000000000000000000000", "state": "queued"}, status_code=202
        )


@contextmanager
def rude(refusals: int) -> Iterator[tuple[Rude, str]]:
    one = Rude(refusals)
    with Server(Starlette(routes=[Route("/v1/jobs", one.jobs, methods=["POST"])]), HERE) as server:
        yield one, server.url


def test_what_is_sent_again_is_sent_under_its_key_after_the_time_that_was_named() -> None:
    world = World.manual()
    begun = world.clock.monotonic_s()
    with rude(2) as (gateway, url), Client(url, world=world) as client:
        assert client.upload("t", b"a\n1\n", form="csv").state == "queued"
    assert len(set(gateway.keys)) == 1
    assert gateway.bodies == [b"a\n1\n"] * 3
    assert world.clock.monotonic_s() - begun >= 7


def test_it_gives_up_after_a_few_tries() -> None:
    with (
        rude(100) as (gateway, url),
        Client(url, world=World.manual()) as client,
        pytest.raises(Unavailable, match="later"),
    ):
        client.upload("t", b"a\n1\n", form="csv")
    assert len(gateway.keys) == 4


def test_half_an_answer_is_never_taken_for_whole(gateway: Served) -> None:
    sql = (
        "select case when a.n * 1000 + b.n > 300000 then cast('x' || a.s as bigint) else 1 end as "
        "v from flights a, flights b"
    )
    with bs.Client(gateway.url, READ) as client, pytest.raises(Unavailable, match="broke off"):
        client.sql(sql).to_arrow()
