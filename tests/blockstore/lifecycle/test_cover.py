"""The exact cover (3.2), against an oracle that tries every subset of blocks."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from blockstore.format.block import BlockMeta
from blockstore.format.marks import MarkReason
from blockstore.lifecycle.cover import HIDING, ChosenBlock, Cover, cover, hide_marked, restrict
from tests.blockstore.lifecycle.blocks import block, ulid

SOURCES = st.sets(st.integers(0, 5), min_size=1, max_size=5)
LABELS = st.sampled_from([{}, {"cluster": "eu"}])


@st.composite
def blocks(draw: st.DrawFn) -> list[BlockMeta]:
    shapes = draw(st.lists(st.tuples(SOURCES, st.integers(0, 2), LABELS), max_size=8))
    return [
        block(100 + number, sources, revision=revision, labels=labels)
        for number, (sources, revision, labels) in enumerate(shapes)
    ]


def rows_read(found: Cover) -> Counter[tuple[str, str]]:
    """(stream, source) of every row that a reader of the cover sees; a block holds one row a
    source."""
    rows: Counter[tuple[str, str]] = Counter()
    for chosen in found.chosen:
        for source in chosen.meta.sources:
            if chosen.only_sources is None or source in chosen.only_sources:
                rows[str(chosen.meta.stream), source] += 1
    return rows


def oracle_whole(metas: list[BlockMeta]) -> set[str]:
    """Of all sets of disjoint blocks of one stream, the one that comes first when blocks are
    preferred in the order of 3.2: the best block is in if it can be, then the second best, and so
    on."""
    order = sorted(metas, key=lambda meta: (-meta.revision, -len(meta.sources), meta.ulid))
    best: tuple[bool, ...] = ()
    for size in range(len(order) + 1):
        for subset in combinations(order, size):
            held = [source for meta in subset for source in meta.sources]
            if len(held) == len(set(held)):
                best = max(best, tuple(meta in subset for meta in order))
    return {meta.ulid for meta, taken in zip(order, best, strict=True) if taken}


@given(blocks())
def test_each_source_of_each_stream_is_read_exactly_once(metas: list[BlockMeta]) -> None:
    expected = {(str(meta.stream), source) for meta in metas for source in meta.sources}
    assert rows_read(cover(metas)) == Counter(expected)


@given(blocks().flatmap(lambda metas: st.tuples(st.just(metas), st.permutations(metas))))
def test_the_cover_does_not_depend_on_the_order_of_the_blocks(
    both: tuple[list[BlockMeta], list[BlockMeta]],
) -> None:
    metas, shuffled = both
    assert cover(metas) == cover(shuffled) == cover(metas + metas)


@given(blocks())
def test_whole_blocks_are_those_an_exhaustive_search_prefers(metas: list[BlockMeta]) -> None:
    expected: set[str] = set()
    for stream in {meta.stream for meta in metas}:
        expected |= oracle_whole([meta for meta in metas if meta.stream == stream])
    assert {
        chosen.meta.ulid for chosen in cover(metas).chosen if chosen.only_sources is None
    } == expected


@given(blocks())
def test_every_block_is_chosen_or_superseded_and_partial_ones_are_counted(
    metas: list[BlockMeta],
) -> None:
    found = cover(metas)
    names = [chosen.meta.ulid for chosen in found.chosen] + [meta.ulid for meta in found.superseded]
    assert sorted(names) == sorted(meta.ulid for meta in metas)
    parts = [chosen for chosen in found.chosen if chosen.only_sources is not None]
    assert found.partial_overlaps == len(parts)
    assert all(part.only_sources and part.only_sources < set(part.meta.sources) for part in parts)


@given(blocks(), st.sets(st.integers(0, 5)))
def test_a_restricted_cover_reads_exactly_the_wanted_sources(
    metas: list[BlockMeta], known: set[int]
) -> None:
    accounted = {ulid(number) for number in known}
    found = restrict(cover(metas), lambda source: source not in accounted)
    expected = {
        (str(meta.stream), source)
        for meta in metas
        for source in meta.sources
        if source not in accounted
    }
    assert rows_read(found) == Counter(expected)
    assert len(found.chosen) + len(found.superseded) == len(metas)


@given(blocks(), st.data())
def test_a_hidden_block_keeps_its_rows_hidden_in_all_others(
    metas: list[BlockMeta], data: st.DataObject
) -> None:
    marks = {
        meta.ulid: reason
        for meta in metas
        if (reason := data.draw(st.sampled_from([None, *MarkReason]))) is not None
    }
    whole = cover(metas)
    found = hide_marked(whole, marks)
    assert {chosen.meta.ulid for chosen in found.hidden} == {
        chosen.meta.ulid for chosen in whole.chosen if marks.get(chosen.meta.ulid) in HIDING
    }
    assert rows_read(found) == rows_read(whole) - rows_read(Cover(chosen=found.hidden))
    assert found.sources == whole.sources


def test_a_merge_supersedes_its_parents() -> None:
    merge = block(9, {1, 2})
    assert cover([block(1), block(2), merge, block(3)]) == Cover(
        chosen=(ChosenBlock(meta=block(3)), ChosenBlock(meta=merge)),
        superseded=(block(1), block(2)),
    )


def test_two_compactors_that_overlap_are_read_once_and_counted() -> None:
    """The second merge is read for the one write that the first does not hold."""
    first, second = block(8, {1, 2}), block(9, {2, 3})
    found = cover([first, second, block(1), block(2)])
    assert found.chosen == (
        ChosenBlock(meta=first),
        ChosenBlock(meta=second, only_sources=frozenset({ulid(3)})),
    )
    assert found.partial_overlaps == 1


def test_a_rewrite_wins_over_a_larger_merge_of_a_lower_revision() -> None:
    merge, rewrite = block(8, {1, 2, 3}), block(9, {1}, revision=1)
    found = cover([merge, rewrite])
    assert found.chosen == (
        ChosenBlock(meta=merge, only_sources=frozenset({ulid(2), ulid(3)})),
        ChosenBlock(meta=rewrite),
    )


def test_an_upload_repeated_under_a_new_name_replaces_the_refused_one() -> None:
    refused, again = block(1), block(2, {1}, revision=1)
    assert cover([refused, again]).chosen == (ChosenBlock(meta=again),)


def test_superseded_and_partial_marks_hide_nothing() -> None:
    assert {MarkReason.RETENTION, MarkReason.REVERT, MarkReason.MANUAL} == HIDING
    found = cover([block(1), block(2)])
    assert (
        hide_marked(found, {ulid(1): MarkReason.SUPERSEDED, ulid(2): MarkReason.PARTIAL}) == found
    )
