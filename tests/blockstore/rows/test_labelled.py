"""Rows that say their labels themselves, and rows that are found by their labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blockstore as bs
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.rows.versions import row_at
from tests.blockstore.rows.lake import again, by_key, rows_of, seen
from tests.blockstore.rows.sites import X, Y, added, at, check, keyed, numbered, row, sites
from tests.support.examples import few


def test_rows_may_say_their_labels_in_columns() -> None:
    table = keyed()
    did = table.upsert(at(("x", 2, 1), ("y", 2, 2), (None, 2, 3), ("new", 2, 4)))
    assert added(table, did.version) == [{"site": "new"}, X, Y, {}]
    found = sites(again(table))
    assert {one: n for one, n in found.items() if one[1] == 2} == {
        ("x", 2): 1,
        ("y", 2): 2,
        ("", 2): 3,
        ("new", 2): 4,
    }
    last = table.upsert(at(("x", 7, 1), ("y", 7, 2), ("x", 7, 3)), duplicates="last")
    assert last.version is not None
    assert (sites(table)["x", 7], sites(table)["y", 7]) == (3, 2)
    with pytest.raises(bs.RowConflict, match="exist already"):
        table.insert(at(("new", 3, 1), ("y", 3, 1)))
    assert table.insert(at(("new", 3, 1), ("y", 3, 1)), on_conflict="ignore").inserted == 1
    table.delete_rows(at(("x", 7, 0), ("new", 2, 0)).select(["id", "site"]))
    assert not {("x", 7), ("new", 2)} & sites(table).keys()
    table.set_cells([{"id": 3, "site": "y", "n": 9}, {"id": 3, "n": 8}], labels={"site": "new"})
    assert (sites(table)["y", 3], sites(table)["new", 3]) == (9, 8)
    table.put_rows(at(("y", 3, 90), ("new", 3, 80), ("new", 9, 70)))
    assert [sites(table)[one] for one in (("y", 3), ("new", 3), ("new", 9))] == [90, 80, 70]
    check(table)


def test_a_label_that_came_since_the_handle_looked_is_known() -> None:
    table = by_key()
    table.upsert(rows_of(row(1, 1)))
    again(table).upsert(rows_of(row(1, 2), row(2, 2)), labels=X)
    table.delete_rows(pa.table({"id": [1], "site": ["x"]}))
    assert sites(table) == {("", 1): 1, ("x", 2): 2}
    late = again(table)
    again(table).upsert(rows_of(row(3, 3)), labels={"place": "p"})
    source = at(("x", 2, 20)).append_column("place", pa.array([None], pa.string()))
    late.merge(source, on="id").when_matched_update().execute()
    assert sites(late)["x", 2] == 20


def test_what_rows_say_wrongly_of_their_labels_is_refused() -> None:
    table, ids = keyed(), numbered()
    before = (sites(table), table.poll(), sites(ids, "_row_id"), ids.poll())
    bad = at(("x", 1, 1), ("y", 1, 2)).drop_columns("n").append_column("n", pa.array(["1", "?"]))
    with pytest.raises(bs.Invalid, match="'n'"):
        table.upsert(bad)
    with pytest.raises(bs.Invalid, match="occurs 2 times"):
        table.upsert(at(("x", 1, 1), ("x", 1, 2)))
    rows = pa.table({"_row_id": [0, 3], "name": ["a", "a"], "n": [7, 7], "site": ["x", "x"]})
    with pytest.raises(bs.Invalid, match=r"row 3 has the labels .* never change"):
        ids.put_rows(rows)
    with pytest.raises(bs.Invalid, match="'z', which the table does not have"):
        table.merge(rows_of(row(1, 1)), on="id").when_matched_update({"z": 1}).execute()
    with pytest.raises(bs.Invalid, match="'site', which the table does not have"):
        table.merge(rows_of(row(1, 1)), on="id").when_matched_update({"site": "y"}).execute()
    with pytest.raises(bs.Invalid, match="column 'place', which is neither"):
        table.delete_rows(pa.table({"id": [3], "place": ["x"]}))
    with pytest.raises(bs.Invalid, match="says another site"):
        table.merge(at(("y", 1, 1)), on="id").when_matched_update().execute()
    with pytest.raises(bs.Invalid, match="'id' is part of the key"):
        table.merge(rows_of(row(5, 11)), on="n").when_matched_update().execute()
    assert (sites(table), table.poll(), sites(ids, "_row_id"), ids.poll()) == before


def test_rows_with_ids_that_say_their_labels_are_a_row_set() -> None:
    table = numbered()
    rows = pa.table(
        {
            "_row_id": pa.array([0, 3, None, None], pa.int64()),
            "name": ["a"] * 4,
            "n": [9, 30, 50, 60],
            "site": ["x", "y", "y", "new"],
        }
    )
    did = table.put_rows(rows)
    assert (did.updated, did.inserted) == (2, 2)
    found = sites(again(table), "_row_id")
    assert (found["x", 0], found["y", 3]) == (9, 30)
    assert {(site, n) for (site, _), n in found.items() if n >= 50} == {("y", 50), ("new", 60)}


def test_a_merge_on_labels_matches_and_inserts_by_them() -> None:
    table = keyed()
    did = (
        table.merge(at(("x", 2, 1), ("y", 1, 2), (None, 4, 3)), on=["site", "id"])
        .when_matched_update()
        .when_not_matched_insert()
        .execute()
    )
    assert (did.updated, did.inserted) == (1, 2)
    found = sites(again(table))
    assert (found["x", 2], found["y", 1], found["", 4], found["y", 2]) == (1, 2, 3, 22)
    named = (
        table.merge(rows_of(row(50, 5)), on="id")
        .when_not_matched_insert({"id": "source.id", "n": 1, "site": "new"})
        .execute()
    )
    assert (named.inserted, sites(table)["new", 50]) == (1, 1)


def test_a_row_of_a_key_that_several_have_is_found_by_its_labels() -> None:
    table = keyed()
    did = table.update({"n": 0}, where="id = 2")
    assert did.version is not None
    history = table.row_history(2).select(["site", "_version", "n"]).to_pylist()
    assert {tuple(one.values()) for one in history} == {
        ("x", 5, 0),
        ("y", 5, 0),
        ("y", 3, 22),
        ("x", 2, 12),
    }
    assert table.row_history(2, labels=Y)["n"].to_pylist() == [0, 22]
    with pytest.raises(bs.Invalid, match="name the labels"):
        table.fetch([(2, 5)])
    assert table.fetch([(2, 5), (2, 3)], labels=Y)["site"].to_pylist() == ["y", "y"]
    assert table.fetch([(2, 3), (1, 2)])["n"].to_pylist() == [22, 11]
    with pytest.raises(bs.NotFound):
        table.fetch([(2, 3)], labels=X)
    view = table.snapshot()
    given = (view.bucket, view.world, view.snapshot)
    with pytest.raises(bs.Invalid, match=r'2 rows have the key 2, with the labels .*"x".*"y"'):
        row_at(*given, 2)
    assert row_at(*given, 2, labels=X)["site"].to_pylist() == ["x"]
    assert row_at(*given, 1)["n"].to_pylist() == [11]
    table.delete_rows([2], labels=X)
    view = table.snapshot()
    assert row_at(view.bucket, view.world, view.snapshot, 2)["site"].to_pylist() == ["y"]
    with pytest.raises(bs.NotFound, match="was deleted in version 6"):
        row_at(view.bucket, view.world, view.snapshot, 2, labels=X)
    with pytest.raises(bs.Invalid, match="leave labels out"):
        numbered().row_history(1, labels=X)


SITES = st.sampled_from(["x", "y", None])
CELLS = st.dictionaries(st.tuples(SITES, st.integers(0, 4)), st.integers(-3, 3), min_size=1)
STEPS = st.one_of(
    st.tuples(st.just("upsert"), CELLS),
    st.tuples(st.just("put"), CELLS),
    st.tuples(st.just("update"), st.integers(-3, 3)),
    st.tuples(st.just("delete"), st.integers(-3, 3)),
    st.tuples(st.just("delete rows"), CELLS),
    st.tuples(st.just("merge"), st.dictionaries(st.integers(0, 4), st.integers(-3, 3), min_size=1)),
    st.tuples(st.just("overwrite"), CELLS),
    st.tuples(st.just("restore"), st.integers(0, 20)),
    st.tuples(st.just("revert"), st.just(None)),
    st.tuples(st.just("compact"), st.just(None)),
)


@settings(max_examples=few(20), deadline=None)
@given(st.lists(STEPS, min_size=2, max_size=8))
def test_any_sequence_equals_an_oracle(steps: list[tuple[str, Any]]) -> None:
    """The oracle is a map of (site, key) to the number, and the maps of all versions."""
    table = by_key(labels=X)
    table.upsert(rows_of(row(0, 0)))
    now: dict[tuple[str | None, int], int] = {("x", 0): 0}
    past = {1: {}, 2: dict(now)}
    for what, given_ in steps:
        before = dict(now)
        if what in ("upsert", "put"):
            rows = at(*((site, key, n) for (site, key), n in given_.items()))
            version = (table.upsert if what == "upsert" else table.put_rows)(rows).version
            now |= given_
        elif what == "update":
            version = table.update({"n": pc.field("n") + 1}, where=f"n < {given_}").version
            now = {one: n + 1 if n < given_ else n for one, n in now.items()}
        elif what == "delete":
            version = table.delete(f"n = {given_}").version
            now = {one: n for one, n in now.items() if n != given_}
        elif what == "delete rows":
            rows = at(*((site, key, 0) for site, key in given_)).select(["id", "site"])
            version = table.delete_rows(rows).version
            now = {one: n for one, n in now.items() if one not in given_}
        elif what == "merge":
            version = (
                table.merge(rows_of(*(row(key, n) for key, n in given_.items())), on="id", labels=Y)
                .when_matched_delete(condition=pc.field("source.n") < 0)
                .when_matched_update()
                .when_not_matched_insert()
                .execute()
                .version
            )
            keys = {key for _, key in now}
            now = {one: given_.get(one[1], n) for one, n in now.items()}
            now = {one: n for one, n in now.items() if one[1] not in given_ or n >= 0}
            now |= {("y", key): n for key, n in given_.items() if key not in keys}
        elif what == "overwrite":
            rows = {key: n for (_, key), n in given_.items()}
            version = table.overwrite(
                rows_of(*(row(key, n) for key, n in rows.items())), labels=X
            ).version
            now = {("x", key): n for key, n in rows.items()}
        elif what == "restore":
            target = max(one for one in past if one <= 1 + given_ % max(past))
            version = table.restore(version=target).version
            now = dict(past[target])
        elif what == "revert":
            version = table.revert(max(past)).version
            now = dict(past[max(one for one in past if one < max(past))])
        else:
            compact_once(table, Settings(tier_blocks=2, work_dir=Path("/tmp")))
            version = None
        if version is None:
            assert now == before, what
        else:
            past[version] = dict(now)
        found = seen(again(table), "site", "id", "n")
        assert {(one["site"], one["id"]): one["n"] for one in found} == now, what
        assert len(found) == len(now)
    check(table)
