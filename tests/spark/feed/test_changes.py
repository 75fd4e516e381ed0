"""Changes on Spark: a DataFrame of them, and a stream that keeps a second table equal."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.datasource import ReadAllAvailable

import blockstore as bs
from blockstore.errors import Conflict, Invalid, NotFound, TableDropped, VersionExpired
from blockstore.index import gc, idle
from blockstore.spark.feed import reader
from blockstore.spark.source import BlockstoreSource
from blockstore.world import World
from tests.spark.streaming.test_streams import finish

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
ALL = ReadAllAvailable()


@pytest.fixture
def table(tmp_path: Path) -> bs.Table:
    made = bs.create(f"{tmp_path}/source?durable=false", schema=SCHEMA, key="id")
    put(made, {1: 1, 2: 2})
    put(made, {1: 10})
    made.delete_rows([2])
    return made


def put(table: bs.Table, rows: dict[int, int]) -> None:
    table.upsert(pa.table({"id": list(rows), "n": list(rows.values())}, SCHEMA))


def source(table: bs.Table, **options: Any) -> BlockstoreSource:
    given = {name: str(value) for name, value in options.items()}
    return BlockstoreSource({"path": table.url, "changes": "true", **given})


def told(made: Any, runs: Any) -> list[tuple[Any, ...]]:
    """What tasks read, each in a process of its own."""
    found = []
    for run in runs:
        task = pickle.loads(pickle.dumps(made))
        for batch in task.read(pickle.loads(pickle.dumps(run))):
            found += [
                (row["_version"], row["_change"], row["id"], row["n"]) for row in batch.to_pylist()
            ]
    return found


def test_a_data_frame_ends_with_the_version_that_it_was_made_at(table: bs.Table) -> None:
    one = source(table, after=1, before_images=True)
    columns = one.schema()
    assert columns.fieldNames() == ["_change", "_version", "_time", "_reason", "id", "n"]
    put(table, {3: 3})
    made = pickle.loads(pickle.dumps(one)).reader(columns)
    assert told(made, made.partitions()) == [
        (2, "insert", 1, 1),
        (2, "insert", 2, 2),
        (3, "update_before", 1, 1),
        (3, "update", 1, 10),
        (4, "delete", 2, 2),
    ]


def test_runs_of_versions_are_tasks(table: bs.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "TASK_ROWS", 2)
    one = source(table, after=0)
    made = one.reader(one.schema())
    runs = made.partitions()
    assert [(run.after, run.until) for run in runs] == [(0, 2), (2, 4)]
    assert [version for version, *_ in told(made, runs)] == [2, 2, 3, 4]


def test_after_0_begins_with_the_table_that_was_created_where_another_was_dropped(
    table: bs.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "TASK_ROWS", 1)
    bs.drop(table.url)
    made = bs.create(table.url, schema=SCHEMA.append(pa.field("s", pa.string())), key="id")
    made.upsert(pa.table({"id": [7], "n": [8], "s": ["a"]}))
    one = source(made, after=0)
    batch = one.reader(one.schema())
    assert told(batch, batch.partitions()) == [(7, "insert", 7, 8)]
    stream = one.streamReader(one.schema())
    start = stream.initialOffset()
    planned = stream.partitions(start, stream.latestOffset(start, ALL))
    assert told(stream, planned) == [(7, "insert", 7, 8)]


def test_a_stream_delivers_each_version_once_wherever_it_is_started_again(table: bs.Table) -> None:
    seen: Counter[tuple[Any, ...]] = Counter()
    one = source(table, after=0)
    columns = one.schema()
    offset = one.streamReader(columns).initialOffset()
    for round_ in range(4):
        stream = source(table, after=0).streamReader(columns)
        stream.initialOffset()
        end = stream.latestOffset(offset, ALL)
        planned = told(stream, stream.partitions(offset, end))
        again = source(table, after=0).streamReader(columns)
        assert told(again, again.partitions(offset, end)) == planned, "a batch that runs again"
        seen.update(planned)
        assert stream.latestOffset(end, ALL) == end
        offset = end
        put(table, {1: round_})
    rows = table.changes(0, offset["version"]).to_table().to_pylist()
    assert seen == Counter((row["_version"], row["_change"], row["id"], row["n"]) for row in rows)


def test_a_stream_that_looks_while_the_table_is_dropped_goes_on_once_it_was_brought_back(
    table: bs.Table,
) -> None:
    columns = source(table, after=0).schema()
    stream = source(table, after=0).streamReader(columns)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    bs.drop(table.url)
    for look in (
        lambda: stream.latestOffset(end, ALL),
        lambda: stream.partitions(end, end),
        stream.prepareForTriggerAvailableNow,
    ):
        with pytest.raises(TableDropped, match="by version 5"):
            look()
    bs.undrop(table.url)
    put(bs.open(table.url), {7: 7})
    # A release before this one could end a batch with the drop.
    drop = {"version": 5, "commit": bs.open(table.url).log.state.commits.at(5)}
    for start in (end, drop):
        for one in (stream, source(table, after=0).streamReader(columns)):
            planned = one.partitions(start, one.latestOffset(start, ALL))
            assert told(one, planned) == [(7, "insert", 7, 7)]


def test_a_stream_starts_again_after_the_version_that_it_once_began_with_was_collected(
    table: bs.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = source(table, after=0).schema()
    stream = source(table, after=0).streamReader(columns)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    monkeypatch.setattr(gc, "wanted_boundary", lambda *_, **__: 3)
    gc.collect(bs.open(table.url).log, World.real())
    assert bs.open(table.url).log.boundary.read() == 3
    put(bs.open(table.url), {7: 7})
    one = source(table, after=0)
    assert one.schema() == columns
    again = one.streamReader(columns)
    assert told(again, again.partitions(end, again.latestOffset(end, ALL))) == [(5, "insert", 7, 7)]
    with pytest.raises(VersionExpired):
        again.initialOffset()
    with pytest.raises(VersionExpired):
        one.reader(columns).partitions()


def test_available_now_ends_with_the_version_at_its_start(table: bs.Table) -> None:
    stream = source(table, after=0).streamReader(source(table, after=0).schema())
    stream.prepareForTriggerAvailableNow()
    put(table, {9: 9})
    assert stream.latestOffset(stream.initialOffset(), ALL)["version"] == 4


def test_another_table_under_the_same_url_stops_the_stream(table: bs.Table, tmp_path: Path) -> None:
    columns = source(table, after=0).schema()
    stream = source(table, after=0).streamReader(columns)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    (tmp_path / "source").rename(tmp_path / "old")
    other = bs.create(table.url, schema=SCHEMA, key="id")
    with pytest.raises(Conflict, match="new checkpoint location"):
        source(other, after=0).streamReader(columns).latestOffset(end, ALL)
    for one in range(5):
        put(other, {one: one})
    with pytest.raises(Conflict, match="new checkpoint location"):
        source(other, after=0).streamReader(columns).partitions(end, {**end, "version": 5})


def test_a_stream_that_waits_notices_another_table_under_its_url(
    table: bs.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "LOOK_S", 0.0)
    stream = source(table, after=0).streamReader(source(table, after=0).schema())
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert stream.latestOffset(end, ALL) == end
    (tmp_path / "source").rename(tmp_path / "old")
    put(bs.create(table.url, schema=SCHEMA, key="id"), {1: 1})
    with pytest.raises(Conflict, match="new checkpoint location"):
        stream.latestOffset(end, ALL)


@pytest.mark.parametrize("streams", [False, True])
def test_a_column_that_is_replaced_by_another_of_its_name_is_an_error(
    table: bs.Table, streams: bool
) -> None:
    one = source(table, after=0)
    columns = one.schema()
    made = one.streamReader(columns) if streams else one.reader(columns)

    def planned() -> Any:
        if not streams:
            return made.partitions()
        begin = made.initialOffset()
        return made.partitions(begin, made.latestOffset(begin, ALL))

    assert len(told(made, planned())) == 4
    table.alter(add=[pa.field("more", pa.int64())])
    assert len(told(made, planned())) == 4
    table.alter(rename={"n": "before"})
    table.alter(add=[pa.field("n", pa.int64())])
    with pytest.raises(Invalid, match=r"column 'n' .*replaced.* restart the query"):
        told(made, planned())
    again = source(table, after=0)
    assert len(told(again.reader(again.schema()), again.reader(columns).partitions())) == 4


def test_a_row_with_a_label_that_came_later_is_an_error_and_no_other_row(table: bs.Table) -> None:
    one = source(table, after=0)
    columns = one.schema()
    stream = one.streamReader(columns)
    begin = stream.initialOffset()
    end = stream.latestOffset(begin, ALL)
    before = told(stream, stream.partitions(begin, end))
    table.upsert(pa.table({"id": [1], "n": [5]}, SCHEMA), labels={"site": "x"})
    assert told(stream, stream.partitions(begin, end)) == before
    planned = stream.partitions(end, stream.latestOffset(end, ALL))
    with pytest.raises(Invalid, match=r"label 'site'.* restart the query"):
        told(stream, planned)
    one = source(table, after=0)
    assert one.schema().fieldNames()[-1] == "site"
    assert told(one.streamReader(one.schema()), planned) == [(5, "insert", 1, 5)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "name it with option"),
        ({"after": "x"}, "after='x'"),
        ({"after": 0, "version": 3}, "version"),
        ({"after": 0, "changes": "maybe"}, "changes='maybe'"),
    ],
)
def test_options_that_cannot_be_are_refused(
    table: bs.Table, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(Invalid, match=says):
        source(table, **options).schema()


def test_versions_that_never_were_and_ends_of_streams_are_refused(table: bs.Table) -> None:
    with pytest.raises(NotFound):
        source(table, after=9).schema()
    with pytest.raises(Invalid, match="availableNow"):
        source(table, after=0, until=3).streamReader(source(table, after=0).schema())


def test_a_stream_of_changes_keeps_a_second_table_equal(
    spark_session: SparkSession, table: bs.Table, tmp_path: Path
) -> None:
    wide = pa.schema([*SCHEMA, ("at", pa.int64())])
    copy = bs.create(f"{tmp_path}/copy?durable=false", schema=wide, key="id")
    for round_ in range(2):
        changes = (
            spark_session.readStream.format("blockstore")
            .option("changes", "true")
            .option("after", 0)
            .load(table.url)
        )
        rows = changes.select(
            "id",
            "n",
            sf.col("_version").alias("at"),
            (sf.col("_change") == "delete").alias("_deleted"),
        )
        writer = rows.repartition("id").writeStream.format("blockstore")
        writer = writer.option("write_mode", "upsert").option("sequence_by", "at")
        finish(writer, tmp_path, "copy", copy.url)
        assert rows_of(copy) == rows_of(table)
        put(table, {2: 20 + round_, 4: 4})
        table.delete_rows([1])
        assert rows_of(copy) != rows_of(table), f"round {round_}"


def rows_of(table: bs.Table) -> dict[int, int]:
    table.poll()
    found = table.snapshot().scan(columns=["id", "n"]).to_table().to_pylist()
    return {row["id"]: row["n"] for row in found}
