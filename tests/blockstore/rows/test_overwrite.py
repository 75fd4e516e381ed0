"""Overwrites where rows have an identity."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.format.properties import Isolation, Properties
from blockstore.table import Table
from tests.blockstore.rows.lake import again, at_commit, by_id, by_key, rows_of, seen


def row(key: int, n: int) -> dict[str, Any]:
    return {"id": key, "name": "a", "n": n}


def keyed() -> Table:
    table = by_key()
    table.upsert(rows_of(row(1, 1), row(2, 2), row(3, 3)))
    table.upsert(rows_of(row(2, 20)))
    return table


def test_all_rows_are_replaced_and_former_versions_stay() -> None:
    table = keyed()
    did = table.overwrite(rows_of(row(2, 5), row(9, 9)))
    assert (did.version, did.rows_added, did.rows_removed) == (4, 2, 3)
    assert seen(again(table)) == [row(2, 5), row(9, 9)]
    assert table.fetch([(1, 2), (2, 3)])["n"].to_pylist() == [1, 20]
    assert table.row_history(1)["_deleted"].to_pylist() == [True, False]
    table.revert(4)
    assert seen(table) == [row(1, 1), row(2, 20), row(3, 3)]


def test_new_rows_of_a_table_with_row_ids_get_new_ids() -> None:
    table = by_id()
    table.append(pa.table({"name": ["a", "b"], "n": [1, 2]}))
    table.overwrite(pa.table({"name": ["c"], "n": [3]}))
    (found,) = seen(table, "_row_id", "n")
    assert found["n"] == 3
    assert found["_row_id"] >= 2


def test_nothing_in_the_place_of_all_is_a_delete() -> None:
    table = keyed()
    did = table.overwrite(rows_of())
    assert (did.rows_added, did.rows_removed, seen(table)) == (0, 3, [])
    assert table.overwrite(rows_of()).version is None, "nothing by nothing makes no entry"


def test_only_rows_that_meet_the_condition_are_replaced() -> None:
    table = keyed()
    did = table.overwrite(rows_of(row(2, 21), row(7, 22)), where="n > 2")
    assert (did.rows_added, did.rows_removed) == (2, 2)
    assert seen(table) == [row(1, 1), row(2, 21), row(7, 22)]
    entry = list(table.history())[-1]
    assert (entry.operation, entry.parameters["where"]) == ("overwrite", "n > 2")


def test_what_it_refuses() -> None:
    table = keyed()
    before = (seen(table), table.poll())
    with pytest.raises(bs.RowConflict, match="widen the condition") as caught:
        table.overwrite(rows_of(row(1, 21)), where="n > 2")
    assert caught.value.rows == ((1, None, None),)
    with pytest.raises(bs.Invalid, match="replace those for which n > 2"):
        table.overwrite(rows_of(row(5, 1)), where="n > 2")
    with pytest.raises(bs.Invalid, match="occurs 2 times"):
        table.overwrite(rows_of(row(5, 1), row(5, 2)))
    with pytest.raises(bs.Invalid, match="takes no read_version"):
        table.overwrite(rows_of(row(5, 1)), read_version=2)
    with pytest.raises(bs.Invalid, match="isolation is 'none'"):
        table.overwrite(rows_of(row(5, 1)), isolation="none")
    assert (seen(table), table.poll()) == before


def test_a_dry_run_counts() -> None:
    table = keyed()
    did = table.overwrite(rows_of(row(2, 5), row(9, 9)), dry_run=True)
    assert (did.rows_added, did.rows_removed, did.version) == (2, 3, None)
    assert table.poll() == 3


def test_a_job_happens_once_and_changes_meanwhile_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    table, job = keyed(), bs.Job("nightly", 1)
    other = again(table)
    real, begun = table.log.commit, []

    def commit(change: Any) -> Any:
        if not begun:
            begun.append(other.upsert(rows_of(row(1, 11), row(8, 8))))
        return real(change)

    monkeypatch.setattr(table.log, "commit", commit)
    first = table.overwrite(rows_of(row(2, 5)), job=job)
    assert seen(table) == [row(2, 5)], "row 1 was touched, so all was planned again"
    second = table.overwrite(rows_of(row(2, 5)), job=job)
    assert (second.already, second.version) == (True, first.version)


@pytest.mark.parametrize("own", ["serializable", "write-serializable"])
@pytest.mark.parametrize("said", [None, "serializable", "write-serializable"])
def test_one_overwrite_says_its_isolation_for_itself(own: str, said: str | None) -> None:
    table = by_key(properties=Properties(isolation=Isolation(own)))
    table.upsert(rows_of(row(1, 1)))
    other = again(table)
    at_commit(table, lambda: other.upsert(rows_of(row(3, 7))))
    table.overwrite(rows_of(row(9, 9)), where="name = 'a'", isolation=said)
    stays = [] if (said or own) == "serializable" else [row(3, 7)]
    assert seen(table) == [*stays, row(9, 9)]
