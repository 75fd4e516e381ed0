"""No row that has one of the values is left out, whatever the type; most others are."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.rows.likely import Likely

TEXTS = st.text(alphabet="ab\u00e9", max_size=12)
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)),
    (pa.uint64(), st.integers(0, 2**64 - 1) | st.integers(0, 9)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.timestamp("us", tz="UTC"), st.integers(-(2**55), 2**55) | st.integers(-9, 9)),
    (pa.date32(), st.integers(-9, 9)),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.binary(), st.binary(max_size=20)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=lambda one: str(one))
@given(data=st.data())
def test_no_row_that_has_one_of_the_values_is_left_out(
    kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    wanted = pa.array(data.draw(st.lists(values | st.none())), kind)
    rows = pa.array(data.draw(st.lists(values | st.none())), kind)
    start = data.draw(st.integers(0, len(rows)))
    rows = pa.concat_arrays([rows, wanted])[start:]
    may = Likely(wanted).among(rows)
    exact = pc.is_in(rows, value_set=wanted)
    assert len(may) == len(rows)
    assert pc.all(pc.or_(may, pc.invert(exact))).as_py() in (True, None)


def test_values_of_another_type_are_all_left_in() -> None:
    seconds = pa.array([1, 2], pa.timestamp("s"))
    assert Likely(seconds).among(seconds.cast(pa.timestamp("us"))).to_pylist() == [True, True]


@pytest.mark.parametrize("step", [1, 3, 1 << 20, 1 << 40])
def test_most_whole_numbers_that_are_not_among_them_are_left_out(step: int) -> None:
    wanted = pa.array(np.arange(0, 20_000, 2) * step)
    others = pa.array(np.arange(1, 20_000, 2) * step)
    assert pc.sum(Likely(wanted).among(others)).as_py() < 2_500


@pytest.mark.parametrize("form", ["{}", "sensor-with-a-long-name-{}", "{}@somewhere.example"])
def test_most_texts_that_are_not_among_them_are_left_out(form: str) -> None:
    draw = np.random.default_rng(1)
    names = [form.format(uuid.UUID(bytes=draw.bytes(16)).hex) for _ in range(20_000)]
    may = Likely(pa.array(names[:10_000])).among(pa.array(names[10_000:]))
    assert pc.sum(may).as_py() < 2_500
