"""A plan by columns is the plan by objects, whatever a table holds, and reads little of a large
one.

The reference makes an object of every block, as planning did before it had columns.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blockstore.compactor.plan.candidates import LiveCandidates
from blockstore.compactor.plan.jobs import Candidate, PlannedJob, PlanSettings
from blockstore.compactor.plan.plan import plan
from blockstore.compactor.plan.relevant import Columns, relevant
from blockstore.compactor.plan.skip import has_label
from blockstore.compactor.plan.versions import plan_versions
from blockstore.errors import Corrupt
from blockstore.format.block import BlockKind, BlockMeta, ChunkFile, StreamKey, VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.format.names_now import sort_by_of, time_column_of
from blockstore.ids import ulid_at
from blockstore.index import derived
from blockstore.index.blocks import Blocks
from blockstore.index.rows import BULK, FRAME, LiveBlock, MemoryBulk, Rows
from blockstore.scan.shadows import Shadows
from tests.compactor.plan.test_plan_versions import shadows

HOUR = 3_600_000
DAY = 24 * HOUR
MIB = 1 << 20
NOW = 20_000 * DAY + 5 * HOUR
SCHEMA = pa.schema([("t", pa.timestamp("ms")), ("k", pa.int64()), ("text", pa.string())])
LABELS: tuple[dict[str, str], ...] = ({}, {"cluster": "eu1"}, {"cluster": "us", "rows": "changes"})
SPANS = (1, HOUR, 2 * HOUR, DAY, 3 * DAY, 20 * DAY)
SIZES = (0, 1, MIB, 3 * MIB, 5 * MIB, 40 * MIB, 45 * MIB, 900 * MIB, 64 << 30)


def definitions() -> list[Definition]:
    """Tables with and without times, row ids, and columns that were renamed since."""
    plain = Definition.create(SCHEMA, time_column="t", sort_by=["k"])
    renamed = evolve(evolve(plain, rename={"t": "at", "k": "key"}), rename={"text": "k"})
    untimed = Definition.create(SCHEMA, sort_by=["k"])
    ids = Definition.create(SCHEMA, time_column="t", sort_by=["k"], row_ids=True)
    return [plain, renamed, untimed, ids, evolve(ids, rename={"k": "key"})]


DEFINITIONS = definitions()


def meta_of(draw: random.Random, definition: Definition, number: int, spread: int) -> BlockMeta:
    """A block of any kind that the index can hold."""
    created = NOW - draw.choice([0, HOUR, 3 * HOUR, 15 * DAY, 300 * DAY])
    ulid = f"{ulid_at(created)[:10]}{number:016d}"
    schema_id = draw.choice(sorted(definition.schemas))
    names = definition.schemas[schema_id].names
    level = draw.choice([1, 1, 2, 3])
    kind = BlockKind.PLAIN
    if definition.identity is not None:
        kinds = [BlockKind.PLAIN] * 6 + [BlockKind.CHANGES]
        kind = draw.choice([*kinds, *([BlockKind.HISTORY] if level > 1 else [])])
    others = [ulid_at(NOW - draw.randrange(400 * DAY)) for _ in range(draw.choice([1, 2, 5]))]
    start = NOW + draw.choice([3 * HOUR, -HOUR, -DAY]) - draw.randrange(spread)
    start -= draw.choice([0, start % HOUR, start % DAY])
    return BlockMeta(
        ulid=ulid,
        min_time=start,
        max_time=start + draw.choice(SPANS),
        rows=100,
        bytes=draw.choice(SIZES),
        level=level,
        sources=(ulid,) if level == 1 else tuple(sorted({ulid, *others})),
        labels=draw.choice(LABELS),
        resolution=draw.choice([0, 0, 0, 60]),
        visible_by=VisibleBy.INDEX,
        kind=kind,
        time_column=None if definition.time_column is None else names[0],
        sort_by=draw.choice([(names[1],), (names[1],), (names[1], names[2]), ()]),
        schema_id=schema_id,
        files=(ChunkFile(path="chunks/000001.parquet", bytes=9, rows=100, sha256="ab" * 32),),
    )


def held(draw: random.Random, metas: list[BlockMeta]) -> Blocks:
    """The set in one of the ways in which a process may hold it."""
    blocks = [LiveBlock(meta=meta, version=1, first_row_id=0) for meta in metas]
    cut = draw.choice([len(blocks), len(blocks), draw.randint(0, len(blocks))])
    gone = blocks[:cut][: draw.choice([0, 0, 3])]
    stored = Rows.of(blocks[:cut]).stored()
    base = Rows(stored.select(FRAME.names), MemoryBulk(stored.select(BULK.names)))
    return Blocks(base).changed([one.ulid for one in gone], blocks[cut:])


def by_objects(
    blocks: Blocks,
    definition: Definition,
    no_compact: Collection[str],
    but: Collection[str],
    skip: Collection[tuple[str, str]],
) -> list[Candidate]:
    """The candidates, each made of its block alone."""
    return [
        Candidate(
            ulid=meta.ulid,
            stream=meta.stream,
            min_time=meta.min_time,
            max_time=meta.max_time,
            rows=meta.rows,
            bytes=meta.bytes,
            level=meta.level,
            timed=meta.time_column is not None
            and time_column_of(meta, definition) == definition.time_column,
            sort_by=sort_by_of(meta, definition),
            no_compact=meta.ulid in no_compact,
            kind=meta.kind,
            newest_source=max(meta.sources) if meta.kind is BlockKind.HISTORY else "",
        )
        for meta in (block.meta for block in blocks)
        if meta.ulid not in but and not any(meta.labels.get(name) == one for name, one in skip)
    ]


def shadowed(draw: random.Random, blocks: list[Candidate]) -> Shadows:
    """What the blocks of changes hold, and which rows of the others they hide."""
    streams, unread = {}, {}
    for stream in {block.stream for block in blocks}:
        own = [block for block in blocks if block.stream == stream]
        over = [block for block in own if block.kind is BlockKind.CHANGES]
        if not over:
            continue
        if draw.randrange(6) == 0:
            unread[stream] = (over[0].ulid, "cannot be read")
            continue
        rows = {
            block: [(draw.randrange(30), number + 2, draw.randrange(4) == 0)]
            for number, block in enumerate(over)
        }
        known = sorted({row[0] for some in rows.values() for row in some})
        hidden = {
            block: [draw.choice(known)] * draw.choice([1, 5, 11, 60])
            for block in own
            if block.kind is BlockKind.PLAIN and draw.randrange(3) == 0
        }
        (streams[stream],) = shadows(rows, hidden).streams.values()
    return Shadows(streams=streams, unread=unread)


@pytest.fixture(autouse=True)
def stored_blocks_are_read_as_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "_LEAST", 1)


@settings(max_examples=400)
@given(st.integers(0, 10**9))
@example(4)
def test_the_plan_by_columns_is_the_plan_by_objects(seed: int) -> None:
    draw = random.Random(seed)
    definition = draw.choice(DEFINITIONS)
    spread = draw.choice([DAY, 40 * DAY, 4_000 * DAY])
    count = draw.choice([0, 1, 2, 9, 40, 150])
    metas = sorted(
        (meta_of(draw, definition, number, spread) for number in range(count)),
        key=lambda meta: meta.ulid,
    )
    blocks = held(draw, metas)
    names = blocks.ulids()
    marked = [ulid for ulid in names if draw.randrange(10) == 0]
    but = [ulid for ulid in names if draw.randrange(20) == 0]
    skip = draw.choice([(), (("cluster", "us"),)])
    now = NOW + draw.choice([0, 0, HOUR, 100 * DAY, -50 * DAY, -5_000 * DAY])
    chosen = PlanSettings(
        ranges_ms=draw.choice([PlanSettings().ranges_ms, (HOUR,), (HOUR, 3 * HOUR, 30 * DAY)]),
        tier_blocks=draw.choice([2, 3, 8]),
        max_block_bytes=draw.choice([4 * MIB, 50 * MIB, 1000 * MIB, 64 << 30]),
        retention_ms=draw.choice([None, 30 * DAY]),
        history_ms=draw.choice([None, 50 * DAY]),
    )
    expected = by_objects(blocks, definition, marked, but, skip)
    found = replace(
        LiveCandidates.of(
            blocks,
            definition,
            no_compact=marked,
            but=but,
            skip=lambda stream: has_label(stream, skip),
        ),
        few=0,
    )

    def agree(found: LiveCandidates, expected: list[Candidate], now_ms: int) -> None:
        if definition.identity is None:
            by_columns = plan(found.for_plan(chosen, now_ms), chosen, now_ms)
            assert by_columns == plan(expected, chosen, now_ms)
            return
        over = shadowed(draw, expected)
        by_columns = plan_versions(
            found.for_plan(chosen, now_ms, over.hiding), over, chosen, now_ms
        )
        assert by_columns == plan_versions(expected, over, chosen, now_ms)

    agree(found, expected, now)
    agree(found, expected, now + draw.choice([HOUR, 20 * DAY]))  # as when a due time is looked for
    some = draw.sample(names, min(len(names), 4))
    assert found.get_all([*some, ulid_at(5)]) == {
        one.ulid: one for one in expected if one.ulid in some
    }
    left = [one for one in expected if one.no_compact or one.ulid not in some]
    agree(found.without(some), left, now)
    own = [one for one in expected if one.stream.labels]
    agree(found.of_streams(lambda stream: bool(stream.labels)), own, now)
    assert list(found) == expected
    assert len(found) == len(expected)
    assert found.marked == {one.ulid for one in expected if one.no_compact}


def settled(streams: int, windows: int) -> list[BlockMeta]:
    """One block in each window of each stream, all of them old."""
    draw, (definition, *_) = random.Random(1), DEFINITIONS
    length = PlanSettings().ranges_ms[-1]
    like = meta_of(draw, definition, 0, DAY)
    first = NOW // length - windows - 2
    return [
        replace(
            like,
            ulid=(ulid := f"{ulid_at(NOW - 300 * DAY)[:10]}{stream * windows + window:016d}"),
            sources=(ulid,),
            level=2,
            revision=0,
            labels={"device": str(stream)},
            min_time=(first + window) * length,
            max_time=(first + window) * length + HOUR,
            bytes=MIB,
            resolution=0,
            time_column="t",
            sort_by=("k",),
        )
        for stream in range(streams)
        for window in range(windows)
    ]


def planned(found: LiveCandidates, chosen: PlanSettings) -> tuple[PlannedJob, ...]:
    return plan(found.for_plan(chosen, NOW), chosen, NOW)


class Counting:
    """Counts the blocks whose large columns are read."""

    def __init__(self, bulk: MemoryBulk) -> None:
        self._bulk = bulk
        self.read = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._bulk, name)

    def take(self, positions: list[int]) -> pa.Table:
        self.read += len(positions)
        return self._bulk.take(positions)

    def pieces(self, positions: np.ndarray) -> object:  # type: ignore[type-arg]
        self.read += len(positions)
        return self._bulk.pieces(positions)


def test_of_a_merged_table_only_windows_with_new_blocks_are_read() -> None:
    old = settled(50, 60)
    stored = Rows.of([LiveBlock(meta=meta, version=1, first_row_id=0) for meta in old]).stored()
    bulk = Counting(MemoryBulk(stored.select(BULK.names)))
    blocks = Blocks(Rows(stored.select(FRAME.names), bulk))  # type: ignore[arg-type]
    chosen = PlanSettings()
    assert planned(LiveCandidates.of(blocks, DEFINITIONS[0]), chosen) == ()
    assert bulk.read == 0
    late = [
        replace(meta, ulid=(ulid := ulid_at(NOW - 20 * DAY + number)), sources=(ulid,), level=1)
        for number, meta in enumerate(old[::300])
    ]
    new = [LiveBlock(meta=meta, version=2, first_row_id=0) for meta in late]
    blocks = blocks.changed((), new)
    jobs = planned(LiveCandidates.of(blocks, DEFINITIONS[0]), chosen)
    assert sorted(len(job.inputs) for job in jobs) == [2] * len(late)
    assert bulk.read == len(late), "the old block of each of their windows"
    assert planned(LiveCandidates.of(blocks, DEFINITIONS[0]), chosen) == jobs
    assert bulk.read == len(late), "and those but once"


def test_blocks_that_are_too_large_for_each_other_are_not_read() -> None:
    columns = Columns(
        stream=np.array([0, 0, 0, 1, 1]),
        min_time=np.zeros(5, dtype=np.int64),
        max_time=np.full(5, HOUR),
        bytes=np.array([30, 40, 90, 30, 20]),
        marked=np.zeros(5, dtype=bool),
        timed=True,
    )
    nothing = np.zeros(5, dtype=bool)

    def chosen(most: int) -> list[int]:
        return relevant(columns, PlanSettings(max_block_bytes=most), NOW, nothing).tolist()

    assert chosen(49) == []
    assert chosen(50) == [3, 4]
    assert chosen(70) == [0, 1, 2, 3, 4]


def test_a_stored_block_that_cannot_be_read_ends_the_plan_that_needs_it() -> None:
    metas = settled(1, 3)
    stored = Rows.of([LiveBlock(meta=meta, version=1, first_row_id=0) for meta in metas]).stored()
    texts = stored["meta"].to_pylist()
    texts[1] = texts[1].replace(b'"sort_by":["k"]', b'"sort_by":["k",5]')
    assert texts != stored["meta"].to_pylist()
    bulk = MemoryBulk(pa.table([pa.array(texts, pa.binary()), stored["sources"]], BULK))
    found = LiveCandidates.of(Blocks(Rows(stored.select(FRAME.names), bulk)), DEFINITIONS[0])
    with pytest.raises(Corrupt, match=r"sort_by .* expected a list of strings"):
        list(found)


@pytest.mark.parametrize("names", [["k\0x"], [""], ["k", "t"], []])
def test_sort_keys_with_odd_names_are_what_they_are(names: list[str]) -> None:
    metas = [replace(meta, sort_by=tuple(names)) for meta in settled(1, 3)]
    stored = Rows.of([LiveBlock(meta=meta, version=1, first_row_id=0) for meta in metas]).stored()
    rows = Rows(stored.select(FRAME.names), MemoryBulk(stored.select(BULK.names)))
    found = LiveCandidates.of(Blocks(rows), DEFINITIONS[0])
    assert [one.sort_by for one in found] == [tuple(names)] * 3


def test_a_stream_that_is_written_in_two_ways_is_one() -> None:
    metas = [
        replace(one, labels={"a": "1", "b": "2"}, min_time=0, max_time=1) for one in settled(1, 2)
    ]
    stored = Rows.of([LiveBlock(meta=meta, version=1, first_row_id=0) for meta in metas]).stored()
    first, second = stored["stream"].to_pylist()
    other = second.replace('"a":"1","b":"2"', '"b": "2", "a": "1"')
    assert other != second
    place = FRAME.get_field_index("stream")
    frame = stored.select(FRAME.names).set_column(place, "stream", pa.array([first, other]))
    blocks = Blocks(Rows(frame, MemoryBulk(stored.select(BULK.names))))
    found = replace(LiveCandidates.of(blocks, DEFINITIONS[0]), few=0)
    (job,) = planned(found, PlanSettings())
    assert job.stream == StreamKey((("a", "1"), ("b", "2")), 0)
    assert len(job.inputs) == 2
