"""Columns that engines change through the catalog."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.http.tokens import Scope, Token, hashed
from tests.reader.http.gateways import READ, TOKENS, Served, serving, settings
from tests.reader.iceberg.test_creating import DEFINER, TABLES, send

SCHEMA = pa.schema(
    [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("small", pa.int32()),
     ("few", pa.list_(pa.int64())), ("text", pa.string())]
)  # fmt: skip
ROWS = pa.table([[1, 2], [0, 1], [7, None], [[1], None], ["a", "b"]], schema=SCHEMA)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    with gateway(tmp_path) as served:
        yield served


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """For what changes nothing."""
    with gateway(tmp_path_factory.mktemp("shared")) as served:
        yield served


@contextmanager
def gateway(tmp_path: Path) -> Iterator[Served]:
    url = f"{tmp_path}/lake?durable=false"
    table = bs.create(
        f"{tmp_path}/lake/t?durable=false", schema=SCHEMA, time_column="at", sort_by=["id"]
    )
    table.append(ROWS, labels={"site": "x"})
    scopes = frozenset({Scope.READ, Scope.DDL})
    definer = Token(name="definer", sha256=hashed(DEFINER), scopes=scopes)
    with serving(replace(settings(url, tmp_path), tokens=(*TOKENS, definer))) as served:
        yield served


def metadata(served: Served) -> dict[str, Any]:
    found = send(served, "GET", f"{TABLES}/t", by=READ)
    assert found.status_code == 200, found.text
    document: dict[str, Any] = found.json()["metadata"]
    return document


def current(document: dict[str, Any]) -> dict[str, Any]:
    (schema,) = [
        one for one in document["schemas"] if one["schema-id"] == document["current-schema-id"]
    ]
    return copy.deepcopy(schema)


def body(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """As Iceberg's Java code sends it."""
    return {
        "requirements": [
            {"type": "assert-table-uuid", "uuid": document["table-uuid"]},
            {
                "type": "assert-last-assigned-field-id",
                "last-assigned-field-id": document["last-column-id"],
            },
            {
                "type": "assert-current-schema-id",
                "current-schema-id": document["current-schema-id"],
            },
        ],
        "updates": [
            {"action": "add-schema", "schema": schema, "last-column-id": 2_147_000_000},
            {"action": "set-current-schema", "schema-id": -1},
        ],
    }


Change = Callable[[list[dict[str, Any]]], None]


def changed(served: Served, change: Change, *, by: str = DEFINER) -> Any:
    document = metadata(served)
    schema = current(document)
    change(schema["fields"])
    return send(served, "POST", f"{TABLES}/t", body(document, schema), by=by)


