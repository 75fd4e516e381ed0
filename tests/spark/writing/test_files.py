"""Rows that name files, written and read by Spark: a handle is a struct, and each is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import blockstore as bs
from blockstore.spark.types import spark_schema
from blockstore.spark.writing import commit as committing
from blockstore.spark.writing.options import WriteMode, WriteOptions
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.task import write_task
from blockstore.world import World

SCHEMA = bs.typed_schema([("name", "string"), bs.file("doc")])


def made(folder: Path, **options: Any) -> bs.Table:
    return bs.create(f"{folder}/t?durable=false", schema=SCHEMA, **options)


@pytest.mark.parametrize(
    "how", [{}, {"mode": WriteMode.UPSERT}, {"overwrite": True}], ids=["append", "upsert", "over"]
)
def test_a_task_refuses_a_file_that_is_not_there(tmp_path: Path, how: dict[str, Any]) -> None:
    table = made(tmp_path, **({"key": "name"} if "mode" in how else {}))
    handle = table.put_file(b"one", name="f")
    plan = plan_write(spark_schema(SCHEMA), WriteOptions(url=table.url, **how), World.real())

    def rows(doc: object) -> list[pa.RecordBatch]:
        return [pa.RecordBatch.from_pylist([{"name": "a", "doc": doc}], schema=SCHEMA)]

    with pytest.raises(bs.Invalid, match=r"'doc' names a file in row 0.*has the bytes 3"):
        write_task(plan, rows(dict(handle) | {"bytes": 4}))
    written = write_task(plan, rows(handle))
    assert written is not None
    committing.commit(plan, [written], World.real())
    (block,) = bs.open(table.url).snapshot().blocks
    assert str(block.meta.visible_by) == "index"


def test_rows_with_files_go_through_spark_and_back(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    table = made(tmp_path, row_ids=True)
    handle = table.put_file(b"one", name="f")
    schema = spark_session.read.format("blockstore").load(table.url).schema
    rows = spark_session.createDataFrame([("a", dict(handle)), ("b", None)], schema)
    rows.coalesce(1).write.format("blockstore").mode("append").save(table.url)
    table.poll()
    assert table.open_file(0, "doc").read() == b"one"
    seen = spark_session.read.format("blockstore").load(table.url).where("doc.name = 'f'")
    assert [row["doc"].asDict() for row in seen.collect()] == [handle]
