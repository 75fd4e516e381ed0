"""The live set behaves as a plain dict would, whatever its inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.index import blocks as blocks_module
from blockstore.index import overlay as overlay_module
from blockstore.index import rows as rows_module
from blockstore.index.blocks import Blocks
from blockstore.index.derived import Arrays
from blockstore.index.rows import CODED, FRAME, LiveBlock, Rows
from tests.support.examples import few
from tests.support.index_data import block, ulid


def live(number: int, version: int = 1, sources: int = 1) -> LiveBlock:
    names = tuple(ulid(number + 10_000 * place) for place in range(sources))
    meta = block(number, sources=names, labels={"of": str(number % 7)} if number % 2 else {})
    return LiveBlock(meta=meta, version=version, first_row_id=10 * number)


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "remove", "replace", "except", "rows"]), st.integers(0, 30)
    ),
    max_size=60,
)


SOME = ("ulid", "bytes", "stream")


@settings(max_examples=few(60), deadline=None)
@given(STEPS)
def test_it_is_a_map_from_ulids(steps: list[Step]) -> None:
    found, model = Blocks.of(), {}
    versions = []
    for kind, number in steps:
        name = ulid(number)
        if kind == "put":
            one = live(number, version=len(versions) + 1, sources=1 + number % 3)
            found, model = found.changed((), [one]), {**model, name: one}
        elif kind == "remove" and name in model:
            found, model = found.changed([name], ()), {k: v for k, v in model.items() if k != name}
        elif kind == "replace" and name in model:
            one = live(number, version=len(versions) + 1, sources=1 + number % 3)
            found, model = found.changed([name], [one]), {**model, name: one}
        elif kind == "except" and name in model:
            one = replace(model[name], excepted=frozenset({name}))
            found, model = found.changed((), [one]), {**model, name: one}
        elif kind == "rows":
            found.rows()
        versions.append((found, model))
    for blocks, expected in versions:
        ordered = [expected[name] for name in sorted(expected)]
        some = blocks.columns(SOME)
        assert some.schema == pa.schema([CODED.field(name) for name in SOME])
        assert some.to_pylist() == Rows.of(ordered).frame.select(SOME).to_pylist()
        assert list(blocks) == ordered
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks_module, "KEPT", 2)
            patch.setattr(rows_module, "PIECE", 3)
            assert list(blocks) == ordered
            odd = np.arange(1, len(ordered), 2)
            assert list(blocks.each(odd)) == ordered[1::2]
        assert blocks.ulids() == sorted(expected)
        assert len(blocks) == len(expected)
        assert blocks == Blocks.of(ordered)
        assert blocks.table().schema == FRAME
        assert blocks.table()["version"].to_pylist() == [one.version for one in ordered]
        assert [one.decode() for one in blocks.sources().tolist()] == sorted(
            source for one in ordered for source in one.meta.sources
        )
        streams = blocks.streams()
        assert sorted(streams) == sorted({one.meta.stream for one in ordered})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows_module, "_FEW", 0)
            assert sorted(Blocks.of(ordered).streams()) == sorted(streams)
        assert blocks.get_all(ulid(number) for number in range(31)) == expected
        some = [ulid(number) for number in range(30, 0, -3)]
        assert list(blocks.only(some)) == [one for one in ordered if one.ulid in some]
        assert blocks.only(some) == Blocks.of(one for one in ordered if one.ulid in some)
        asked = [ulid(3), ulid(20_004), ulid(10_005)]
        assert blocks.holding(asked) == [
            one for one in ordered if set(asked) & set(one.meta.sources)
        ]
        for number in range(31):
            assert blocks.get(ulid(number)) == expected.get(ulid(number))
            assert (ulid(number) in blocks) == (ulid(number) in expected)


def test_of_many_blocks_few_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = rows_module._blocks
    monkeypatch.setattr(
        rows_module, "_blocks", lambda *rows: made.append(len(rows[0])) or make(*rows)
    )
    monkeypatch.setattr(blocks_module, "KEPT", 10)
    monkeypatch.setattr(rows_module, "PIECE", 4)
    found = Blocks(Rows.of(live(number) for number in range(20)))
    every = iter(found)
    assert [next(every).ulid for _ in range(5)] == [ulid(number) for number in range(5)]
    assert made == [4, 4]
    assert found._view.base._made == {}


def test_a_large_overlay_becomes_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay_module, "_OVERLAY", 4)
    found = Blocks.of()
    for number in (*range(0, 40, 2), *range(1, 40, 2)):
        found = found.changed((), [live(number)])
        assert len(found._view.overlay) <= 5
    for number in range(0, 40, 3):
        found = found.changed([ulid(number)], ())
    assert found.ulids() == [ulid(number) for number in range(40) if number % 3]


def test_rows_are_taken_in_the_order_asked_for() -> None:
    found = Blocks.of(live(number) for number in range(5)).changed([ulid(1)], [live(9)])
    assert [one.ulid for one in found.take([4, 0, 1, 0])] == [ulid(9), ulid(0), ulid(2), ulid(0)]
    assert found.take([]) == []


@pytest.mark.parametrize("ask", [Blocks.get_all, Blocks.only])
def test_a_set_that_another_thread_consolidates_meanwhile_gives_the_same_blocks(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[Blocks, list[str]], object]
) -> None:
    odd = [live(number) for number in range(1, 20, 2)]
    blocks = Blocks.of(odd).changed((), [live(number) for number in range(0, 20, 2)])
    find = overlay_module.View.find

    def found(view: Any, ulids: Iterable[str]) -> Any:
        places = find(view, ulids)
        blocks.rows()
        return places

    monkeypatch.setattr(overlay_module.View, "find", found)
    asked = ask(blocks, [one.ulid for one in odd[2:5]])
    values = asked.values() if isinstance(asked, dict) else asked
    assert list(values) == odd[2:5]  # type: ignore[call-overload]


class _Numbered:
    """Makes the first row id of each block, ``more`` added, and counts how many it is asked
    for."""

    def __init__(self, more: int = 0) -> None:
        self.made: list[str] = []
        self.more = more

    def of_blocks(self, blocks: Sequence[LiveBlock]) -> Arrays:
        self.made += [block.ulid for block in blocks]
        ids = [block.first_row_id + self.more for block in blocks]
        return (np.array(ids, dtype=np.int64),)

    def of_rows(self, rows: pa.Table) -> Arrays | None:
        return None


@settings(max_examples=few(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("prel"), st.integers(0, 30), st.sampled_from(["", "some", "all"])
        ),
        max_size=60,
    )
)
def test_what_was_made_of_an_overlay_is_right_for_those_that_follow_it(
    steps: list[tuple[str, int, str]],
) -> None:
    model = {ulid(40): live(40), ulid(41): live(41)}
    found, both = Blocks.of(model.values()), (_Numbered(), _Numbered(1_000))
    for turn, (kind, number, looks) in enumerate(steps):
        name = ulid(number)
        one = replace(live(number + turn * 100), meta=block(number))
        if kind == "p":
            found, model = found.changed((), [one]), {**model, name: one}
        elif kind == "r" and name in model:
            found, model = found.changed([name], ()), {k: v for k, v in model.items() if k != name}
        elif kind == "e" and name in model:
            found, model = found.changed([name], [one]), {**model, name: one}
        elif kind == "l":
            found.rows()
        if looks:
            ordered = [model[each] for each in sorted(model)]
            rows = np.array([place % 3 != turn % 3 for place in range(len(model))], dtype=bool)
            rows |= looks == "all"
            assert found.table() == Blocks.of(ordered).table()
            # One after the other, under one name: what one made is not taken for the other's.
            for numbered in both if turn % 2 else both[::-1]:
                (ids,) = found.derived("ids", numbered, numbered, rows)
                assert ids[rows].tolist() == [
                    block.first_row_id + numbered.more
                    for block, asked in zip(ordered, rows, strict=True)
                    if asked
                ]


def test_of_the_blocks_that_stay_nothing_is_made_again() -> None:
    numbered, found = _Numbered(), Blocks.of([live(1), live(2)])
    for number in range(3, 30):
        found = found.changed([ulid(number - 3)] if number > 9 else (), [live(number)])
        every = np.ones(len(found), dtype=bool)
        found.derived("ids", numbered, numbered, every)
    assert sorted(numbered.made) == [ulid(number) for number in range(1, 30)]


def test_the_streams_of_a_new_version_need_no_columns_of_its_blocks() -> None:
    found = Blocks.of([live(1), live(2)])
    for number in range(3, 30):
        found = found.changed([ulid(number - 3)] if number > 9 else (), [live(number)])
        streams = found.streams()
        assert {"frame", "table", "slots"}.isdisjoint(vars(found._view))
        assert sorted(streams) == sorted({one.meta.stream for one in found})


@pytest.mark.parametrize("more", [0, 1, 5])
@pytest.mark.parametrize("same", [0, 1, 2, 3, 8, 9])
def test_what_two_overlays_begin_with_is_found(same: int, more: int) -> None:
    first = [live(number) for number in range(9)]
    other = [*first[:same], *(live(number) for number in range(same, same + more))]
    assert overlay_module._same(first, other) == same
    assert overlay_module._same(other, first) == same


def test_versions_of_many_blocks_keep_no_arrays_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Blocks.of([live(1), live(2)]).changed((), [live(3)])
    every = np.ones(3, dtype=bool)
    monkeypatch.setattr(blocks_module, "KEPT", 2)
    found.derived("ids", None, _Numbered(), every)
    assert found._view.joined == {}
    monkeypatch.setattr(blocks_module, "KEPT", 3)
    found.derived("ids", None, _Numbered(), every)
    first = found.derived("ids", None, _Numbered(), every)
    assert found.derived("ids", None, _Numbered(), every) is first
