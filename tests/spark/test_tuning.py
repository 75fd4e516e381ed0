"""Spark's Arrow batches are as large as memory allows, and never measured row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from blockstore.spark.settings import (
    BATCH_BYTES,
    BATCH_ROWS,
    JVM_OPTIONS,
    UNIX_SOCKETS,
    batch_settings,
    rows_per_batch,
)

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark.md"

NARROW = st.StructType([st.StructField("a", st.LongType())])


def test_batches_are_bounded_by_rows_alone() -> None:
    assert batch_settings(NARROW) == {BATCH_BYTES: "2147483647", BATCH_ROWS: "50000"}


@pytest.mark.parametrize(
    ("schema", "least", "most"),
    [
        (NARROW, 50_000, 50_000),
        (
            st.StructType([st.StructField(f"c{i}", st.DoubleType()) for i in range(2000)]),
            4_000,
            4_300,
        ),
        (st.StructType([st.StructField(f"b{i}", st.BinaryType()) for i in range(1000)]), 500, 500),
    ],
    ids=["narrow", "2,000 columns", "1,000 binaries"],
)
def test_wide_rows_come_in_smaller_batches(schema: st.StructType, least: int, most: int) -> None:
    assert least <= rows_per_batch(schema) <= most


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_switches_of_the_guide_are_those_that_arrow_knows(spark_session: SparkSession) -> None:
    assert JVM_OPTIONS in GUIDE.read_text()
    jvm = spark_session._jvm
    assert jvm is not None
    assert not jvm.org.apache.arrow.memory.BoundsChecking.BOUNDS_CHECKING_ENABLED
    assert not jvm.org.apache.arrow.vector.NullCheckingForGet.NULL_CHECKING_ENABLED


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_setting_of_the_guide_is_the_one_that_makes_unix_sockets(
    spark_session: SparkSession,
) -> None:
    def families(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import socket
        import stat

        files = [int(name) for name in os.listdir("/proc/self/fd")]
        open_sockets = []
        for number in files:
            try:
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    open_sockets.append(socket.socket(fileno=os.dup(number)).family.name)
            except OSError:
                continue  # the listing's own
        yield pa.record_batch({"family": pa.array(open_sockets, pa.string())})

    assert f"{UNIX_SOCKETS}=true" in GUIDE.read_text()
    found = {
        row.family for row in spark_session.range(1).mapInArrow(families, "family string").collect()
    }
    assert found == {"AF_UNIX"}
