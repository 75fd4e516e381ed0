"""The sink's writer, driven as Spark drives it: one writer to plan and write, another to commit."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import LongType, StructField, StructType

import blockstore as bs
from blockstore.errors import Conflict, Invalid, Unavailable
from blockstore.spark.source import BlockstoreSource
from blockstore.spark.streaming import sink
from blockstore.spark.streaming.sink import BatchResult, BatchWriter

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


def answers(url: str, *tasks: list[int]) -> list[WriterCommitMessage | None]:
    """What the tasks of one batch answer, each in a process of its own."""
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
    writer(url).commit(answers(url, [1, 2], [], [3]), 0)
    assert ids(url) == [1, 2, 3]
    entries = list(bs.open(url).history())
    assert [entry.operation for entry in entries] == ["create", "append"]
    assert entries[1].job == bs.Job(app=f"stream/{QUERY}", batch=0)


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_batch_that_runs_again_counts_once(url: str, lost: str) -> None:
    writer(url).commit(answers(url, [1]), 0)
    first = answers(url, [2])
    if lost == "after":
        writer(url).commit(first, 1)
    writer(url).commit(answers(url, [2]), 1)
    writer(url).abort(first, 1)
    assert ids(url) == [1, 2]
    writer(url).commit(answers(url, [3]), 2)
    assert ids(url) == [1, 2, 3]


def test_two_runs_of_one_query_at_once_write_a_batch_once(url: str) -> None:
    ours, theirs = answers(url, [1]), answers(url, [1])
    writer(url).commit(theirs, 0)
    writer(url).commit(ours, 0)
    assert ids(url) == [1]


def test_a_batch_below_the_last_is_refused_and_not_taken_for_done(url: str) -> None:
    for batch in range(3):
        writer(url).commit(answers(url, [batch]), batch)
    with pytest.raises(
        Conflict, match=r"contains batch 2 .*so batch 1 was not written.*checkpoint was set back"
    ):
        writer(url).commit(answers(url, [99]), 1)
    assert ids(url) == [0, 1, 2]


def test_batches_without_rows_write_nothing_and_create_nothing(url: str) -> None:
    writer(url).commit(answers(url, [], []), 0)
    writer(url).commit([], 1)
    with pytest.raises(bs.NotFound):
        bs.open(url)


def test_a_table_that_is_altered_between_writing_and_committing_takes_the_rows_as_they_were_written(
    url: str,
) -> None:
    writer(url).commit(answers(url, [1]), 0)
    written = answers(url, [2])
    bs.open(url).alter(add=[pa.field("note", pa.string())])
    writer(url).commit(written, 1)
    rows = bs.open(url).snapshot().scan().to_table().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "note": None}, {"id": 2, "note": None}]


def test_answers_that_are_not_ours_end_the_batch_before_it_is_visible(url: str) -> None:
    with pytest.raises(Unavailable, match=r"1 are not from this writer.*restart the query"):
        writer(url).commit([*answers(url, [1]), None], 0)
    with pytest.raises(bs.NotFound):
        bs.open(url)


def test_a_table_without_an_index_where_nothing_happens_once_is_refused(url: str) -> None:
    bs.create(url, schema=pa.schema([("id", pa.int64())]), index=False).append(
        pa.table({"id": [1]})
    )
    with pytest.raises(Invalid, match="has no index, and this needs one"):
        writer(url).commit(answers(url, [2]), 0)


def test_abort_deletes_nothing(url: str) -> None:
    made = answers(url, [1])
    writer(url).commit(made, 0)
    before = sorted(Path(url).rglob("*"))
    writer(url).abort(made, 0)
    assert sorted(Path(url).rglob("*")) == before


def test_a_task_that_is_not_told_its_query_refuses_to_write(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = writer(url)
    monkeypatch.undo()
    with pytest.raises(Invalid, match="foreach_batch"):
        made.write(iter([pa.RecordBatch.from_pydict({"id": [1]})]))


def test_an_answer_carries_the_plan_under_which_its_task_wrote(url: str) -> None:
    (answer,) = answers(url, [1])
    assert isinstance(answer, BatchResult)
    assert answer.plan.ulid in {path.name for path in Path(url).iterdir()}
