"""The source's reader, driven as Spark drives it: the start of a stream is requested twice, the end
of a batch once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import Conflict, Invalid
from blockstore.spark.streaming.options import source_options
from blockstore.spark.streaming.source import TableStreamReader, stream_schema
from blockstore.spark.types import spark_schema
from blockstore.world import World

Offset = dict[str, Any]


def logged(offset: Offset) -> Offset:
    """The offset as it comes back from Spark, which keeps it as text."""
    back: Offset = json.loads(json.dumps(offset))
    return back


@dataclass
class Streamed:
    """A table of one row a block, and the options of a stream of it."""

    url: str
    options: dict[str, str]

    def append(self, number: int) -> None:
        bs.open(self.url).append(pa.table({"id": [number]}))

    def reader(self) -> TableStreamReader:
        """The reader of a process that has just started."""
        options = source_options({"path": self.url, **self.options})
        return TableStreamReader(options, stream_schema(options, World.real()))


@pytest.fixture
def at(tmp_path: Path) -> Streamed:
    table = bs.create(f"{tmp_path}/table", schema=pa.schema([("id", pa.int64())]), sort_by=["id"])
    at = Streamed(table.url, {})
    at.append(1)
    at.append(2)
    return at


def latest(reader: TableStreamReader, start: Offset) -> Offset:
    return logged(reader.latestOffset(start, reader.getDefaultReadLimit()))


def rows(reader: TableStreamReader, start: Offset, end: Offset) -> list[int]:
    found: list[int] = []
    for partition in reader.partitions(start, end):
        for batch in reader.read(partition):
            found += batch.column("id").to_pylist()
    return sorted(found)


def rest(reader: TableStreamReader, end: Offset) -> list[int]:
    """The rows of every batch that follows."""
    found: list[int] = []
    while (then := latest(reader, end)) != end:
        found += rows(reader, end, then)
        end = then
    assert rows(reader, end, end) == [], "as Spark asks for the last batch when it starts again"
    return found


@pytest.mark.parametrize("limits", [{}, {"max_blocks": "1"}], ids=["no limit", "max_blocks"])
@pytest.mark.parametrize("restarts", [False, True], ids=["same reader", "new reader"])
@pytest.mark.parametrize(
    ("start", "first"),
    [("snapshot", 1), ("earliest", 1), ("latest", 3), ("3", 2), ("2000-01-01T00:00:00Z", 1)],
)
def test_a_first_batch_has_the_rows_that_it_was_planned_with(
    at: Streamed, tmp_path: Path, start: str, first: int, restarts: bool, limits: dict[str, str]
) -> None:
    at.options = {"start": start, **limits}
    reader = at.reader()
    begins = logged(reader.initialOffset())
    at.append(3)
    end = latest(reader, begins)
    planned = rows(reader, begins, end)
    assert planned

    at.append(4)
    compact_once(bs.open(at.url), Settings(tier_blocks=2, work_dir=tmp_path / "work"))
    if restarts:
        reader = at.reader()
    found = rows(reader, logged(reader.initialOffset()), end)
    assert found == planned
    assert sorted(found + rest(reader, end)) == list(range(first, 5))


@pytest.mark.parametrize("restarts", [False, True], ids=["same reader", "new reader"])
@pytest.mark.parametrize("later", ["latest", "snapshot"])
def test_a_first_batch_without_rows_stays_without_and_nothing_is_passed_over(
    at: Streamed, restarts: bool, later: str
) -> None:
    at.options = {"start": "latest"}
    reader = at.reader()
    end = latest(reader, logged(reader.initialOffset()))
    at.append(3)
    if restarts:
        at.options = {"start": later}
        reader = at.reader()
    assert rows(reader, logged(reader.initialOffset()), end) == []
    assert rest(reader, end) == [3]


def test_a_removal_during_the_first_batch_stops_the_stream_and_changes_no_batch_before_it(
    at: Streamed,
) -> None:
    at.options = {"max_blocks": "1"}
    reader = at.reader()
    end = latest(reader, logged(reader.initialOffset()))
    bs.open(at.url).delete("id = 1")
    reader = at.reader()
    assert rows(reader, logged(reader.initialOffset()), end) == [1]
    then = latest(reader, end)
    assert rows(reader, end, then) == [2]
    with pytest.raises(Conflict, match=r"\(delete\) removes or changes rows"):
        latest(reader, then)


def test_only_the_end_of_the_first_batch_contains_its_beginning(at: Streamed) -> None:
    at.options = {"max_blocks": "1"}
    reader = at.reader()
    begins = logged(reader.initialOffset())
    first = latest(reader, begins)
    assert first["from"] == begins
    second = latest(reader, first)
    assert "from" not in second
    assert latest(reader, second) == second


def test_a_first_batch_of_an_earlier_release_runs_from_sparks_start(at: Streamed) -> None:
    reader = at.reader()
    begins = logged(reader.initialOffset())
    end = latest(reader, begins)
    del end["from"]
    assert rows(at.reader(), begins, end) == [1, 2]


@pytest.mark.parametrize("value", [0.1, 1e300])
def test_a_column_that_is_widened_under_a_stream_never_changes_a_value(
    tmp_path: Path, value: float
) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.float32())])
    table = bs.create(f"{tmp_path}/t?durable=false", schema=schema, sort_by=["id"])
    options = source_options({"path": table.url})
    reader = TableStreamReader(options, stream_schema(options, World.real()))
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    bs.open(table.url).alter(widen={"v": pa.float64()})
    bs.open(table.url).append(pa.table({"id": [1], "v": [value]}))
    then = reader.latestOffset(first, reader.getDefaultReadLimit())
    with pytest.raises(Invalid, match="restart the query"):
        [batch for part in reader.partitions(first, then) for batch in reader.read(part)]


def test_a_column_that_is_replaced_by_another_of_its_name_stops_the_stream(
    tmp_path: Path,
) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.string())])
    at = Streamed(bs.create(f"{tmp_path}/t?durable=false", schema=schema).url, {})
    table = bs.open(at.url)
    table.append(pa.table({"id": [1], "n": ["x"]}))
    reader = at.reader()
    begins = logged(reader.initialOffset())
    end = latest(reader, begins)
    assert rows(reader, begins, end) == [1]
    table.alter(rename={"n": "before"})
    table.alter(add=[pa.field("n", pa.string())])
    latest(reader, end)
    with pytest.raises(Invalid, match=r"column 'n' .*replaced.*restart the query"):
        reader.partitions(begins, end)
    again = at.reader()
    assert rows(again, begins, end) == [1]


@pytest.mark.parametrize("identity", [{"key": "id"}, {"row_ids": True}], ids=["key", "row ids"])
def test_a_table_whose_rows_change_is_not_followed(
    tmp_path: Path, identity: dict[str, object]
) -> None:
    """A stream of its blocks would deliver versions of rows as if they were rows."""
    table = bs.create(f"{tmp_path}/t", schema=pa.schema([("id", pa.int64())]), **identity)
    options = source_options({"path": table.url})
    with pytest.raises(Invalid, match=r"rows of .* change, .*: read its changes"):
        stream_schema(options, World.real())
    with pytest.raises(Invalid, match=r"rows of .* change, .*: read its changes"):
        TableStreamReader(options, spark_schema(table.definition.schema)).initialOffset()
