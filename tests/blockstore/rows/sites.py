"""Tables whose rows have different labels, and what is seen of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from blockstore.care.finding import Severity
from blockstore.care.verify import verify
from blockstore.format.block import BlockKind
from blockstore.table import Table
from tests.blockstore.rows.lake import by_id, by_key, rows_of, seen

X, Y = {"site": "x"}, {"site": "y"}


def row(key: int, n: int) -> dict[str, Any]:
    return {"id": key, "name": "a", "n": n}


def keyed() -> Table:
    """Rows 1 and 2 of x, 2 and 3 of y, 3 of no site: n is 10, 20 and 30, and the key."""
    table = by_key()
    table.upsert(rows_of(row(1, 11), row(2, 12)), labels=X)
    table.upsert(rows_of(row(2, 22), row(3, 23)), labels=Y)
    table.upsert(rows_of(row(3, 33)))
    return table


def numbered() -> Table:
    """Ids 0 and 1 of x, 2 and 3 of y, 4 of no site; n is the id."""
    table = by_id()
    for first, rows, labels in ((0, 2, X), (2, 2, Y), (4, 1, {})):
        ns = list(range(first, first + rows))
        table.append(pa.table({"name": ["a"] * rows, "n": ns}), labels=labels)
    return table


def sites(table: Table, identity: str = "id") -> dict[tuple[str, int], int]:
    """The cell ``n`` of each row, by its site and its identity."""
    found = seen(table, "site", identity, "n")
    rows = {(row["site"] or "", row[identity]): row["n"] for row in found}
    assert len(rows) == len(found)
    return rows


def added(table: Table, version: int | None) -> list[dict[str, str]]:
    """The labels of the blocks that an entry added, all of changes."""
    assert version is not None
    (entry,) = table.log.entries(version, version)
    assert {block.meta.kind for block in entry.add} == {BlockKind.CHANGES}
    return sorted((dict(block.meta.labels) for block in entry.add), key=repr)


def check(table: Table) -> None:
    report = list(verify(table.bucket, table.world, deep=True))
    assert not [one for one in report if one.severity is Severity.ERROR], report


SITED = pa.schema(
    [("site", pa.string()), ("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())]
)


def at(*rows: tuple[str | None, int, int]) -> pa.Table:
    """Rows that say their site."""
    return pa.Table.from_pylist(
        [{"site": site, **row(key, n)} for site, key, n in rows], schema=SITED
    )
