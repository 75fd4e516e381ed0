"""The list path on a real S3 server: its own times and ETags, looks that cost one LIST, merges
without an index."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.bucket.metered import Metered
from blockstore.bucket.wrapper import Wrapper
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.run.report import Outcome
from blockstore.compactor.settings import Settings
from blockstore.lifecycle.catalog import Catalog
from blockstore.table import Table
from blockstore.world import World

pytestmark = pytest.mark.s3

SCHEMA = pa.schema([("writer", pa.string()), ("row", pa.int64())])


class Later(Wrapper):
    """The same store, an hour later."""

    def now_ms(self) -> int:
        return self.inner.now_ms() + 3_600_000


def test_a_table_without_an_index_is_written_merged_and_read(s3_url: str, tmp_path: Path) -> None:
    world = World.real()
    table = bs.create(s3_url, schema=SCHEMA, sort_by=["row"], index=False, world=world)
    for writer in "abc":
        table.append(pa.table({"writer": [writer] * 4, "row": list(range(4))}, schema=SCHEMA))
    expected = Counter((writer, row) for writer in "abc" for row in range(4))

    def later() -> Table:
        return Table.open_bucket(Later(open_bucket(s3_url, world)), world, discovery="list")

    def found() -> Counter[tuple[str, int]]:
        rows = later().snapshot(strict=True).scan().to_table()
        return Counter(zip(rows["writer"].to_pylist(), rows["row"].to_pylist(), strict=True))

    assert found() == expected
    report = compact_once(later(), Settings(tier_blocks=2, work_dir=tmp_path))
    assert [result.outcome for result in report.results] == [Outcome.UPLOADED]
    assert found() == expected
    assert len(later().snapshot().blocks) == 1


def test_what_is_known_costs_no_get_in_this_process_and_in_the_next(
    s3_url: str, tmp_path: Path
) -> None:
    world = World.real()
    table = bs.create(s3_url, schema=SCHEMA, index=False, world=world)
    for writer in "ab":
        table.append(pa.table({"writer": [writer], "row": [1]}, schema=SCHEMA))
    bucket = Metered(open_bucket(s3_url, world))
    catalog = Catalog(bucket, world, tmp_path / "cache")
    first = catalog.sync()
    assert bucket.counts["get"] == 2
    for again in (catalog, Catalog(bucket, world, tmp_path / "cache")):
        bucket.reset()
        assert again.sync().found == first.found
        assert (bucket.counts["list"], bucket.counts["get"]) == (1, 0)
