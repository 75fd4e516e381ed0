"""What PyIceberg does after a 409: it sends no part of the change again by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException

import blockstore as bs
from tests.reader.http.gateways import (
    SCHEMA,
    WRITE,
    Served,
    make_lake,
    rows_of,
    serving,
    settings,
)
from tests.reader.iceberg.foreign import counted

NEW = rows_of(range(5000, 5003))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[tuple[Served, Catalog]]:
    url = make_lake(tmp_path)
    keyed = bs.create(f"{tmp_path}/lake/keyed?durable=false", schema=SCHEMA, key="n")
    keyed.insert(rows_of(range(500)))
    keyed.insert(rows_of(range(500, 1000)))
    asked = settings(url, tmp_path)
    # Only what a commit found brings the gateway to a version that another has written.
    with serving(replace(asked, tables=replace(asked.tables, poll_s=600))) as served:
        served.gateway.tables.poll_now()
        uri = f"{served.url}/iceberg"
        yield served, load_catalog("lake", type="rest", uri=uri, token=WRITE)


def numbers(table: bs.Table) -> list[int]:
    table.poll()
    return sorted(table.snapshot().scan(columns=["n"]).to_table()["n"].to_pylist())


@pytest.mark.parametrize(
    ("name", "change", "after"),
    [
        (
            "flights",
            lambda one: one.overwrite(NEW, overwrite_filter="n < 500"),
            [*range(500, 1000), 5000, 5001, 5002],
        ),
        ("flights", lambda one: one.overwrite(NEW), [5000, 5001, 5002]),
        ("keyed", lambda one: one.delete("n < 500"), [*range(500, 1000)]),
    ],
    ids=["an overwrite of some rows", "an overwrite of all rows", "a delete by a key"],
)
def test_files_that_others_changed_since_are_replaced_once_the_table_is_loaded_again(
    lake: tuple[Served, Catalog],
    tmp_path: Path,
    name: str,
    change: Callable[[Any], None],
    after: list[int],
) -> None:
    """PyIceberg would send what is left of the change on top of the newest version: its new rows,
    without the removal of the old ones."""
    served, catalog = lake
    table = bs.open(f"{tmp_path}/lake/{name}?durable=false")
    loaded = catalog.load_table(f"lake.{name}")
    if name == "keyed":
        table.update({"s": "by another"}, where="n = 3")
    else:
        table.delete("n = 3")
    before = numbers(table)
    with pytest.raises(CommitFailedException):
        change(loaded)
    assert numbers(table) == before
    assert counted(served)["conflict"] == 1
    change(catalog.load_table(f"lake.{name}"))
    assert numbers(table) == after


def test_an_append_is_taken_whatever_others_did_since(
    lake: tuple[Served, Catalog], tmp_path: Path
) -> None:
    served, catalog = lake
    table = bs.open(f"{tmp_path}/lake/flights?durable=false")
    loaded = catalog.load_table("lake.flights")
    table.delete("n = 3")
    table.append(rows_of(range(2000, 2003)))
    loaded.append(NEW)
    kept = [n for n in range(1000) if n != 3]
    assert numbers(table) == [*kept, 2000, 2001, 2002, 5000, 5001, 5002]
    assert counted(served)["conflict"] == 0
