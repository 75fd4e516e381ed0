"""Ranges that are read out of stored blocks column by column are those of the blocks as objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.block import ChunkFile, ColumnStats
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.format.statistics import collect
from blockstore.index import documents
from blockstore.index import log as index_log
from blockstore.index.blocks import Blocks
from blockstore.index.derived import Arrays
from blockstore.index.rows import LiveBlock, Rows
from blockstore.names import sources_path
from blockstore.predicate.literals import kind_of
from blockstore.predicate.nodes import Column
from blockstore.predicate.prune import Hull
from blockstore.scan import Snapshot, plan_scan
from blockstore.scan.ranges import Ranges, can_hold
from blockstore.scan.sieve import _Maker
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.predicate.conditions import SCHEMA, tables
from tests.blockstore.scan.test_sieve import DEFINITION, live
from tests.support.examples import few


def both(
    blocks: Sequence[LiveBlock], definition: Definition, name: str
) -> tuple[Arrays, Arrays | None]:
    """The arrays of the blocks, as objects and as rows."""
    column = Column(name, definition.schema.field(name).type)
    make = _Maker(definition, column, kind_of(column.type))
    return make.of_blocks(blocks), make.of_rows(Rows.of(blocks).stored())


def equal(left: Arrays, right: Arrays) -> bool:
    low, high, open_low, open_high, count = left
    return (
        [array.dtype for array in left] == [array.dtype for array in right]
        and np.array_equal(open_low, right[2])
        and np.array_equal(open_high, right[3])
        and np.array_equal(count, right[4])
        and np.array_equal(low[~open_low], right[0][~open_low])
        and np.array_equal(high[~open_high], right[1][~open_high])
    )


@settings(max_examples=few(25), deadline=None)
@given(st.lists(st.lists(tables(), max_size=3), min_size=1, max_size=5))
def test_rows_give_what_the_blocks_give(blocks: list[list[pa.Table]]) -> None:
    held = [
        live(number, [(collect(chunk, SCHEMA.names), chunk.num_rows) for chunk in chunks])
        for number, chunks in enumerate(blocks)
    ]
    for field in SCHEMA:
        if can_hold(kind_of(field.type)):
            objects, rows = both(held, DEFINITION, field.name)
            assert rows is None or equal(objects, rows), field


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        (pa.int64(), -(2**63), 2**63 - 1),
        (pa.int8(), -128, 127),
        (pa.uint64(), 0, 5),
        (pa.float64(), -0.5, 1e308),
        (pa.float32(), 1, 2),
        (pa.string(), "", "\U0010ffff"),
        (pa.string(), "nul\x00", "nul\x00a"),
        (pa.date32(), -5, 20_000),
        (pa.timestamp("us", tz="UTC"), -1, 10**15),
        (pa.time64("us"), 0, 1),
    ],
)
def test_plain_statistics_need_no_objects(
    type_: pa.DataType, low: int | float | str, high: int | float | str
) -> None:
    for name in ("c", 'a.b "ü"\\', "min", "columns"):
        definition = Definition.create(pa.schema([(name, type_)]))
        known, unknown = ColumnStats(low, high, 0), ColumnStats(None, high, 1)
        odd = ColumnStats(low, None, 0, nans=2 if pa.types.is_floating(type_) else 0)
        held = [
            live(number, [({name: one}, 5) for one in chunks])
            for number, chunks in enumerate(
                [[known], [known, unknown], [], [odd, known], [known, known]]
            )
        ]
        held.append(live(9, [({}, 5)]))
        objects, rows = both(held, definition, name)
        assert rows is not None
        assert equal(objects, rows)


@pytest.mark.parametrize(
    ("type_", "bound"),
    [
        (pa.float64(), "Infinity"),
        (pa.uint64(), 2**64 - 1),
        (pa.int64(), 1.5),
        (pa.int64(), True),
        (pa.string(), 5),
    ],
)
def test_what_is_not_plain_is_left_to_the_objects(type_: pa.DataType, bound: object) -> None:
    definition = Definition.create(pa.schema([("c", type_)]))
    plain = ColumnStats("a" if pa.types.is_string(type_) else 1, None, 0)
    held = [live(0, [({"c": plain}, 5)]), live(1, [({"c": ColumnStats(bound, None, 0)}, 5)])]  # type: ignore[arg-type]
    assert both(held, definition, "c")[1] is None


def test_times_beyond_what_is_held_are_unknown() -> None:
    definition = Definition.create(pa.schema([("c", pa.timestamp("s"))]))
    for low, high in ((-(2**62), 2**62), (2**62, 2**62), (-(2**62), -(2**62))):
        objects, rows = both([live(0, [({"c": ColumnStats(low, high, 0)}, 5)])], definition, "c")
        assert rows is not None
        assert equal(objects, rows)
        assert rows[2].all()
        assert rows[3].all()


def test_each_schema_has_its_own_name_and_unit() -> None:
    first = Definition.create(pa.schema([("a", pa.int32()), ("t", pa.timestamp("s"))]))
    second = evolve(first, rename={"a": "b"}, widen={"a": pa.int64()})
    third = evolve(second, add=[pa.field("later", pa.int64())])
    held = [
        live(0, [({"a": ColumnStats(1, 2, 0), "t": ColumnStats(3, 4, 0)}, 5)], schema_id=1),
        live(1, [({"b": ColumnStats(5, 6, 0), "a": ColumnStats(7, 8, 0)}, 5)], schema_id=2),
        live(2, [({"later": ColumnStats(9, 9, 0)}, 5)], schema_id=3),
        live(3, [({"a": ColumnStats(0, 1, 0)}, 5)], schema_id=1),
    ]
    for name in ("b", "t", "later"):
        objects, rows = both(held, third, name)
        assert rows is not None
        assert equal(objects, rows)


@pytest.mark.parametrize(
    ("type_", "bound", "above"),
    [
        (pa.string(), "m", "zz"),
        (pa.float64(), 5.0, 9.0),
        (pa.date32(), 5, 9),
        (pa.int64(), 5, 9),
    ],
)
def test_blocks_without_the_column_or_without_a_chunk_meet_every_condition(
    type_: pa.DataType, bound: Any, above: Any
) -> None:
    """As those from before a column was added."""
    first = Definition.create(pa.schema([("a", pa.int32())]))
    definition = evolve(first, add=[pa.field("later", type_)])
    held = [
        live(0, [({"a": ColumnStats(1, 2, 0)}, 5)], schema_id=1),
        live(1, [({"later": ColumnStats(bound, bound, 0)}, 5)], schema_id=2),
        live(2, [], schema_id=2),
    ]
    objects, rows = both(held, definition, "later")
    assert rows is not None
    assert equal(objects, rows)
    for low, high, open_low, open_high, _ in (objects, rows):
        found = Ranges(low, high, open_low, open_high).meet(Hull(above, above))
        assert found.tolist() == [True, False, True]


def test_a_schema_that_the_definition_lacks_is_left_to_the_objects() -> None:
    definition = Definition.create(pa.schema([("c", pa.int64())]))
    held = [live(0, [({"c": ColumnStats(1, 2, 0)}, 5)], schema_id=7)]
    objects, rows = both(held, definition, "c")
    assert rows is None
    assert objects[2].all()


def test_a_list_of_sources_is_no_chunk() -> None:
    definition = Definition.create(pa.schema([("c", pa.int64())]))
    block = live(0, [({"c": ColumnStats(1, 2, 0)}, 5)])
    listed = ChunkFile(path=sources_path(), bytes=1, rows=0, sha256="0" * 64)
    held = replace(block, meta=replace(block.meta, files=(*block.meta.files, listed)))
    objects, rows = both([held], definition, "c")
    assert rows is not None
    assert equal(objects, rows)
    assert rows[4].tolist() == [1]


def test_rows_that_hold_another_block_are_left_to_the_objects() -> None:
    definition = Definition.create(pa.schema([("c", pa.int64())]))
    blocks = [live(number, [({"c": ColumnStats(number, number, 0)}, 5)]) for number in range(3)]
    stored = Rows.of(blocks).stored()
    place = stored.schema.get_field_index("meta")
    make = _Maker(definition, Column("c", pa.int64()), kind_of(pa.int64()))
    metas = stored["meta"].to_pylist()
    for changed in (
        [metas[1], metas[0], metas[2]],
        [metas[0] + metas[1], metas[2], b"{}"],
        [metas[0], metas[1], b"nothing"],
        [b"", b"", b""],
    ):
        rows = stored.set_column(place, "meta", pa.array(changed, pa.binary()))
        assert make.of_rows(rows) is None
    assert make.of_rows(stored) is not None


def test_an_odd_block_makes_objects_of_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = Definition.create(pa.schema([("c", pa.float64())]))
    held = [live(number, [({"c": ColumnStats(number, number, 0)}, 5)]) for number in range(1_000)]
    held[700] = live(700, [({"c": ColumnStats(700.0, "Infinity", 0)}, 5)])
    made: list[int] = []
    of_blocks = _Maker.of_blocks

    def counted(maker: _Maker, blocks: Sequence[LiveBlock]) -> Arrays:
        made.append(len(blocks))
        return of_blocks(maker, blocks)

    monkeypatch.setattr(_Maker, "of_blocks", counted)
    snapshot = Snapshot(definition=definition, blocks=Blocks.of(held))
    assert [chunk.block for chunk in plan_scan(snapshot, where="c > 998").chunks] == [
        held[700].ulid,
        held[999].ulid,
    ]
    assert 0 < sum(made) <= 64


def test_documents_beyond_a_piece_are_left_to_the_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_MOST_BYTES", 1_000)
    definition = Definition.create(pa.schema([("c", pa.int64())]))
    held = [live(number, [({"c": ColumnStats(1, 2, 0)}, 5)]) for number in range(9)]
    assert both(held, definition, "c")[1] is None
    assert both(held[:1], definition, "c")[1] is not None


def test_a_text_column_that_comes_late_to_many_blocks_is_searched() -> None:
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    schema = pa.schema([("a", pa.int64())])
    table = Table(bucket, world, index_log.create(bucket, world, Definition.create(schema)))
    for number in range(130):
        table.append(pa.table({"a": [number]}))
    table.alter(add=[pa.field("note", pa.string())])
    table.append(pa.table({"a": [130], "note": ["x"]}))
    for one in (table, Table.open_bucket(bucket, world)):
        rows = one.snapshot().scan(where="note = 'x'").to_table().to_pylist()
        assert rows == [{"a": 130, "note": "x"}]
        assert one.snapshot().scan(where="note is null").to_table().num_rows == 130
