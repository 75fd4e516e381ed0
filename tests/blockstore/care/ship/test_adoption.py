"""A late block that a person lets in: wherever that ends, no row is lost, and whoever shipped it
learns of it."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.care.ship.build import build_block
from blockstore.care.ship.shipper import Shipper
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.errors import Unavailable
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.lifecycle.mark import withdraw_deletion
from blockstore.names import SHIPPER_STATE
from tests.blockstore.care.repair.test_repair import ALL, late, repair
from tests.blockstore.care.scene import Care, rows, rows_of, worn


class Down(Wrapper):
    """A store that answers no more once a block is marked."""

    down = False

    def put_if_absent(self, key: str, data: bytes) -> str:
        self._answer()
        answer = self.inner.put_if_absent(key, data)
        self.down = key.endswith("-mark.json")
        return answer

    def put(self, key: str, data: bytes) -> str:
        self._answer()
        return self.inner.put(key, data)

    def _answer(self) -> None:
        if self.down:
            raise Unavailable("the store does not answer")


def test_an_adoption_that_ended_midway_costs_no_row() -> None:
    made = worn()
    ulid = late(made)
    with pytest.raises(Unavailable):
        repair(made, Down(made.bucket), adopt=(ulid,))
    for _ in range(10):
        made.world.clock.sleep(12 * 3600)
        table = made.open()
        Cleaner(table, claim(table.log, made.world, COMPACTOR)).run()
    repair(made, adopt=(ulid,))
    assert made.found() == ALL + rows_of("late")


def test_an_adoption_that_was_reverted_can_be_made_anew() -> None:
    made = worn()
    ulid = late(made)
    (done,) = repair(made, adopt=(ulid,))
    assert not done.failed
    (adopted,) = (
        block
        for block in made.open().log.state.blocks
        if block.meta.rows == len(rows_of("late"))
        and block.version == made.open().log.state.version
    )
    made.open().revert(adopted.ulid)
    assert made.found() == ALL
    withdraw_deletion(made.bucket, made.world, ulid)
    repair(made, adopt=(ulid,))
    assert made.found() == ALL + rows_of("late")


def test_a_block_that_a_person_adopted_is_reported_no_more_and_taken_from_the_folder() -> None:
    made = worn()
    folder = MemoryBucket(made.world.clock, "memory://device")
    meta = build_block(folder, made.world, made.open().log.state.definition, rows("shipped"))
    assert meta is not None
    late(made)
    (first,) = Shipper(folder, made.bucket, made.world).once().refused
    assert first.late
    repair(made, adopt=(meta.ulid,))
    report = Shipper(folder, made.bucket, made.world, remove_shipped=True).once()
    assert (report.refused, report.removed) == ((), (meta.ulid,))


def shipped_late() -> tuple[Care, MemoryBucket, str]:
    """A table, a device's folder, and its block that came too late."""
    made = worn()
    folder = MemoryBucket(made.world.clock, "memory://device")
    meta = build_block(folder, made.world, made.open().log.state.definition, rows("shipped"))
    assert meta is not None
    late(made)
    assert [one.late for one in Shipper(folder, made.bucket, made.world).once().refused] == [True]
    repair(made, adopt=(meta.ulid,))
    return made, folder, meta.ulid


def cleaned(made: Care) -> None:
    for _ in range(12):
        made.world.clock.sleep(12 * 3600)
        table = made.open()
        Cleaner(table, claim(table.log, made.world, COMPACTOR)).run()


def test_a_device_that_was_away_when_an_adopted_block_was_removed_is_not_advised_to_adopt_it() -> (
    None
):
    made, folder, ulid = shipped_late()
    cleaned(made)
    assert list(made.bucket.list(f"{ulid}/")) == []
    report = Shipper(folder, made.bucket, made.world, remove_shipped=True).once()
    assert (report.shipped, report.removed) == ((), ())
    (refused,) = report.refused
    assert "adopted its rows, or removed it" in refused.reason
    assert "--adopt" not in refused.reason
    assert made.found() == ALL + rows_of("shipped")


def test_an_adoption_that_a_device_has_seen_is_known_after_the_old_block_is_removed() -> None:
    made, folder, _ = shipped_late()
    assert Shipper(folder, made.bucket, made.world).once().refused == ()
    cleaned(made)
    report = Shipper(folder, made.bucket, made.world, remove_shipped=True).once()
    assert (report.shipped, report.refused, len(report.removed)) == ((), (), 1)


def test_an_adopted_block_is_not_uploaded_again_after_the_state_was_lost() -> None:
    made, folder, ulid = shipped_late()
    folder.delete([SHIPPER_STATE])
    before = [info.key for info in made.bucket.list()]
    for _ in range(2):
        report = Shipper(folder, made.bucket, made.world).once()
        assert all(block.already and not block.late for block in report.shipped)
        assert report.refused == ()
    assert [info.key for info in made.bucket.list()] == before
    report = Shipper(folder, made.bucket, made.world, remove_shipped=True).once()
    assert report.removed == (ulid,)
    assert made.found() == ALL + rows_of("shipped")


def test_a_block_that_is_uploaded_again_after_its_adoption_is_not_adopted_twice() -> None:
    """The old block is removed, and the device has lost its state."""
    made, folder, ulid = shipped_late()
    cleaned(made)
    folder.delete([SHIPPER_STATE])
    (block,) = Shipper(folder, made.bucket, made.world).once().shipped
    assert block.late
    (done,) = repair(made, adopt=(ulid,))
    assert "were adopted before" in str(done)
    assert made.found() == ALL + rows_of("shipped")
