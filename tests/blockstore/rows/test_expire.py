"""A person's deletion mark on a live block where rows have an identity: no older version of a row
comes back."""

from __future__ import annotations

from typing import Any

import pytest

import blockstore as bs
from blockstore.care.marks.marker import Marker
from blockstore.operations.access import Access
from blockstore.rows.expire import expire_rows
from blockstore.table import Table
from tests.blockstore.rows.lake import again, by_key, rows_of, seen


def row(key: int, n: int) -> dict[str, Any]:
    return {"id": key, "name": "a", "n": n}


def keyed() -> tuple[Table, list[str]]:
    table = by_key()
    writes = [
        table.upsert(rows_of(row(1, 1), row(2, 2))),
        table.upsert(rows_of(row(2, 20), row(3, 30))),
    ]
    return table, [one.block or "" for one in writes]


def access_to(table: Table) -> Access:
    return Access.of(table.bucket, table.world, table.log)


def test_rows_that_hide_older_versions_get_tombstones() -> None:
    table, (_, second) = keyed()
    did = expire_rows(access_to(table), [second], "manual", "a test")
    assert did.removed == (second,)
    assert len(did.added) == 1
    assert seen(again(table)) == [row(1, 1)], "row 2 does not return as it was"
    assert table.poll() == 4


def test_rows_of_which_nothing_older_is_left_need_none() -> None:
    table, (first, second) = keyed()
    did = expire_rows(access_to(table), [first], "manual")
    assert (did.added, seen(table)) == ((), [row(2, 20), row(3, 30)])
    both, blocks = keyed()
    assert expire_rows(access_to(both), blocks, "manual").added == ()
    assert seen(both) == []
    with pytest.raises(bs.NotFound, match="is not live"):
        expire_rows(access_to(table), [first, second], "manual")


def test_a_change_meanwhile_is_never_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    table, (_, second) = keyed()
    other = again(table)
    real, begun = table.log.commit, []

    def commit(change: Any) -> Any:
        if not begun:
            begun.append(other.upsert(rows_of(row(2, 21))))
        return real(change)

    monkeypatch.setattr(table.log, "commit", commit)
    expire_rows(access_to(table), [second], "manual")
    assert seen(again(table)) == [row(1, 1), row(2, 21)]


def test_a_persons_mark_takes_a_block_of_changes_out() -> None:
    table, (_, second) = keyed()
    marker = Marker(
        bucket=table.bucket,
        world=table.world,
        log=table.log,
        properties=table.definition.properties,
        catalog=table.catalog,
    )
    marked = marker.delete(second)
    assert marked.version == 4
    assert seen(again(table)) == [row(1, 1)]
