"""Cleaning on a real S3 server: its own LastModified, its own batched deletes; only the time is
moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.compactor.clean.report import CleaningReport
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.index.gc import collect
from blockstore.lifecycle.listing import list_directories
from blockstore.table import Table
from blockstore.world import World
from tests.compactor.lake import DAY_S, SCHEMA, rows

pytestmark = pytest.mark.s3


class Later(Wrapper):
    """The same store, so many days later."""

    def __init__(self, inner: Bucket, days: float) -> None:
        super().__init__(inner)
        self.days = days

    def now_ms(self) -> int:
        return self.inner.now_ms() + int(self.days * DAY_S * 1000)


def test_merged_blocks_and_debris_are_marked_and_removed(s3_url: str, tmp_path: Path) -> None:
    world = World.real()
    store = open_bucket(s3_url, world)
    index_log.create(store, world, Definition.create(SCHEMA, sort_by=["row"]))
    table = Table.open_bucket(store, world)
    merged = {table.append(rows(writer)).ulid for writer in "abc"}
    aborted = world.ids.ulid()
    store.put(f"{aborted}/chunks/000001.parquet", b"half")
    compact_once(table, Settings(tier_blocks=2, work_dir=tmp_path))
    expected = table.snapshot().count()

    def clean(days: float) -> CleaningReport:
        later = Table.open_bucket(Later(store, days), world)
        held = claim(later.log, world, COMPACTOR)
        collect(later.log, world, held=held)
        return Cleaner(later, held).run()

    clean(0)
    marked = clean(2.1)
    assert {one.ulid for one in marked.marked} == {*merged, aborted}
    assert clean(1.9).removed == (), "the marks were placed just now"
    removed = clean(2.2)
    assert {one.ulid for one in removed.removed} == {*merged, aborted}
    assert not clean(2.2).changed
    assert list_directories(store).directories.keys() == set(
        Table.open_bucket(store, world).log.state.blocks.ulids()
    )
    assert Table.open_bucket(store, world).snapshot().count() == expected == 12
