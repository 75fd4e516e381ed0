"""The sink with ``write_mode=upsert``: each micro-batch is one block of changes, exactly once."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.errors import Conflict, Invalid, RowConflict, Unavailable
from blockstore.index.log import Log
from blockstore.spark.source import BlockstoreSource
from blockstore.spark.streaming import sink
from blockstore.spark.streaming.sink import BatchWriter
from blockstore.spark.types import spark_schema
from tests.spark.streaming.test_streams import crash_before_the_log, finish

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
QUERY = "6c0a0f1e-0000-0000-0000-000000000000"
Rows = dict[int, int]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table with a key, and the query of tasks that Spark does not run."""
    monkeypatch.setattr(sink, "_query", lambda: QUERY)
    return bs.create(f"{tmp_path}/sink", schema=SCHEMA, key="id").url


def writer(url: str, **options: str) -> BatchWriter:
    source = BlockstoreSource({"path": url, "write_mode": "upsert", **options})
    made = source.streamWriter(spark_schema(SCHEMA), overwrite=False)
    assert isinstance(made, BatchWriter)
    return made


def results(url: str, *tasks: Rows, **options: str) -> list[WriterCommitMessage | None]:
    """The results of the tasks of one batch, each in a process of its own."""
    planned = pickle.dumps(writer(url, **options))
    made: list[WriterCommitMessage | None] = []
    for rows in tasks:
        batch = pa.RecordBatch.from_pydict({"id": list(rows), "n": list(rows.values())}, SCHEMA)
        made.append(pickle.loads(pickle.dumps(pickle.loads(planned).write(iter([batch])))))
    return made


def commit(url: str, batch: int, *tasks: Rows, **options: str) -> None:
    writer(url, **options).commit(results(url, *tasks, **options), batch)


def seen(url: str) -> Rows:
    found = bs.open(url).snapshot().scan(columns=["id", "n"]).to_table().to_pylist()
    rows = {row["id"]: row["n"] for row in found}
    assert len(rows) == len(found), "each key once"
    return rows


def batches(url: str) -> list[int]:
    return [one.job.batch for one in bs.open(url).history() if one.job is not None]


def test_each_batch_is_one_version_in_which_later_rows_count(url: str) -> None:
    commit(url, 0, {1: 1, 2: 2}, {}, {3: 3})
    commit(url, 1, {1: 10}, {4: 40})
    assert (seen(url), batches(url)) == ({1: 10, 2: 2, 3: 3, 4: 40}, [0, 1])
    assert [len(entry.add) for entry in bs.open(url).history()][1:] == [1, 1]


def test_a_batch_that_was_killed_before_its_entry_counts_once_when_it_runs_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(url, 0, {1: 1})
    results(url, {1: 5, 2: 5})  # the tasks wrote, and then the driver was killed
    with monkeypatch.context() as patch:
        patch.setattr(Log, "commit", lambda *_, **__: (_ for _ in ()).throw(Unavailable("down")))
        with pytest.raises(Unavailable):
            commit(url, 1, {1: 5, 2: 5})  # meta.json was written, and no entry
    assert seen(url) == {1: 1}
    commit(url, 1, {1: 5, 2: 5})
    assert (seen(url), batches(url)) == ({1: 5, 2: 5}, [0, 1])


def test_a_batch_that_was_committed_before_a_later_change_does_not_undo_it_when_it_runs_again(
    url: str,
) -> None:
    """An upsert that ran twice would put back what others wrote since."""
    commit(url, 0, {1: 1})
    first = results(url, {1: 2})
    writer(url).commit(first, 1)
    bs.open(url).upsert(pa.table({"id": [1], "n": [99]}))
    commit(url, 1, {1: 2})
    writer(url).commit(first, 1)
    assert (seen(url), batches(url)) == ({1: 99}, [0, 1])
    commit(url, 2, {1: 3})
    with pytest.raises(Conflict, match="batch 1 was not written"):
        commit(url, 1, {1: 2})
    assert seen(url) == {1: 3}


