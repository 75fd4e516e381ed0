"""Plans leave out what cannot match, nothing else, and describe the rest in neutral words."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pyarrow as pa
import pytest

from blockstore.errors import Invalid
from blockstore.format.evolution import evolve
from blockstore.scan import plan_scan
from blockstore.scan.columns import reads_of
from tests.blockstore.scan.tables import NOON, ODD, Lake, row

HOUR = datetime.timedelta(hours=1)
NOON_MS = int(NOON.replace(tzinfo=datetime.UTC).timestamp() * 1000)


@pytest.fixture
def lake() -> Lake:
    return Lake()


def test_blocks_are_pruned_by_time_exactly(lake: Lake) -> None:
    """Twelve o'clock and one microsecond belongs to the block that ends within that millisecond."""
    first = lake.append([row(0, 1), row(1, 2)])
    second = lake.append([row(2, 3), row(3, 4)])

    def blocks(where: str) -> list[str]:
        return [chunk.block for chunk in plan_scan(lake.snapshot(), where=where).chunks]

    assert blocks("time <= '2013-01-01 13:00:00'") == [first]
    assert blocks("time > '2013-01-01 13:00:00.001'") == [second]
    assert blocks("time < '2013-01-01 14:00:00'") == [first]
    assert blocks("time <= '2013-01-01 14:00:00'") == [first, second]
    assert blocks("time < '2013-01-01 12:00:00' OR time > '2013-01-01 15:00:00'") == []
    assert blocks("time IS NULL") == []


def test_a_time_range_takes_its_start_and_leaves_its_end(lake: Lake) -> None:
    first = lake.append([row(0, 1), row(1, 2)])
    second = lake.append([row(2, 3)])
    for time_range, expected in [
        ((NOON, NOON + HOUR), [first]),
        ((NOON_MS, NOON_MS + 7_200_000), [first]),
        (("2013-01-01 14:00:00", None), [second]),
        ((None, NOON + 2 * HOUR + datetime.timedelta(microseconds=1)), [first, second]),
    ]:
        plan = plan_scan(lake.snapshot(), time_range=time_range)
        assert [chunk.block for chunk in plan.chunks] == expected
    plan = plan_scan(lake.snapshot(), time_range=(NOON, NOON + HOUR))
    assert not plan.chunks[0].certain
    assert plan.pruned.blocks_by_time == 1


def test_chunks_are_pruned_by_statistics_and_counted(lake: Lake) -> None:
    lake.append([row(0, n) for n in range(9)], chunks=3)
    plan = plan_scan(lake.snapshot(), where="n >= 3 AND n < 6")
    assert [chunk.file.columns["n"].min for chunk in plan.chunks] == [3]
    assert plan.chunks[0].certain
    assert (plan.pruned.chunks, plan.pruned.chunks_by_statistics) == (3, 2)
    assert plan.rows == 3
    assert plan.bytes == plan.chunks[0].file.bytes


def test_labels_are_text_columns_that_prune_whole_streams(lake: Lake) -> None:
    lake.append([row(0, 1)], labels={"cluster": "eu1", "S": "hidden by the schema"})
    us = lake.append([row(0, 2)], labels={"cluster": "us1", "rack": "a"})
    plan = plan_scan(lake.snapshot(), where="cluster = 'us1'")
    assert [chunk.block for chunk in plan.chunks] == [us]
    assert plan.output_schema.names == ["time", "n", "s", ODD, "cluster", "rack"]
    assert plan.chunks[0].certain
    assert plan.pruned.blocks_by_labels == 1
    missing = plan_scan(lake.snapshot(), where="rack IS NULL")
    assert [chunk.labels for chunk in missing.chunks] == [{"cluster": "eu1", "rack": None}]


def test_hidden_columns_prune_level_1_blocks(lake: Lake) -> None:
    first = lake.append([row(0, 1), row(0, 2)])
    second = lake.append([row(0, 3)])

    def blocks(where: str) -> list[str]:
        return [chunk.block for chunk in plan_scan(lake.snapshot(), where=where).chunks]

    assert blocks(f"_source = '{second}'") == [second]
    assert blocks("_version = 1") == [first]
    assert blocks("_row_id >= 1002") == [second]


def test_an_excepted_source_hides_a_level_1_block_and_filters_a_merge(lake: Lake) -> None:
    meta = lake.write([row(0, 1)])
    lake.commit(meta, excepted=[meta.ulid])
    a, b = lake.world.ids.ulid(), lake.world.ids.ulid()
    merge = lake.commit(
        lake.write([{**row(0, 2), "_source": a}, {**row(0, 3), "_source": b}], sources=[a, b]),
        excepted=[a, lake.world.ids.ulid()],
    )
    gone = lake.write([{**row(0, 4), "_source": a}], sources=[a, b])
    lake.commit(gone, excepted=[a, b])
    plan = plan_scan(lake.snapshot())
    assert [(chunk.block, chunk.excepted, chunk.sources) for chunk in plan.chunks] == [
        (merge, frozenset({a}), None)
    ]
    assert plan.pruned.blocks_excepted == 2


