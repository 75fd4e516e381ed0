"""A part's weight is about what its rows take in memory, so that a scan stays within its budget."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.format.footer import Footer
from blockstore.scan.fetch.held import Held
from blockstore.scan.parts import RowGroups

ROWS = 30_000
DRAW = random.Random(1)
WIDE = "x" * 900

COLUMNS: dict[str, Any] = {
    "numbers": pa.array(range(ROWS)),
    "few numbers": pa.array([number % 3 for number in range(ROWS)]),
    "truths": pa.array([True] * ROWS),
    "few wide texts": pa.array([f"{WIDE}{number % 9}" for number in range(ROWS)]),
    "wide texts": pa.array([f"{WIDE}{number}" for number in range(ROWS)]),
    "texts": pa.array([f"{DRAW.random()}" for _ in range(ROWS)]),
    "binaries": pa.array([DRAW.randbytes(100) for _ in range(ROWS)]),
    "lists": pa.array([[f"{WIDE}{number % 9}"] for number in range(ROWS)]),
    "nulls": pa.array([None] * ROWS, pa.string()),
}


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_part_weighs_at_least_what_its_rows_take(name: str, dictionary: bool) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({name: COLUMNS[name]}), sink, compression="zstd", use_dictionary=dictionary
    )
    data = sink.getvalue().to_pybytes()
    part = RowGroups(key="k", footer=Footer(data, len(data)), columns=(name,), groups=(0,))
    rows = pa.Table.from_batches([batch for _, batch in part.batches(Held(len(data), [(0, data)]))])
    assert rows.column(0).equals(pa.chunked_array([COLUMNS[name]]))
    assert rows.nbytes <= 1.3 * part.weight()
    assert part.weight() <= 16 * rows.nbytes + len(data)
