"""Rows and tables that a client changes."""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.client import Client
from blockstore.errors import AccessDenied, Conflict, Invalid, NotFound, RowConflict
from tests.reader.http.gateways import READ, WRITE, Served, make_lake, serving, settings

COLUMNS = "name:string!, born:date, paid:decimal(9,2), score:double, raw:binary, tags:list<string>"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("changes")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.fixture
def client(gateway: Served) -> Iterator[Client]:
    with bs.Client(gateway.url, WRITE) as one:
        yield one


def test_a_table_from_its_creation_to_the_versions_of_a_row(client: Client) -> None:
    made = client.create_table("people", COLUMNS, row_ids=True, sort_by=["name"])
    assert made == {"version": 1}
    with pytest.raises(Conflict, match="already a table people"):
        client.create_table("people", "a:int")
    ann = {
        "name": "ann",
        "born": dt.date(1990, 1, 2),
        "paid": Decimal("1234567.89"),
        "score": float("nan"),
        "raw": b"\x00\xff",
        "tags": ["a", None],
    }
    did = client.put_rows("people", [ann, {"name": "bob"}], message="first")
    assert (did["version"], did["inserted"]) == (2, 2)
    row = client.row("people", 0, min_version=2)
    assert (row["born"], row["paid"], row["raw"], row["tags"]) == (
        "1990-01-02",
        "1234567.89",
        "AP8=",
        ["a", None],
    )
    assert client.set_cells("people", [{"_row_id": 0, "_version": 2, "score": 1.5}])["version"] == 3
    assert client.delete_rows("people", [1])["version"] == 4
    assert [one["_version"] for one in client.row_history("people", 0)] == [3, 2]
    assert [one["name"] for one in client.fetch("people", [(0, 2), (1, 2)])] == ["ann", "bob"]
    many = client.fetch("people", [(1, 2), (0, 3)] * 600, min_version=4)
    assert [one["_row_id"] for one in many] == [1, 0] * 600
    assert client.fetch("people", []) == []
    with pytest.raises(Invalid, match="row \\(0, 1\\) has 2 values, expected one for each of _row"):
        client.fetch("people", [((0, 1), 2)])
    with pytest.raises(NotFound, match="was deleted in version 4"):
        client.row("people", 1)
    assert client.set_cells("people", [], new=[{"name": "cat"}])["inserted"] == 1
    found = client.sql("select _row_id from people where name = 'cat'", min_version={"people": 5})
    cat = found.to_pylist()[0]
    assert client.set_cells("people", [], delete=[{**cat, "_version": 5}])["version"] == 6
    assert client.alter_table("people", add="note:string", properties={"sync_delay": "5m"}) == {
        "version": 7
    }
    assert client.table("people", min_version=7)["columns"][-1]["name"] == "note"
    rows = client.sql(
        "select name from people where name = 'ann'", row_ids=True, min_version={"people": 7}
    )
    assert rows.to_pylist()[0].keys() == {"_row_id", "_version", "name"}
    assert rows.versions == {"people": 7}


def test_conflicts_have_the_rows(client: Client) -> None:
    client.create_table("stock", "sku:string, day:date, n:int", key=["sku", "day"])
    day = dt.date(2026, 1, 31)
    client.put_rows("stock", [{"sku": "a", "day": day, "n": 1}])
    with pytest.raises(RowConflict) as exists:
        client.put_rows("stock", [{"sku": "a", "day": day, "n": 2}])
    assert exists.value.rows == ((("a", "2026-01-31"), None, 2),)
    with pytest.raises(RowConflict) as stale:
        client.set_cells("stock", [{"sku": "a", "day": day, "_version": 1, "n": 2}])
    assert stale.value.rows[0][1:] == (1, 2)
    client.put_rows("stock", [{"sku": "a", "day": day, "n": 3}], on_conflict="replace")
    assert client.row("stock", ("a", day))["n"] == 3
    client.delete_rows("stock", [{"sku": "a", "day": day}])
    with pytest.raises(NotFound):
        client.row("stock", ("a", day))


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("binary", [b"\xff/", b"\xff\xff\xff", b"", b"a"]),
        ("string", ["a\nb", "a\r\nb", "\n", "a\x00b", "/\n/history", "x\n"]),
    ],
)
def test_every_key_is_found(
    client: Client, gateway: Served, tmp_path: Path, kind: str, keys: list[object]
) -> None:
    table = f"named_{kind}"
    client.create_table(table, f"k:{kind}, n:int, f:file", key="k")
    handle = client.put_file(table, b"some", name="a.txt")
    client.put_rows(table, [{"k": key, "n": n, "f": handle} for n, key in enumerate(keys)])
    for n, key in enumerate(keys):
        assert client.row(table, key, min_version=2)["n"] == n
        assert client.row_history(table, key)[0]["n"] == n
        assert client.get_file(table, key, "f", tmp_path / "file") == 4
    if kind == "string":
        at = f"/v1/tables/{table}/rows/a%0Ab"
        for path in (at, f"{at}/history", f"{at}/files/f"):
            assert gateway.http.get(path).status_code == 200