def test_positions_of_rows_count_over_the_chunks_of_a_block(lake: Lake) -> None:
    lake.append([row(0, n) for n in range(6)], chunks=3)
    lake.append([row(0, n) for n in range(4)], chunks=2)
    firsts = [chunk.first_row_id for chunk in plan_scan(lake.snapshot()).chunks]
    assert firsts == [1000, 1002, 1004, 1006, 1008]


def test_groups_hold_chunks_that_are_treated_alike(lake: Lake) -> None:
    for n in range(4):
        lake.append([row(0, n)])
    lake.append([row(0, 9)], labels={"cluster": "eu1"})
    lake.definition = evolve(
        lake.definition, add=[pa.field("late", pa.int8())], widen={"n": pa.int64()}
    )
    lake.append([{**row(0, 5), "late": 1}])
    a, b = lake.world.ids.ulid(), lake.world.ids.ulid()
    merge = lake.write([{**row(0, 6), "late": 2, "_source": a}], sources=[a, b])
    lake.commit(merge, excepted=[b])
    plan = plan_scan(lake.snapshot())
    assert [(len(group.chunks), group.schema_id, group.excepted) for group in plan.groups()] == [
        (4, 1, None),
        (1, 1, None),
        (1, 2, None),
        (1, 2, frozenset({b})),
    ]
    old = plan.reads(1)
    assert old["late"].stored_as is None
    assert (old["n"].stored_as, old["n"].widened, old["n"].type) == ("n", True, pa.int64())
    assert not plan.reads(2)["n"].widened
    assert len(plan_scan(lake.snapshot(), columns=["n", "_source"]).groups()) == 7
    assert len(plan_scan(lake.snapshot(), columns=["n"]).groups()) == 4


def test_old_chunks_are_pruned_under_the_new_schema(lake: Lake) -> None:
    lake.append([row(0, 5)])
    lake.definition = evolve(
        lake.definition, add=[pa.field("late", pa.int8())], widen={"n": pa.int64()}
    )
    assert plan_scan(lake.snapshot(), where="late = 1").chunks == ()
    assert plan_scan(lake.snapshot(), where="n > 5000000000").chunks == ()
    assert plan_scan(lake.snapshot(), where="late IS NULL AND n = 5").chunks[0].certain


def test_a_listed_block_is_read_under_its_own_schema(lake: Lake) -> None:
    lake.list_only(lake.write([row(0, 1)]))
    old = lake.definition
    lake.definition = evolve(lake.definition, add=[pa.field("late", pa.int8())])
    lake.list_only(
        replace(lake.write([{**row(0, 2), "late": 1}]), schema=old.schema.serialize().to_pybytes())
    )
    foreign = old.schema.append(pa.field("more", pa.int8()))
    lake.list_only(replace(lake.write([row(0, 3)]), schema=foreign.serialize().to_pybytes()))
    plan = plan_scan(lake.snapshot())
    assert [chunk.schema_id for chunk in plan.chunks] == [1, 1, -1]
    assert plan.schemas[-1].names == foreign.names


def test_what_is_kept_of_a_schema_is_not_taken_for_another_one(lake: Lake) -> None:
    columns = lake.snapshot().columns
    own = columns.table
    name = own.names[0]
    renamed = pa.schema([own.field(0).with_name("other"), *list(own)[1:]])
    for stored in (own, renamed, own):
        read = columns.reads(1, stored)
        assert read == columns.reads(1, stored) == reads_of(stored, own)
        assert read[name].stored_as == stored.names[0]


def test_listed_blocks_are_pruned_too(lake: Lake) -> None:
    lake.list_only(lake.write([row(0, 1)], labels={"c": "a"}))
    lake.list_only(lake.write([row(5, 2)], labels={"c": "b"}))
    assert len(plan_scan(lake.snapshot(), where="time > '2013-01-01 13:00:00'").chunks) == 1
    assert len(plan_scan(lake.snapshot(), where="c = 'a'").chunks) == 1


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"columns": ["nope"]}, "'nope'"),
        ({"columns": []}, "at least one"),
        ({"columns": ["n", "N"]}, "twice"),
        ({"columns": "n"}, r"\['n'\]"),
        ({"where": "nope = 1"}, "'nope'"),
        ({"where": "a.b = 1"}, "quote the name"),
    ],
)
def test_what_the_table_cannot_answer_is_refused(
    lake: Lake, options: dict[str, object], part: str
) -> None:
    with pytest.raises(Invalid, match=part):
        plan_scan(lake.snapshot(), **options)  # type: ignore[arg-type]


def test_a_time_range_needs_a_time_column(lake: Lake) -> None:
    without = replace(lake.definition, time_column=None)
    with pytest.raises(Invalid, match="no time column"):
        plan_scan(replace(lake.snapshot(), definition=without), time_range=(0, 1))


def test_a_count_by_metadata_is_given_only_where_it_is_exact(lake: Lake) -> None:
    meta = lake.write([row(0, 1)])
    lake.commit(meta, excepted=[meta.ulid])
    lake.append([row(0, 2), row(0, 3)])
    lake.list_only(lake.write([row(0, 4)]))
    assert lake.snapshot().count() == 3
    assert len(lake.snapshot()) == 3
    a, b = lake.world.ids.ulid(), lake.world.ids.ulid()
    lake.list_only(lake.write([{**row(0, 2), "_source": a}], sources=[a, b]), frozenset({a}))
    assert lake.snapshot().count() is None
