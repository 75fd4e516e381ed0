"""Restore and revert where rows have an identity: compensating changes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blockstore as bs
from blockstore.index.entry import Operation
from blockstore.names import entry_key
from blockstore.rows import two_versions
from blockstore.rows.expire import expire_rows
from blockstore.table import Table
from tests.blockstore.rows.lake import again, by_id, by_key, rows_of, seen
from tests.support.examples import few


def row(key: int, n: int) -> dict[str, Any]:
    return {"id": key, "name": "a", "n": n}


def keyed(*rows: dict[str, Any]) -> Table:
    table = by_key()
    table.upsert(rows_of(*rows))
    return table


def numbered(*ns: int) -> Table:
    table = by_id()
    table.append(pa.table({"name": ["a"] * len(ns), "n": list(ns)}))
    return table


def test_a_restore_gives_every_row_its_former_state() -> None:
    table = keyed(row(1, 1), row(2, 2), row(3, 3), row(4, 4))
    before = seen(table)
    table.upsert(rows_of(row(1, 10), row(5, 5)))
    table.delete_rows([2])
    did = table.restore(version=2)
    assert (did.rows_back, did.rows_changed, did.rows_gone, did.rows) == (1, 1, 1, 0)
    assert seen(again(table)) == before
    versions = {one["id"]: one["_version"] for one in seen(table, "id", "_version")}
    assert versions == {1: did.version, 2: did.version, 3: 2, 4: 2}
    assert not [tag for tag in table.log.poll().tags if tag.startswith("_restore_")]


def test_a_restore_and_a_revert_reach_back_before_a_key_got_another_name() -> None:
    table = keyed(row(1, 1), row(2, 2))
    before = seen(table, "n")
    table.upsert(rows_of(row(1, 10), row(3, 3)))
    table.alter(rename={"id": "key"})
    did = table.revert(3)
    assert sum(did.undone.values()) == 2
    assert seen(table, "n") == before
    table.upsert(rows_of(row(2, 20)).rename_columns(["key", "name", "n"]))
    table.delete_rows([1])
    back = table.restore(version=3)
    assert (back.rows_back, back.rows_changed, back.rows_gone) == (2, 1, 0)
    expected = [{"key": 1, "n": 10}, {"key": 2, "n": 2}, {"key": 3, "n": 3}]
    assert seen(again(table), "key", "n") == expected


def test_a_restore_of_what_is_so_already_changes_nothing() -> None:
    table = keyed(row(1, 1))
    table.tag("kept")
    did = table.restore(version=2)
    assert (did.nothing, did.version, table.poll()) == (True, None, 3)


def test_a_dry_run_counts_and_changes_nothing() -> None:
    table = keyed(row(1, 1))
    table.upsert(rows_of(row(1, 2), row(2, 2)))
    did = table.restore(version=2, dry_run=True)
    assert (did.rows_changed, did.rows_gone, did.version) == (1, 1, None)
    undone = table.revert(3, dry_run=True)
    assert (sum(undone.undone.values()), undone.version) == (2, None)
    assert table.poll() == 3


def test_rows_with_ids_keep_them_when_they_come_back() -> None:
    table = numbered(1, 2, 3)
    table.delete_rows([1])
    table.update({"n": 30}, where="n = 3")
    table.append(pa.table({"name": ["late"], "n": [9]}))
    table.restore(version=2)
    assert seen(table, "_row_id", "n") == [
        {"_row_id": 0, "n": 1},
        {"_row_id": 1, "n": 2},
        {"_row_id": 2, "n": 3},
    ]


def test_a_row_that_others_change_while_it_is_restored_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = keyed(row(1, 1), row(2, 2))
    table.upsert(rows_of(row(1, 10)))
    other = again(table)
    real, begun = table.log.commit, []

    def commit(change: Any) -> Any:
        if change.operation is Operation.RESTORE and not begun:
            begun.append(other.upsert(rows_of(row(1, 11), row(2, 20), row(3, 30))))
        return real(change)

    monkeypatch.setattr(table.log, "commit", commit)
    did = table.restore(version=2)
    assert (did.rows_changed, did.rows_gone) == (2, 1)
    assert seen(table) == [row(1, 1), row(2, 2)]


def test_a_version_that_was_collected_is_expired() -> None:
    table = keyed(row(1, 1))
    first = table.log.state.blocks.ulids()[0]
    table.upsert(rows_of(row(1, 2)))
    from blockstore.index.gc import collect

    table.world.clock.sleep(10**6)
    table.upsert(rows_of(row(1, 3)))
    collect(table.log, table.world)
    with pytest.raises(bs.VersionExpired):
        table.restore(version=2)
    with pytest.raises(bs.VersionExpired):
        table.revert(first)


def test_a_revert_gives_rows_their_former_state_and_leaves_those_changed_since() -> None:
    table = keyed(row(1, 1), row(2, 2), row(3, 3))
    bad = table.upsert(rows_of(row(1, 10), row(2, 20), row(4, 40)))
    table.upsert(rows_of(row(2, 21)))
    assert bad.block is not None
    did = table.revert(bad.block)
    assert (did.undone, did.left) == ({bad.block: 2}, {bad.block: 1})
    assert did.left_rows == ((2, 3, 4),)
    assert seen(table) == [row(1, 1), row(2, 21), row(3, 3)]


def test_a_strict_revert_applies_nothing_where_a_row_was_changed_since() -> None:
    table = keyed(row(1, 1), row(2, 2))
    table.upsert(rows_of(row(1, 10), row(2, 20)))
    table.delete_rows([2])
    before = (seen(table), table.poll())
    with pytest.raises(bs.RowConflict, match="nothing was applied") as caught:
        table.revert(3, strict=True)
    assert caught.value.rows == ((2, 3, None),)
    assert (seen(table), table.poll()) == before


def test_a_revert_of_deletions_brings_rows_back() -> None:
    table = keyed(row(1, 1), row(2, 2))
    table.delete_rows([1, 7])
    did = table.revert(3)
    assert sum(did.undone.values()) == 1
    assert seen(table) == [row(1, 1), row(2, 2)]


def test_a_revert_of_new_rows_deletes_them() -> None:
    table = numbered(1, 2)
    table.update({"n": 20}, where="n = 2")
    did = table.revert(2)
    assert (list(did.undone.values()), did.left_rows) == ([1], ((1, 2, 3),))
    assert seen(table, "_row_id", "n") == [{"_row_id": 1, "n": 20}]


def test_of_several_reverted_writes_the_state_before_all_of_them_counts() -> None:
    table = keyed(row(1, 1))
    table.upsert(rows_of(row(1, 2), row(2, 2)))
    table.upsert(rows_of(row(2, 3)))
    table.delete_rows([1])
    did = table.revert(3, 4, 5)
    assert (did.left, seen(table)) == ({}, [row(1, 1)])


def test_a_revert_can_be_reverted() -> None:
    table = keyed(row(1, 1))
    table.upsert(rows_of(row(1, 2), row(2, 2)))
    before = seen(table)
    undone = table.revert(3)
    assert undone.version is not None
    table.revert(undone.version)
    assert seen(table) == before


def test_writes_that_are_none_are_refused() -> None:
    table = keyed(row(1, 1))
    table.tag("kept")
    for given_, kind, text in (
        ((), bs.Invalid, "at least one write"),
        (("x",), bs.Invalid, "is not a ULID of a write"),
        ((3,), bs.NotFound, "has written no rows"),
        ((9,), bs.NotFound, "9"),
        (("01KA5C3M2Q0V8E6R9T1W4Y7ZBN",), bs.NotFound, "has no write"),
    ):
        with pytest.raises(kind, match=text):
            table.revert(*given_)


def test_what_a_person_removed_is_no_write_and_does_not_come_back_as_an_older_version() -> None:
    table = by_key()
    table.upsert(rows_of({"id": 1, "n": 1}, {"id": 2, "n": 1}))
    changed = table.upsert(rows_of({"id": 1, "n": 2}))
    assert changed.block is not None
    expired = expire_rows(table._access, [changed.block], "by hand")
    (tombstones,) = expired.added
    for write in (expired.version, tombstones):
        with pytest.raises(bs.NotFound, match=r"no write|has written no rows"):
            table.revert(write)
    assert [row["id"] for row in seen(table)] == [2]


def test_a_void_version_is_no_write() -> None:
    table, other = by_key(), by_key()
    table.upsert(rows_of({"id": 1, "n": 1}))
    other.upsert(rows_of({"id": 2, "n": 1}))
    other.upsert(rows_of({"id": 2, "n": 2}))
    table.bucket.put(entry_key(3), other.bucket.get(entry_key(3)).data)
    fresh = again(table)
    with pytest.raises(bs.NotFound, match="void"):
        fresh.revert(3)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.dictionaries(st.integers(0, 5), st.integers(0, 9))),
        st.tuples(st.just("delete"), st.sets(st.integers(0, 5))),
        st.tuples(st.just("add"), st.integers(0, 9)),
        st.tuples(st.just("restore"), st.integers(0, 20)),
        st.tuples(st.just("revert"), st.sets(st.integers(0, 20), min_size=1, max_size=3)),
    ),
    max_size=9,
)


@settings(max_examples=few(60), deadline=None)
@given(STEPS, st.sampled_from([2, 4_000_000]))
def test_any_sequence_equals_an_oracle(steps: list[tuple[str, Any]], at_once: int) -> None:
    """The oracle: each row's versions, of which a revert takes the newest that is not of a reverted
    version."""
    table = by_key()
    versions: dict[int, dict[int, int | None]] = {}

    def now(key: int, among: dict[int, int | None]) -> int | None:
        return among[max(among)] if among else None

    def state(at: int) -> dict[int, int]:
        found = {
            key: now(key, {v: n for v, n in own.items() if v <= at})
            for key, own in versions.items()
        }
        return {key: n for key, n in found.items() if n is not None}

    def put(version: int | None, changes: dict[int, int | None]) -> None:
        for key, n in changes.items():
            assert version is not None
            versions.setdefault(key, {})[version] = n

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_versions, "_AT_ONCE", at_once)
        for what, given_ in steps:
            current = state(10**9)
            if what == "upsert":
                did = table.upsert(rows_of(*(row(key, n) for key, n in given_.items())))
                put(did.version, given_)
            elif what == "delete":
                put(table.delete_rows(given_).version, dict.fromkeys(given_))
            elif what == "add":
                did = table.update({"n": pc.field("n") + 1}, where=f"n < {given_}")
                put(did.version, {key: n + 1 for key, n in current.items() if n < given_})
            elif what == "restore":
                target = given_ % table.poll() + 1
                then = state(target)
                at = {key: max(v for v in versions[key] if v <= target) for key in then}
                moved = {
                    key: n for key, n in then.items()
                    if key not in current or max(versions[key]) != at[key]
                }  # fmt: skip
                gone = dict.fromkeys(current.keys() - then.keys())
                put(table.restore(version=target).version, {**moved, **gone})
            else:
                written = {v for own in versions.values() for v in own}
                chosen = sorted({one for one in given_ if one in written})
                if not chosen:
                    continue
                changes: dict[int, int | None] = {}
                for key, own in versions.items():
                    if max(own) in chosen:
                        rest = {v: n for v, n in own.items() if v not in chosen}
                        # What others wrote after the oldest reverted version is not undone.
                        top = max(own)
                        while top in chosen:
                            below = [v for v in own if v < top]
                            top = max(below) if below else 0
                        former_n = rest.get(top)
                        if former_n is not None or current.get(key) is not None:
                            changes[key] = former_n
                put(table.revert(*chosen).version, changes)
            assert {one["id"]: one["n"] for one in seen(table, "id", "n")} == state(10**9)
    versions_now = {key: max(own) for key, own in versions.items() if key in state(10**9)}
    found = {one["id"]: one["_version"] for one in seen(again(table), "id", "_version")}
    assert found == versions_now
