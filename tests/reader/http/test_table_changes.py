"""Tables that are created and altered over HTTP, each once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.format.column import rules_of
from tests.reader.http.gateways import (
    FEW,
    FEW_DDL,
    OTHER,
    READ,
    WRITE,
    Served,
    make_lake,
    serving,
    settings,
    until_ended,
)

COLUMNS = [{"name": "sku", "type": "string", "nullable": False}, {"name": "n", "type": "int32"}]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("tables")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


def create(served: Served, name: str, key: str = "", **more: Any) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"name": name, "columns": COLUMNS, **more}
    return served.http.post("/v1/tables", json=body, headers=headers)


def alter(served: Served, name: str, key: str = "", **body: Any) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return served.http.patch(f"/v1/tables/{name}", json=body, headers=headers)


def test_a_table_is_created_once_and_is_there_at_once(served: Served) -> None:
    first = _keyed(served)
    assert first.status_code == 200, first.text
    assert first.json()["written"] == {"version": 1}
    assert _keyed(served).json() == first.json()
    shown = served.http.get("/v1/tables/stock").json()
    assert (shown["version"], shown["key"]) == (1, ["sku"])
    assert [column["type"] for column in shown["columns"]] == ["string", "int32"]
    other = create(served, "stock")
    assert (other.status_code, "already a table stock" in other.json()["message"]) == (409, True)
    assert create(served, "Stock").status_code == 409, "SQL could not distinguish them"


def _keyed(served: Served) -> httpx.Response:
    body = {"name": "stock", "columns": COLUMNS, "key": ["sku"]}
    return served.http.post("/v1/tables", json=body, headers={"Idempotency-Key": "k"})


def test_a_new_table_takes_rows(served: Served) -> None:
    assert create(served, "fresh", row_ids=True, columns="name:string, n:int").status_code == 200
    rows = {"rows": [{"name": "a", "n": 1}]}
    assert served.http.post("/v1/tables/fresh/rows", json=rows).json()["written"]["version"] == 2
    assert served.http.get("/v1/tables/fresh/rows/0").json()["row"]["name"] == "a"


def test_the_rules_of_columns_are_shown(served: Served) -> None:
    columns = [
        {"name": "id", "type": "entity", "pattern": r"syn\d+", "nullable": False},
        {"name": "age", "type": "int", "check": "age >= 0", "default": 1, "description": "years"},
        {"name": "note", "type": "string", "max_length": 20},
    ]
    assert create(served, "described", columns=columns, row_ids=True).status_code == 200
    shown = served.http.get("/v1/tables/described").json()["columns"]
    given = [{key: one[key] for key in own} for own, one in zip(columns, shown, strict=True)]
    assert given == [{**columns[0], "type": "string"}, *columns[1:]]
    assert [one["kind"] for one in shown] == ["entity", None, None]


def test_a_typed_table_has_the_types_and_the_limit_of_a_typed_schema(served: Served) -> None:
    columns = [
        {"name": "i", "type": "integer"},
        {"name": "s", "type": "string"},
        {"name": "few", "type": "string", "max_length": 2},
        {"name": "any", "type": "string", "max_length": None},
        {"name": "at", "type": "timestamp"},
        {"name": "day", "type": "date"},
        {"name": "id", "type": "entity", "pattern": "x.*"},
        {"name": "doc", "type": "file"},
    ]
    made = create(served, "typed", columns=columns, typed=True, row_ids=True)
    assert made.status_code == 200, made.text
    schema = bs.typed_schema(
        [
            ("i", "integer"),
            ("s", "string"),
            bs.column("few", "string", max_length=2),
            ("at", "timestamp"),
            ("day", "date"),
            bs.entity("id", pattern="x.*"),
            bs.file("doc"),
        ]
    )
    url = f"{served.gateway.settings.tables.urls[0].partition('?')[0]}/typed"
    found = bs.open(url).definition.schema
    for field in schema:
        assert rules_of(found.field(field.name)) == rules_of(field)
        assert found.field(field.name).type == field.type
    assert rules_of(found.field("any")).max_length is None
    for name, length, status in (("s", 1_000, 200), ("s", 1_001, 400), ("any", 1_001, 200)):
        rows = {"rows": [{name: "ä" * length}]}
        assert served.http.post("/v1/tables/typed/rows", json=rows).status_code == status
    text = create(served, "typed_text", columns="s:string", typed=True)
    assert (text.status_code, "one object each" in text.json()["message"]) == (400, True)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"name": "a/b"}, "the table's name is 'a/b'"),
        ({"name": "jobs"}, "none of files, gc, index, jobs"),
        ({"name": "01JD0000000000000000000000"}, "the table's name is"),
        ({"columns": "a"}, "expected"),
        ({"columns": [{"name": "a", "type": "int, b:int"}]}, "one type"),
        ({"columns": [{"name": "a", "type": "wide"}]}, "wide"),
        ({"key": ["nope"]}, "the key names 'nope'"),
        ({"key": ["sku"], "row_ids": True}, "either identifies a row"),
        ({"properties": {"colour": "red"}}, "colour"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_tables_that_cannot_be(served: Served, body: dict[str, Any], text: str) -> None:
    found = served.http.post("/v1/tables", json={"name": "never", "columns": COLUMNS, **body})
    assert (found.status_code, text in found.json()["message"]) == (400, True), found.text
    assert served.http.get("/v1/tables/never").status_code == 404


def test_a_table_is_altered_once(served: Served) -> None:
    assert create(served, "wider").status_code == 200
    change = {"add": "note:string", "widen": {"n": "int64"}, "properties": {"sync_delay": "5m"}}
    first = alter(served, "wider", key="w", **change, message="wider")
    assert first.status_code == 200, first.text
    assert first.json()["written"] == {"version": 2}
    assert alter(served, "wider", key="w", **change, message="wider").json() == first.json()
    shown = served.http.get("/v1/tables/wider").json()
    assert [(one["name"], one["type"]) for one in shown["columns"]] == [
        ("sku", "string"),
        ("n", "int"),
        ("note", "string"),
    ]
    again = alter(served, "wider", **change)
    assert again.status_code == 400
    assert alter(served, "wider").json()["error"] == "invalid"
    assert alter(served, "wider", widen={"n": "string"}).status_code == 400
    assert alter(served, "nowhere", add="a:int").status_code == 404


def test_scopes(served: Served) -> None:
    body = {"name": "my_own", "columns": COLUMNS}
    for token in (READ, FEW, OTHER):
        with served.as_(token) as reader:
            refused = reader.post("/v1/tables", json=body)
            assert (refused.status_code, "lacks scope 'ddl'" in refused.text) == (403, True)
            assert reader.patch("/v1/tables/flights", json={"add": "a:int"}).status_code == 403
    with served.as_(FEW_DDL) as few:
        found = few.post("/v1/tables", json=body)
        assert (found.status_code, "for some tables" in found.json()["message"]) == (403, True)
        assert few.patch("/v1/tables/salaries", json={"add": "a:int"}).status_code == 404


def test_a_gateway_of_one_table_makes_no_others(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("single")
    bs.create(f"{folder}/only", schema=pa.schema([("n", pa.int64())]))
    with serving(settings(f"{folder}/only", folder)) as single:
        found = create(single, "second")
        assert (found.status_code, "serves a table and no lake" in found.json()["message"]) == (
            409,
            True,
        )


def test_columns_have_rules_and_are_renamed_dropped_and_put_in_order(served: Served) -> None:
    columns = [
        {"name": "age", "type": "int", "check": "age >= 0", "nullable": False},
        {"name": "note", "type": "string", "max_length": 3, "default": "-", "description": "d"},
    ]
    assert create(served, "ruled", columns=columns, row_ids=True).status_code == 200
    age, note = served.http.get("/v1/tables/ruled").json()["columns"]
    assert (age["check"], age["nullable"], age["description"]) == ("age >= 0", False, None)
    assert (note["max_length"], note["default"], note["description"]) == (3, "-", "d")
    path = "/v1/tables/ruled/rows"
    assert served.http.post(path, json={"rows": [{"age": 1}]}).status_code == 200
    assert served.http.get(f"{path}/0").json()["row"]["note"] == "-"
    for row, text in (({"age": -1}, "age >= 0"), ({"age": 1, "note": "long"}, "note")):
        found = served.http.post(path, json={"rows": [row]})
        assert (found.status_code, text in found.json()["message"]) == (400, True), found.text
    assert alter(served, "ruled", columns={"age": {"check": "age > 5"}}).status_code == 400
    changes = {
        "rename": {"note": "remark"},
        "reorder": ["remark"],
        "columns": {"age": {"check": None}},
    }
    assert alter(served, "ruled", **changes).json()["written"] == {"version": 3}
    shown = served.http.get("/v1/tables/ruled").json()["columns"]
    assert [one["name"] for one in shown] == ["remark", "age"]
    assert served.http.patch(path, json={"rows": [{"_row_id": 0, "age": -5}]}).status_code == 200
    assert alter(served, "ruled", drop=["remark"]).status_code == 200


def test_an_upload_that_changes_rows_names_the_line_that_breaks_a_rule(served: Served) -> None:
    columns = [
        {"name": "n", "type": "int", "check": "n > 0"},
        {"name": "d", "type": "int", "default": 1},
    ]
    create(served, "lines", columns=columns, row_ids=True)
    served.http.post("/v1/tables/lines/rows", json={"rows": [{"n": 1}, {"n": 2}]})
    headers = {"Content-Type": "text/csv"}
    for text, line, column in (
        ("_row_id,_version,n,d\n0,2,5,1\n1,2,-1,1\n", 3, "n"),
        ("_row_id,_version,n\n0,2,5\n", 1, None),
    ):
        asked = served.http.post("/v1/jobs?table=lines", content=text, headers=headers)
        error = until_ended(served.http, asked.json()["id"])["error"]
        assert (error["error"], error["line"], error["column"]) == ("bad_row", line, column)


def drop(served: Served, name: str, key: str = "", **params: Any) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return served.http.delete(f"/v1/tables/{name}", headers=headers, params=params)


def undrop(served: Served, name: str, key: str = "") -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return served.http.post(f"/v1/tables/{name}/undrop", headers=headers)


def rows_in(served: Served, name: str) -> int:
    with bs.Client(served.url, WRITE) as client:
        return int(client.sql(f"select * from {name}").to_arrow().num_rows)


def put(served: Served, name: str, **row: Any) -> httpx.Response:
    return served.http.post(f"/v1/tables/{name}/rows", json={"rows": [row]})


def names(served: Served) -> set[str]:
    return {one["name"] for one in served.http.get("/v1/tables").json()["tables"]}


def test_a_table_is_dropped_once_and_comes_back_as_it_was(served: Served) -> None:
    assert create(served, "brief", key="c", row_ids=True).status_code == 200
    assert put(served, "brief", sku="a", n=1).status_code == 200
    first = drop(served, "brief", key="d", message="not needed")
    assert (first.status_code, first.json()["written"]) == (200, {"version": 3}), first.text
    assert "brief" not in names(served)
    assert served.http.get("/v1/tables/brief").status_code == 404
    assert drop(served, "brief").status_code == 404
    assert put(served, "brief", sku="b", n=1).status_code == 404
    back = undrop(served, "brief", key="u")
    assert (back.status_code, back.json()["written"]) == (200, {"version": 4}), back.text
    assert undrop(served, "brief", key="u").json() == back.json()
    assert drop(served, "brief", key="d", message="not needed").json() == first.json()
    assert rows_in(served, "brief") == 1
    shown = served.http.get("/v1/tables/brief/history").json()["entries"]
    assert [(one["operation"], one["message"]) for one in shown[:2]] == [
        ("undrop", ""),
        ("drop", "not needed"),
    ]
    again = undrop(served, "brief")
    assert (again.status_code, "is not dropped" in again.json()["message"]) == (409, True)


def test_the_name_of_a_dropped_table_is_free(served: Served) -> None:
    assert create(served, "again", row_ids=True).status_code == 200
    assert put(served, "again", sku="a", n=1).status_code == 200
    drop(served, "again")
    made = create(served, "again", columns="other:string", row_ids=True)
    assert (made.status_code, made.json()["written"]) == (200, {"version": 4}), made.text
    assert rows_in(served, "again") == 0
    assert put(served, "again", other="x").status_code == 200
    assert served.http.get("/v1/tables/again/rows/1").json()["row"]["other"] == "x"
    assert served.http.get("/v1/tables/again?version=2").status_code == 410
    gone = undrop(served, "again")
    assert (gone.status_code, "created in version 4" in gone.json()["message"]) == (409, True)


def test_who_may_not_define_may_not_drop(served: Served) -> None:
    assert create(served, "guarded").status_code == 200
    for token in (READ, OTHER):
        with served.as_(token) as other:
            assert other.delete("/v1/tables/guarded").status_code == 403
            assert other.post("/v1/tables/guarded/undrop").status_code == 403
    drop(served, "guarded")
    with served.as_(FEW_DDL) as few:
        assert few.delete("/v1/tables/guarded").status_code == 404
        assert few.post("/v1/tables/guarded/undrop").status_code == 404
    assert undrop(served, "nowhere").status_code == 404


def test_a_gateway_that_starts_later_brings_a_table_back(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("later")
    lake = make_lake(folder)
    url = lake.replace("?", "/late?")
    bs.create(url, schema=pa.schema([("n", pa.int64())])).append(pa.table({"n": [1]}))
    bs.drop(url)
    with serving(settings(lake, folder)) as one:
        one.gateway.tables.poll_now()  # a table that was not looked at yet may be there
        assert "late" not in names(one)
        assert undrop(one, "late").status_code == 200
        assert rows_in(one, "late") == 1
        with bs.Client(one.url, WRITE) as client:
            assert client.drop_table("late", message="by client")["version"] == 5
            with pytest.raises(bs.NotFound):
                client.table("late")
            assert client.undrop_table("late")["version"] == 6


def test_a_default_keeps_its_digits_and_is_text(served: Served) -> None:
    digits = 123456789012345678901234567890
    column = {"name": "d", "type": "decimal(38,0)", "default": digits}
    made = create(served, "digits", columns=[*COLUMNS, column])
    assert made.status_code == 200, made.text
    found = bs.open(
        f"{served.gateway.settings.tables.urls[0].partition('?')[0]}/digits"
    ).definition.schema.field("d")
    assert int(rules_of(found).default) == digits
    body = '{"name": "half", "columns": [{"name": "s", "type": "string", "default": "\\ud800"}]}'
    refused = served.http.post(
        "/v1/tables", content=body.encode(), headers={"Content-Type": "application/json"}
    )
    assert refused.status_code == 400, refused.text
