"""A lake of tables whose rows change, on a real gateway, and what people do with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from playwright.sync_api import Locator, Page

import blockstore as bs
from blockstore.reader.http.tokens import Scope, Token, hashed
from blockstore.table import Table
from tests.reader.http.gateways import Served, serving, settings
from tests.reader.page.acts import cell, expect

READER = "bsk_looks"
SCHEMA = bs.typed_schema(
    [
        bs.column("name", "string", max_length=12),
        bs.column("age", "integer", check="age >= 0"),
        ("score", "double"),
        ("member", "boolean"),
        ("born", "date"),
        ("seen", "timestamp"),
        bs.column("big", "integer", default=7),
    ]
)
BIG = 9007199254740993
"""No double holds it."""
ITEMS = pa.schema([("shop", pa.string()), ("item", pa.string()), ("n", pa.int32())])


@contextmanager
def gateway(folder: Path, *, tokens: tuple[Token, ...] = ()) -> Iterator[Served]:
    """A gateway over a lake in ``folder``."""
    (folder / "lake").mkdir(exist_ok=True)
    with serving(settings(f"{folder}/lake?durable=false", folder, tokens=tokens)) as served:
        yield served


def reader() -> Token:
    """A token that may not write."""
    return Token(name="looks", sha256=hashed(READER), scopes=frozenset({Scope.READ}))


def url_of(served: Served, name: str) -> str:
    return f"{served.gateway.settings.tables.urls[0].partition('?')[0]}/{name}?durable=false"


def people(served: Served, name: str) -> Table:
    """A table with row ids, and the rows ann, bob and cat."""
    table = bs.create(url_of(served, name), schema=SCHEMA, row_ids=True)
    rows = [
        {"name": "ann", "age": 41, "score": 1.5, "member": True, "big": BIG},
        {"name": "bob", "age": 30, "score": -0.25, "member": False, "big": 2},
        {"name": "cat", "age": None, "score": None, "member": None, "big": 3},
    ]
    table.append(pa.Table.from_pylist(rows, table.definition.schema))
    served.gateway.tables.poll_now()
    return table


def items(served: Served, name: str) -> Table:
    """A table with a key of two columns, and two rows."""
    table = bs.create(url_of(served, name), schema=ITEMS, key=["shop", "item"])
    table.upsert(pa.table({"shop": ["a", "b/c"], "item": ["nut", 'bolt "x"'], "n": [1, 2]}, ITEMS))
    served.gateway.tables.poll_now()
    return table


def now(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    """The current rows, sorted."""
    found = bs.open(table.url).snapshot().scan(columns=list(columns)).to_table().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def edit(page: Page) -> None:
    """Begin to edit the rows that are shown."""
    page.get_by_role("button", name="Edit", exact=True).click()
    expect(page.get_by_role("grid")).to_have_attribute("aria-readonly", "false")


def put(page: Page, row: int, column: int, text: str) -> None:
    """Click into a cell, type over what it has, and press Enter."""
    at = cell(page, row, column)
    at.click()
    page.get_by_role("grid").press("F2")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
    page.keyboard.press("Enter")


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()


def saved(page: Page, version: int) -> None:
    """Save, and wait until it is done."""
    save(page)
    expect(page.locator(".saved")).to_have_text(f"Saved as version {version}.")


def summary(page: Page) -> Locator:
    return page.locator(".edit-summary")
