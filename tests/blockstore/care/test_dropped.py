"""The care of tables that were dropped, brought back, or made again where one was dropped: what
looks at a table finds nothing wrong, and a copy is the same table."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.care.finding import Severity
from blockstore.care.rebuild import plan_rebuild, rebuild
from blockstore.care.replicate import Replicator
from blockstore.compactor.by_hand import clean_once
from blockstore.errors import BlockstoreError, TableDropped
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.gc import collect
from blockstore.index.log import Log
from blockstore.names import BOUNDARY, entry_key
from blockstore.operations.drop import drop_table, undrop_table
from blockstore.table import Table
from tests.blockstore.care.scene import SCHEMA, Care, rows, worn

DAY_S = 24 * 3600


def drop(made: Care) -> None:
    drop_table(Log(made.bucket, made.world), made.world)


def undrop(made: Care) -> None:
    undrop_table(Log(made.bucket, made.world), made.world)


def clear(made: Care) -> None:
    for _ in range(5):
        made.world.clock.sleep(DAY_S / 2)
        clean_once(Table.open_bucket(made.bucket, made.world, dropped=True))


def create(made: Care) -> None:
    index_log.create(made.bucket, made.world, Definition.create(SCHEMA))
    made.open().append(rows("n"))


LIVES: dict[str, list[Callable[[Care], None]]] = {
    "dropped": [drop],
    "brought back": [drop, undrop],
    "cleared": [drop, clear],
    "made again": [drop, create],
    "made again later": [drop, clear, create],
    "dropped again": [drop, create, drop],
}


def lived(name: str) -> Care:
    made = worn().copy()
    for step in LIVES[name]:
        step(made)
    return made


@pytest.mark.parametrize("life", list(LIVES))
def test_verify_finds_no_fault(life: str) -> None:
    report = lived(life).verify(deep=True)
    assert [one for one in report.findings if one.severity is Severity.ERROR] == []


@pytest.mark.parametrize("life", list(LIVES))
def test_a_replica_is_the_same_table_at_each_step(life: str) -> None:
    made = worn().copy()
    target = MemoryBucket(made.world.clock, "memory://replica")
    for step in (lambda _: None, *LIVES[life]):
        step(made)
        Replicator(made.bucket, target, made.world).once()
        here, there = Log(made.bucket, made.world).state, Log(target, made.world).state
        assert (there.created, there.dropped, there.last) == (here.created, here.dropped, here.last)
    assert there.blocks.ulids() == here.blocks.ulids()


@pytest.mark.parametrize("life", list(LIVES))
def test_one_replica_of_its_end_is_the_same_table(life: str) -> None:
    made = lived(life)
    made.world.clock.sleep(3 * DAY_S)
    collect(Log(made.bucket, made.world), made.world)
    target = MemoryBucket(made.world.clock, "memory://late-replica")
    Replicator(made.bucket, target, made.world).once()
    assert Log(target, made.world).state == Log(made.bucket, made.world).state


@pytest.mark.parametrize("life", ["dropped", "made again"])
def test_an_index_that_is_rebuilt_says_so_as_far_as_that_can_be_read(life: str) -> None:
    made = lived(life)
    before = Log(made.bucket, made.world).state
    made.bucket.delete([BOUNDARY])
    rebuild(made.bucket, made.world, plan_rebuild(made.bucket, made.world))
    after = Log(made.bucket, made.world).state
    assert (after.dropped, after.created) == (before.dropped, before.created)
    if before.dropped is None:
        assert made.found() == {("n", row): 1 for row in range(4)}


@pytest.mark.parametrize("life", ["dropped", "made again"])
def test_an_entry_after_a_damaged_one_counts_too(life: str) -> None:
    """The state ends before the damage; what the entries after it say is taken one by one."""
    made = lived(life)
    before = Log(made.bucket, made.world).state
    made.bucket.put(entry_key(6), b"garbage")
    # Entry 6 added block "e": a person decides about it, and about one that the table lost since.
    doubtful = frozenset(made.blocks[writer] for writer in ("e", "f"))
    plan = plan_rebuild(made.bucket, made.world, leave_out=doubtful)
    rebuild(made.bucket, made.world, plan)
    after = Log(made.bucket, made.world).state
    assert (after.dropped, after.created) == (before.dropped, before.created)


def test_a_backup_from_before_the_drop_is_the_table_from_before() -> None:
    """Objects of the index that were put back: the drop never was."""
    made = worn().copy()
    copy = made.copy()
    before = made.found()
    drop(made)
    with pytest.raises(TableDropped):
        made.open()
    for key in [info.key for info in made.bucket.list()]:
        made.bucket.delete([key])
    for info in copy.bucket.list():
        made.bucket.put(info.key, copy.bucket.get(info.key).data)
    assert made.found() == before
    with pytest.raises(BlockstoreError, match="is not dropped"):
        undrop(made)
    assert isinstance(made.open().definition.schema, pa.Schema)
