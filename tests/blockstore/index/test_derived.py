"""What is made of blocks a few at a time is what is made of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest

from blockstore.index import derived
from blockstore.index.arrow import numbers
from blockstore.index.derived import Arrays, Derived, Places

SIZE = 1_000


class Twice:
    """Makes twice the number of each block, and remembers how many rows it was given at once."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def of_blocks(self, blocks: Sequence[int]) -> Arrays:
        return (np.array([2 * block for block in blocks], dtype=np.int64),)

    def of_rows(self, rows: pa.Table) -> Arrays | None:
        self.given.append(len(rows))
        return (2 * rows["number"].combine_chunks().to_numpy(),)


def pieces(places: Places) -> Iterator[tuple[Places, pa.Table]]:
    """Ten blocks at a time, and the last 600 together."""
    ends = [*range(10, SIZE - 600 + 1, 10), SIZE]
    for start, end in zip([0, *ends], ends, strict=False):
        mine = places[(places >= start) & (places < end)]
        if len(mine):
            yield mine, pa.table({"number": numbers(mine)})


@pytest.mark.parametrize("step", [1, 3, 7])
def test_small_pieces_are_put_together_and_each_row_gets_its_own(step: int) -> None:
    rows = np.zeros(SIZE, dtype=bool)
    rows[::step] = True
    make = Twice()
    (found,) = Derived(SIZE, list, pieces).arrays("twice", None, make, rows)
    assert found[rows].tolist() == list(range(0, 2 * SIZE, 2 * step))
    assert sum(make.given) == int(rows.sum())
    assert len(make.given) <= 2


def test_no_more_rows_are_put_together_than_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "_JOINED", 50)
    make = Twice()
    every = np.ones(SIZE, dtype=bool)
    (found,) = Derived(SIZE, list, pieces).arrays("twice", None, make, every)
    assert found.tolist() == list(range(0, 2 * SIZE, 2))
    assert make.given == [*([50] * 8), 600]
