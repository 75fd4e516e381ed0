"""Spark's Arrow batches are as large as memory allows, and never measured row by row."""

from __future__ import annotations

import pytest
from pyspark.sql import types as st

from spark.tuning import BATCH_BYTES, BATCH_ROWS, batch_settings, rows_per_batch

NARROW = st.StructType([st.StructField("a", st.LongType())])


def test_batches_are_bounded_by_rows_alone() -> None:
    assert batch_settings(NARROW) == {BATCH_BYTES: "2147483647", BATCH_ROWS: "50000"}


@pytest.mark.parametrize(
    ("schema", "least", "most"),
    [
        (NARROW, 50_000, 50_000),
        (st.StructType([st.StructField(f"c{i}", st.DoubleType()) for i in range(2000)]), 4_000, 4_300),
        (st.StructType([st.StructField(f"b{i}", st.BinaryType()) for i in range(1000)]), 500, 500),
    ],
    ids=["narrow", "2,000 columns", "1,000 binaries"],
)
def test_wide_rows_come_in_smaller_batches(schema: st.StructType, least: int, most: int) -> None:
    assert least <= rows_per_batch(schema) <= most
