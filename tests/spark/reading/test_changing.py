"""Rows that change, read by every engine: exactly those of ``scan``, which is the oracle."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as hs
from pyspark.sql import DataFrame, SparkSession

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.errors import Invalid
from blockstore.scan.execute import resolve
from blockstore.spark.reading import native
from blockstore.spark.reading.data_source import SharesPartition, SnapshotReader
from blockstore.spark.reading.options import ReadOptions
from blockstore.spark.reading.positions import packed, unpacked
from blockstore.spark.reading.shares import Share
from blockstore.spark.types import spark_schema
from blockstore.table import Table
from tests.spark.reading.changing import (
    BY_KEY,
    change_keyed,
    change_numbered,
    id_rows,
    key_rows,
    keyed,
    merge_all,
    numbered,
)
from tests.spark.rows import values

Read = Callable[..., DataFrame]


def by_format(session: SparkSession, url: str, **options: Any) -> DataFrame:
    if "columns" in options:
        options["columns"] = ",".join(options["columns"])
    return session.read.format("blockstore").options(**options).load(url)


def by_native(session: SparkSession, url: str, **options: Any) -> DataFrame:
    return bs_spark.read(session, url, engine="native", **options)


def by_python(session: SparkSession, url: str, **options: Any) -> DataFrame:
    return bs_spark.read(session, url, engine="python", **options)


ENGINES = {"format": by_format, "native": by_native, "python": by_python}


def wanted(table: Table, **options: Any) -> list[str]:
    """What ``scan`` gives, as ``values`` prints it."""
    rows = table.snapshot().scan(**options).to_table().to_pylist()
    return sorted(repr(dict(sorted(row.items(), key=lambda pair: repr(pair[0])))) for row in rows)


def check(session: SparkSession, table: Table, **options: Any) -> None:
    for name, read in ENGINES.items():
        found = values(read(session, table.url, **options))
        assert found == wanted(table, **options), (name, options)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("make", "change"),
    [(keyed, change_keyed), (numbered, change_numbered)],
    ids=["key", "row ids"],
)
def test_after_any_changes_every_engine_reads_what_scan_reads(
    spark_session: SparkSession,
    tmp_path: Path,
    make: Callable[[str], Table],
    change: Callable[[Table, Random], None],
    seed: int,
) -> None:
    table, random = make(f"{tmp_path}/t"), Random(seed)
    for _ in range(7):
        change(table, random)
    check(spark_session, table)
    check(spark_session, table, where="n > 5")
    hidden = ["_version", "_row_id"] if make is numbered else ["_version"]
    for read in (by_format, by_python):
        found = values(read(spark_session, table.url, columns=["n", *hidden]))
        assert found == wanted(table, columns=["n", *hidden])


def test_a_row_that_no_longer_meets_the_condition_hides_its_older_version(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    """The newer version is in a chunk that the condition prunes."""
    table = keyed(f"{tmp_path}/t")
    table.upsert(key_rows(range(10)))
    table.update({"n": 1_000}, where="id = 3")
    check(spark_session, table, where="n < 10")
    assert by_native(spark_session, table.url, where="n = 3").count() == 0


@pytest.mark.parametrize("make", [keyed, numbered], ids=["key", "row ids"])
def test_merged_rows_carry_their_ids_and_versions_and_are_hidden_by_position(
    spark_session: SparkSession, tmp_path: Path, make: Callable[[str], Table]
) -> None:
    """The merge has several row groups, which tasks share; rows of the first and the last are
    changed."""
    table = make(f"{tmp_path}/t")
    if make is keyed:
        table.upsert(key_rows(range(60)))
        table.upsert(key_rows(range(60, 120)))
    else:
        table.append(id_rows(60))
        table.append(id_rows(60, 60))
    merge_all(table)
    table.update({"name": "changed"}, where="n IN (0, 1, 39, 40, 41, 118, 119)")
    table.delete("n IN (2, 80)")
    check(spark_session, table)
    check(spark_session, table, where="n >= 39 AND n < 82")
    check(spark_session, table, columns=["n"])
    hidden = ["_version", "_row_id"] if make is numbered else ["_version"]
    for options in ({}, {"partition_size": "1KiB"}):
        found = by_format(spark_session, table.url, columns=["n", *hidden], **options)
        assert values(found) == wanted(table, columns=["n", *hidden])
    with pytest.raises(Invalid, match="_version must be computed from the index"):
        by_native(spark_session, table.url, columns=["n", "_version"])


def test_labels_alone_and_counts_leave_hidden_rows_out(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    """Spark reads no column of the files, only how many rows they have."""
    table = keyed(f"{tmp_path}/t")
    table.upsert(key_rows(range(10)), labels={"site": "x"})
    table.upsert(key_rows(range(5), 5), labels={"site": "x"})
    table.upsert(key_rows(range(3)), labels={"site": "y"})
    table.delete_rows([1], labels={"site": "x"})
    check(spark_session, table, columns=["site"])
    for read in ENGINES.values():
        assert read(spark_session, table.url).count() == table.snapshot().count()


def test_a_folder_with_odd_characters_hides_the_same_rows(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    """Spark writes the path of a file as a URL."""
    table = keyed(f"{tmp_path}/odd folder ü&+")
    table.upsert(key_rows(range(10)))
    table.upsert(key_rows(range(3), 9))
    check(spark_session, table)


def test_an_earlier_version_is_read_as_it_was(spark_session: SparkSession, tmp_path: Path) -> None:
    table = keyed(f"{tmp_path}/t")
    table.upsert(key_rows(range(4)))
    table.upsert(key_rows(range(2), 9))
    table.delete_rows([3])
    for read in ENGINES.values():
        for version in (2, 3, 4):
            found = read(spark_session, table.url, version=version)
            rows = table.snapshot(version=version).scan().to_table().to_pylist()
            assert [row.asDict() for row in found.orderBy("id").collect()] == sorted(
                rows, key=lambda row: row["id"]
            )


def test_too_many_hidden_rows_are_left_out_by_python(
    spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = keyed(f"{tmp_path}/t")
    table.upsert(key_rows(range(10)))
    table.upsert(key_rows(range(5), 9))
    monkeypatch.setattr(native, "MOST_HIDDEN", 4)
    with pytest.raises(Invalid, match="newer versions hide 5 of the rows in its files"):
        by_native(spark_session, table.url)
    found = bs_spark.read(spark_session, table.url)
    assert "newer versions hide 5" in bs_spark.how(found).reason
    assert values(found) == wanted(table)


def test_a_column_with_the_name_of_sparks_positions_is_left_to_python(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("_Metadata", pa.int64())])
    table = bs.create(f"{tmp_path}/t", schema=schema, key="id")
    table.upsert(pa.table({"id": [1, 2], "_Metadata": [1, 2]}))
    table.upsert(pa.table({"id": [1], "_Metadata": [3]}))
    with pytest.raises(Invalid, match="column '_Metadata' hides"):
        by_native(spark_session, table.url)
    assert values(bs_spark.read(spark_session, table.url)) == wanted(table)


def test_the_driver_resolves_and_tasks_receive_positions_only(tmp_path: Path) -> None:
    table = keyed(f"{tmp_path}/t")
    table.upsert(key_rows(range(10)))
    table.upsert(key_rows(range(4), 9))
    schema = spark_schema(BY_KEY)
    reader = SnapshotReader(table.snapshot(), ReadOptions(url=table.url), schema)
    partitions = [pickle.loads(pickle.dumps(one)) for one in reader.partitions()]
    shared = [share for one in partitions for share in one.run]
    assert sorted(share.chunk.rows for share in shared) == [4, 6]
    travelled = pickle.loads(pickle.dumps(reader))
    assert travelled._plan.changes == (), "a task would read all changes again"
    rows = [row for one in partitions for batch in travelled.read(one) for row in batch.to_pylist()]
    assert sorted(row["id"] for row in rows) == list(range(10))


@given(hs.sets(hs.integers(0, 2**40)))
def test_positions_survive_their_way(positions: set[int]) -> None:
    given_ = np.array(sorted(positions), dtype=np.int64)
    found = unpacked(packed(given_))
    assert found.dtype == np.int64
    assert found.tolist() == given_.tolist()


def test_positions_travel_in_few_bytes(tmp_path: Path) -> None:
    every_tenth = np.arange(0, 1_000_000, 10, dtype=np.int64)
    assert len(packed(every_tenth)) < 2_000
    table = keyed(f"{tmp_path}/t")
    table.upsert(key_rows(range(4)))
    plan = resolve(table.bucket, table.snapshot().scan().plan, table.world)
    share = Share(chunk=replace(plan.chunks[0], hidden=every_tenth))
    assert len(pickle.dumps(SharesPartition((share,)))) < 6_000
    again = pickle.loads(pickle.dumps(share))
    assert again.chunk.hidden.tolist() == every_tenth.tolist()
    assert pickle.loads(pickle.dumps(Share(chunk=plan.chunks[0], part=1, parts=3))) == Share(
        chunk=plan.chunks[0], part=1, parts=3
    )
