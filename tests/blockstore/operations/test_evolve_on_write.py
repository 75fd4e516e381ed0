"""Rows that bring columns which the table lacks: rows and columns in one version, or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.format.block import VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolved_for
from blockstore.index import log as index_log
from blockstore.operations.unindexed import Unindexed
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket

SCHEMA = pa.schema([("k", pa.int32()), ("x", pa.float32())])


class Made:
    def __init__(self, schema: pa.Schema = SCHEMA, **options: Any) -> None:
        self.world = World.manual(seed=4)
        self.bucket = MemoryBucket(self.world.clock)
        index_log.create(self.bucket, self.world, Definition.create(schema, **options))
        self.table = self.open()
        self.table.append(pa.table({"k": [1], "x": [0.5]}).cast(SCHEMA))

    def open(self, bucket: FaultyBucket | None = None) -> Table:
        return Table.open_bucket(bucket or self.bucket, self.world)

    def rows(self) -> list[dict[str, Any]]:
        return self.open().snapshot().scan().to_table().to_pylist()

    def racing(self, meanwhile: Callable[[], object]) -> Table:
        faulty, left = FaultyBucket(self.bucket), [meanwhile]

        def interfere(call: Call) -> None:
            if call.writes and "index/0" in call.key and left:
                left.pop()()

        faulty.before.append(interfere)
        return self.open(faulty)


def more(**columns: list[object]) -> pa.Table:
    return pa.table(
        {"k": pa.array([2], pa.int64()), "x": pa.array([0.25], pa.float64()), **columns}
    )


def test_new_columns_and_wider_types_come_in_the_version_of_the_rows() -> None:
    made = Made()
    done = made.table.append(more(note=["x"]), evolve=True)
    assert (done.version, made.table.poll()) == (3, 3)
    definition = made.table.definition
    assert [str(one.type) for one in definition.schema] == ["int64", "double", "string"]
    assert (definition.schema_id, definition.last_field_id) == (2, 3)
    assert made.rows() == [
        {"k": 1, "x": 0.5, "note": None},
        {"k": 2, "x": 0.25, "note": "x"},
    ]
    (entry,) = [one for one in made.table.history() if one.id == 3]
    assert (len(entry.add), entry.table) == (1, definition)


def test_rows_that_fit_change_nothing() -> None:
    made = Made()
    rows = pa.table({"x": pa.array([1.0], pa.float32()), "k": pa.array([3], pa.int8())})
    made.table.append(rows, evolve=True)
    with made.table.writer(evolve=True) as writer:
        writer.write(rows)
    assert made.table.definition.schema_id == 1
    block = made.table.snapshot().blocks.get(str(writer.block and writer.block.ulid))
    assert block is not None
    assert block.meta.visible_by is VisibleBy.AGE


def test_what_evolve_does_not_do_is_refused() -> None:
    made = Made()
    for rows, words in (
        (pa.table({"k": [1]}), "lacks column 'x'"),
        (more(x=["text"]), "column 'x' has the type string, expected float"),
        (more(K=[1]), "'k' and 'K' differ only in upper and lower case"),
        (more(_source=["x"]), "'_source' is reserved"),
    ):
        with pytest.raises(bs.Invalid, match=words):
            made.table.append(rows, evolve=True)
    with pytest.raises(bs.Invalid, match="publish=False would lose them"):
        made.table.append(more(), evolve=True, publish=False)
    assert made.table.poll() == 2


def test_a_later_batch_with_other_columns_is_refused_and_nothing_is_written() -> None:
    made = Made()
    batches = [more(note=["x"]), more(note=["x"], other=["y"])]
    with pytest.raises(bs.Invalid, match="the data has column 'other'"):
        made.table.append([one.to_batches()[0] for one in batches], evolve=True)
    assert made.open().definition.schema_id == 1


def test_rules_of_the_rows_metadata_are_not_taken_over_and_those_of_the_table_hold() -> None:
    made = Made(pa.schema([bs.column("k", pa.int32(), check="k < 9"), SCHEMA.field("x")]))
    strange = pa.field("note", pa.string(), metadata={"blockstore.max_length": "1"}, nullable=False)
    rows = more().append_column(strange, [["long"]])
    made.table.append(rows, evolve=True)
    assert set(made.table.definition.schema.field("note").metadata) == {b"PARQUET:field_id"}
    with pytest.raises(bs.Invalid, match="column 'k' is 10"):
        made.table.append(pa.table({"k": [10], "x": [0.5], "note": ["x"], "z": [1]}), evolve=True)


def test_a_key_is_not_widened_by_rows() -> None:
    definition = Definition.create(SCHEMA, key=["k"])
    assert evolved_for(definition, more().schema).schema.field("k").type == pa.int32()


def test_a_job_that_brings_columns_happens_once() -> None:
    made = Made()
    job = bs.Job("load", 1)
    first = made.table.append(more(note=["x"]), evolve=True, job=job)
    again = made.open().append(more(note=["x"]), evolve=True, job=job)
    assert (again.already, again.ulid) == (True, first.ulid)
    assert len(made.rows()) == 2


def test_two_writers_of_the_same_new_column_both_count() -> None:
    made = Made()
    other = made.open()
    racing = made.racing(lambda: other.append(more(note=["first"]), evolve=True))
    racing.append(more(note=["second"]), evolve=True)
    assert {row["note"] for row in made.rows()} == {None, "first", "second"}
    assert len(made.rows()) == 3
    assert made.open().definition.schema_id == 2


@pytest.mark.parametrize("meanwhile", ["another column", "an alter"])
def test_a_definition_that_changed_otherwise_is_a_conflict_and_no_listing_shows_the_rows(
    meanwhile: str,
) -> None:
    made = Made()
    other = made.open()
    change: dict[str, Callable[[], object]] = {
        "another column": lambda: other.append(more(other=["first"]), evolve=True),
        "an alter": lambda: other.alter(rename={"x": "y"}),
    }
    with pytest.raises(bs.Conflict, match="write the rows again"):
        made.racing(change[meanwhile]).append(more(note=["second"]), evolve=True)
    count = len(made.rows())
    made.world.clock.sleep(7 * 86_400)
    listing = Table.open_bucket(made.bucket, made.world, discovery="list")
    assert listing.snapshot(strict=True).count() == count
    names = made.open().definition.schema.names
    rows = more(note=["second"]).rename_columns([*names[:2], "note"])
    if meanwhile == "another column":
        rows = rows.append_column("other", [["third"]])
    made.open().append(rows, evolve=True)
    assert "second" in [row["note"] for row in made.rows()]


def test_a_new_column_with_the_name_of_a_label_is_refused() -> None:
    made = Made(labels={"site": "north"})
    with pytest.raises(bs.Invalid, match="'site' has the name of a label"):
        made.table.append(more(site=["x"]), evolve=True)
    assert made.table.poll() == 2


def test_a_table_without_an_index_gets_the_columns_with_the_block() -> None:
    world = World.manual(seed=4)
    bucket = MemoryBucket(world.clock)
    table = Table(bucket, world, Unindexed(Definition.create(SCHEMA), given=True))
    table.append(more(note=["x"]), evolve=True)
    world.clock.sleep(3600)
    again = Table.open_bucket(bucket, world, discovery="list")
    assert again.snapshot().scan().to_table().to_pylist() == [{"k": 2, "x": 0.25, "note": "x"}]
