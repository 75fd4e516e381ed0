"""Columns that are made without ``pa.array`` are those that it makes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.index.arrow import flags, integers, numbers, texts


@given(st.lists(st.text(max_size=8), max_size=20))
def test_texts(values: list[str]) -> None:
    found = texts(values)
    found.validate(full=True)
    assert found.equals(pa.array(values, pa.string()))


@given(st.lists(st.booleans(), max_size=20))
def test_flags(values: list[bool]) -> None:
    for form in (values, np.array(values, dtype=bool)):
        found = flags(form)
        found.validate(full=True)
        assert found.equals(pa.array(values, pa.bool_()))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64()])
@given(data=st.data())
def test_numbers(kind: pa.DataType, data: st.DataObject) -> None:
    most = 2 ** (kind.bit_width - 1)
    values = data.draw(st.lists(st.integers(-most, most - 1), max_size=20))
    found = numbers(values, kind)
    found.validate(full=True)
    assert found.equals(pa.array(values, kind))
    cut = data.draw(st.integers(0, len(values)))
    for column in (found, found[cut:], pa.chunked_array([found[:cut], found[cut:]], kind)):
        assert integers(column).tolist() == column.to_pylist()


def test_a_number_that_is_too_large_for_its_column_is_refused() -> None:
    with pytest.raises(OverflowError):
        numbers([2**31], pa.int32())
