"""Labels are columns: from the start, and never under the name of another one; tables that have
such names already are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.operations.alter import Alter
from blockstore.operations.distributed_overwrite import begin
from blockstore.operations.unindexed import Unindexed
from blockstore.reader.query import Engine
from blockstore.table import Table
from blockstore.world import World

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int32())])
ROWS = pa.table({"k": ["a", "b"], "n": [1, 2]}, schema=SCHEMA)
TAKEN = [
    {"n": "x"},
    {"N": "x"},
    {"site": "x", "Site": "y"},
    {"_SOURCE": "x"},
    {"_Blockstore_x": "y"},
]


@pytest.fixture
def table(tmp_path: Path) -> bs.Table:
    return bs.create(str(tmp_path / "t"), schema=SCHEMA)


def names(table: bs.Table) -> list[str]:
    return table.snapshot().scan().to_table().schema.names


def answer(table: bs.Table, sql: str) -> pa.Table:
    with Engine({"t": table.snapshot()}) as engine:
        return engine.query(sql).read_all()


def test_an_empty_table_that_was_made_with_labels_has_their_columns(tmp_path: Path) -> None:
    table = bs.create(str(tmp_path / "t"), schema=SCHEMA, labels={"site": "eu", "Zone": "2"})
    assert names(table) == ["k", "n", "Zone", "site"]
    assert answer(table, "SELECT * FROM t WHERE site = 'eu'").schema.names == [
        "k",
        "n",
        "Zone",
        "site",
    ]
    table.append(ROWS, labels={"other": "x"})
    assert names(table) == ["k", "n", "Zone", "other", "site"]
    assert answer(table, "SELECT count(*) AS c FROM t WHERE site IS NULL").to_pylist() == [{"c": 2}]


WRITES: dict[str, Callable[[bs.Table, dict[str, str]], object]] = {
    "append": lambda table, labels: table.append(ROWS, labels=labels),
    "append with a job": lambda table, labels: table.append(
        ROWS, labels=labels, job=bs.Job("a", 1)
    ),
    "writer": lambda table, labels: table.writer(labels=labels),
    "overwrite": lambda table, labels: table.overwrite(ROWS, labels=labels),
    "overwrite in parts": lambda table, labels: begin(table._access, labels=labels),
    "build": lambda table, labels: bs.build(
        f"{table.url}-folder", ROWS, schema=SCHEMA, labels=labels
    ),
}


@pytest.mark.parametrize("labels", TAKEN, ids=str)
@pytest.mark.parametrize("write", WRITES)
def test_a_label_that_sql_could_not_tell_from_a_column_is_refused_before_anything_is_written(
    table: bs.Table, write: str, labels: dict[str, str]
) -> None:
    before = [info.key for info in table.bucket.list()]
    with pytest.raises(bs.Invalid, match="label"):
        WRITES[write](table, labels)
    assert [info.key for info in table.bucket.list()] == before


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("labels", TAKEN, ids=str)
def test_a_table_is_not_made_with_such_a_label(
    tmp_path: Path, labels: dict[str, str], index: bool
) -> None:
    with pytest.raises(bs.Invalid, match="label"):
        bs.create(str(tmp_path / "t"), schema=SCHEMA, labels=labels, index=index)


@pytest.mark.parametrize("name", ["_SOURCE", "_Row_Id", "_VERSION", "_Deleted", "_BLOCKSTORE_x"])
def test_a_new_column_has_no_reserved_name_in_other_letters(table: bs.Table, name: str) -> None:
    with pytest.raises(bs.Invalid, match="reserved"):
        bs.create("memory://reserved", schema=pa.schema([(name, pa.int64())]))
    with pytest.raises(bs.Invalid, match="reserved"):
        table.alter(add=[pa.field(name, pa.int64())])


@pytest.mark.parametrize("name", ["site", "SITE"])
@pytest.mark.parametrize("made_with", [True, False])
def test_a_column_that_would_hide_a_label_is_not_added(
    tmp_path: Path, name: str, made_with: bool
) -> None:
    labels = {"site": "eu"}
    table = bs.create(str(tmp_path / "t"), schema=SCHEMA, labels=labels if made_with else None)
    if not made_with:
        table.append(ROWS, labels=labels)
    version = table.poll()
    with pytest.raises(bs.Invalid, match=f"column '{name}' has the name of a label"):
        table.alter(add=[pa.field(name, pa.string())])
    assert table.poll() == version
    table.alter(add=[pa.field("other", pa.string())])


def test_nor_is_it_where_the_label_came_after_the_look(table: bs.Table) -> None:
    state = table.log.poll()
    wanted = bs.create("memory://wider", schema=SCHEMA)
    wanted.alter(add=[pa.field("site", pa.string())])
    table.append(ROWS, labels={"site": "eu"})
    change = Alter(
        commit=table.world.ids.ulid(),
        read=state.definition,
        wanted=wanted.definition,
        read_version=state.version,
    )
    with pytest.raises(bs.Invalid, match="name of a label"):
        table.log.commit(change)


def test_without_an_index_it_is_not_added_either() -> None:
    world = World.manual(seed=2)
    table = bs.create("memory://plain-labels", schema=SCHEMA, index=False, world=world)
    table.append(ROWS, labels={"site": "eu"})
    world.clock.sleep(16 * 60)
    with pytest.raises(bs.Invalid, match="name of a label"):
        table.alter(add=[pa.field("Site", pa.string())])


def older_table(path: Path) -> bs.Table:
    """A table of an earlier release: with a column that is reserved but for its case, and with a
    label named like a column."""
    made = Definition.create(pa.schema([("k", pa.string()), ("n", pa.int32()), ("x", pa.string())]))
    schema = pa.schema(
        [field.with_name("_SOURCE") if field.name == "x" else field for field in made.schema]
    )
    older = replace(made, schema=schema, schemas={1: schema}, labels={"N": "label", "site": "eu"})
    world = World.real()
    place = open_bucket(str(path / "older"), world)
    index_log.create(place, world, older)
    return bs.open(str(path / "older"))


def test_a_table_that_has_such_names_opens_reads_and_takes_commits(tmp_path: Path) -> None:
    table = older_table(tmp_path)
    rows = pa.table(
        {"k": ["a", "b"], "n": [1, 2], "_SOURCE": ["own", "too"]}, schema=table.definition.schema
    )
    block = table.append(rows)
    assert names(table) == ["k", "n", "_SOURCE", "site"]
    assert table.snapshot().scan(columns=["_SOURCE", "_source"]).to_table().to_pylist() == [
        {"_SOURCE": "own", "_source": block.ulid},
        {"_SOURCE": "too", "_source": block.ulid},
    ]
    found = answer(table, "SELECT *, _row_id FROM t WHERE _source = 'own' AND n = 1").to_pylist()
    assert found == [{"k": "a", "n": 1, "_SOURCE": "own", "site": "eu", "_row_id": 0}]
    table.delete(where="n = 1")
    table.alter(add=[pa.field("more", pa.int64())])
    assert names(table) == ["k", "n", "_SOURCE", "more", "site"]
    assert answer(table, "SELECT n, _source FROM t").to_pylist() == [{"n": 2, "_SOURCE": "too"}]


def test_a_block_that_has_such_a_column_is_read_without_an_index(tmp_path: Path) -> None:
    world = World.manual(seed=2)
    older = older_table(tmp_path).definition
    bucket = bs.create("memory://older-plain", schema=SCHEMA, index=False, world=world).bucket
    table = Table(bucket, world, Unindexed(older, given=True))
    table.append(pa.table({"k": ["a"], "n": [1], "_SOURCE": ["own"]}, schema=older.schema))
    world.clock.sleep(16 * 60)
    other = bs.open("memory://older-plain", discovery="list", world=world)
    assert other.snapshot().scan(columns=["_SOURCE"]).to_table().to_pylist() == [{"_SOURCE": "own"}]
