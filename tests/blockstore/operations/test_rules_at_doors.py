"""Every door by which rows come checks the rules of their columns: the error names the row, and
nothing is visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.format.file_handle import FileHandle, encode_record
from blockstore.index import log as index_log
from blockstore.names import FILE_RECORD, file_key
from blockstore.operations.access import Access
from blockstore.operations.distributed_overwrite import begin, rows_of
from blockstore.table import Table
from blockstore.world import World

FILE = "01HF7YAT00KE0PXJEJGSHWN0MD"
HANDLE = FileHandle(id=FILE, name="n", content_type="a/b", bytes=1, sha256="0" * 64)
COLUMNS = {
    "not_null": (bs.column("c", "string", not_null=True), "a", None),
    "max_length": (bs.column("c", "string", max_length=2), "ab", "abc"),
    "check": (bs.column("c", "string", check="c <> 'x'"), "a", "x"),
    "entity": (bs.entity("c", pattern="[a-z]+"), "a", "A"),
    "link": (bs.link("c"), "https://a", "a"),
    "file": (
        bs.file("c"),
        HANDLE,
        HANDLE | {"sha256": "short"},
    ),
}
Write = Callable[[Table, list[pa.RecordBatch]], object]


def writer(table: Table, batches: list[pa.RecordBatch]) -> None:
    with table.writer() as into:
        for batch in batches:
            into.write(batch)


def of_a_cluster(table: Table, batches: list[pa.RecordBatch]) -> None:
    """As a task of a cluster appends."""
    with BlockWriter(
        table.bucket, table.world, table.world.ids.ulid(), table.definition, producer="task"
    ) as into:
        for batch in batches:
            into.write(batch)
        into.finish()


def overwrite_of_a_cluster(table: Table, batches: list[pa.RecordBatch]) -> None:
    """As a task of a cluster overwrites."""
    begun = begin(Access.of(table.bucket, table.world, table.log))
    with BlockWriter(
        table.bucket,
        table.world,
        begun.source,
        begun.definition,
        producer="task",
        extra_columns=("_source",),
    ) as into:
        for batch in rows_of(begun, batches):
            into.write(batch)
        into.finish()


DOORS: dict[str, Write] = {
    "append": lambda table, batches: table.append(batches),
    "append with evolve": lambda table, batches: table.append(batches, evolve=True),
    "writer": writer,
    "overwrite": lambda table, batches: table.overwrite(batches),
    "overwrite of some rows": lambda table, batches: table.overwrite(batches, where="n >= 0"),
    "a task that appends": of_a_cluster,
    "a task that overwrites": overwrite_of_a_cluster,
}


def made(column: pa.Field) -> Table:
    world = World.manual(seed=7)
    bucket = MemoryBucket(world.clock)
    schema = pa.schema([bs.column("n", "integer"), column])
    index_log.create(bucket, world, Definition.create(schema))
    bucket.put(file_key(FILE, "n"), b"x")
    bucket.put(file_key(FILE, FILE_RECORD), encode_record(HANDLE))
    return Table.open_bucket(bucket, world)


def batches(column: pa.Field, *values: object) -> Iterator[pa.RecordBatch]:
    """Two batches: the rows of a write are counted over all of them."""
    for number, some in enumerate((values[:2], values[2:])):
        arrays = [pa.array([number] * len(some)), pa.array(some, column.type)]
        yield pa.RecordBatch.from_arrays(arrays, names=["n", "c"])


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("rule", COLUMNS)
def test_a_broken_rule_is_refused_with_its_row(door: str, rule: str) -> None:
    column, good, bad = COLUMNS[rule]
    table = made(column)
    with pytest.raises(bs.Invalid, match=r"column 'c' .* row 3 \(counted from 0\)") as refused:
        DOORS[door](table, list(batches(column, good, good, good, bad)))
    assert refused.value.row == 3
    assert "\n" not in str(refused.value)
    assert table.poll() == 1
    DOORS[door](table, list(batches(column, good, good, good, good)))


@pytest.mark.parametrize("door", DOORS)
def test_a_missing_column_gets_its_default(door: str) -> None:
    table = made(bs.column("c", "integer", default=5, not_null=True))
    rows = [pa.record_batch({"n": [1, 2]})]
    DOORS[door](table, rows)
    if not door.startswith("a task"):
        assert table.snapshot().scan(columns=["c"]).to_table()["c"].to_pylist() == [5, 5]


def test_a_table_gets_the_rules_of_a_typed_schema() -> None:
    schema = bs.typed_schema(
        [
            ("name", "string"),
            ("age", "integer"),
            ("score", "double"),
            ("is_known", "boolean"),
            ("day", "date"),
            ("at", "timestamp"),
            ("home", "link"),
            ("scan", "file"),
            bs.entity("id", pattern=r"syn\d+", not_null=True),
            bs.column("note", "string", max_length=2_000),
        ]
    )
    assert [str(one.type) for one in schema][:7] == [
        "string",
        "int64",
        "double",
        "bool",
        "date32[day]",
        "timestamp[us, tz=UTC]",
        "string",
    ]
    limits = {one.name: (one.metadata or {}).get(b"blockstore.max_length") for one in schema}
    assert {name: text for name, text in limits.items() if text} == {
        "name": b"1000",
        "note": b"2000",
    }
    unlimited = bs.typed_schema([("name", "string")], max_length=None)
    assert not unlimited.field("name").metadata
    table = Definition.create(schema)
    assert table.schema.field("id").metadata[b"blockstore.pattern"] == rb"syn\d+"
    with pytest.raises(bs.Invalid, match=r"write blockstore\.entity\(name, pattern=…\)"):
        bs.typed_schema([("id", "entity")])
    with pytest.raises(bs.Invalid, match="the type 'number', expected one of integer, string"):
        bs.typed_schema([("id", "number")])
    with pytest.raises(bs.Invalid, match="expected a pair such as"):
        bs.typed_schema(["id"])  # type: ignore[list-item]
