"""Care of tables whose rows change: repair, replicate, ship, adopt, rebuild, import."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.care.finding import Check
from blockstore.care.rebuild import RebuildPlan, plan_rebuild, rebuild
from blockstore.care.repair.plan import plan_repair
from blockstore.care.repair.run import carry_out
from blockstore.care.repair.step import RepairOptions, StepKind
from blockstore.care.repair.target import Target
from blockstore.care.replicate.replicator import Replicator
from blockstore.care.ship.build import build_block, folder_at, remember
from blockstore.care.ship.shipper import Shipper
from blockstore.care.verify import verify
from blockstore.format.block import VisibleBy
from blockstore.index.change import Discover, Left
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.names import BOUNDARY, entry_key, meta_key, object_key
from blockstore.table import Table
from tests.blockstore.rows.lake import BY_ID, again, by_id, by_key, rows_of, seen
from tests.blockstore.rows.made import every_version, upload


def row(key: int, n: int) -> dict[str, Any]:
    return {"id": key, "name": "a", "n": n}


def keyed() -> Table:
    table = by_key()
    table.upsert(rows_of(row(1, 1), row(2, 2)))
    table.upsert(rows_of(row(2, 20)))
    return table


def numbered() -> Table:
    table = by_id()
    table.append(pa.table({"name": ["a", "b"], "n": [1, 2]}))
    table.update({"n": 20}, where="n = 2")
    return table


def opened(table: Table) -> Table:
    """A handle that knows nothing yet, on a clock that goes on."""
    return Table.open_bucket(table.bucket, table.world)


def copied(table: Table) -> MemoryBucket:
    bucket = MemoryBucket(table.world.clock)
    for found in table.bucket.list():
        bucket.put(found.key, table.bucket.get(found.key).data)
    return bucket


# -- verify


def duplicates(table: Table) -> list[str]:
    """The blocks of which a verification says that they were uploaded twice."""
    found = verify(table.bucket, table.world).findings
    return [str(one.block) for one in found if one.check == Check.DUPLICATE]


def test_a_key_that_is_written_as_it_was_once_is_no_write_that_was_uploaded_twice() -> None:
    table = keyed()
    table.upsert(rows_of(row(2, 2)))
    table.upsert(rows_of(row(2, 20)))
    for _ in range(2):
        table.delete_rows([1])
        table.upsert(rows_of(row(1, 1)))
    assert duplicates(table) == []


def test_ids_that_are_deleted_and_brought_back_are_no_write_that_was_uploaded_twice() -> None:
    table = numbered()
    for _ in range(2):
        version = table.delete_rows([0]).version
        assert version is not None
        table.revert(version)
    assert seen(table, "n") == [{"n": 1}, {"n": 20}]
    assert duplicates(table) == []


def test_new_rows_of_a_row_set_that_come_twice_are_a_duplicate() -> None:
    table = numbered()
    new = pa.table({"_row_id": pa.nulls(1, pa.int64()), "name": ["c"], "n": [3]})
    table.put_rows(new)
    assert duplicates(table) == []
    table.put_rows(new)
    assert len(duplicates(table)) == 1


# -- repair


def damage(table: Table) -> str:
    """Flip a byte in the newest block."""
    block = max(table.log.poll().blocks, key=lambda one: one.version)
    key = object_key(block.ulid, block.meta.chunks[0].path)
    data = table.bucket.get(key).data
    table.bucket.put(key, data[:40] + bytes([data[40] ^ 1]) + data[41:])
    return block.ulid


def repaired(table: Table, options: RepairOptions) -> list[Any]:
    handle = opened(table)
    target = Target(
        bucket=table.bucket,
        world=table.world,
        log=handle.log,
        definition=handle.definition,
        catalog=handle.catalog,
    )
    plan = plan_repair(table.bucket, table.world, target, options)
    list(carry_out(table.bucket, target, plan))
    return list(plan.steps)


@pytest.mark.parametrize("make", [keyed, numbered])
def test_a_damaged_block_gets_its_very_bytes_back(make: Any) -> None:
    table = make()
    replica = copied(table)
    before = seen(table, "n", "_version")
    damage(table)
    steps = repaired(table, RepairOptions(deep=True, replica=replica))
    assert [step.kind for step in steps if step.acts] == [StepKind.PUT_BACK]
    assert not verify(table.bucket, table.world, deep=True).errors
    assert seen(again(table), "n", "_version") == before
    assert again(table).log.state.version == 3, "no entry was needed"


def test_no_row_is_given_up_where_older_versions_would_return() -> None:
    table = keyed()
    ulid = damage(table)
    steps = repaired(table, RepairOptions(deep=True, drop_damaged=True))
    assert {step.kind for step in steps} == {StepKind.PERSON}
    assert any("older versions of the others would return" in step.what for step in steps)
    assert ulid in again(table).log.state.blocks


# -- replicate


@pytest.mark.parametrize("make", [keyed, numbered])
def test_a_replica_has_the_same_rows_and_versions(make: Any) -> None:
    table = make()
    target = MemoryBucket(table.world.clock, "memory://replica")
    replicator = Replicator(table.bucket, target, table.world)
    replicator.once()
    table.delete_rows([1])
    replicator.once()
    replica = Table.open_bucket(target, table.world)
    assert seen(replica, "n", "_version") == seen(table, "n", "_version")
    assert replica.row_history(1).num_rows == table.row_history(1).num_rows


# -- ship, discover and adopt


def folder(path: Path, table: Table) -> Any:
    place = folder_at(str(path), table.world)
    remember(place, table.definition)
    return place


def test_devices_insert_rows_into_a_table_with_row_ids(tmp_path: Path) -> None:
    table = numbered()
    place = folder(tmp_path, table)
    build_block(place, table.world, table.definition, pa.table({"name": ["d"], "n": [9]}))
    report = Shipper(place, table.bucket, table.world).once()
    assert [one.rows for one in report.shipped] == [1]
    assert {"_row_id": 3, "n": 9} in seen(again(table), "_row_id", "n")


def test_no_device_builds_or_ships_rows_with_a_key(tmp_path: Path) -> None:
    table = keyed()
    place = folder(tmp_path, table)
    with pytest.raises(bs.Invalid, match="for a table with a key"):
        build_block(place, table.world, table.definition, rows_of(row(1, 9)))
    plain = replace(table.definition, identity=None)
    build_block(place, table.world, plain, rows_of(row(1, 9)))
    (refused,) = Shipper(place, table.bucket, table.world).once().refused
    assert "which of its rows are newer" in refused.reason
    assert seen(again(table)) == [row(1, 1), row(2, 20)]


def test_a_merge_without_versions_is_neither_discovered_nor_appended() -> None:
    table = numbered()
    made = upload(table, every_version(table))
    by_age = replace(made, visible_by=VisibleBy.AGE, kind=made.kind)
    epoch = claim(table.log, table.world, COMPACTOR).epoch
    change = Discover(commit=table.world.ids.ulid(), epoch=epoch, blocks=(by_age,))
    assert table.log.commit(change).left == {made.ulid: Left.QUARANTINED}


def test_late_rows_with_a_key_are_not_adopted() -> None:
    table = keyed()
    block = table.log.state.blocks.get(table.log.state.blocks.ulids()[0])
    assert block is not None
    late = copied(table)
    other = by_key()
    for found in late.list(f"{block.ulid}/"):
        other.bucket.put(found.key, late.get(found.key).data)
    (step,) = repaired(other, RepairOptions(adopt=(block.ulid,)))
    assert step.kind is StepKind.ADOPT
    assert seen(again(other)) == []
    assert not [found for found in other.bucket.list(f"{block.ulid}/") if "mark" in found.key]


# -- rebuild


def lose(table: Table) -> Table:
    """Lose the entries from the third on."""
    for version in range(3, table.poll() + 1):
        table.bucket.put(entry_key(version), b"garbage")
    return table


def planned(table: Table, **chosen: frozenset[str]) -> RebuildPlan:
    return plan_rebuild(table.bucket, table.world, **chosen)


def test_unnamed_changes_count_only_if_a_person_says_so() -> None:
    table = keyed()
    table.upsert(rows_of(row(2, 21), row(3, 3)))
    lost = sorted(block.ulid for block in table.log.state.blocks if block.version > 2)
    plan = planned(lose(table))
    assert [one.ulid for one in plan.stops] == lost
    assert "which it is not known" not in plan.stops[0].why
    assert "take it (--take)" in plan.stops[0].why
    plan = planned(table, take=frozenset(lost))
    done = rebuild(table.bucket, table.world, plan)
    found = opened(table)
    versions = {block.ulid: block.version for block in found.log.state.blocks}
    assert [versions[ulid] for ulid in lost] == [done.version - 2, done.version - 1]
    newest = lost[-1]
    by_n = {one["id"]: one["n"] for one in seen(found, "id", "n")}
    assert by_n[1] == 1
    assert by_n[2] in (20, 21)
    assert len(by_n) == 3
    assert newest in found.log.state.blocks
    assert not verify(table.bucket, table.world, deep=True).errors
    found.upsert(rows_of(row(2, 99)))
    assert {"id": 2, "n": 99} in seen(found, "id", "n")


def test_unnamed_changes_may_be_left_out() -> None:
    table = keyed()
    lost = frozenset(block.ulid for block in table.log.state.blocks if block.version > 2)
    rebuild(table.bucket, table.world, planned(lose(table), leave_out=lost))
    assert seen(opened(table)) == [row(1, 1), row(2, 2)]
    with pytest.raises(bs.Invalid, match="left out and taken"):
        planned(lose(keyed()), take=lost, leave_out=lost)


def test_new_row_ids_begin_above_all_that_were_given() -> None:
    table = numbered()
    table.append(pa.table({"name": ["c"], "n": [3]}))
    given = table.log.state.next_row_id
    late = table.update({"n": 4}, where="n = 3").block
    first = frozenset(block.ulid for block in table.log.state.blocks if block.version == 3)
    lose(table)
    plan = planned(table, take=first)
    (stop,) = plan.stops
    assert (stop.ulid, "ids were given by entries that are lost" in stop.why) == (late, True)
    rebuild(
        table.bucket, table.world, planned(table, take=first, leave_out=frozenset({late or ""}))
    )
    found = opened(table)
    ids = {one["n"]: one["_row_id"] for one in seen(found, "n", "_row_id")}
    assert (ids[1], ids[20]) == (0, 1)
    assert ids[3] > given
    assert not verify(table.bucket, table.world, deep=True).errors


@pytest.mark.parametrize("block", ["left out", "gone", "unreadable"])
def test_row_ids_of_rows_that_a_rebuild_leaves_out_are_not_given_again(block: str) -> None:
    table = by_id()
    table.append(pa.table({"name": ["a", "b"], "n": [1, 2]}))
    lost = table.append(pa.table({"name": ["c", "d"], "n": [3, 4]})).ulid or ""
    given = {one["_row_id"] for one in seen(table, "_row_id")}
    keys = [info.key for info in table.bucket.list(object_key(lost, ""))]
    if block != "left out":
        table.bucket.delete([key for key in keys if block == "gone" or key == meta_key(lost)])
    lose(table)
    leave_out = frozenset([lost] if block == "left out" else [])
    rebuild(table.bucket, table.world, planned(table, leave_out=leave_out))
    found = opened(table)
    found.append(pa.table({"name": ["e", "f"], "n": [5, 6]}))
    rows = {one["n"]: one["_row_id"] for one in seen(found, "n", "_row_id")}
    assert {rows[1], rows[2]} == {0, 1}
    assert given.isdisjoint({rows[5], rows[6]})


def test_row_ids_of_changes_that_a_rebuild_leaves_out_are_not_given_again() -> None:
    table = numbered()
    table.update({"n": 4}, where="n = 1")
    before = table.log.state.next_row_id
    lost = frozenset(one.ulid for one in table.log.state.blocks if one.version > 2)
    lose(table)
    rebuild(table.bucket, table.world, planned(table, leave_out=lost))
    assert opened(table).log.state.next_row_id >= before


def test_without_any_definition_changes_cannot_be_read() -> None:
    table = keyed()
    for found in table.bucket.list("index/"):
        table.bucket.delete([found.key])
    table.bucket.delete([BOUNDARY])
    plan = planned(table, take=frozenset(table.log.state.blocks.ulids()))
    assert plan.stops
    assert all("what identifies a row" in one.why for one in plan.stops)


# -- import


def test_a_plain_table_is_imported_by_a_scan(tmp_path: Path) -> None:
    plain = bs.create(f"file://{tmp_path}/plain", schema=BY_ID)
    plain.append(pa.table({"name": ["a", "b"], "n": [1, 2]}))
    numbered_ = by_id()
    numbered_.append(plain.snapshot().scan().to_reader())
    assert seen(numbered_, "_row_id", "n") == [{"_row_id": 0, "n": 1}, {"_row_id": 1, "n": 2}]
    table = by_key(schema=BY_ID, key="name")
    table.upsert(plain.snapshot().scan().to_reader(), duplicates="last")
    assert seen(table) == [{"name": "a", "n": 1}, {"name": "b", "n": 2}]
