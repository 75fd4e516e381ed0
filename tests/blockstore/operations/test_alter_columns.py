"""Columns that are renamed, dropped, reordered and get other rules: what is refused, what existing
rows must meet, and what follows a rename."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.format.fields import field_id
from blockstore.format.identity import Key
from blockstore.index import log as index_log
from blockstore.operations.unindexed import Unindexed
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket

DAY = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        ("t", pa.timestamp("us", "UTC")),
        ("k", pa.int64()),
        ("age", pa.int32()),
        ("note", pa.string()),
    ]
)


class Made:
    """A table with a time column and a sort key, and a label."""

    def __init__(self, **options: Any) -> None:
        self.world = World.manual(seed=2)
        self.bucket = MemoryBucket(self.world.clock)
        options = {"time_column": "t", "sort_by": ["k"], "labels": {"site": "north"}, **options}
        index_log.create(self.bucket, self.world, Definition.create(SCHEMA, **options))
        self.table = self.open()

    def open(self, bucket: FaultyBucket | None = None, **options: Any) -> Table:
        return Table.open_bucket(bucket or self.bucket, self.world, **options)

    def append(self, *ages: int | None, table: Table | None = None, **columns: Any) -> str:
        self.world.clock.sleep(1)
        table = table or self.table
        names = table.definition.schema.names
        rows = {
            names[0]: [DAY + datetime.timedelta(days=place) for place in range(len(ages))],
            names[1]: list(range(len(ages))),
            names[2]: pa.array(ages, pa.int32()),
            names[3]: [f"note {age}" for age in ages],
            **columns,
        }
        done = table.append(pa.table(rows))
        assert done.ulid is not None
        return done.ulid

    def rows(self) -> list[dict[str, Any]]:
        self.table.poll()
        names = self.table.definition.schema.names
        return self.table.snapshot().scan(columns=names).to_table().to_pylist()

    def racing(self, *meanwhile: Callable[[], object]) -> Table:
        """A handle; something happens before each of its first tries to write an index entry."""
        faulty, left = FaultyBucket(self.bucket), list(meanwhile)

        def interfere(call: Call) -> None:
            if call.writes and "index/0" in call.key and left:
                left.pop(0)()

        faulty.before.append(interfere)
        return self.open(faulty)


def meta_of(table: Table, ulid: str) -> BlockMeta:
    block = table.snapshot().blocks.get(ulid)
    assert block is not None
    return block.meta


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rename": {"age": "note"}}, "two columns have the same name, 'note'"),
        ({"rename": {"age": "NOTE"}}, "differ only in upper and lower case"),
        ({"rename": {"age": "_source"}}, "'_source' is reserved"),
        ({"rename": {"age": "_Row_ID"}}, "is reserved"),
        ({"rename": {"age": ""}}, "an empty name"),
        ({"rename": {"age": 7}}, "renamed to 7, expected a text"),
        ({"rename": {"age": "Site"}}, "the name of a label"),
        ({"rename": {"nothing": "x"}}, "cannot rename 'nothing': no such column"),
        ({"rename": {"age": "age"}}, "changes nothing"),
        ({"drop": ["t"]}, "'t' is the time column and cannot be dropped"),
        ({"drop": ["k"]}, "'k' is in the sort key and cannot be dropped"),
        ({"drop": ["nothing"]}, "cannot drop 'nothing': no such column"),
        ({"drop": "age"}, r"drop is the text 'age', expected a list of columns: \['age'\]"),
        ({"drop": ["age", "age"]}, "drop names column 'age' twice"),
        ({"drop": ["age"], "rename": {"age": "x"}}, "'age' is dropped and changed at once"),
        ({"drop": ["age"], "columns": {"age": {}}}, "'age' is dropped and changed at once"),
        ({"reorder": ["nothing"]}, "cannot reorder 'nothing'"),
        ({"reorder": ["t", "k"]}, "changes nothing"),
        ({"columns": {"nothing": {}}}, "cannot change the rules of 'nothing'"),
        ({"columns": {"age": {"size": 3}}}, "has no property 'size', expected one of check"),
        ({"columns": {"age": {"not_null": "yes"}}}, "not_null 'yes', expected True or False"),
        ({"columns": {"note": {"max_length": "3"}}}, "max_length '3', expected a number"),
        ({"columns": {"age": "age > 1"}}, "the rules of column 'age' are 'age > 1'"),
        ({"columns": {"age": {"check": "note > 1"}}}, "a check that cannot be used"),
        ({"add": [bs.column("n", "integer", not_null=True)]}, "cannot be added as not null"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_and_nothing_is_written(
    change: dict[str, Any], words: str
) -> None:
    made = Made()
    made.append(1)
    with pytest.raises(bs.Invalid, match=words) as refused:
        made.table.alter(**change)
    assert "\n" not in str(refused.value)
    assert made.table.poll() == 2


def test_the_last_column_stays() -> None:
    definition = Definition.create(pa.schema([("a", pa.int64())]))
    with pytest.raises(bs.Invalid, match="keeps at least one column"):
        evolve(definition, drop=["a"])
    again = evolve(definition, drop=["a"], add=[pa.field("a", pa.string())])
    assert [(one.name, field_id(one)) for one in again.schema] == [("a", 2)]


def test_a_key_is_renamed_and_never_dropped_widened_or_null() -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.int64())])
    keyed = Definition.create(schema, key=["a"])
    for change, words in (
        ({"drop": ["a"]}, "'a' is in the key and cannot be dropped"),
        ({"widen": {"a": pa.int64()}}, "'a' is in the key, whose types are fixed"),
        ({"columns": {"a": {"not_null": False}}}, "'a' is in the key, which is never null"),
    ):
        with pytest.raises(bs.Invalid, match=words):
            evolve(keyed, **change)  # type: ignore[arg-type]
    renamed = evolve(keyed, rename={"a": "id"})
    assert renamed.identity == Key(("id",))
    assert renamed.requires == ("columns/0.2", "rows/0.2")


def test_everything_at_once_is_one_version() -> None:
    made = Made()
    made.append(7)
    made.table.alter(
        add=[bs.column("link", "link")],
        widen={"age": pa.int64()},
        rename={"age": "years"},
        drop=["note"],
        reorder=["years"],
        columns={"age": {"check": "years < 150", "description": "in years"}},
        message="tidied",
    )
    assert made.table.poll() == 3
    schema = made.open().definition.schema
    assert schema.names == ["years", "t", "k", "link"]
    assert schema.field("years").type == pa.int64()
    assert schema.field("years").metadata[b"blockstore.check"] == b"years < 150"
    assert made.rows() == [{"years": 7, "t": DAY, "k": 0, "link": None}]
    assert made.table.definition.requires == ("columns/0.2",)
    earlier = made.table.snapshot(version=2).scan().to_table()
    assert earlier.schema.names == [*SCHEMA.names, "site"]
    assert earlier["note"].to_pylist() == ["note 7"]


def test_the_time_column_and_the_sort_key_follow_a_rename() -> None:
    made = Made()
    late = made.open()
    made.append(1, 2)
    made.table.alter(rename={"t": "at", "k": "key"})
    definition = made.table.definition
    assert (definition.time_column, definition.sort_by) == ("at", ("key",))
    block = made.append(3, table=late)
    assert meta_of(made.open(), block).time_column == "t"
    made.append(4)
    assert sorted(row["age"] for row in made.rows()) == [1, 2, 3, 4]
    scan = made.table.snapshot().scan(where="at >= '2024-01-02'")
    assert scan.plan.pruned.blocks_by_time == 2
    assert [row["age"] for row in scan.to_table().to_pylist()] == [2]


def test_a_block_of_the_older_names_that_only_a_listing_shows_is_read_and_pruned() -> None:
    made = Made()
    late = made.open()
    made.table.alter(rename={"t": "at", "age": "years"}, drop=["note"])
    rows = pa.table({"t": [DAY], "k": [0], "age": pa.array([5], pa.int32()), "note": ["x"]})
    assert not late.append(rows, publish=False).published
    made.world.clock.sleep(3600)
    listing = made.open(discovery="list").snapshot(strict=True)
    assert listing.scan(columns=["at", "k", "years"]).to_table().to_pylist() == [
        {"at": DAY, "k": 0, "years": 5}
    ]
    assert listing.scan(where="at > '2025-01-01'").plan.pruned.blocks_by_time == 1


def test_a_dropped_column_is_gone_and_its_name_is_free_for_another() -> None:
    made = Made()
    late = made.open()
    made.append(1)
    made.table.alter(drop=["note"])
    assert "note" not in made.rows()[0]
    made.append(2, table=late)
    made.table.alter(add=[pa.field("note", pa.string())])
    assert [row["note"] for row in made.rows()] == [None, None]
    assert made.table.snapshot().scan(where="note = 'note 1'").to_table().num_rows == 0
    assert made.table.snapshot().scan(where="note IS NULL").to_table().num_rows == 2
    own = field_id(made.table.definition.schema.field("note"))
    assert own == 5


def test_a_condition_does_not_follow_to_another_column_of_the_same_name() -> None:
    made = Made()
    made.append(1)
    again = [pa.field("note", pa.string())]
    racing = made.racing(lambda: made.table.alter(drop=["note"], add=again))
    with pytest.raises(bs.Conflict, match="'note' was a column of string"):
        racing.delete("note = 'note 1'")
    made = Made()
    made.append(1)
    racing = made.racing(lambda: made.table.alter(drop=["note"]))
    with pytest.raises(bs.Conflict, match="and is not a column now"):
        racing.delete("note = 'note 1'")


def test_the_check_of_a_renamed_column_follows_it_and_that_of_a_dropped_one_is_in_the_way() -> None:
    made = Made()
    made.table.alter(columns={"age": {"check": "AGE < 150 OR note = 'age'"}})
    made.table.alter(rename={"age": "order", "note": "n b"})
    check = made.table.definition.schema.field("order").metadata[b"blockstore.check"].decode()
    assert check == """"order" < 150 OR "n b" = 'age'"""
    made.append(3)
    with pytest.raises(bs.Invalid, match=r"'order' is 200 \(n b = 'note 200'\) in row 0"):
        made.append(200)
    with pytest.raises(bs.Invalid, match="'n b' cannot be dropped, because the check of column"):
        made.table.alter(drop=["n b"])
    made.table.alter(drop=["n b"], columns={"order": {"check": '"order" < 150'}})
    assert made.table.definition.schema.names == ["t", "k", "order"]


NEW_RULES = [
    ({"age": {"check": "age < 150"}}, r"'age' is 200 in a row of the table, expected age < 150"),
    ({"age": {"not_null": True}}, "'age' is null in a row of the table, expected a value"),
    ({"note": {"max_length": 7}}, "'note' has 8 characters, 'note 200', in a row of the table"),
]


@pytest.mark.parametrize(("columns", "words"), NEW_RULES)
def test_a_new_rule_that_a_row_of_the_table_breaks_is_refused(
    columns: dict[str, Any], words: str
) -> None:
    made = Made()
    made.append(1, 2)
    if "null" in words:
        made.append(None)
    else:
        made.append(200)
    with pytest.raises(bs.Invalid, match=words):
        made.table.alter(columns=columns)
    assert made.table.poll() == 3
    made.table.delete("age = 200 OR age IS NULL")
    made.table.alter(columns=columns)
    with pytest.raises(bs.Invalid, match=r"'age'|'note'"):
        made.append(None if "null" in words else 200)


def test_rows_that_nobody_sees_do_not_break_a_rule() -> None:
    made = Made()
    made.append(1)
    made.table.revert(made.append(200))
    made.table.alter(columns={"age": {"check": "age < 150"}})
    assert [row["age"] for row in made.rows()] == [1]


def test_a_rule_under_the_new_name_reads_the_old_rows() -> None:
    made = Made()
    made.append(200)
    with pytest.raises(bs.Invalid, match="'years' is 200"):
        made.table.alter(rename={"age": "years"}, columns={"age": {"check": "years < 150"}})


def test_a_rule_that_is_not_new_reads_nothing() -> None:
    made = Made()
    made.append(1)
    made.table.alter(columns={"age": {"check": "age < 150"}, "note": {"max_length": 9}})
    faulty = FaultyBucket(made.bucket)
    made.open(faulty).alter(
        rename={"age": "years"},
        columns={"note": {"max_length": 10}, "age": {"description": "x", "default": 3}},
        add=[bs.column("more", "string", max_length=1)],
    )
    assert not [call for call in faulty.calls if "/chunks/" in call.key]


def test_rows_that_come_meanwhile_are_read_before_the_rule_counts() -> None:
    made = Made()
    made.append(1)
    other = made.open()
    racing = made.racing(lambda: made.append(2, table=other), lambda: made.append(3, table=other))
    racing.alter(columns={"age": {"check": "age < 150"}})
    assert (racing.log.state.version, len(made.rows())) == (5, 3)
    made = Made()
    made.append(1)
    other = made.open()
    racing = made.racing(lambda: made.append(200, table=other))
    with pytest.raises(bs.Invalid, match="'age' is 200 in a row of the table"):
        racing.alter(columns={"age": {"check": "age < 150"}})
    assert made.open().definition.schema_id == 1


def test_rows_that_come_faster_than_they_are_read_are_a_conflict() -> None:
    made = Made()
    made.append(1)
    other = made.open()
    racing = made.racing(*[lambda: made.append(2, table=other)] * 40)
    with pytest.raises(bs.Conflict, match="rows were written after version"):
        racing.alter(columns={"age": {"check": "age < 150"}})


def test_a_definition_that_changed_meanwhile_is_a_conflict_whatever_rows_came() -> None:
    made = Made()
    made.append(1)
    other = made.open()
    racing = made.racing(lambda: other.alter(rename={"note": "text"}))
    with pytest.raises(bs.Conflict, match="definition was changed after version 2"):
        racing.alter(columns={"age": {"check": "age < 150"}})


def test_a_table_without_an_index_cannot_change_what_a_column_is() -> None:
    world = World.manual(seed=2)
    bucket = MemoryBucket(world.clock)
    made = Table(bucket, world, Unindexed(Definition.create(SCHEMA), given=True))
    for change in ({"rename": {"age": "years"}}, {"drop": ["age"]}, {"columns": {"age": {}}}):
        with pytest.raises(bs.Invalid, match="has no index, and a column is its name there"):
            made.alter(**change)  # type: ignore[arg-type]


def test_rules_hold_in_a_table_without_an_index_too() -> None:
    world = World.manual(seed=2)
    bucket = MemoryBucket(world.clock)
    schema = pa.schema([bs.column("age", "integer", check="age < 150", default=1)])
    made = Table(bucket, world, Unindexed(Definition.create(schema), given=True))
    made.append(pa.table({"age": [1]}))
    world.clock.sleep(3600)
    again = Table.open_bucket(bucket, world, discovery="list")
    with pytest.raises(bs.Invalid, match="'age' is 200"):
        again.append(pa.table({"age": [200]}))
