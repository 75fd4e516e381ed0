"""MERGE on Spark equals the same merge by ``Table.merge``, is one version, and loses no update."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.errors import Invalid, RowConflict
from blockstore.spark.writing import commit as committing
from blockstore.spark.writing import dataframe as writing

BY_KEY = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])
ROWS = "id long, name string, n long"


def row(key: int | None, n: int | None = 0, name: str = "a") -> dict[str, Any]:
    return {"id": key, "name": name, "n": n}


def frame(session: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return session.createDataFrame([tuple(one.values()) for one in rows], ROWS)


def keyed(url: str, keys: range) -> bs.Table:
    table = bs.create(url, schema=BY_KEY, key="id", sort_by=["name"])
    table.upsert(pa.Table.from_pylist([row(key, key) for key in keys], BY_KEY))
    return table


def seen(table: bs.Table, *columns: str) -> list[tuple[Any, ...]]:
    names = columns or ("id", "name", "n")
    rows = bs.open(table.url).snapshot().scan(columns=names).to_table().to_pylist()
    return sorted((tuple(one.values()) for one in rows), key=repr)


def test_every_clause_does_what_the_merge_of_one_process_does(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    random = Random(3)
    tables = keyed(f"{tmp_path}/one", range(10)), keyed(f"{tmp_path}/other", range(10))
    for _ in range(2):
        keys = random.sample(range(20), 9)
        rows = [row(key, random.choice([None, 1, 2, 30]), "s") for key in keys]
        here = pa.Table.from_pylist(rows, BY_KEY)
        local = (
            tables[0]
            .merge(here, on="id")
            .when_matched_delete(condition=pc.field("source.n") == 30)
            .when_matched_update(
                {"n": pc.field("target.n") + pc.field("source.n")},
                condition=pc.field("source.n") > 1,
            )
            .when_not_matched_insert(condition=pc.field("source.id") > 12)
            .when_not_matched_by_source_update(
                {"name": "alone"}, condition=pc.field("target.n") < 5
            )
            .when_not_matched_by_source_delete(condition=pc.field("target.n") > 100)
            .execute()
        )
        done = (
            bs_spark.merge_into(frame(spark_session, rows).repartition(3), tables[1].url, "id")
            .when_matched_delete(condition="source.n = 30")
            .when_matched_update({"n": "target.n + source.n"}, condition="source.n > 1")
            .when_not_matched_insert(condition=sf.col("source.id") > 12)
            .when_not_matched_by_source_update({"name": sf.lit("alone")}, condition="target.n < 5")
            .when_not_matched_by_source_delete(condition="target.n > 100")
            .execute()
        )
        counts = (local.inserted, local.updated, local.deleted)
        assert (done.inserted, done.updated, done.deleted) == counts
        assert done.version == local.version
        assert done.operation == "merge"
        assert seen(tables[1]) == seen(tables[0])
        entry = list(bs.open(tables[1].url).history())[-1]
        assert (entry.operation, len(entry.add)) == ("merge", 1)
        assert entry.read_version == entry.id - 1
    assert local.deleted


def test_rows_with_ids_keep_them_and_new_ones_get_some(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    table = bs.create(f"{tmp_path}/t", schema=BY_KEY, row_ids=True)
    table.append(pa.Table.from_pylist([row(key, key) for key in range(6)], BY_KEY))
    source = frame(spark_session, [row(key, 100, "s") for key in (1, 4, 8, 9)])
    done = (
        bs_spark.merge_into(source, table.url, on=sf.expr("source.id = target.id AND target.n < 4"))
        .when_matched_update()
        .when_not_matched_insert({"id": "source.id", "n": 5})
        .execute()
    )
    assert (done.inserted, done.updated, done.deleted) == (3, 1, 0)
    found = seen(table, "_row_id", "id", "name", "n")
    assert found[:6] == [
        *((key, key, "a", key) if key != 1 else (1, 1, "s", 100) for key in range(6))
    ]
    assert len({one[0] for one in found[6:]} - set(range(6))) == 3
    assert sorted(one[1:] for one in found[6:]) == [(4, None, 5), (8, None, 5), (9, None, 5)]


def test_a_row_that_another_changed_meanwhile_is_read_again(
    spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = keyed(f"{tmp_path}/t", range(6))
    commit, others = committing.commit, iter([(2, 50), (5, 70)])

    def beaten(*arguments: Any) -> Any:
        for key, n in others:
            bs.open(table.url).upsert(pa.Table.from_pylist([row(key, n)], BY_KEY))
            break
        return commit(*arguments)

    monkeypatch.setattr(writing, "commit", beaten)
    done = (
        bs_spark.merge_into(frame(spark_session, [row(2, 1), row(3, 1)]), table.url, "id")
        .when_matched_update({"n": "target.n + source.n"})
        .execute()
    )
    assert done.updated == 2
    expected = {0: 0, 1: 1, 2: 51, 3: 4, 4: 4, 5: 70}
    assert dict(seen(table, "id", "n")) == expected
    assert done.version == 5, "the change of row 5 was of no row of the merge"


def test_where_rows_are_always_changed_by_others_nothing_is_applied(
    spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = keyed(f"{tmp_path}/t", range(3))
    commit = committing.commit

    def beaten(*arguments: Any) -> Any:
        bs.open(table.url).upsert(pa.Table.from_pylist([row(2, 50)], BY_KEY))
        return commit(*arguments)

    monkeypatch.setattr(writing, "commit", beaten)
    merge = bs_spark.merge_into(frame(spark_session, [row(2, 1)]), table.url, "id")
    with pytest.raises(RowConflict, match="computed 5 times"):
        merge.when_matched_update({"n": "target.n + source.n"}).execute()
    assert dict(seen(table, "id", "n")) == {0: 0, 1: 1, 2: 50}


def test_a_job_counts_once(spark_session: SparkSession, tmp_path: Path) -> None:
    """As a batch of ``foreachBatch`` that runs again."""
    table = keyed(f"{tmp_path}/t", range(3))
    for _ in range(2):
        done = (
            bs_spark.merge_into(
                frame(spark_session, [row(1, 10)]), table.url, "id", job=bs.Job(app="q", batch=4)
            )
            .when_matched_update({"n": "target.n + source.n"})
            .execute()
        )
    assert done.already
    assert dict(seen(table, "id", "n")) == {0: 0, 1: 11, 2: 2}


def test_rows_of_other_labels_are_not_matched(spark_session: SparkSession, tmp_path: Path) -> None:
    table = keyed(f"{tmp_path}/t", range(2))
    for site in "xy":
        table.upsert(pa.Table.from_pylist([row(1, 10)], BY_KEY), labels={"site": site})
    for labels in ({"site": "x"}, {"site": "z"}):
        bs_spark.merge_into(
            frame(spark_session, [row(1, 5)]), table.url, "id", labels=labels
        ).when_matched_update({"n": "target.n + source.n"}).when_not_matched_insert().execute()
    assert seen(table, "site", "id", "n") == [
        ("x", 1, 15), ("y", 1, 10), ("z", 1, 5), (None, 0, 0), (None, 1, 1)
    ]  # fmt: skip


def test_a_row_that_two_source_rows_change_is_refused(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    table = keyed(f"{tmp_path}/t", range(3))
    twice = frame(spark_session, [row(1, 5), row(1, 6)])
    merge = bs_spark.merge_into(twice, table.url, "id").when_matched_update()
    with pytest.raises(Exception, match=r"key \(id\) 1 occurs 2 times"):
        merge.execute()
    one = bs_spark.merge_into(twice, table.url, "id").when_matched_update(condition="source.n = 6")
    assert one.execute().updated == 1
    assert dict(seen(table, "id", "n")) == {0: 0, 1: 6, 2: 2}


def test_what_makes_no_sense_is_refused_in_a_sentence(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    table = keyed(f"{tmp_path}/t", range(3))
    plain = bs.create(f"{tmp_path}/plain", schema=BY_KEY)
    source = frame(spark_session, [row(1)])
    with pytest.raises(Invalid, match="have no identity"):
        bs_spark.merge_into(source, plain.url, "id")
    with pytest.raises(Invalid, match="on 'key', which the source does not have"):
        bs_spark.merge_into(source, table.url, "key")
    with pytest.raises(Invalid, match="nothing to do"):
        bs_spark.merge_into(source, table.url, "id").execute()
    with pytest.raises(Invalid, match="part of the key"):
        bs_spark.merge_into(source, table.url, "id").when_matched_update({"id": "1"}).execute()
    with pytest.raises(Invalid, match="'x', which the table does not have"):
        bs_spark.merge_into(source, table.url, "id").when_matched_update({"x": "1"}).execute()
    with pytest.raises(Exception, match="merge_into"):
        source.write.format("blockstore").option("write_mode", "merge").mode("append").save(
            table.url
        )
    assert bs.open(table.url).snapshot().version == 2


def test_a_value_that_does_not_fit_applies_nothing(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    small = pa.schema([("id", pa.int64()), ("n", pa.int8())])
    table = bs.create(f"{tmp_path}/t", schema=small, key="id")
    table.upsert(pa.table({"id": [1, 2], "n": [1, 2]}, small))
    merge = bs_spark.merge_into(frame(spark_session, [row(1, 300), row(2, 3)]), table.url, "id")
    with pytest.raises(Exception, match="300"):
        merge.when_matched_update({"n": "source.n"}).execute()
    assert seen(table, "id", "n") == [(1, 1), (2, 2)]
    merge = bs_spark.merge_into(frame(spark_session, [row(1, 100)]), table.url, "id")
    merge.when_matched_update({"n": "source.n + target.n"}).execute()
    assert seen(table, "id", "n") == [(1, 101), (2, 2)]
