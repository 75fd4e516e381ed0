"""Tables that engines create and drop through the catalog."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.errors import Invalid
from blockstore.format.identity import Key
from blockstore.reader.http.tokens import Scope, Token, hashed
from blockstore.reader.iceberg.commits.request import wanted_of
from blockstore.reader.iceberg.creating import body_of
from tests.reader.http.gateways import FEW, FEW_DDL, TOKENS, Served, make_lake, serving, settings

TABLES = "/iceberg/v1/namespaces/lake/tables"
DEFINER = "bsk_definer"
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "at", "required": False, "type": "timestamptz", "doc": "when"},
        {"id": 3, "name": "price", "required": False, "type": "decimal(9, 2)"},
        {
            "id": 4,
            "name": "odd, name",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 5,
                "key": "string",
                "value-id": 6,
                "value-required": False,
                "value": {
                    "type": "list",
                    "element-id": 7,
                    "element-required": False,
                    "element": {
                        "type": "struct",
                        "fields": [{"id": 8, "name": "a b", "required": False, "type": "int"}],
                    },
                },
            },
        },
    ],
}
NEW = {
    "name": "made",
    "schema": SCHEMA,
    "stage-create": False,
    "partition-spec": {"spec-id": 0, "fields": []},
    "write-order": {
        "order-id": 1,
        "fields": [
            {
                "transform": "identity",
                "source-id": 2,
                "direction": "asc",
                "null-order": "nulls-last",
            }
        ],
    },
    "properties": {"owner": "someone", "blockstore.time-column": "at"},
}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    scopes = frozenset({Scope.READ, Scope.WRITE, Scope.DDL})
    definer = Token(name="definer", sha256=hashed(DEFINER), scopes=scopes)
    asked = replace(settings(make_lake(tmp_path), tmp_path), tokens=(*TOKENS, definer))
    with serving(asked) as served:
        yield served


def send(served: Served, method: str, path: str, body: Any = None, *, by: str) -> httpx.Response:
    with served.as_(by) as http:
        return http.request(method, path, json=body)


def test_a_table_is_created_as_the_client_says(own: Served) -> None:
    found = send(own, "POST", TABLES, NEW, by=DEFINER)
    assert found.status_code == 200, found.text
    assert found.json()["metadata"]["current-snapshot-id"] == 1
    made = bs.open(own.gateway.tables.bucket_of("made").url).definition
    assert made.identity == Key(("id",))
    assert (made.time_column, made.sort_by) == ("at", ("at",))
    inner = pa.list_(pa.struct([("a b", pa.int32())]))
    assert [one.type for one in made.schema] == [
        pa.int64(), pa.timestamp("us", "UTC"), pa.decimal128(9, 2), pa.map_(pa.string(), inner),
    ]  # fmt: skip
    again = send(own, "POST", TABLES, NEW, by=DEFINER)
    assert again.status_code == 409
    assert again.json()["error"]["type"] == "AlreadyExistsException"


def test_a_table_is_dropped_and_can_be_brought_back(own: Served) -> None:
    url = own.gateway.tables.bucket_of("flights").url
    purge = send(own, "DELETE", f"{TABLES}/flights?purgeRequested=true", by=DEFINER)
    assert purge.status_code == 400
    assert send(own, "DELETE", f"{TABLES}/flights", by=DEFINER).status_code == 204
    assert send(own, "GET", f"{TABLES}/flights", by=DEFINER).status_code == 404
    bs.undrop(url)
    assert bs.open(url).snapshot().count() == 1000


def test_another_scope_or_namespace_is_refused(own: Served) -> None:
    for method, path in (("POST", TABLES), ("DELETE", f"{TABLES}/flights")):
        found = send(own, method, path, NEW, by=FEW)
        assert found.status_code == 403
        assert "lacks scope 'ddl'" in found.json()["error"]["message"]
    other = send(own, "POST", TABLES.replace("lake", "sea"), NEW, by=DEFINER)
    assert other.json()["error"]["type"] == "NoSuchNamespaceException"


def test_a_namespace_that_the_caller_may_not_know_does_not_exist(tmp_path: Path) -> None:
    base = settings(make_lake(tmp_path), tmp_path)
    bs.create(f"{tmp_path}/vault/gold?durable=false", schema=pa.schema([("n", pa.int64())]))
    urls = (*base.tables.urls, f"{tmp_path}/vault?durable=false")
    with serving(replace(base, tables=replace(base.tables, urls=urls))) as served:
        served.gateway.tables.poll_now()
        assert served.gateway.catalog.namespaces(None) == ["lake", "vault"]
        said = {
            name: send(served, "POST", TABLES.replace("lake", name), NEW, by=FEW_DDL).json()
            for name in ("vault", "zzzzz")
        }
    messages = [said[name]["error"]["message"].replace(name, "it") for name in said]
    assert messages[0] == messages[1]
    assert "which does not exist" in messages[0]


def _changed(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        for one in path[:-1]:
            body = body[one]
        body[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_changed("name", to="a/b"), "the table's name is"),
        (_changed("name", to=7), "name is '7'"),
        (_changed("schema", to=None), "schema is no JSON object"),
        (_changed("schema", "fields", to=7), "fields is no list"),
        (_changed("schema", "fields", 0, "type", to="uuid"), "which no table has here"),
        (_changed("schema", "fields", 0, "name", to="_source"), "reserved"),
        (_changed("schema", "identifier-field-ids", to=[99]), "no field with the id 99"),
        (_changed("schema", "identifier-field-ids", to=5), "identifier-field-ids is no list"),
        (_changed("schema", "identifier-field-ids", to=[[]]), "no field with the id []"),
        (_changed("schema", "fields", 0, "id", to=[]), "the id of a field is []"),
        (_changed("schema", "fields", 0, "id", to={}), "the id of a field is {}"),
        (_changed("write-order", "fields", to=5), "fields is no list"),
        (_changed("write-order", "fields", 0, "source-id", to=[]), "no field with the id []"),
        (_changed("schema", "fields", 1, "type", to="string"), "at"),
        (_changed("partition-spec", "fields", to=[{"name": "x"}]), "no partitions of its own"),
        (_changed("write-order", "fields", 0, "direction", to="desc"), "ascending"),
        (_changed("properties", "blockstore.time-column", to="nowhere"), "nowhere"),
    ],
)
def test_what_no_table_can_be_is_refused_with_its_reason(
    own: Served, change: Callable[[dict[str, Any]], None], why: str
) -> None:
    body = copy.deepcopy(NEW)
    change(body)
    found = send(own, "POST", TABLES, body, by=DEFINER)
    assert found.status_code == 400, found.text
    assert why in found.json()["error"]["message"]
    assert "made" not in own.gateway.tables.names()


def test_rubbish_is_invalid_and_nothing_else() -> None:
    for body in (None, [], {}, {"name": "x"}, {"name": "x", "schema": {"fields": [7]}}):
        with pytest.raises(Invalid):
            body_of(body)


@pytest.mark.parametrize("odd", [[], {}, 5, None])
def test_a_commit_of_rubbish_is_invalid_and_nothing_else(odd: Any) -> None:
    uuid = {"type": "assert-table-uuid", "uuid": "u"}
    for requirements, updates in (
        ([{"type": odd}], []),
        ([uuid], [{"action": odd}]),
        ([{"type": "assert-create"}], [{"action": odd}]),
    ):
        with pytest.raises(Invalid, match="expected a text"):
            wanted_of({"requirements": requirements, "updates": updates}, "t")
