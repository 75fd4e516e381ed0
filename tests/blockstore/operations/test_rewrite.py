"""``rewrite``: fresh copies of live blocks, or other rows in their place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.index.rows import LiveBlock
from blockstore.operations.access import Access
from blockstore.operations.results import Changed
from blockstore.operations.rewrite import GoodRows, rewrite
from tests.blockstore.operations.lake import Lake, small_chunks, table_of
from tests.blockstore.operations.test_delete import contents

A, B, C = ("a", 1, 0.1), ("b", 2, 0.2), ("c", 3, 0.3)


def rewritten(
    lake: Lake, ulids: Iterable[str], rows: GoodRows | None = None, dry_run: bool = False
) -> Changed:
    table = lake.open()
    access = Access.of(table.bucket, table.world, table.log)
    return rewrite(access, ulids, rows=rows, reason="test", dry_run=dry_run)


def test_rows_and_sources_stay_and_the_revision_rises(tmp_path: Path) -> None:
    lake = Lake()
    with small_chunks():
        for row in (A, B, C):
            lake.append(row, row, row)
        merged = lake.merge(tmp_path, lake.live()[:2])
        before = lake.rows()
        done = rewritten(lake, lake.live())
        assert lake.rows() == before
        lake.check()
    assert (len(done.rewritten), done.rows_removed) == (2, 0)
    assert merged in done.rewritten
    assert {block.meta.revision for block in lake.open().log.state.blocks} == {1}
    (entry,) = lake.open().log.entries(done.version, done.version)
    assert (entry.operation, dict(entry.parameters), len(entry.add)) == (
        "rewrite",
        {"reason": "test"},
        2,
    )


def test_hidden_rows_do_not_come_along(tmp_path: Path) -> None:
    lake = Lake()
    first = lake.source(A)
    lake.append(B)
    lake.merge(tmp_path)
    lake.open().revert(first)
    rewritten(lake, lake.live())
    (block,) = lake.open().log.state.blocks
    assert (block.meta.rows, block.excepted) == (1, frozenset())
    assert first in block.meta.sources
    assert lake.plain() == Counter([B])


def test_a_damaged_block_is_replaced_by_rows_from_elsewhere() -> None:
    lake = Lake()
    source = lake.source(B, A)
    lake.append(C)
    lake.bucket.delete([key for key in contents(lake) if key.startswith(f"{source}/chunks/")])

    def good(block: LiveBlock) -> Iterable[pa.RecordBatch]:
        rows = table_of([B, A]).append_column("_source", pa.array([source, source]))
        return rows.to_batches(max_chunksize=1)

    done = rewritten(lake, [source], good)
    assert lake.rows() == Counter(
        {
            (A, source): 1,
            (B, source): 1,
            (C, next(iter(set(lake.live()) - {done.rewritten[source]}))): 1,
        }
    )
    lake.check()


def test_rows_that_are_no_more_remove_the_block() -> None:
    lake = Lake()
    source = lake.source(A)
    done = rewritten(lake, [source], lambda block: [])
    assert (done.removed, lake.live()) == ((source,), [])


def test_rows_that_do_not_fit_change_nothing() -> None:
    lake = Lake()
    source = lake.source(A)
    version = lake.open().poll()
    with pytest.raises(bs.Invalid, match="_source"):
        rewritten(lake, [source], lambda block: table_of([A]).to_batches())
    assert (lake.open().poll(), lake.plain()) == (version, Counter([A]))


def test_a_damaged_block_is_no_source_of_itself() -> None:
    lake = Lake()
    source = lake.source(A)
    lake.bucket.delete([key for key in contents(lake) if key.startswith(f"{source}/chunks/")])
    with pytest.raises(bs.ObjectMissing, match=source):
        rewritten(lake, [source])


def test_a_block_that_is_not_live_is_named() -> None:
    lake = Lake()
    source = lake.source(A)
    lake.open().delete("true")
    with pytest.raises(bs.NotFound, match=source):
        rewritten(lake, [source])
    with pytest.raises(bs.Invalid):
        rewritten(lake, [])


def test_a_dry_run_changes_nothing() -> None:
    lake = Lake()
    source = lake.source(A)
    before = contents(lake)
    planned = rewritten(lake, [source], dry_run=True)
    assert contents(lake) == before
    assert (dict(planned.rewritten), planned.version) == ({source: None}, None)
