"""Which chunks of changes may hide rows: the same as by comparing each with each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.format.block import BlockKind, ColumnStats
from blockstore.format.identity import Identity, Key, RowIds
from blockstore.scan import hiders
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.hiders import Bound, Hiders, identity_bounds
from blockstore.scan.hiding import hidden_rows
from tests.blockstore.scan.test_hidden_cache import Store
from tests.support.examples import few


def _below(value: Bound, other: Bound) -> bool:
    return value is not None and other is not None and value < other  # type: ignore[operator]


def _may_hide(hider: ScanChunk, chunk: ScanChunk, identity: Identity) -> bool:
    newest, oldest = hider.versions[1], chunk.versions[0]
    if newest is not None and oldest is not None and newest <= oldest:
        return False
    low, high = identity_bounds(chunk, identity)
    other_low, other_high = identity_bounds(hider, identity)
    meet = not (_below(high, other_low) or _below(other_high, low))
    return hider.block != chunk.block and meet


@st.composite
def _chunks(draw: st.DrawFn) -> tuple[Identity, list[ScanChunk]]:
    store = Store()
    plain = store.chunk("plain", [0, 1], 2, kind=BlockKind.PLAIN)
    change = store.chunk("change", [0, 1], 2)
    identity: Identity = draw(st.sampled_from([Key(("id",)), RowIds(), Key(("id", "other"))]))
    values = draw(st.sampled_from([st.integers(0, 9), st.text("abc", max_size=2)]))
    if isinstance(identity, RowIds):
        values = st.integers(0, 9)
    made = []
    for _ in range(draw(st.integers(1, 8))):
        one = draw(st.sampled_from([plain, change]))
        stats = None
        if draw(st.booleans()):
            low, high = sorted([draw(values), draw(values)])
            bounds = draw(st.sampled_from([(low, high), (None, None), (low, None), (None, high)]))
            stats = ColumnStats(*bounds, draw(st.integers(0, 2)))
        made.append(
            replace(
                one,
                block=draw(st.sampled_from(["a", "b", "c", "d"])),
                version=draw(st.integers(1, 5)),
                first_row_id=draw(st.none() | st.integers(0, 9)),
                identity_stats=stats,
            )
        )
    return identity, made


@settings(max_examples=few(300), deadline=None)
@given(_chunks())
def test_the_hiders_of_a_chunk_are_those_that_are_newer_and_whose_ranges_meet(
    drawn: tuple[Identity, list[ScanChunk]],
) -> None:
    identity, chunks = drawn
    changes = [one for one in chunks if one.kind is not BlockKind.PLAIN]
    made = Hiders(changes, identity)
    for chunk in chunks:
        wanted = [one for one in changes if _may_hide(one, chunk, identity)]
        assert [id(one) for one in made.of(chunk)] == [id(one) for one in wanted]


def test_the_ranges_of_many_changes_are_looked_at_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once as that of a hider, and once as that of a chunk: not once for each pair."""
    store, key, looked = Store(), Key(("id",)), []
    changes = [store.chunk(f"b{n}", [n], 2) for n in range(500)]

    def counted(chunk: ScanChunk, identity: Identity) -> tuple[Bound, Bound]:
        looked.append(chunk)
        return identity_bounds(chunk, identity)

    monkeypatch.setattr(hiders, "identity_bounds", counted)
    assert hidden_rows(changes, changes, key, store) == {}
    assert len(looked) == 1_000