def test_a_key_with_odd_characters_is_named(client: Client) -> None:
    client.create_table("odd", "k:string, n:int", key="k")
    keys = [
        "a/b",
        "[x]",
        "50%",
        "ä ö",
        "x/history",
        "a/files/f",
        "x/rows/y",
        " a",
        "a ",
        ".",
        "..",
        "",
    ]
    client.put_rows("odd", [{"k": key, "n": place} for place, key in enumerate(keys)])
    assert [client.row("odd", key)["n"] for key in keys] == list(range(len(keys)))
    for place, key in enumerate(keys):
        assert [one["n"] for one in client.row_history("odd", key)] == [place], key


def test_a_change_under_one_key_happens_once(client: Client) -> None:
    client.create_table("once", "n:int", row_ids=True, idempotency_key="table once")
    client.create_table("once", "n:int", row_ids=True, idempotency_key="table once")
    first = client.put_rows("once", [{"n": 1}], idempotency_key="row one")
    again = client.put_rows("once", [{"n": 1}], idempotency_key="row one")
    assert first == again
    assert client.sql("select count(*) as c from once").to_pylist() == [{"c": 1}]


def test_bad_calls(gateway: Served, client: Client) -> None:
    client.create_table("bad", "n:int", row_ids=True)
    for rows, text in (
        ([{"n": "x"}], "column 'n' is \"x\", expected int"),
        ([{"n": object()}], "has a object"),
        ([[1]], "a row is list"),
        ([], "rows"),
    ):
        with pytest.raises(Invalid, match=text):
            client.put_rows("bad", rows)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="not in the table"):
        client.set_cells("bad", [{"_row_id": 5, "n": 1}])
    with pytest.raises(NotFound, match="there is no table"):
        client.put_rows("nowhere", [{"n": 1}])
    with pytest.raises(Invalid, match="the table's name is"):
        client.create_table("a/b", "n:int")
    with bs.Client(gateway.url, READ) as reader, pytest.raises(AccessDenied, match="write"):
        reader.put_rows("bad", [{"n": 1}])


def test_a_spreadsheet_goes_down_and_up_and_one_row_has_a_new_version(
    client: Client, tmp_path: Path
) -> None:
    client.create_table("sheet", "name:string, n:int", row_ids=True)
    client.put_rows("sheet", [{"name": name, "n": 1} for name in ("a", "b", "c")])
    file = tmp_path / "sheet.csv"
    client.download("sheet", file, row_ids=True)
    lines = list(csv.reader(file.read_text().splitlines()))
    assert lines[0] == ["_row_id", "_version", "name", "n"]
    lines[2][3] = "2"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows(lines)
    written = client.upload("sheet", file).wait().told["written"]
    assert (written["version"], written["updated"], written["unchanged"]) == (3, 1, 2)
    assert [len(client.row_history("sheet", row)) for row in range(3)] == [1, 2, 1]
    stale = client.upload("sheet", file)
    with pytest.raises(Invalid, match="line 3: row 1 was read at version 2"):
        stale.wait()
    assert [one["line"] for one in stale.told["error"]["lines"]] == [3]


def test_an_upload_inserts_by_key(client: Client) -> None:
    client.create_table("keyed", "k:string, n:int", key="k")
    client.upload("keyed", b"k,n\na,1\n", form="csv", mode="upsert").wait()
    with pytest.raises(RowConflict) as exists:
        client.upload("keyed", b"k,n\na,2\n", form="csv", mode="insert").wait()
    assert exists.value.rows == (("a", None, None),)
