"""Random sequences of changes by two handles equal an oracle: current rows, counts, conditions, and
every version of every row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blockstore as bs
from blockstore.table import Table
from tests.blockstore.rows.lake import again, by_id, by_key, rows_of, seen
from tests.support.examples import few
from tests.support.versions import Oracle

IDS = st.integers(0, 7)
SMALL = st.integers(-3, 3)
KEYED = st.one_of(
    st.tuples(st.just("upsert"), st.dictionaries(IDS, SMALL, min_size=1, max_size=4)),
    st.tuples(st.just("insert"), st.dictionaries(IDS, SMALL, min_size=1, max_size=3)),
    st.tuples(st.just("update"), SMALL),
    st.tuples(st.just("delete"), SMALL),
    st.tuples(st.just("delete rows"), st.sets(IDS, min_size=1, max_size=3)),
    st.tuples(st.just("cells"), st.dictionaries(IDS, SMALL, min_size=1, max_size=3)),
    st.tuples(st.just("merge"), st.dictionaries(IDS, SMALL, min_size=1, max_size=4)),
)


def check(table: Table, oracle: Oracle, identity: str) -> None:
    """All that a reader can see of the table."""
    current = oracle.current()
    columns = [*dict.fromkeys((identity, *table.definition.schema.names, "_version"))]
    wanted = [
        {identity: one, **row, "_version": oracle.version_of(one)} for one, row in current.items()
    ]
    assert seen(table, *columns) == sorted(
        [{name: row[name] for name in columns} for row in wanted], key=repr
    )
    assert table.snapshot().count() == len(current)
    positive = [row for row in wanted if (row["n"] or 0) > 0]
    assert len(seen(table, "n", where="n > 0")) == len(positive)
    for one, versions in oracle.versions.items():
        if not versions or all(row is None for row in versions.values()):
            continue
        kept = table.row_history(one).to_pylist()
        assert [row["_version"] for row in kept] == sorted(versions, reverse=True)
        for row in kept:
            expected = versions[row["_version"]]
            assert row["_deleted"] == (expected is None)
            assert expected is None or {name: row[name] for name in expected} == expected
    pairs = [
        (one, version)
        for one, versions in oracle.versions.items()
        for version, row in versions.items()
        if row is not None
    ]
    if pairs:
        found = table.fetch(pairs).to_pylist()
        assert [row["n"] for row in found] == [oracle.versions[one][at]["n"] for one, at in pairs]


@settings(max_examples=few(40), deadline=None)
@given(st.lists(st.tuples(st.booleans(), KEYED), max_size=9))
def test_a_table_with_a_key(steps: list[tuple[bool, Any]]) -> None:
    table = by_key(sort_by=["name"])
    other = again(table)
    oracle = Oracle(lambda row: row["id"])
    for by_other, (what, given_) in steps:
        handle = other if by_other else table
        current = oracle.current()
        if what == "upsert":
            rows = [{"id": one, "name": "u", "n": n} for one, n in given_.items()]
            oracle.put(handle.upsert(rows_of(*rows)).version, rows)
        elif what == "insert":
            rows = [{"id": one, "name": "i", "n": n} for one, n in given_.items()]
            if current.keys() & given_.keys():
                with pytest.raises(bs.RowConflict):
                    handle.insert(rows_of(*rows))
            did = handle.insert(rows_of(*rows), on_conflict="ignore")
            fresh = [row for row in rows if row["id"] not in current]
            assert (did.inserted, did.unchanged) == (len(fresh), len(rows) - len(fresh))
            oracle.put(did.version, fresh)
        elif what == "update":
            hit = [row for row in current.values() if row["n"] is not None and row["n"] < given_]
            did = handle.update({"n": pc.field("n") + 1, "name": "up"}, where=f"n < {given_}")
            assert did.updated == len(hit)
            oracle.put(did.version, [{**row, "n": row["n"] + 1, "name": "up"} for row in hit])
        elif what == "delete":
            hit = [row["id"] for row in current.values() if row["n"] == given_]
            did = handle.delete(f"n = {given_}")
            assert did.rows_removed == len(hit)
            oracle.delete(did.version, hit)
        elif what == "delete rows":
            oracle.delete(handle.delete_rows(sorted(given_)).version, given_)
        elif what == "cells":
            cells = [{"id": one, "n": n if n else None} for one, n in given_.items()]
            if given_.keys() - current.keys():
                with pytest.raises(bs.NotFound):
                    handle.set_cells(cells)
            else:
                did = handle.set_cells(cells)
                changed = [cell for cell in cells if cell["n"] != current[cell["id"]]["n"]]
                assert (did.updated, did.unchanged) == (len(changed), len(cells) - len(changed))
                oracle.put(did.version, [{**current[cell["id"]], **cell} for cell in changed])
        else:
            rows = [{"id": one, "name": "m", "n": n} for one, n in given_.items()]
            did = (
                handle.merge(rows_of(*rows), on="id")
                .when_matched_delete(condition=pc.field("source.n") < 0)
                .when_matched_update({"n": "source.n"})
                .when_not_matched_insert(condition=pc.field("source.n") >= 0)
                .execute()
            )
            for row in rows:
                there = current.get(row["id"])
                if there is not None and row["n"] < 0:
                    oracle.delete(did.version, [row["id"]])
                elif there is not None:
                    oracle.put(did.version, [{**there, "n": row["n"]}])
                elif row["n"] >= 0:
                    oracle.put(did.version, [row])
    check(again(table), oracle, "id")


BY_ROW_ID = st.one_of(
    st.tuples(st.just("append"), st.lists(SMALL, min_size=1, max_size=3)),
    st.tuples(st.just("put"), st.dictionaries(IDS, SMALL, max_size=3)),
    st.tuples(st.just("update"), SMALL),
    st.tuples(st.just("delete rows"), st.sets(IDS, min_size=1, max_size=3)),
    st.tuples(st.just("cells"), st.dictionaries(IDS, SMALL, min_size=1, max_size=3)),
)


@settings(max_examples=few(40), deadline=None)
@given(st.lists(st.tuples(st.booleans(), BY_ROW_ID), max_size=9))
def test_a_table_with_row_ids(steps: list[tuple[bool, Any]]) -> None:
    table = by_id(sort_by=["n"])
    other = again(table)
    oracle = Oracle(lambda row: row["_row_id"])
    following = 0
    for by_other, (what, given_) in steps:
        handle = other if by_other else table
        current = oracle.current()
        if what == "append":
            rows = [{"name": "a", "n": n} for n in sorted(given_)]
            version = handle.append(pa.Table.from_pylist(rows)).version
            for place, row in enumerate(rows):
                oracle.put_at(version, following + place, row)
            following += len(rows)
        elif what == "put":
            there = {one: n for one, n in given_.items() if one in current}
            rows = [{"_row_id": one, "name": "p", "n": n} for one, n in there.items()]
            rows += [{"_row_id": None, "name": "new", "n": n} for n in (5, 6)]
            did = handle.put_rows(
                pa.Table.from_pylist(rows, schema=table_schema()),
            )
            as_it_was = [
                one
                for one, n in there.items()
                if (current[one]["name"], current[one]["n"]) == ("p", n)
            ]
            there = {one: n for one, n in there.items() if one not in as_it_was}
            rows = [row for row in rows if row["_row_id"] not in as_it_was]
            assert (did.updated, did.inserted) == (len(there), 2)
            assert did.unchanged == len(as_it_was)
            for one, n in there.items():
                oracle.put_at(did.version, one, {"name": "p", "n": n})
            fresh = [row for row in sorted(rows, key=lambda row: row["n"]) if row["name"] == "new"]
            order = sorted(rows, key=lambda row: row["n"])
            for row in fresh:
                oracle.put_at(
                    did.version, following + order.index(row), {"name": "new", "n": row["n"]}
                )
            following += len(rows)
        elif what == "update":
            hit = {
                one: row
                for one, row in current.items()
                if (row["n"] or 0) < given_ and row["n"] is not None
            }
            did = handle.update({"n": lambda rows: pc.add(rows["n"], 1)}, where=f"n < {given_}")
            assert did.updated == len(hit)
            for one, row in hit.items():
                oracle.put_at(did.version, one, {**row, "n": row["n"] + 1})
            following += len(hit)
        elif what == "delete rows":
            if max(given_) >= following:
                with pytest.raises(bs.Invalid, match="never given"):
                    handle.delete_rows(given_)
            else:
                did = handle.delete_rows(given_)
                gone = given_ & current.keys()
                assert did.deleted == len(gone)
                oracle.delete(did.version, gone)
                following += len(gone)
        else:
            cells = [{"_row_id": one, "name": f"c{n}"} for one, n in given_.items()]
            if given_.keys() - current.keys():
                with pytest.raises(bs.NotFound):
                    handle.set_cells(cells)
            else:
                did = handle.set_cells(cells)
                changed = [one for one, n in given_.items() if current[one]["name"] != f"c{n}"]
                assert (did.updated, did.unchanged) == (len(changed), len(given_) - len(changed))
                for one in changed:
                    oracle.put_at(did.version, one, {**current[one], "name": f"c{given_[one]}"})
                following += len(changed)
    assert again(table).log.state.next_row_id == following
    check(again(table), oracle, "_row_id")


def table_schema() -> pa.Schema:
    return pa.schema([("_row_id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])
