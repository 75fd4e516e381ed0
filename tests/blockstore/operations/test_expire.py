"""``expire``: entire live blocks leave, and nothing brings them back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.index.epochs import claim
from blockstore.operations.expire import expire
from tests.blockstore.operations.lake import Lake, table_of
from tests.blockstore.operations.test_delete import contents

A, B = ("a", 1, 0.1), ("b", 2, 0.2)


def test_the_blocks_go_and_their_writes_stay_accounted() -> None:
    lake = Lake()
    source = lake.source(A)
    lake.append(B)
    done = expire(lake.open().log, lake.world, [source], "retention", "older than 30d")
    assert (done.removed, done.rows_removed) == ((source,), 1)
    assert lake.plain() == Counter([B])
    assert lake.open().append(table_of([A]), resume=source).already
    (entry,) = lake.open().log.entries(done.version, done.version)
    assert (entry.operation, dict(entry.parameters)) == (
        "expire",
        {"reason": "retention", "details": "older than 30d"},
    )


def test_a_block_with_hidden_writes_goes_too(tmp_path: Path) -> None:
    lake = Lake()
    first = lake.source(A)
    lake.append(B)
    merged = lake.merge(tmp_path)
    assert merged is not None
    lake.open().revert(first)
    assert expire(lake.open().log, lake.world, [merged], "retention").rows_removed is None
    assert lake.live() == []


def test_a_role_that_was_taken_over_expires_nothing() -> None:
    lake = Lake()
    source = lake.source(A)
    held = claim(lake.open().log, lake.world, "compactor")
    claim(lake.open().log, lake.world, "compactor")
    with pytest.raises(bs.Fenced):
        expire(lake.open().log, lake.world, [source], "retention", held=held)
    assert lake.live() == [source]


def test_what_is_not_live_is_named_and_nothing_goes() -> None:
    lake = Lake()
    first, second = lake.source(A), lake.source(B)
    lake.open().delete("key = 'a'")
    with pytest.raises(bs.NotFound, match=first):
        expire(lake.open().log, lake.world, [second, first], "manual")
    assert lake.live() == [second]


def test_a_dry_run_changes_nothing() -> None:
    lake = Lake()
    source = lake.source(A)
    before = contents(lake)
    assert expire(lake.open().log, lake.world, [source], "manual", dry_run=True).removed == (
        source,
    )
    assert contents(lake) == before
