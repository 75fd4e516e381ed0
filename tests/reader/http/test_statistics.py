"""What is known of a table's columns without reading it, over HTTP."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.http import statistics_routes
from tests.reader.http.gateways import DDL, FEW, Served, serving, settings

SCHEMA = pa.schema(
    [
        ("moment", pa.timestamp("us", "UTC")),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("ok", pa.bool_()),
        ("word", pa.string()),
        ("raw", pa.binary()),
        ("many", pa.list_(pa.int64())),
    ]
)


def rows(numbers: range) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "moment": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=n),
                "n": None if n % 10 == 0 else n,
                "x": float("nan") if n % 50 == 0 else n / 2,
                "price": Decimal(n) / 4,
                "day": dt.date(2026, 1, 1) + dt.timedelta(days=n // 100),
                "ok": n % 2 == 0,
                "word": f"w{n:03}" + "z" * 100,
                "raw": b"x",
                "many": [n],
            }
            for n in numbers
        ],
        SCHEMA,
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("statistics")
    table = bs.create(
        f"{folder}/lake/flights?durable=false", schema=SCHEMA, time_column="moment", sort_by=["n"]
    )
    for part in range(4):
        table.append(rows(range(part * 100, part * 100 + 100)), labels={"site": "aab"[part % 3]})
    keyed = bs.create(
        f"{folder}/lake/stock?durable=false",
        schema=pa.schema([("id", pa.int64()), ("n", pa.int64())]),
        key=["id"],
    )
    keyed.upsert(pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}))
    keyed.upsert(pa.table({"id": [2], "n": [900]}))
    bs.create(f"{folder}/lake/salaries?durable=false", schema=SCHEMA).append(rows(range(3)))
    bs.create(f"{folder}/lake/empty?durable=false", schema=SCHEMA)
    with serving(settings(f"{folder}/lake?durable=false", folder)) as one:
        yield one


def found(served: Served, table: str, more: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    answer = served.http.get(f"/v1/tables/{table}/statistics{more}")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return body, {one["name"]: one for one in body["columns"]}


def test_bounds_and_nulls_are_those_of_a_query(served: Served) -> None:
    body, columns = found(served, "flights")
    assert (body["rows"], body["current"], body["table"]) == (400, True, "flights")
    for name in ("moment", "n", "price", "day", "ok"):
        (row,) = served.rows(
            f"SELECT min({name}) AS low, max({name}) AS high, count(*) - count({name}) AS nulls "
            "FROM flights"
        )
        shown = columns[name]
        low, high = (str(row[one]) for one in ("low", "high"))
        if name == "ok":
            low, high = low.lower(), high.lower()
        assert Decimal(shown["min"]) == Decimal(low) if name == "price" else shown["min"] == low
        assert Decimal(shown["max"]) == Decimal(high) if name == "price" else shown["max"] == high
        assert shown["nulls"] == row["nulls"]
    assert (columns["x"]["min"], columns["x"]["max"], columns["x"]["nans"]) == ("0.5", "199.5", 8)
    assert columns["word"]["min"].startswith("w000zzz")
    assert len(columns["word"]["min"]) == 64
    assert "many" not in columns
    assert (columns["raw"]["min"], columns["raw"]["nulls"]) == (None, 0)


def test_histograms_have_every_value_once_about_where_it_is(served: Served) -> None:
    _, columns = found(served, "flights")
    for name, values in (("n", 360), ("moment", 400), ("price", 400), ("x", 392)):
        bins = columns[name]["bins"]
        assert len(bins) == 24
        assert sum(bins) == values
        assert max(bins) <= 2 * min(bins), (name, bins)
    assert columns["day"]["bins"] == [100, 100, 100, 100]
    for name in ("ok", "word", "raw"):
        assert columns[name]["bins"] == []


def test_labels_have_their_values(served: Served) -> None:
    _, columns = found(served, "flights")
    assert columns["site"]["values"] == [{"value": "a", "rows": 300}, {"value": "b", "rows": 100}]


def test_a_version_has_its_own_and_an_empty_table_none(served: Served) -> None:
    body, columns = found(served, "flights", "?version=2")
    assert (body["rows"], columns["n"]["max"]) == (100, "99")
    body, columns = found(served, "empty")
    assert (body["rows"], columns["n"]["min"], columns["n"]["bins"]) == (0, None, [])


def test_rows_that_newer_versions_hide_are_said_to_be_among_them(served: Served) -> None:
    body, columns = found(served, "stock")
    assert body["current"] is False
    assert (body["rows"], columns["n"]["max"]) == (4, "900")


def test_of_too_many_blocks_nothing_is_added_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics_routes, "MOST", 3)
    body, columns = found(served, "flights")
    assert (body["rows"], columns) == (None, {})


def test_a_token_learns_nothing_of_tables_that_it_may_not_know(served: Served) -> None:
    with served.as_(FEW) as few, served.as_(DDL) as definer:
        for name in ("salaries", "salariez"):
            assert few.get(f"/v1/tables/{name}/statistics").status_code == 404
        assert few.get("/v1/tables/flights/statistics").status_code == 200
        assert definer.get("/v1/tables/flights/statistics").status_code == 403
