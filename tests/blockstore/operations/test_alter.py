from __future__ import annotations

import pyarrow as pa
import pytest

import blockstore as bs

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int32())])


def test_two_alters_of_one_definition_conflict_and_the_loser_says_where(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    url = str(tmp_path_factory.mktemp("t") / "table")
    first = bs.create(url, schema=SCHEMA)
    second = bs.open(url)
    stale = second.log.state
    first.alter(add=[pa.field("x", pa.int64())])
    from blockstore.operations.alter import Alter

    change = Alter(
        commit=second.world.ids.ulid(),
        read=stale.definition,
        wanted=stale.definition,
        read_version=stale.version,
    )
    with pytest.raises(bs.Conflict, match="version 1"):
        second.log.commit(change)
    assert bs.open(url).definition.schema.names == ["k", "n", "x"]


def test_properties_change_without_touching_the_schema() -> None:
    table = bs.create("memory://alter-properties", schema=SCHEMA)
    table.alter(properties={"sync_delay": "1h"}, message="slower")
    assert table.definition.properties.sync_delay_s == 3600
    assert table.definition.schema_id == 1
    assert [entry.message for entry in table.history()] == ["", "slower"]


def test_an_alter_that_changes_nothing_is_refused_and_writes_no_version() -> None:
    table = bs.create("memory://alter-nothing", schema=SCHEMA)
    for arguments in ({}, {"properties": {"sync_delay": "15m"}}):
        with pytest.raises(bs.Invalid, match="changes nothing"):
            table.alter(**arguments)  # type: ignore[arg-type]
    assert table.poll() == 1


def test_properties_that_contradict_each_other_are_refused() -> None:
    table = bs.create("memory://alter-refused", schema=SCHEMA)
    with pytest.raises(bs.Invalid, match="delete_delay"):
        table.alter(properties={"delete_delay": "1m"})
    assert table.poll() == 1
