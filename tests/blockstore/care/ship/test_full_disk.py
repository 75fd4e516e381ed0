"""A device whose disk is full: what is in the table makes space, and nothing counts twice."""

from __future__ import annotations

import pytest

from blockstore.bucket.wrapper import Wrapper
from blockstore.care.ship.shipper import Shipper
from blockstore.care.ship.state import load
from blockstore.errors import NoSpace
from blockstore.names import SHIPPER_STATE
from tests.blockstore.care.ship.devices import Device, Place, everywhere, expected


class Full(Wrapper):
    """A folder that has no space while it has this many blocks."""

    blocks = 3

    def put(self, key: str, data: bytes) -> str:
        if sum(info.key.endswith("meta.json") for info in self.inner.list()) >= self.blocks:
            raise NoSpace("no space is left")
        return self.inner.put(key, data)


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_what_is_in_the_table_is_removed_and_then_recorded(indexed: bool, known: bool) -> None:
    place, device = Place.new(indexed=indexed), Device.new()
    device.build("a")
    if known:
        device.shipper(place.bucket).once()
    device.build("b", "c")
    folder = Full(device.folder)
    report = Shipper(folder, place.bucket, device.world, remove_shipped=True).once()
    assert len(report.removed) == 3
    assert [info.key for info in device.folder.list()] == [SHIPPER_STATE]
    assert load(device.folder) is not None
    assert everywhere(place) == expected(a=1, b=1, c=1)


@pytest.mark.parametrize("indexed", [True, False])
def test_without_a_removal_every_block_is_shipped_once(
    indexed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    place, device = Place.new(indexed=indexed), Device.new()
    device.build("a", "b", "c")
    folder = Full(device.folder)
    shipper = Shipper(folder, place.bucket, device.world)
    assert len(shipper.once().shipped) == 3
    assert [line.message for line in caplog.records if SHIPPER_STATE in line.message]
    assert shipper.once().shipped == (), "it is remembered in memory"
    again = Shipper(folder, place.bucket, device.world).once()
    assert [block.version for block in again.shipped] == [None] * 3
    folder.blocks = 4
    assert shipper.once().shipped == ()
    assert load(device.folder) is not None
    assert everywhere(place) == expected(a=1, b=1, c=1)


def test_a_table_without_space_stops_the_pass() -> None:
    place, device = Place.new(), Device.new()
    device.build("a")

    class NoMore(Wrapper):
        def put(self, key: str, data: bytes) -> str:
            raise NoSpace("no space is left")

        put_if_absent = put

    with pytest.raises(NoSpace):
        device.shipper(NoMore(place.bucket)).once()
