"""Merges on Spark: row for row what the local engine writes, whatever fails on the way."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.merge import DamagedInput, Merged, MergeInput, MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.pieces import Pieces
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.compactor.verbs import compact
from blockstore.errors import MissingExtra, Unavailable
from blockstore.format import BlockMeta
from blockstore.format.chunk_reader import read_chunk
from blockstore.names import object_key
from blockstore.spark.merging import SparkMergeEngine
from blockstore.spark.merging.work import Failure
from blockstore.table import Table
from blockstore.world import World
from tests.spark.merging.dying import DyingPieces, PatientPieces, PoisonedPieces
from tests.support.spark_workers import workers_python

pytestmark = pytest.mark.timeout(900)
SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])


def filled(folder: Path, *, blocks: int = 4, rows: int = 2_000) -> Table:
    """Blocks whose keys interleave and repeat."""
    table = bs.create(f"{folder}/table?durable=false", schema=SCHEMA, sort_by=["k"])
    rng = np.random.default_rng(7)
    for number in range(blocks):
        keys = rng.integers(0, 500, rows)
        table.append(pa.table({"k": keys, "text": [f"{number}-{key}" for key in keys]}))
    return table


def task_of(table: Table, *ulids: str) -> MergeTask:
    live = [block for block in table.log.state.blocks if not ulids or block.ulid in ulids]
    return MergeTask(
        ulid=table.world.ids.ulid(),
        inputs=tuple(MergeInput(meta=block.meta, excepted=block.excepted) for block in live),
        definition=table.definition,
    )


def options(folder: Path) -> MergeOptions:
    return MergeOptions(memory_bytes=1 << 26, chunk_bytes=1 << 24, work_dir=folder)


def rows_of(table: Table, task: MergeTask, merged: Merged) -> pa.Table:
    """The rows in the order of the chunks."""
    chunks = [
        read_chunk(table.bucket, object_key(task.ulid, file.path), file)
        for file in merged.written.files
    ]
    return pa.concat_tables(chunks).combine_chunks()


def largest(table: Table) -> BlockMeta:
    return max((block.meta for block in table.log.state.blocks), key=lambda meta: meta.rows)


def test_in_one_and_in_pieces_the_rows_are_the_local_engines_and_an_error_ends_only_its_own_merge(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    table = filled(tmp_path)
    before = table.snapshot().scan().to_table()
    ulids = [block.ulid for block in table.log.state.blocks]
    local = task_of(table)
    expected = rows_of(
        table, local, LocalEngine().merge(table.bucket, table.world, local, options(tmp_path))
    )

    engine = bs_spark.merge_engine(spark_session, piece_bytes=local.inputs[0].meta.bytes)
    tasks = [task_of(table), task_of(table, *ulids[:2]), task_of(table, ulids[3])]
    damaged = tasks[2].inputs[0].meta
    chunk = Path(f"{tmp_path}/table/{damaged.ulid}/{damaged.files[0].path}")
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-1])
    results = dict(engine.merge_all(table.bucket, table.world, tasks[1:], options(tmp_path)))
    assert isinstance(results[1], DamagedInput)
    assert results[1].ulid == damaged.ulid
    assert results[0].written.rows == 4_000
    chunk.write_bytes(whole)

    merged = engine.merge(table.bucket, table.world, tasks[0], options(tmp_path))
    assert rows_of(table, tasks[0], merged).equals(expected)
    assert len({file.path.partition("-")[0] for file in merged.written.files}) > 1, (
        "it was done in pieces"
    )
    assert bs.open(table.url).snapshot().scan().to_table().equals(before), (
        "an engine commits nothing"
    )


def test_merges_that_are_as_many_as_cores_stay_whole_and_their_files_are_the_local_engines(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    """Of merges that are done elsewhere the tokens in the names of their files differ, no byte."""
    table = filled(tmp_path)
    ulids = [block.ulid for block in table.log.state.blocks]
    tasks = [task_of(table, *ulids[:2]), task_of(table, *ulids[2:])]
    most = tasks[0].inputs[0].meta.bytes
    engine = bs_spark.merge_engine(spark_session, piece_bytes=most)
    results = dict(engine.merge_all(table.bucket, table.world, tasks, options(tmp_path)))
    for place, task in enumerate(tasks):
        local = LocalEngine().merge(table.bucket, table.world, task, options(tmp_path))
        assert [(one.sha256, one.bytes, one.rows) for one in results[place].written.files] == [
            (one.sha256, one.bytes, one.rows) for one in local.written.files
        ]
    (_, alone), *_ = engine.merge_all(
        table.bucket, table.world, [task_of(table, *ulids[:2])], options(tmp_path)
    )
    assert len(alone.written.files) == 2, "a merge that is alone is cut for both cores"
    small = bs_spark.merge_engine(spark_session, piece_bytes=most // 16)
    cut = dict(
        small.merge_all(
            table.bucket,
            table.world,
            [task_of(table, *ulids[:2]), task_of(table, *ulids[2:])],
            options(tmp_path),
        )
    )
    assert all(len(one.written.files) > 2 for one in cut.values()), "as large a merge is cut anyway"


def test_a_worker_that_dies_with_its_chunks_written_leaves_every_row_once(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    table = filled(tmp_path)
    before = table.snapshot().scan(columns=["k", "text", "_source"]).to_table().to_pylist()
    dying = SparkMergeEngine(pieces=DyingPieces(tmp_path), session=spark_session)
    compact_once(table, Settings(tier_blocks=2, work_dir=tmp_path / "work"), engine=dying)
    assert (tmp_path / "died").exists()
    assert len(bs.open(table.url).snapshot().blocks) == 1
    after = (
        bs.open(table.url).snapshot().scan(columns=["k", "text", "_source"]).to_table().to_pylist()
    )
    assert sorted(map(repr, after)) == sorted(map(repr, before))
    listed = [file.path for file in largest(bs.open(table.url)).files]
    written = sorted(Path(f"{tmp_path}/table/{largest(bs.open(table.url)).ulid}/chunks").iterdir())
    assert len(written) > len(listed), "the dead worker's chunks are debris that no meta.json lists"


def test_the_verb_merges_on_the_session_that_runs(
    spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, blocks=9, rows=50)
    monkeypatch.setenv("BLOCKSTORE_COMPACTOR_WORK_DIR", str(tmp_path))
    assert compact(f"{tmp_path}/table", once=True, engine="spark") == 0
    merged = bs.open(f"{tmp_path}/table")
    assert [block.meta.rows for block in merged.log.state.blocks] == [450]


def test_a_table_in_the_memory_of_one_process_is_refused(tmp_path: Path) -> None:
    bucket = MemoryBucket(World.manual().clock)
    engine = SparkMergeEngine(pieces=Pieces(), session=object(), piece_bytes=1)
    with pytest.raises(bs.Invalid, match="memory of one process"):
        list(engine.merge_all(bucket, World.manual(), [], options(tmp_path)))


def test_errors_come_back_from_workers_as_they_were() -> None:
    sent = DamagedInput("01JD0000000000000000000000", "chunk x is damaged")
    error = pickle.loads(pickle.dumps(Failure.of(sent))).error()
    assert type(error) is DamagedInput
    assert (str(error), error.ulid) == (str(sent), sent.ulid)


@pytest.mark.parametrize("memory", [True, False])
def test_a_merge_that_takes_its_worker_down_each_time_ends_no_other(
    spark_session: SparkSession, tmp_path: Path, memory: bool
) -> None:
    table = bs.create(
        f"{tmp_path}/table?durable=false", schema=pa.schema([("k", pa.int64())]), sort_by=["k"]
    )
    for label in "ab":
        for number in range(3):
            table.append(pa.table({"k": [number]}), labels={"s": label})
    engine = SparkMergeEngine(pieces=PoisonedPieces("a", memory=memory), session=spark_session)
    with pytest.raises(Unavailable, match="Spark gave up on the merge"):
        compact_once(table, Settings(tier_blocks=2, work_dir=tmp_path / "work"), engine=engine)
    live = sorted(
        (one.meta.labels["s"], one.meta.rows) for one in bs.open(table.url).log.state.blocks
    )
    assert live == [("a", 1), ("a", 1), ("a", 1), ("b", 3)]


def test_a_task_that_ended_is_reported_while_others_of_the_round_still_run(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    """The last merge waits until the first was reported.

    Slow (a second): Spark's tracker is read once a second.
    """
    table = bs.create(
        f"{tmp_path}/table?durable=false", schema=pa.schema([("k", pa.int64())]), sort_by=["k"]
    )
    for label in "ab":
        table.append(pa.table({"k": [1]}), labels={"s": label})
    by_label = {block.meta.labels["s"]: block.ulid for block in table.log.state.blocks}
    shares: list[float] = []

    def report(share: float) -> None:
        shares.append(share)
        (tmp_path / "go").touch()

    engine = SparkMergeEngine(pieces=PatientPieces("b", tmp_path / "go"), session=spark_session)
    tasks = [task_of(table, by_label[label]) for label in "ab"]
    context = spark_session.sparkContext
    context.setLocalProperty("spark.jobGroup.id", "mine")
    try:
        results = dict(
            engine.merge_all(table.bucket, table.world, tasks, options(tmp_path), report)
        )
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert [results[place].written.rows for place in (0, 1)] == [1, 1]
    assert shares[0] == 0.5
    assert not [thread for thread in threading.enumerate() if thread.name == "blockstore-merges"]


def test_the_command_of_the_guide_merges_in_a_process_of_its_own(tmp_path: Path) -> None:
    table = filled(tmp_path, blocks=20)
    before = table.snapshot().scan().to_table().sort_by([("k", "ascending"), ("text", "ascending")])
    url = f"{tmp_path}/table"
    answer = subprocess.run(
        [str(Path(sys.executable).parent / "blockstore"), "compact", url, "--once", "--engine",
        "spark"],
        env={**os.environ, "PYSPARK_PYTHON": workers_python(), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    newest = bs.open(url)
    assert [entry.operation for entry in newest.history()][-1] == "compact"
    assert (
        newest.snapshot().scan().to_table().sort_by([("k", "ascending"), ("text", "ascending")])
        == before
    )


def test_a_package_that_is_missing_on_the_driver_is_not_said_to_be_the_executors_memory(
    tmp_path: Path,
) -> None:
    class NoPandas:
        def createDataFrame(self, *given: object) -> object:
            raise ModuleNotFoundError("Pandas >= 2.2.0 must be installed", name="pandas")

    table = filled(tmp_path)
    engine = SparkMergeEngine(pieces=Pieces(), session=NoPandas(), piece_bytes=1 << 30)
    with pytest.raises(MissingExtra, match="needs a package that is not installed here: Pandas"):
        compact_once(table, Settings(tier_blocks=2, work_dir=tmp_path / "work"), engine=engine)
