"""A snapshot whose files are gone: expired where its version can be asked for no more, damage where
it can."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blockstore.errors import ObjectMissing, VersionExpired
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from tests.blockstore.care.scene import Care, rows_of, worn

READS: dict[str, Callable[[TableSnapshot], object]] = {
    "table": lambda snapshot: snapshot.scan().to_table(),
    "reader": lambda snapshot: list(snapshot.scan().to_reader()),
    "pandas": lambda snapshot: snapshot.scan().to_pandas(),
    "filtered": lambda snapshot: snapshot.scan(where="value = 0").to_table(),
}


def removed(made: Care, writer: str = "d") -> None:
    """The files of a block go, as the compactor removes them."""
    made.bucket.delete(made.objects(made.blocks[writer]))


@pytest.mark.parametrize("read", READS)
def test_a_snapshot_of_a_version_that_was_collected_says_so(read: str) -> None:
    made = worn()
    snapshot = made.open().snapshot()
    made.expire(made.blocks["d"])
    made.collect()
    removed(made)
    oldest = made.open().log.boundary.read() + 1
    with pytest.raises(
        VersionExpired, match=f"version {snapshot.version} .* the oldest version left is {oldest}"
    ):
        READS[read](snapshot)


def test_a_count_that_reads_rows_says_so_too() -> None:
    made = worn()
    made.hide(made.blocks["a"])
    snapshot = made.open().snapshot()
    made.expire(made.merged())
    made.collect()
    made.bucket.delete(made.objects(made.merged()))
    with pytest.raises(VersionExpired):
        snapshot.count()


@pytest.mark.parametrize("kept", ["by no entry since", "above the boundary", "by a tag"])
def test_a_version_that_can_be_asked_for_is_damaged_instead(kept: str) -> None:
    made = worn()
    table = made.open()
    snapshot = table.snapshot()
    if kept == "by a tag":
        table.tag("close")
    if kept != "by no entry since":
        made.expire(made.blocks["d"])
    if kept == "by a tag":
        made.collect()
    removed(made)
    with pytest.raises(ObjectMissing, match=made.blocks["d"]):
        snapshot.scan().to_table()


def test_what_is_whole_is_read_although_its_version_expired() -> None:
    made = worn()
    snapshot = made.open().snapshot()
    before = made.found()
    made.collect()
    assert snapshot.scan().to_table().num_rows == sum(before.values())
    assert made.found() == before + rows_of("latest")


def test_without_an_index_no_version_expires() -> None:
    made = worn().without_index()
    snapshot = Table.open_bucket(made.bucket, made.world, discovery="list").snapshot()
    removed(made)
    with pytest.raises(ObjectMissing):
        snapshot.scan().to_table()
