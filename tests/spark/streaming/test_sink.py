"""The sink's writer, driven as Spark drives it: one writer to plan and write, another to commit."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import LongType, StringType, StructField, StructType

import blockstore as bs
from blockstore.errors import Conflict, Invalid, TableDropped, Unavailable
from blockstore.spark.source import BlockstoreSource
from blockstore.spark.streaming import sink
from blockstore.spark.streaming.sink import BatchResult, BatchWriter
from blockstore.spark.writing.first_write import contains_a_write
from blockstore.spark.writing.options import write_options

SCHEMA = StructType([StructField("id", LongType())])
QUERY = "6c0a0f1e-0000-0000-0000-000000000000"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "sink")


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "_query", lambda: QUERY)


def writer(url: str) -> BatchWriter:
    made = BlockstoreSource({"path": url}).streamWriter(SCHEMA, overwrite=False)
    assert isinstance(made, BatchWriter)
    return made


def results(url: str, *tasks: list[int]) -> list[WriterCommitMessage | None]:
    """The results of the tasks of one batch, each in a process of its own."""
    planned = pickle.dumps(writer(url))
    made: list[WriterCommitMessage | None] = []
    for ids in tasks:
        batches = [pa.RecordBatch.from_pydict({"id": ids})] if ids else []
        made.append(pickle.loads(pickle.dumps(pickle.loads(planned).write(iter(batches)))))
    return made


def ids(url: str) -> list[int]:
    found: list[int] = sorted(bs.open(url).snapshot().scan().to_table()["id"].to_pylist())
    return found


def test_a_batch_is_one_block_and_one_version_however_many_tasks_it_has(url: str) -> None:
    writer(url).commit(results(url, [1, 2], [], [3]), 0)
    assert ids(url) == [1, 2, 3]
    entries = list(bs.open(url).history())
    assert [entry.operation for entry in entries] == ["create", "append"]
    assert entries[1].job == bs.Job(app=f"stream/{QUERY}", batch=0)


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_batch_that_runs_again_counts_once(url: str, lost: str) -> None:
    writer(url).commit(results(url, [1]), 0)
    first = results(url, [2])
    if lost == "after":
        writer(url).commit(first, 1)
    writer(url).commit(results(url, [2]), 1)
    writer(url).abort(first, 1)
    assert ids(url) == [1, 2]
    writer(url).commit(results(url, [3]), 2)
    assert ids(url) == [1, 2, 3]


def test_two_runs_of_one_query_at_once_write_a_batch_once(url: str) -> None:
    ours, theirs = results(url, [1]), results(url, [1])
    writer(url).commit(theirs, 0)
    writer(url).commit(ours, 0)
    assert ids(url) == [1]


def test_a_batch_below_the_last_is_refused_and_not_taken_for_done(url: str) -> None:
    for batch in range(3):
        writer(url).commit(results(url, [batch]), batch)
    with pytest.raises(
        Conflict, match=r"contains batch 2 .*so batch 1 was not written.*checkpoint was set back"
    ):
        writer(url).commit(results(url, [99]), 1)
    assert ids(url) == [0, 1, 2]


def test_batches_without_rows_write_nothing_and_create_nothing(url: str) -> None:
    writer(url).commit(results(url, [], []), 0)
    writer(url).commit([], 1)
    with pytest.raises(bs.NotFound):
        bs.open(url)


def test_a_table_that_is_altered_between_writing_and_committing_takes_the_rows_as_they_were_written(
    url: str,
) -> None:
    writer(url).commit(results(url, [1]), 0)
    written = results(url, [2])
    bs.open(url).alter(add=[pa.field("note", pa.string())])
    writer(url).commit(written, 1)
    rows = bs.open(url).snapshot().scan().to_table().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "note": None}, {"id": 2, "note": None}]


def test_foreign_results_end_the_batch_before_it_is_visible(url: str) -> None:
    with pytest.raises(Unavailable, match=r"1 are not from this writer.*restart the query"):
        writer(url).commit([*results(url, [1]), None], 0)
    with pytest.raises(bs.NotFound):
        bs.open(url)


def test_a_table_without_an_index_where_nothing_happens_once_is_refused(url: str) -> None:
    bs.create(url, schema=pa.schema([("id", pa.int64())]), index=False).append(
        pa.table({"id": [1]})
    )
    with pytest.raises(Invalid, match="has no index, and this needs one"):
        writer(url).commit(results(url, [2]), 0)


def test_abort_deletes_nothing(url: str) -> None:
    made = results(url, [1])
    writer(url).commit(made, 0)
    before = sorted(Path(url).rglob("*"))
    writer(url).abort(made, 0)
    assert sorted(Path(url).rglob("*")) == before


def test_a_task_without_its_query_refuses_to_write(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = writer(url)
    monkeypatch.undo()
    with pytest.raises(Invalid, match="foreach_batch"):
        made.write(iter([pa.RecordBatch.from_pydict({"id": [1]})]))


def test_an_answer_carries_the_plan_under_which_its_task_wrote(url: str) -> None:
    (answer,) = results(url, [1])
    assert isinstance(answer, BatchResult)
    assert answer.plan.ulid in {path.name for path in Path(url).iterdir()}


WIDE = StructType([StructField("id", LongType()), StructField("note", StringType())])


def wide_results(url: str, ids: list[int]) -> list[WriterCommitMessage | None]:
    """A batch of rows with a column more."""
    made = BlockstoreSource({"path": url, "mergeSchema": "true"}).streamWriter(
        WIDE, overwrite=False
    )
    planned = pickle.loads(pickle.dumps(made))
    rows = pa.RecordBatch.from_pydict({"id": ids, "note": ["n"] * len(ids)})
    return [pickle.loads(pickle.dumps(planned.write(iter([rows]))))]


def test_a_batch_with_a_new_column_brings_it_with_merge_schema_alone(url: str) -> None:
    writer(url).commit(results(url, [1]), 0)
    refusing = BlockstoreSource({"path": url}).streamWriter(WIDE, overwrite=False)
    with pytest.raises(Invalid, match="note"):
        pickle.dumps(refusing)
    found = wide_results(url, [2, 3])
    for _ in range(2):  # Spark may run the commit again
        writer(url).commit(found, 1)
    table = bs.open(url)
    assert table.definition.schema.names == ["id", "note"]
    assert ids(url) == [1, 2, 3]
    entries = list(table.history())
    assert [(entry.operation, entry.table is not None) for entry in entries] == [
        ("create", True),
        ("append", False),
        ("append", True),
    ]
    writer(url).commit(wide_results(url, [4]), 2)
    assert ids(url) == [1, 2, 3, 4]
    assert next(reversed(list(bs.open(url).history()))).table is None


def test_a_table_altered_meanwhile_refuses_the_batch(url: str) -> None:
    writer(url).commit(results(url, [1]), 0)
    found = wide_results(url, [2])
    bs.open(url).alter(add=[pa.field("other", pa.int64())])
    with pytest.raises(Conflict, match="definition was changed"):
        writer(url).commit(found, 1)
    assert ids(url) == [1]


def test_merge_schema_is_for_appends() -> None:
    for more in ({"if_exists": "error"}, {"write_mode": "upsert", "key": "id"}):
        with pytest.raises(Invalid, match=r"evolve \(mergeSchema\) is for appends"):
            write_options({"path": "t", "mergeSchema": "true", **more})


def test_a_table_that_was_made_where_one_was_dropped_has_no_write_yet(url: str) -> None:
    writer(url).commit(results(url, [1]), 0)
    schema = bs.open(url).definition.schema
    bs.drop(url)
    state = bs.create(url, schema=schema).log.state
    assert not contains_a_write(state)
    writer(url).commit(results(url, [2]), 0)
    assert contains_a_write(bs.open(url).log.state)
    assert ids(url) == [2]


def test_a_stream_does_not_create_a_table_again_that_was_dropped(url: str) -> None:
    writer(url).commit(results(url, [1]), 0)
    on_their_way = results(url, [2])
    bs.drop(url)
    with pytest.raises(TableDropped):
        writer(url).commit(on_their_way, 1)
    with pytest.raises(TableDropped):
        results(url, [3])
    bs.undrop(url)
    writer(url).commit(on_their_way, 1)
    assert ids(url) == [1, 2]
