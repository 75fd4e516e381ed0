"""One question, from URLs to rows."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore.table as tables
from blockstore.errors import Invalid, NotFound
from blockstore.reader.query import query
from blockstore.world import World


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    world = World.manual()
    table = tables.create(str(tmp_path / "t"), schema=pa.schema([("n", pa.int64())]), world=world)
    for start in (0, 10):
        world.clock.sleep(60)
        table.append(pa.table({"n": range(start, start + 10)}))
    other = tables.create(str(tmp_path / "u"), schema=pa.schema([("n", pa.int64())]), world=world)
    other.append(pa.table({"n": [3, 13]}))
    return tmp_path


def test_a_table_is_named_by_the_last_part_of_its_url(lake: Path) -> None:
    for url in (str(lake / "t"), f"{lake}/t/", f"file://{lake}/t?durable=false"):
        assert query(url, "SELECT count(*) AS n FROM t").read_all().to_pylist() == [{"n": 20}]


def test_several_tables_are_joined(lake: Path) -> None:
    sql = "SELECT n FROM t JOIN u USING (n) ORDER BY n"
    assert query([f"{lake}/t", f"{lake}/u"], sql).read_all()["n"].to_pylist() == [3, 13]


def test_time_travel_by_version_and_by_moment(lake: Path) -> None:
    sql = "SELECT count(*) AS n FROM t"
    counts = [
        query(f"{lake}/t", sql, version=version).read_all()["n"][0].as_py() for version in (1, 2, 3)
    ]
    assert counts == [0, 10, 20]
    first = dt.datetime.fromtimestamp(1_700_000_060, dt.UTC)
    assert query(f"{lake}/t", sql, as_of=first).read_all()["n"][0].as_py() == 10
    with pytest.raises(NotFound, match="no version 9"):
        query(f"{lake}/t", sql, version=9)


def test_a_tag_and_parameters(lake: Path) -> None:
    table = tables.open(f"{lake}/t")
    table.tag("half", version=2)
    sql = "SELECT count(*) AS n FROM t WHERE n >= $1"
    assert query(f"{lake}/t", sql, tag="half", parameters=[5]).read_all()["n"][0].as_py() == 5
    with pytest.raises(NotFound, match="no tag 'whole'"):
        query(f"{lake}/t", sql, tag="whole", parameters=[5])
    with pytest.raises(Invalid, match="tag='half' is for one table"):
        query([f"{lake}/t", f"{lake}/u"], "SELECT 1", tag="half")


def test_what_cannot_be_asked_is_reported(lake: Path) -> None:
    with pytest.raises(NotFound, match=r"no table at .*nope"):
        query(f"{lake}/nope", "SELECT 1")
    with pytest.raises(Invalid, match="found 2 URLs: use as_of"):
        query([f"{lake}/t", f"{lake}/u"], "SELECT 1", version=1)
    with pytest.raises(Invalid, match="two tables are named t"):
        query([f"{lake}/t", f"{lake}/t"], "SELECT 1")


def test_a_reader_that_no_one_reads_leaves_nothing_open(lake: Path) -> None:
    reader = query(f"{lake}/t", "SELECT * FROM t")
    assert reader.schema.names == ["n"]
    del reader