def field(fields: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [one for one in fields if one["name"] == name]
    return found


def table(served: Served) -> bs.Table:
    return bs.open(served.gateway.tables.bucket_of("t").url)


def test_columns_are_added_renamed_widened_dropped_and_moved_in_one_version(own: Served) -> None:
    before = table(own).snapshot().version

    def change(fields: list[dict[str, Any]]) -> None:
        decimals = {"type": "list", "element-id": 98, "element-required": False}
        decimals["element"] = "decimal(9, 2)"
        fields.append({"id": 99, "name": "fresh", "required": False, "type": decimals})
        field(fields, "small").update(type="long", doc="how many")
        fields.remove(field(fields, "few"))
        moved = field(fields, "text")
        moved["name"] = "words"
        fields.remove(moved)
        fields.insert(0, moved)

    found = changed(own, change)
    assert found.status_code == 200, found.text
    shown = current(found.json()["metadata"])["fields"]
    assert [one["name"] for one in shown] == ["words", "id", "at", "small", "fresh", "site"]
    assert field(shown, "small")["doc"] == "how many"
    now = table(own).snapshot()
    assert now.version is not None
    assert now.version == (before or 0) + 1
    assert now.definition.schema.field("small").type == pa.int64()
    assert now.definition.schema.field("fresh").type == pa.list_(pa.decimal128(9, 2))
    rows = now.scan(columns=["words", "id", "small", "fresh", "site"]).to_table()
    assert rows.to_pylist() == [
        {"words": "a", "id": 1, "small": 7, "fresh": None, "site": "x"},
        {"words": "b", "id": 2, "small": None, "fresh": None, "site": "x"},
    ]


def test_a_name_that_is_swapped_follows_the_ids(own: Served) -> None:
    def change(fields: list[dict[str, Any]]) -> None:
        text = field(fields, "text")
        fields.remove(text)
        field(fields, "few")["name"] = "text"

    assert changed(own, change).status_code == 200
    rows = table(own).snapshot().scan(columns=["text"]).to_table()
    assert rows.column("text").to_pylist() == [[1], None]


def test_columns_that_came_since_are_not_dropped(own: Served) -> None:
    document = metadata(own)
    schema = current(document)
    schema["fields"][4]["doc"] = "words"
    table(own).alter(add=[pa.field("since", pa.string())])
    found = send(own, "POST", f"{TABLES}/t", body(document, schema), by=DEFINER)
    assert found.status_code == 409, found.text
    assert found.json()["error"]["type"] == "CommitFailedException"
    assert "since" in table(own).definition.schema.names


def test_the_same_commit_twice_is_once(own: Served) -> None:
    document = metadata(own)
    schema = current(document)
    schema["fields"].append({"id": 99, "name": "fresh", "required": False, "type": "int"})
    sent = body(document, schema)
    assert send(own, "POST", f"{TABLES}/t", sent, by=DEFINER).status_code == 200
    version = table(own).snapshot().version
    assert send(own, "POST", f"{TABLES}/t", sent, by=DEFINER).status_code == 409
    assert table(own).snapshot().version == version


def test_columns_need_the_scope_ddl(own: Served) -> None:
    def change(fields: list[dict[str, Any]]) -> None:
        fields.append({"id": 99, "name": "fresh", "required": False, "type": "int"})

    found = changed(own, change, by=READ)
    assert found.status_code == 403
    assert "lacks scope 'ddl'" in found.json()["error"]["message"]
    assert "fresh" not in table(own).definition.schema.names


def _drop(name: str) -> Change:
    return lambda fields: fields.remove(field(fields, name))


def _set(column: str, **values: Any) -> Change:
    return lambda fields: field(fields, column).update(values)


def _add(**values: Any) -> Change:
    return lambda fields: fields.append({"id": 99, "required": False, "type": "int", **values})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_drop("site"), "is a label"),
        (_set("site", name="place"), "is a label"),
        (_set("site", type="int"), "is a label"),
        (_drop("at"), "is the time column"),
        (_drop("id"), "is in the sort key"),
        (_set("text", type="int"), "cannot be widened"),
        (_set("few", type="int"), "is nested"),
        (_set("few", type={"type": "list", "element": "string"}), "is nested"),
        (_set("text", required=True, name="id"), "id"),
        (_set("small", required=True), "in a row of the table"),
        (_set("small", id=2), "two fields with one id"),
        (_set("small", id="x"), "id is 'x'"),
        (_add(name="x", type="uuid"), "which no table has here"),
        (_add(name="x", required=True), "add it as nullable"),
        (_add(name="x", **{"initial-default": 3}), "has a default"),
        (_add(name="site"), "site"),
        (_add(name=""), "name is ''"),
        (_set("small"), "alter changes nothing"),
    ],
)
def test_what_no_alter_does_is_refused_and_changes_nothing(
    shared: Served, change: Change, why: str
) -> None:
    before = table(shared).snapshot().version
    found = changed(shared, change)
    assert found.status_code == 400, found.text
    assert why in found.json()["error"]["message"]
    assert table(shared).snapshot().version == before


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda sent: sent["requirements"].pop(), "assert-current-schema-id"),
        (lambda sent: sent["updates"].pop(), "makes it the current one"),
        (lambda sent: sent["updates"].pop(0), "makes it the current one"),
        (lambda sent: sent["updates"].append(sent["updates"][0]), "makes it the current one"),
        (lambda sent: sent["updates"][1].update({"schema-id": 77}), "makes it the current one"),
        (lambda sent: sent["updates"][0].update({"schema": 7}), "is no JSON object"),
        (lambda sent: sent["updates"][0]["schema"].update({"fields": None}), "fields is no list"),
        (lambda sent: sent["updates"][0]["schema"].update({"identifier-field-ids": [1]}), "key"),
        (
            lambda sent: sent["updates"].append(
                {"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": 1}
            ),
            "in a commit of their own",
        ),
    ],
)
def test_an_odd_commit_of_columns_is_refused(
    shared: Served, damage: Callable[[dict[str, Any]], Any], why: str
) -> None:
    document = metadata(shared)
    schema = current(document)
    schema["fields"].append({"id": 99, "name": "fresh", "required": False, "type": "int"})
    sent = body(document, schema)
    damage(sent)
    found = send(shared, "POST", f"{TABLES}/t", sent, by=DEFINER)
    assert found.status_code == 400, found.text
    assert why in found.json()["error"]["message"]
    assert "fresh" not in table(shared).definition.schema.names


def test_the_key_is_shown_as_identifier_fields_and_stays(tmp_path: Path) -> None:
    url = f"{tmp_path}/lake?durable=false"
    table = bs.create(f"{tmp_path}/lake/t?durable=false", schema=SCHEMA, key=["text", "id"])
    scopes = frozenset({Scope.READ, Scope.DDL})
    definer = Token(name="definer", sha256=hashed(DEFINER), scopes=scopes)
    with serving(replace(settings(url, tmp_path), tokens=(*TOKENS, definer))) as served:
        document = metadata(served)
        schema = current(document)
        key = [field(schema["fields"], name) for name in ("text", "id")]
        assert schema["identifier-field-ids"] == [one["id"] for one in key]
        assert all(one["required"] for one in key)
        for other in ([], [1], [1, 2, 3], "text"):
            sent = body(document, {**schema, "identifier-field-ids": other})
            found = send(served, "POST", f"{TABLES}/t", sent, by=DEFINER)
            assert found.status_code == 400, found.text
            assert "key of a table is chosen" in found.json()["error"]["message"]
        assert changed(served, _add(name="fresh")).status_code == 200
    table.poll()
    assert "fresh" in table.definition.schema.names
