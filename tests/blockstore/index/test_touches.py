"""Which rows entries have touched, as far as a state knows it."""

from __future__ import annotations

import numpy as np
import pytest

from blockstore.index import touches
from blockstore.index.touches import MOST, NOTHING, Touches, packed, unpacked


def rows(*ids: int) -> touches.Hashes:
    return np.array(ids, dtype=np.uint64)


def test_rows_are_sorted_and_each_is_there_once() -> None:
    data = packed(rows(7, 2**63, 7, 1))
    assert data is not None
    assert unpacked(data).tolist() == [1, 7, 2**63]
    assert packed(rows()) == NOTHING
    assert packed(np.arange(MOST + 1, dtype=np.uint64)) is None


def test_it_says_which_rows_were_touched_above_a_version() -> None:
    known = Touches(10).added(11, packed(rows(1, 2))).added(12, NOTHING)
    known = known.added(13, packed(rows(2, 3)))
    among = known.among(rows(2, 9), 10)
    assert among is not None
    assert among.tolist() == [2]
    assert known.among(rows(1), 11) is not None
    nothing = [known.among(rows(1), 11), known.among(rows(3), 13)]
    assert [None if one is None else one.tolist() for one in nothing] == [[], []]


def test_any_row_may_have_been_touched_by_what_is_not_known() -> None:
    known = Touches(10).added(11, None).added(12, packed(rows(1)))
    assert known.among(rows(5), 9) is None, "below what the state was folded from"
    assert known.among(rows(5), 10) is None, "an entry that does not say"
    assert known.among(rows(5), 11) is not None


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touches, "_KEPT_ENTRIES", 3)
    known = Touches(0)
    for entry in range(1, 10):
        known = known.added(entry, packed(rows(entry)))
    assert [entry for entry, _ in known.entries] == [7, 8, 9]
    assert known.since == 6
    assert known.among(rows(6), 5) is None
    assert known.among(rows(6), 6) is not None
    monkeypatch.setattr(touches, "_KEPT_BYTES", 16)
    assert len(known.added(10, packed(rows(10, 11))).entries) == 1
