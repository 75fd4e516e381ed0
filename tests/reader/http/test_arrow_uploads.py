"""Uploads of Arrow streams: rows of any library, all of them once, or none."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator

import pandas
import polars
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.client.wire import BadRow
from blockstore.errors import Invalid, RowConflict
from tests.reader.http.gateways import (
    WRITE,
    Served,
    make_lake,
    rows_of,
    serving,
    settings,
    until_ended,
)

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
ITEMS = pa.schema([("sku", pa.string()), ("n", pa.int64())])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("arrow")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.fixture
def client(served: Served) -> Iterator[bs.Client]:
    with bs.Client(served.url, WRITE) as one:
        yield one


def stream_of(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return sink.getvalue()


def test_rows_of_any_library_are_uploaded_as_they_are(client: bs.Client) -> None:
    client.create_table("forms", "time:timestamp[us, UTC],n:int64,s:string")
    rows = rows_of(range(4))
    coded = rows.set_column(2, "s", rows["s"].dictionary_encode())
    sent: list[int] = []
    client.upload("forms", rows, message="a table", progress=sent.append).wait()
    client.upload("forms", rows.to_pandas()).wait()
    client.upload("forms", polars.from_arrow(rows)).wait()
    client.upload("forms", coded.to_reader(max_chunksize=3)).wait()
    client.upload("forms", rows.schema.empty_table()).wait()
    client.upload("forms", stream_of(rows), form="arrow").wait()
    found = client.sql("select * from forms order by n").to_arrow()
    assert found.equals(pa.concat_tables([rows.slice(n, 1) for n in range(4) for _ in range(5)]))
    assert sent
    assert client.history("forms")[-2]["message"] == "a table"


def test_many_rows_are_sent_in_pieces(client: bs.Client) -> None:
    client.create_table("pieces", "n:int32")
    sent: list[int] = []
    rows = pa.table({"n": pa.array(range(200_000), pa.int32())})
    job = client.upload("pieces", rows, progress=sent.append).wait()
    assert job.told["written"]["rows"] == 200_000
    assert len(sent) == 4
    assert sent == sorted(sent)
    assert client.sql("select count(distinct n) as n from pieces").to_pylist() == [{"n": 200_000}]


def test_a_key_is_refused_or_replaced(client: bs.Client) -> None:
    client.create_table("keyed", "sku:string,n:int64", key="sku")
    client.upload("keyed", pa.table({"sku": ["a", "b"], "n": [1, 2]}, ITEMS)).wait()
    more = pandas.DataFrame({"sku": ["b", "c"], "n": [20, 30]})
    for mode in ("append", "insert"):
        with pytest.raises(RowConflict, match="b"):
            client.upload("keyed", more, mode=mode).wait()
    client.upload("keyed", more, mode="upsert").wait()
    found = client.sql("select * from keyed order by sku").to_pylist()
    assert [row["n"] for row in found] == [1, 20, 30]


def test_the_same_key_writes_once_and_wrong_rows_write_nothing(client: bs.Client) -> None:
    client.create_table("once", [{"name": "n", "type": "int64", "check": "n < 100"}])
    rows = pa.table({"n": [1]})
    first = client.upload("once", rows, key="monday").wait()
    assert client.upload("once", rows, key="monday").wait().id == first.id
    with pytest.raises(BadRow, match="n < 100"):
        client.upload("once", pa.table({"n": [2, 100]})).wait()
    with pytest.raises(Invalid, match="'nix'"):
        client.upload("once", pa.table({"nix": [2]})).wait()
    with pytest.raises(Invalid, match="csv, tsv or arrow"):
        client.upload("once", rows, form="json")
    assert client.sql("select n from once").to_pylist() == [{"n": 1}]


def test_a_damaged_stream_fails_its_job_and_the_gateway_goes_on(
    served: Served, client: bs.Client
) -> None:
    client.create_table("damaged", "time:timestamp[us, UTC],n:int64,s:string")
    whole = stream_of(rows_of(range(50)))
    dice = random.Random(20_261_127)
    bodies = [b"", b"x" * 100, whole[: len(whole) // 2], b"ARROW1\0\0" + whole]
    for _ in range(40):
        body = bytearray(whole)
        for _ in range(dice.randrange(1, 5)):
            body[dice.randrange(len(body))] = dice.randrange(256)
        bodies.append(bytes(body))
    states = []
    for body in bodies:
        answer = served.http.post("/v1/jobs?table=damaged", content=body, headers=ARROW)
        assert answer.status_code == 202, answer.text
        job = until_ended(served.http, answer.json()["id"])
        states.append(job["state"])
        if job["state"] == "failed":
            assert job["error"]["error"] in ("bad_file", "bad_row"), job
            assert "nothing was written" in job["error"]["message"]
    assert states[:4] == ["failed"] * 4
    assert states.count("failed") > 10
    found = client.sql("select count(*) as n from damaged").to_pylist()
    assert found == [{"n": 50 * states.count("done")}]
