"""Which rows newer versions hide: of several chunks as of each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.scan.current import newest_among
from tests.support.examples import few

ROWS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), max_size=8)


def in_order(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The rows as a block has them that is sorted by what identifies a row: each once."""
    return sorted(dict(rows).items())


@settings(max_examples=few(200))
@given(
    st.lists(st.one_of(ROWS, ROWS.map(in_order)), max_size=6),
    ROWS,
    st.sampled_from(
        [pa.int64(), pa.int8(), pa.uint64(), pa.string(), pa.date32(), pa.timestamp("us", "UTC")]
    ),
)
def test_chunks_that_are_looked_up_together_are_as_each_alone(
    chunks: list[list[tuple[int, int]]], changes: list[tuple[int, int]], kind: pa.DataType
) -> None:
    def arrays(rows: list[tuple[int, int]]) -> tuple[pa.Array, np.ndarray[tuple[int], np.dtype]]:
        values = pa.array([one for one, _ in rows], pa.int32())
        versions = np.array([version for _, version in rows], dtype=np.int64)
        wide = values.cast(pa.int64()) if pt.is_timestamp(kind) else values
        return wide.cast(kind), versions

    values, versions = arrays(changes)
    newest, *_ = newest_among(values, versions, np.zeros(len(changes), dtype=bool))
    together = list(newest.hidden_each(arrays(rows) for rows in chunks))
    alone = [newest.hidden(*arrays(rows)) for rows in chunks]
    assert [one.positions.tolist() for one in together] == [one.positions.tolist() for one in alone]
    assert [one.rows.tolist() for one in together] == [one.rows.tolist() for one in alone]
    highest = {one: max(v for o, v in changes if o == one) for one, _ in changes}
    for rows, hidden in zip(chunks, together, strict=True):
        expected = [at for at, (one, v) in enumerate(rows) if highest.get(one, 0) > v]
        assert hidden.positions.tolist() == expected
