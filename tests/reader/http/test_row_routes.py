"""Rows that change, over HTTP: changes that happen once, conflicts with their rows, versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.settings import JobSettings, TableSettings
from tests.reader.http.gateways import (
    FEW,
    OTHER,
    READ,
    WRITE,
    Served,
    make_lake,
    serving,
    settings,
    until_ended,
)

PEOPLE = pa.schema([("name", pa.string()), ("born", pa.date32()), ("n", pa.decimal128(9, 2))])
ITEMS = pa.schema([("sku", pa.string()), ("n", pa.int64())])
CSV = {"Content-Type": "text/csv"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("rows")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.fixture
def people(served: Served, request: pytest.FixtureRequest) -> str:
    """A table with row ids and the rows ann, bob and cat; of this test alone."""
    name = f"people_{abs(hash(request.node.name))}"
    table = bs.create(_url(served, name), schema=PEOPLE, row_ids=True)
    table.append(
        pa.table({"name": ["ann", "bob", "cat"], "born": [None] * 3, "n": [1, 2, 3]}, PEOPLE)
    )
    served.gateway.tables.poll_now()
    return name


@pytest.fixture
def items(served: Served, request: pytest.FixtureRequest) -> str:
    """A table with a key and two rows."""
    name = f"items_{abs(hash(request.node.name))}"
    table = bs.create(_url(served, name), schema=ITEMS, key="sku")
    table.upsert(pa.table({"sku": ["a", "b"], "n": [1, 2]}, ITEMS))
    served.gateway.tables.poll_now()
    return name


def _url(served: Served, name: str) -> str:
    return f"{served.gateway.settings.tables.urls[0].partition('?')[0]}/{name}?durable=false"


def _table(served: Served, name: str) -> bs.Table:
    return bs.open(_url(served, name))


def send(
    served: Served, method: str, name: str, *rows: dict[str, Any], key: str = "", **more: Any
) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"rows": list(rows), **more}
    return served.http.request(method, f"/v1/tables/{name}/rows", json=body, headers=headers)


def test_a_row_set_is_one_version_which_the_response_names(served: Served, people: str) -> None:
    changed = {"_row_id": 1, "_version": 2, "name": "bob", "born": "1990-01-02", "n": 2.5}
    found = send(served, "POST", people, changed, {"name": "dan"}, message="by hand")
    assert found.status_code == 200, found.text
    written = found.json()["written"]
    assert (written["version"], written["updated"], written["inserted"]) == (3, 1, 1)
    assert found.headers["location"] == f"/v1/jobs/{found.json()['id']}"
    row = served.http.get(f"/v1/tables/{people}/rows/1").json()
    assert row == {
        "table": people,
        "version": 3,
        "row": {**changed, "_version": 3, "_deleted": False, "n": "2.50"},
    }
    newest = served.http.get(f"/v1/tables/{people}/history?limit=1").json()["entries"][0]
    assert (newest["message"], newest["operation"]) == ("by hand", "upsert")


def test_the_same_key_is_the_same_change(served: Served, people: str) -> None:
    row = {"_row_id": 0, "_version": 2, "n": 5}
    first = send(served, "PATCH", people, row, key="five")
    again = send(served, "PATCH", people, row, key="five")
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
    assert _table(served, people).poll() == 3
    other = send(served, "PATCH", people, {**row, "n": 6}, key="five")
    assert (other.status_code, other.json()["error"]) == (409, "conflict")
    wrong = send(served, "PATCH", people, row, key="stale")
    assert wrong.status_code == 409
    assert (
        send(served, "PATCH", people, row, key="stale").json()["detail"] == wrong.json()["detail"]
    )


def test_a_conflict_lists_the_rows_and_applies_nothing(served: Served, people: str) -> None:
    assert send(served, "PATCH", people, {"_row_id": 1, "n": 7}).status_code == 200
    full = {"name": "x", "born": None, "n": 0}
    stale = [{"_row_id": row, "_version": 2, **full} for row in range(3)]
    found = send(served, "POST", people, *stale, {"name": "new"})
    assert (found.status_code, found.json()["error"]) == (409, "conflict")
    assert found.json()["detail"]["rows"] == [{"row": 1, "expected": 2, "found": 3}]
    cells = send(served, "PATCH", people, {"_row_id": 1, "_version": 2, "n": 0})
    assert cells.json()["detail"]["rows"] == [{"row": 1, "expected": 2, "found": 3}]
    assert _table(served, people).poll() == 3


def test_after_a_conflict_a_client_that_reads_again_finds_what_was_in_its_way(
    tmp_path: Path,
) -> None:
    """Only the conflict brings the gateway to a version that another has written."""
    asked = settings(make_lake(tmp_path), tmp_path)
    with serving(replace(asked, tables=replace(asked.tables, poll_s=600))) as one:
        table = bs.create(_url(one, "people"), schema=PEOPLE, row_ids=True)
        table.append(pa.table({"name": ["ann"], "born": [None], "n": [1]}, PEOPLE))
        one.gateway.tables.poll_now()
        table.poll()
        table.update({"name": "bob"})
        assert one.http.get("/v1/tables/people/rows/0").json()["row"]["name"] == "ann"
        stale = send(one, "PATCH", "people", {"_row_id": 0, "_version": 2, "n": 7})
        assert stale.status_code == 409
        row = one.http.get("/v1/tables/people/rows/0").json()["row"]
        assert row["name"] == "bob"
        fresh = send(one, "PATCH", "people", {"_row_id": 0, "_version": row["_version"], "n": 7})
        assert fresh.status_code == 200


def test_null_and_left_out_are_different(served: Served, people: str) -> None:
    assert send(served, "PATCH", people, {"_row_id": 0, "name": None}).status_code == 200
    row = served.http.get(f"/v1/tables/{people}/rows/0").json()["row"]
    assert (row["name"], row["n"]) == (None, "1.00")
    short = send(served, "POST", people, {"_row_id": 0, "name": "x"})
    assert (short.status_code, short.json()["error"]) == (400, "invalid")
    assert "row 0 of the set lacks 'born', and it replaces a row" in short.json()["message"]


BAD = {
    "an unknown row": ("PATCH", {"_row_id": 77, "n": 1}, 404, "1 of the rows are not in the table"),
    "an unknown row, set": ("POST", {"_row_id": 77, "name": "x", "born": None, "n": 1}, 404, "77"),
    "no id": ("PATCH", {"n": 1}, 400, "row 0 of the set has no '_row_id'"),
    "a version alone": ("POST", {"_version": 2, "name": "x"}, 400, "names a version and no"),
    "a strange column": ("PATCH", {"_row_id": 0, "x": 1}, 400, "names 'x', which the table"),
    "a strange column, set": ("POST", {"x": 1}, 400, "key 'x' is not a column of the table"),
    "a wrong value": (
        "PATCH",
        {"_row_id": 0, "n": "many"},
        400,
        "column 'n' is \"many\", expected",
    ),
    "a date before the year 1": (
        "POST",
        {"born": "0000-01-01"},
        400,
        "column 'born' is \"0000-01-01\", expected date in the years 1 to 9999",
    ),
    "a row to delete with a cell": (
        "DELETE",
        {"_row_id": 0, "n": 1},
        400,
        "row 0 of the set names 'n', expected _row_id, _version and no more",
    ),
    "a wrong date": ("POST", {"born": "soon"}, 400, "column 'born' is \"soon\", expected date"),
    "too many digits": ("PATCH", {"_row_id": 0, "n": 1.555}, 400, "column 'n' is"),
    "an id that is a text": ("PATCH", {"_row_id": "0", "n": 1}, 400, "column '_row_id' is"),
    "an id not yet given": ("DELETE", {"_row_id": 77}, 400, "row id 77 was never given"),
    "nothing named": ("DELETE", {}, 400, "has no '_row_id'"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_rows_are_refused(served: Served, people: str, what: str) -> None:
    method, row, status, text = BAD[what]
    found = send(served, method, people, row)
    assert (found.status_code, text in found.json()["message"]) == (status, True), found.text
    assert found.json()["detail"]["job"]
    assert _table(served, people).poll() == 2


def test_cells_new_rows_and_deletions_are_one_version(served: Served, people: str) -> None:
    found = send(
        served,
        "PATCH",
        people,
        {"_row_id": 0, "_version": 2, "n": 9},
        new=[{"name": "dan"}],
        delete=[{"_row_id": 2, "_version": 2}],
    )
    written = found.json()["written"]
    assert [written[key] for key in ("version", "updated", "inserted", "deleted")] == [3, 1, 1, 1]
    rows = served.rows(f"select name, n from {people} order by name", min_version={people: 3})
    assert [row["name"] for row in rows] == ["ann", "bob", "dan"]
    stale = send(served, "PATCH", people, new=[{"name": "eve"}], delete=[{"_row_id": 0}, {"n": 1}])
    assert stale.status_code == 400, stale.text
    stale = send(
        served, "PATCH", people, new=[{"name": "e"}], delete=[{"_row_id": 0, "_version": 2}]
    )
    assert stale.json()["detail"]["rows"] == [{"row": 0, "expected": 2, "found": 3}]
    nothing = served.http.patch(f"/v1/tables/{people}/rows", json={})
    assert (nothing.status_code, "has no rows, new" in nothing.json()["message"]) == (400, True)
    assert _table(served, people).poll() == 3


def test_a_row_twice_is_refused_with_both_places(served: Served, people: str) -> None:
    for method, row in (
        ("PATCH", {"_row_id": 1, "n": 7}),
        ("POST", {"_row_id": 1, "name": "x", "born": None, "n": 7}),
        ("DELETE", {"_row_id": 1}),
    ):
        found = send(served, method, people, {**row, "_row_id": 0}, row, row)
        assert found.status_code == 400, found.text
        assert "row id 1 occurs 2 times in these rows, first in rows 1 and 2" in found.text
    assert _table(served, people).poll() == 2


def test_a_cell_that_is_named_twice_is_refused(served: Served, people: str) -> None:
    headers = {"Content-Type": "application/json"}
    for method in ("POST", "PATCH", "DELETE"):
        body = '{"rows": [{"_row_id": 0, "_row_id": 1}]}'
        path = f"/v1/tables/{people}/rows"
        found = served.http.request(method, path, content=body, headers=headers)
        assert (found.status_code, found.json()["error"]) == (400, "invalid"), found.text
        assert "key '_row_id' is in one object twice" in found.json()["message"]
    twice = '{"rows": [{"_row_id": 0, "_version": 2, "_version": 3}]}'
    path = f"/v1/tables/{people}/rows/fetch"
    assert served.http.post(path, content=twice, headers=headers).status_code == 400
    assert _table(served, people).poll() == 2


def test_a_row_that_is_as_it_was_gets_no_version(served: Served, people: str) -> None:
    for row in ({"_row_id": 1, "n": 2}, {"_row_id": 1}, {"_row_id": 1, "_version": 2}):
        written = send(served, "PATCH", people, row).json()["written"]
        assert [written[name] for name in ("version", "updated", "unchanged")] == [None, 0, 1]
    written = send(served, "PATCH", people, {"_row_id": 0, "n": 1}, {"_row_id": 1, "n": 7})
    counts = [written.json()["written"][name] for name in ("version", "updated", "unchanged")]
    assert counts == [6, 1, 1], "each of the three jobs before has taken its batch"
    history = served.http.get(f"/v1/tables/{people}/rows/1/history").json()["rows"]
    assert [one["_version"] for one in history] == [6, 2]
    stale = send(served, "PATCH", people, {"_row_id": 1, "_version": 2, "n": 7})
    assert stale.status_code == 409, "it is as it was, and was changed since"


def test_ids_that_no_row_has_are_passed_over(served: Served, people: str) -> None:
    for n in (5, 6, 7):
        assert send(served, "PATCH", people, {"_row_id": 0, "n": n}).status_code == 200
    written = send(served, "DELETE", people, {"_row_id": 4}).json()["written"]
    assert (written["version"], written["deleted"]) == (None, 0)
    assert served.http.get(f"/v1/tables/{people}/rows/4/history").status_code == 404
    assert send(served, "DELETE", people, {"_row_id": 1}).json()["written"]["deleted"] == 1
    again = send(served, "DELETE", people, {"_row_id": 1}, {"_row_id": 2}).json()["written"]
    assert again["deleted"] == 1
    history = served.http.get(f"/v1/tables/{people}/rows/1/history").json()["rows"]
    assert [one["_deleted"] for one in history] == [True, False]


def test_a_row_is_deleted_only_at_the_version_that_was_read(served: Served, people: str) -> None:
    assert send(served, "PATCH", people, {"_row_id": 1, "n": 7}).status_code == 200
    stale = send(served, "DELETE", people, {"_row_id": 0}, {"_row_id": 1, "_version": 2})
    assert (stale.status_code, stale.json()["error"]) == (409, "conflict")
    assert stale.json()["detail"]["rows"] == [{"row": 1, "expected": 2, "found": 3}]
    with bs.Client(served.url, WRITE) as client:
        done = client.delete_rows(people, [{"_row_id": 1, "_version": 3}, {"_row_id": 0}])
        assert (done["version"], done["deleted"]) == (4, 2)
        with pytest.raises(bs.RowConflict) as gone:
            client.delete_rows(people, [{"_row_id": 1, "_version": 3}])
    assert gone.value.rows == ((1, 3, None),)


def test_a_message_names_keys_as_people_write_them(served: Served) -> None:
    schema = pa.schema([("sku", pa.string()), ("day", pa.date32()), ("n", pa.int64())])
    bs.create(_url(served, "days"), schema=schema, key=["sku", "day"])
    served.gateway.tables.poll_now()
    row = {"sku": "x", "day": "2026-01-01", "n": 1}
    assert send(served, "POST", "days", row).status_code == 200
    for method, version in (("POST", None), ("PATCH", 1), ("DELETE", 1)):
        given = row if method != "DELETE" else {"sku": "x", "day": "2026-01-01"}
        found = send(served, method, "days", {**given, "_version": version})
        assert (found.status_code, '["x", "2026-01-01"]' in found.json()["message"]) == (409, True)


def test_bad_bodies_are_refused(served: Served, people: str) -> None:
    path = f"/v1/tables/{people}/rows"
    for body, text in (
        ({}, "lacks the key 'rows'"),
        ({"rows": []}, "'rows'"),
        ({"rows": [1]}, "invalid"),
        ({"rows": [{}], "extra": 1}, "unknown key 'extra'"),
        ({"rows": [{}], "on_conflict": "ignore"}, "'on_conflict'"),
    ):
        found = served.http.post(path, json=body)
        assert (found.status_code, text in found.json()["message"]) == (400, True), found.text
    headers = {"Content-Type": "application/json"}
    broken = served.http.post(path, content='{"rows": [', headers=headers)
    assert "not valid JSON" in broken.json()["message"]
    assert send(served, "POST", "nowhere", {"n": 1}).json()["error"] == "unknown_table"
    plain = send(served, "POST", "flights", {"n": 1})
    assert (plain.status_code, "neither ids nor a key" in plain.json()["message"]) == (409, True)


def test_scopes_and_tables_are_those_of_uploads(served: Served, people: str) -> None:
    body = {"rows": [{"_row_id": 0, "n": 9}]}
    for token, status in ((READ, 403), (FEW, 404), (None, 401), (OTHER, 200)):
        with served.as_(token) as client:
            found = client.patch(f"/v1/tables/{people}/rows", json=body)
            assert found.status_code == status, found.text
    with served.as_(READ) as client:
        assert client.get(f"/v1/tables/{people}/rows/0").status_code == 200
    with served.as_(FEW) as client:
        assert client.get(f"/v1/tables/{people}/rows/0").status_code == 404


def test_rows_are_deleted_and_their_versions_stay(served: Served, people: str) -> None:
    assert send(served, "DELETE", people, {"_row_id": 0}, {"_row_id": 2}).status_code == 200
    gone = served.http.get(f"/v1/tables/{people}/rows/0")
    assert (gone.status_code, "was deleted in version 3" in gone.json()["message"]) == (404, True)
    row = served.http.get(f"/v1/tables/{people}/rows/0?version=2").json()["row"]
    assert row["name"] == "ann"
    listed = served.http.get(f"/v1/tables/{people}/rows/0/history").json()["rows"]
    assert [(one["_version"], one["_deleted"]) for one in listed] == [(3, True), (2, False)]
    for path in ("77", "77/history", "0?version=9"):
        assert served.http.get(f"/v1/tables/{people}/rows/{path}").status_code == 404
    assert served.http.get(f"/v1/tables/{people}/rows/x").status_code == 400


def fetched(served: Served, name: str, *rows: dict[str, Any], **more: Any) -> httpx.Response:
    return served.http.post(f"/v1/tables/{name}/rows/fetch", json={"rows": list(rows), **more})


def test_given_versions_of_given_rows_are_one_request(served: Served, people: str) -> None:
    assert send(served, "PATCH", people, {"_row_id": 1, "n": 7}).status_code == 200
    assert send(served, "DELETE", people, {"_row_id": 1}, {"_row_id": 2}).status_code == 200
    wanted = [(2, 2), (1, 3), (1, 4), (0, 2), (1, 2), (2, 2)]
    found = fetched(served, people, *({"_row_id": a, "_version": b} for a, b in wanted))
    assert found.status_code == 200, found.text
    rows = found.json()["rows"]
    assert [(row["_row_id"], row["_version"]) for row in rows] == wanted
    assert [row["n"] for row in rows] == ["3.00", "7.00", None, "1.00", "2.00", "3.00"]
    assert [row["_deleted"] for row in rows] == [False, False, True, False, False, False]


def test_if_one_version_is_not_kept_it_is_named_and_none_is_answered(
    served: Served, people: str
) -> None:
    lost = fetched(served, people, {"_row_id": 0, "_version": 2}, {"_row_id": 1, "_version": 1})
    assert (lost.status_code, "row 1 at version 1" in lost.json()["message"]) == (404, True)
    for rows, text in (
        ([{"_version": 2}], "row 0 of the set has no '_row_id'"),
        ([{"_row_id": 0, "_version": 2}, {"_row_id": 0}], "row 1 of the set has no '_version'"),
        ([{"_row_id": 0, "_version": "2"}], "column '_version' is"),
        ([{"_row_id": 0, "_version": 2, "n": 1}], "names 'n', expected _row_id, _version"),
        ([], "'rows'"),
        ([{"_row_id": 0, "_version": 2}] * 1_001, "'rows'"),
    ):
        found = fetched(served, people, *rows)
        assert (found.status_code, text in found.json()["message"]) == (400, True), found.text
    future = fetched(served, people, {"_row_id": 0, "_version": 2})
    assert future.status_code == 200
    later = served.http.post(
        f"/v1/tables/{people}/rows/fetch?min_version=9",
        json={"rows": [{"_row_id": 0, "_version": 2}]},
    )
    assert (later.status_code, "version 9 was asked for" in later.json()["message"]) == (404, True)


def test_versions_of_rows_with_a_key_are_named_by_it_and_by_labels(
    served: Served, items: str
) -> None:
    for site in "xy":
        row = {"sku": "a", "n": ord(site)}
        assert send(served, "POST", items, row, labels={"site": site}).status_code == 200
    named = {"sku": "a", "_version": 4}
    (row,) = fetched(served, items, named, labels={"site": "y"}).json()["rows"]
    assert (row["n"], row["site"], row["_version"]) == (ord("y"), "y", 4)
    assert fetched(served, items, named, labels={"site": "x"}).status_code == 404


def test_labels_say_which_row_a_key_means(served: Served, items: str) -> None:
    x = {"site": "x"}
    assert send(served, "POST", items, {"sku": "a", "n": 10}, labels=x).status_code == 200
    path = f"/v1/tables/{items}/rows/a"
    shown = served.http.get(f"/v1/tables/{items}", params={"min_version": 2}).json()
    assert shown["labels"] == {"site": None}
    both = served.http.get(path)
    assert (both.status_code, "name the labels" in both.json()["message"]) == (400, True)
    assert served.http.get(f"{path}?label=site=x").json()["row"]["n"] == 10
    assert served.http.get(f"{path}?label=site").status_code == 400
    with bs.Client(served.url, WRITE) as client:
        done = client.set_cells(items, [{"sku": "a", "site": "x", "n": 11}, {"sku": "b", "n": 3}])
        assert client.row(items, "a", labels=x)["n"] == 11
        assert [one["n"] for one in client.row_history(items, "a", labels=x)] == [11, 10]
        assert done["updated"] == 2
        client.put_rows(items, [{"sku": "a", "n": 12}], labels=x, on_conflict="replace")
        client.delete_rows(items, [{"sku": "a"}], labels=x)
        assert client.row(items, "a")["n"] == 1
    rows = _table(served, items).snapshot().scan().to_table().to_pylist()
    assert sorted((row["sku"], row["n"]) for row in rows) == [("a", 1), ("b", 3)]
    strange = send(served, "PATCH", items, {"sku": "a", "place": "x", "n": 1})
    assert (strange.status_code, "'place'" in strange.json()["message"]) == (400, True)


def test_a_keyed_table_is_changed_by_key(served: Served, items: str) -> None:
    exists = send(served, "POST", items, {"sku": "a", "n": 5}, {"sku": "c", "n": 6})
    assert exists.status_code == 409
    assert exists.json()["detail"]["rows"] == [{"row": "a", "expected": None, "found": 2}]
    named = send(served, "POST", items, {"sku": "a", "_version": 2, "n": 5}, {"sku": "c", "n": 6})
    assert named.json()["written"]["version"] == 3
    blind = send(served, "POST", items, {"sku": "a", "n": 7}, on_conflict="replace")
    assert blind.json()["written"]["version"] == 4
    assert send(served, "DELETE", items, {"sku": "b"}).status_code == 200
    assert served.http.get(f"/v1/tables/{items}/rows/a").json()["row"]["n"] == 7
    assert served.http.get(f'/v1/tables/{items}/rows/["a"]').json()["row"]["n"] == 7
    assert served.http.get(f"/v1/tables/{items}/rows/b").status_code == 404


def test_floats_that_json_does_not_have_are_texts_as_they_are_written(
    served: Served,
) -> None:
    body = {"name": "floats", "columns": "x:double, y:list<double>", "row_ids": True}
    assert served.http.post("/v1/tables", json=body).status_code == 200
    row = {"x": "NaN", "y": ["-Infinity", 1.5, "Infinity"]}
    assert send(served, "POST", "floats", row).status_code == 200
    found = served.http.get("/v1/tables/floats/rows/0").json()["row"]
    assert {name: found[name] for name in row} == row


def test_a_request_need_not_wait(served: Served, people: str) -> None:
    path = f"/v1/tables/{people}/rows?wait=0"
    found = served.http.patch(path, json={"rows": [{"_row_id": 0, "n": 4}]})
    assert found.status_code in (200, 202)
    ended = until_ended(served.http, found.json()["id"])
    assert (ended["kind"], ended["state"], ended["written"]["version"]) == ("rows", "done", 3)


def test_another_gateway_answers_with_the_version_that_is_asked_for(
    served: Served, people: str, tmp_path: Path
) -> None:
    lake = served.gateway.settings.tables.urls[0]
    slow = settings(
        lake,
        tmp_path,
        tables=TableSettings(urls=(lake,), poll_s=300, max_staleness_s=600),
        jobs=JobSettings(poll_s=0.2, lease_s=10, work_dir=tmp_path / "work"),
    )
    with serving(slow) as other:
        path = f"/v1/tables/{people}"
        assert other.http.get(path).json()["version"] == 2
        version = send(served, "PATCH", people, {"_row_id": 0, "n": 4}).json()["written"]["version"]
        # It has not looked, unless it has done the job itself.
        assert other.http.get(path).json()["version"] in (2, version)
        row = other.http.get(f"{path}/rows/0?min_version={version}").json()
        assert (row["version"], row["row"]["n"]) == (3, "4.00")
        send(served, "PATCH", people, {"_row_id": 0, "n": 5})
        sql = f"select count(*) as c from {people}"
        asked = other.query(sql, min_version={people: 4})
        assert json.loads(asked.headers["x-blockstore-versions"]) == {people: 4}
        assert other.http.get(f"{path}?min_version=99").status_code == 404
        assert other.query(sql, min_version={people: 99}).status_code == 404
        assert other.http.get(f"{path}?min_version=4").json()["version"] == 4


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_a_table_goes_through_a_spreadsheet_and_one_row_has_a_new_version(
    served: Served, people: str, form: str
) -> None:
    asked = {"kind": "download", "table": people, "format": form, "row_ids": True}
    job = served.http.post("/v1/jobs", json=asked).json()["id"]
    assert until_ended(served.http, job)["state"] == "done"
    text = served.http.get(f"/v1/jobs/{job}/result").text
    between = {"csv": ",", "tsv": "\t"}[form]
    assert text.splitlines()[0] == between.join(
        f'"{one}"' for one in ("_row_id", "_version", *PEOPLE.names)
    )
    headers = {"Content-Type": "text/csv" if form == "csv" else "text/tab-separated-values"}
    path = f"/v1/jobs?table={people}"
    changed = text.replace("2.00", "2.75")
    ended = until_ended(
        served.http, served.http.post(path, content=changed, headers=headers).json()["id"]
    )
    assert (ended["state"], ended["error"]) == ("done", None)
    assert (ended["written"]["updated"], ended["written"]["unchanged"]) == (1, 2)
    assert ended["written"]["cells"] == {"n": 1}
    table = _table(served, people)
    assert [len(table.row_history(row)) for row in range(3)] == [1, 2, 1]
    stale = served.http.post(path, content=changed, headers=headers).json()["id"]
    error = until_ended(served.http, stale)["error"]
    assert (error["error"], error["line"], error["column"], error["value"]) == (
        "bad_row",
        3,
        "_version",
        "2",
    )
    assert [one["line"] for one in error["lines"]] == [3]


def test_an_upload_of_rows_lists_every_wrong_line(served: Served, people: str) -> None:
    header = "_row_id,_version,name,born,n\n"
    for text, lines in (
        (header + "0,2,a,,1\n1,1,b,,1\n9,2,c,,1\n", [3, 4]),
        (header + "0,2,a,,x\n,,b,soon,1\n", [2, 3]),
        (header + "0,,a,,1\n,2,a,,1\n", [2, 3]),
        (header + "0,2,a,,1\n1,2,b,,1\n0,2,ann,,1\n", [2, 4]),
        ("_row_id,name,born,n\n0,a,,1\n", [1]),
        ("_version,_row_id,name,born,n\n2,0,a,,1\n", [1]),
    ):
        job = served.http.post(f"/v1/jobs?table={people}", content=text, headers=CSV).json()["id"]
        error = until_ended(served.http, job)["error"]
        assert (error["error"], [one["line"] for one in error["lines"]]) == ("bad_row", lines)
    assert _table(served, people).poll() == 2


def test_a_file_in_utf_16_that_begins_with_a_version_changes_rows(
    served: Served, items: str
) -> None:
    at = f"/v1/jobs?table={items}"
    for order, mark in (("le", b"\xff\xfe"), ("be", b"\xfe\xff")):
        data = mark + f"_version,sku,n\n,{order},5\n".encode(f"utf-16-{order}")
        job = served.http.post(at, content=data, headers=CSV)
        assert job.status_code == 202, job.text
        assert until_ended(served.http, job.json()["id"])["state"] == "done"
    refused = served.http.post(at, content=mark + "sku,n\n".encode("utf-16-be"), headers=CSV)
    assert refused.status_code == 400


def test_an_upload_upserts_or_inserts_by_key(served: Served, items: str) -> None:
    def upload(mode: str, text: str) -> dict[str, Any]:
        path = f"/v1/jobs?table={items}&mode={mode}"
        return until_ended(
            served.http, served.http.post(path, content=text, headers=CSV).json()["id"]
        )

    assert upload("upsert", "sku,n\na,10\nc,30\n")["written"]["version"] == 3
    refused = upload("insert", "sku,n\nc,1\nd,2\n")["error"]
    assert (refused["error"], refused["rows"][0]["row"]) == ("conflict", "c")
    assert upload("insert", "sku,n\nd,2\n")["written"]["inserted"] == 1
    for mode in ("upsert", "insert"):
        twice = upload(mode, "sku,n\nx,1\ny,2\nx,3\n")["error"]
        assert twice["error"] == "bad_row"
        assert "line 4: the key (sku) 'x' is that of line 2 too, expected each" in twice["message"]
        parts = (twice["line"], twice["column"], twice["value"], twice["rule"])
        assert parts == (4, "sku", "x", "a row occurs once")
        assert [one["line"] for one in twice["lines"]] == [2, 4]
    assert "line 2: column 'n' is 'x'" in upload("upsert", "sku,n\na,x\n")["error"]["message"]
    for path in (f"/v1/jobs?table={items}", f"/v1/jobs?table={items}&mode=append"):
        none = served.http.post(path, content="sku,n\nz,1\n", headers=CSV)
        assert (none.status_code, none.json()["error"]) == (400, "invalid")
        assert "say mode=upsert" in none.json()["message"]
    assert upload("append", "_version,sku,n\n,z,1\n4,d,3\n")["state"] == "done"
    assert served.http.get(f"/v1/tables/{items}/rows/d").json()["row"]["n"] == 3


def test_a_query_has_row_ids_on_request(served: Served, people: str) -> None:
    found = served.query(f"select name from {people} order by 1", row_ids=True)
    assert found.json()[0] == {"_row_id": 0, "_version": 2, "name": "ann"}
    grouped = served.query(f"select name from {people} group by name", row_ids=True)
    assert (grouped.status_code, grouped.json()["error"]) == (400, "invalid_sql")
    plain = served.query("select n from flights", row_ids=True)
    assert "have neither ids nor a key" in plain.json()["message"]


def test_a_table_says_what_identifies_its_rows(served: Served, people: str, items: str) -> None:
    shown = served.http.get(f"/v1/tables/{people}").json()
    assert (shown["row_ids"], shown["key"]) == (True, [])
    shown = served.http.get(f"/v1/tables/{items}").json()
    assert (shown["row_ids"], shown["key"]) == (False, ["sku"])


def test_the_routes_are_in_the_document(served: Served) -> None:
    paths = served.http.get("/openapi.json").json()["paths"]
    assert {"post", "patch", "delete"} <= paths["/v1/tables/{table}/rows"].keys()
    assert "get" in paths["/v1/tables/{table}/rows/{row}"]
    assert "get" in paths["/v1/tables/{table}/rows/{row}/history"]
    assert "post" in paths["/v1/tables/{table}/rows/fetch"]
    assert "post" in paths["/v1/tables"]
    assert "patch" in paths["/v1/tables/{table}"]
