"""A window is the stable sort of its pieces, also where it is gathered in several parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from blockstore.compactor.merge import window
from blockstore.compactor.merge.kway import Piece
from blockstore.compactor.merge.order import RowOrder
from blockstore.compactor.merge.window import Sorter
from tests.compactor.merge.tables import sort_stable

KEYS = ["k", "text"]


def piece(run: int, rows: int) -> Piece:
    """Rows of every kind of column, of which many have equal keys."""
    rng = np.random.default_rng(run)
    places = range(run * rows, (run + 1) * rows)
    table = pa.table(
        {
            "k": pa.array(rng.integers(0, 9, rows)),
            "text": pa.array([None if place % 7 == 0 else f"{place % 3}" for place in places]),
            "kind": pa.array([f"{run}-{place % 2}" for place in places]).dictionary_encode(),
            "many": pa.array([[place] * (place % 3) for place in places]),
            "row": pa.array(places),
        }
    )
    return Piece(run=run, rows=sort_stable(table, KEYS))


@pytest.mark.parametrize("taken", [1, 7, 100, 1 << 17])
def test_a_window_gathered_in_parts_is_the_stable_sort_of_its_pieces(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "_TAKEN_ROWS", taken)
    pieces = [piece(run, 50) for run in range(3)]
    found = Sorter(RowOrder(KEYS)).sort(pieces)
    whole = pa.concat_tables([one.rows for one in pieces])
    assert found.schema == whole.schema
    assert found.to_pylist() == sort_stable(whole, KEYS).to_pylist()