def test_two_runs_of_one_query_write_a_batch_once(url: str) -> None:
    ours, theirs = results(url, {1: 1}), results(url, {1: 1})
    writer(url).commit(theirs, 0)
    writer(url).commit(ours, 0)
    assert (seen(url), batches(url)) == ({1: 1}, [0])


def test_a_key_that_two_tasks_have_ends_the_batch_with_the_way_on(url: str) -> None:
    with pytest.raises(Invalid, match=r"the key \(id\) 1 occurs 2 times.*df.repartition\('id'\)"):
        commit(url, 0, {1: 1, 2: 2}, {1: 3})
    assert (seen(url), batches(url)) == ({}, [])
    commit(url, 0, {1: 1, 2: 2}, {3: 3})
    assert seen(url) == {1: 1, 2: 2, 3: 3}


def test_a_table_that_is_altered_during_a_batch_takes_it_when_it_runs_again(url: str) -> None:
    written = results(url, {1: 1})
    bs.open(url).alter(properties={"sync_delay": "20m"})
    with pytest.raises(RowConflict, match="write them again"):
        writer(url).commit(written, 0)
    commit(url, 0, {1: 1})
    assert seen(url) == {1: 1}


@pytest.mark.timeout(1200)
def test_streams_of_two_labels_upsert_side_by_side_and_a_crash_repeats_nothing(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    """One long way, since each micro-batch costs seconds: a plain table of arrivals is the source
    of both streams, and the second one brings deletions."""
    source = bs.create(f"{tmp_path}/source", schema=SCHEMA)
    target = bs.create(f"{tmp_path}/target", schema=SCHEMA, key="id")

    def stream(site: str, **options: str) -> None:
        rows = spark_session.readStream.format("blockstore").load(source.url)
        if site == "y":
            rows = rows.selectExpr("*", "n < 0 AS _deleted")
        out = rows.repartition("id").writeStream.format("blockstore")
        named = {"write_mode": "upsert", "sequence_by": "n", "labels": f"site={site}", **options}
        finish(out.options(**named), tmp_path, site, target.url)

    def now(site: str) -> dict[int, int]:
        where = f"site = '{site}'"
        rows = bs.open(target.url).snapshot().scan(columns=["id", "n"], where=where).to_table()
        return dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))

    source.append(pa.table({"id": [1, 2, 1], "n": [1, 2, 3]}))
    stream("x")
    stream("y")
    assert now("x") == now("y") == {1: 3, 2: 2}
    source.append(pa.table({"id": [1, 3, 2], "n": [7, 8, -1]}))
    stream("x")
    bs.open(target.url).upsert(pa.table({"id": [1], "n": [99]}), labels={"site": "x"})
    crash_before_the_log(tmp_path, 1, "x")
    stream("x")
    stream("y")
    assert now("x") == {1: 99, 2: -1, 3: 8}
    assert now("y") == {1: 7, 3: 8}
    apps = [one.job.app for one in bs.open(target.url).history() if one.job is not None]
    assert sorted(apps.count(app) for app in set(apps)) == [2, 2]
    found = bs_spark.read(spark_session, target.url, columns=["site", "id", "n"]).collect()
    assert len(found) == 5


@pytest.mark.timeout(1200)
def test_for_each_batch_upserts_without_a_repartition_of_its_own(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    source = bs.create(f"{tmp_path}/source", schema=SCHEMA)
    for n in (1, 2):
        source.append(pa.table({"id": [1, 10 + n], "n": [n, n]}))
    options: dict[str, Any] = {"write_mode": "upsert", "key": "id", "sequence_by": "n"}
    write = bs_spark.foreach_batch(f"{tmp_path}/target", **options)
    rows = spark_session.readStream.format("blockstore").load(source.url)
    finish(rows.writeStream.foreachBatch(write), tmp_path, "each")
    crash_before_the_log(tmp_path, 0, "each")
    finish(rows.writeStream.foreachBatch(write), tmp_path, "each")
    assert seen(f"{tmp_path}/target") == {1: 2, 11: 1, 12: 2}
    assert batches(f"{tmp_path}/target") == [0]
