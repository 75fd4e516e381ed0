"""The names of sources are stored in a chunk as a dictionary of those that occur."""

from __future__ import annotations

import pyarrow as pa
import pytest

from blockstore.compactor.merge.result import with_source_names
from blockstore.compactor.merge.sources import SOURCE, Sources

NAMES = ("A", "B", "C")


@pytest.mark.parametrize("numbers", [[2, 0, 1, 2], [2, 0, 2], [1], []])
def test_sources_are_named_and_only_those_that_occur_are_listed(numbers: list[int]) -> None:
    table = pa.table({"row": pa.array(range(len(numbers))), SOURCE: pa.array(numbers, pa.int32())})
    column = with_source_names(table, Sources(NAMES)).column(SOURCE).combine_chunks()
    assert column.to_pylist() == [NAMES[number] for number in numbers]
    assert column.dictionary.to_pylist() == [NAMES[number] for number in sorted(set(numbers))]
