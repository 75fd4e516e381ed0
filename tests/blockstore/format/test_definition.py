"""The definition of a table: checked when built, the same after its bytes, closed to what is
wrong."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

from blockstore.errors import Corrupt, Invalid, NewerFormat
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.format.fields import field_id
from blockstore.format.properties import Properties

SCHEMA = pa.schema(
    [
        pa.field(
            "t",
            pa.timestamp("us", "UTC"),
            metadata={"PARQUET:field_id": "40", "blockstore.type": "TIMESTAMP"},
        ),
        pa.field("origin", pa.large_string(), nullable=False),
        pa.field("tags", pa.list_(pa.string())),
    ]
)


def define() -> Definition:
    return Definition.create(
        SCHEMA,
        time_column="t",
        sort_by=["origin", "t"],
        labels={"cluster": "eu1"},
        properties=Properties(sync_delay_s=60),
    )


def test_create_gives_canonical_types_and_fresh_field_ids() -> None:
    definition = define()
    assert [field_id(field) for field in definition.schema] == [1, 2, 3]
    assert definition.last_field_id == 4
    assert definition.schema.field("origin").type == pa.string()
    assert definition.schema.field("t").metadata[b"blockstore.type"] == b"TIMESTAMP"
    assert (definition.schema_id, definition.schemas) == (1, {1: definition.schema})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time_column": "time"}, "'time' is not in the schema"),
        ({"time_column": "origin"}, "string, expected a timestamp or a date"),
        ({"sort_by": ["origin", "x"]}, "'x', which is not in the schema"),
        ({"sort_by": ["origin", "origin"]}, "'origin' twice"),
        ({"sort_by": "tags"}, "no order"),
        ({"labels": {"": "x"}}, "label name"),
        ({"labels": {"_source": "x"}}, "label name"),
        ({"labels": {"a": 1}}, "label 'a' is 1"),
    ],
)
def test_create_refuses_what_contradicts_the_schema(changes: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        Definition.create(SCHEMA, **changes)  # type: ignore[arg-type]


def test_a_table_needs_a_column() -> None:
    with pytest.raises(Invalid, match="no columns"):
        Definition.create(pa.schema([]))


def test_the_definition_survives_its_json_and_pickle_and_knows_old_schemas() -> None:
    definition = evolve(define(), add=[pa.field("x", pa.int8())])
    for again in (
        Definition.from_json(definition.to_json()),
        pickle.loads(pickle.dumps(definition)),
    ):
        assert again == definition
        assert again.schema.equals(definition.schema, check_metadata=True)
        assert again.schemas[1].equals(define().schema, check_metadata=True)


def test_equality_sees_metadata() -> None:
    other = SCHEMA.set(2, SCHEMA.field(2).with_metadata({"blockstore.description": "x"}))
    assert Definition.create(SCHEMA) != Definition.create(other)


def test_a_serialized_schema_finds_its_id() -> None:
    first = define()
    second = evolve(first, add=[pa.field("x", pa.int8())])
    assert (second.id_of(first.schema_bytes), second.id_of(second.schema_bytes)) == (1, 2)
    assert second.id_of(b"") is None


def test_a_memo_is_made_once_and_never_inherited() -> None:
    definition = define()
    assert definition.memo("x", lambda: [1]) is definition.memo("x", lambda: [2])
    assert replace(definition, sort_by=()).memo("x", lambda: [3]) == [3]


def test_a_definition_that_has_been_written_with_travels_to_workers_without_its_memo() -> None:
    definition = define()
    definition.memo("x", lambda: lambda: 1)
    carried = pickle.loads(pickle.dumps(definition))
    assert carried == definition
    assert carried.schemas == definition.schemas
    assert carried.memo("x", lambda: 2) == 2


def test_an_unknown_feature_is_refused_by_name_and_release() -> None:
    with pytest.raises(
        NewerFormat, match=r"table T requires the feature 'keyed'.*upgrade blocklake to 0\.4"
    ):
        Definition.from_json(define().to_json() | {"requires": ["keyed/0.4"]}, "table T")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema_id", 2),
        ("schema_id", 0),
        ("schema_id", "1"),
        ("schemas", {}),
        ("schemas", {"1": "!"}),
        ("schemas", {"1": "AAAA"}),
        ("schemas", {"01": ""}),
        ("schemas", []),
        ("last_field_id", 1),
        ("last_field_id", 2**40),
        ("time_column", "nowhere"),
        ("time_column", 7),
        ("sort_by", "origin"),
        ("sort_by", [1]),
        ("labels", {"a": 1}),
        ("properties", {"sync_delay": "soon"}),
        ("properties", {"partial_delay": "1h"}),
        ("requires", "keyed"),
    ],
)
def test_a_damaged_definition_is_corrupt_and_named(name: str, value: object) -> None:
    damaged = copy.deepcopy(define().to_json()) | {name: value}
    with pytest.raises(Corrupt, match="table T"):
        Definition.from_json(damaged, "table T")


@pytest.mark.parametrize("name", ["schema_id", "schemas", "last_field_id"])
def test_a_missing_field_is_corrupt(name: str) -> None:
    damaged = define().to_json()
    del damaged[name]
    with pytest.raises(Corrupt, match=f"{name} is missing"):
        Definition.from_json(damaged)


@pytest.mark.parametrize("schema", [None, "a:int", [("a", pa.int64())]])
def test_what_is_no_schema_is_refused_in_one_sentence(schema: object) -> None:
    with pytest.raises(Invalid, match="expected a pyarrow Schema"):
        Definition.create(schema)  # type: ignore[arg-type]
