"""Chunks of a version exchanged for new rows, on top of what others did since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

import blockstore as bs
from blockstore.format.properties import Properties
from blockstore.index.change import Committed
from blockstore.index.log import Log
from blockstore.operations.access import Access
from blockstore.operations.exchange import Exchange, exchange
from blockstore.operations.rewrite import rewrite
from tests.blockstore.operations.lake import Lake, Row, small_chunks, table_of

A, B, C, D = ("a", 1, 0.1), ("b", 2, 0.2), ("c", 3, 0.3), ("d", 4, 0.4)
NEW: Row = ("a", 9, 0.9)


def access(lake: Lake) -> Access:
    lake.world.clock.sleep(1)
    table = lake.open()
    return Access.of(table.bucket, table.world, table.log)


def wanted(lake: Lake, version: int, *ulids: str, first: int | None = None) -> Exchange:
    """The chunks of these blocks, or the first so many of each, for one new row."""
    read = lake.open().log.at(version)
    blocks = read.blocks.get_all(ulids)
    return Exchange(
        read=read,
        chunks={
            ulid: frozenset([file.path for file in block.meta.chunks][:first])
            for ulid, block in blocks.items()
        },
        rows={(): table_of([NEW]).to_batches()},
    )


def done(lake: Lake, version: int, *ulids: str, first: int | None = None) -> Committed:
    found = exchange(access(lake), wanted(lake, version, *ulids, first=first))
    lake.check()
    return found


def test_the_rows_of_the_chunks_go_and_all_others_stay() -> None:
    lake = Lake()
    one, _ = lake.source(A, B), lake.source(C)
    done(lake, lake.open().poll(), one)
    assert lake.plain() == Counter([NEW, C])


def test_of_a_block_of_several_chunks_one_may_go() -> None:
    with small_chunks():
        lake = Lake()
        one = lake.source(A, B, C, D)
        before = lake.open().poll()
        done(lake, before, one, first=1)
        left = lake.plain()
        assert left[NEW] == 1
        assert 0 < sum(left.values()) - 1 < 4
        assert left - Counter([NEW]) <= Counter([A, B, C, D])


def test_rows_without_chunks_are_an_append() -> None:
    lake = Lake()
    lake.source(A)
    done(lake, lake.open().poll())
    assert lake.plain() == Counter([A, NEW])


def test_what_a_merge_did_since_is_no_reason_to_refuse(tmp_path: Path) -> None:
    lake = Lake()
    one, two = lake.source(A, B), lake.source(C)
    version = lake.open().poll()
    lake.source(D)
    lake.merge(tmp_path)
    done(lake, version, one)
    assert lake.plain() == Counter([NEW, C, D])
    assert {source for _, source in lake.rows()} > {two}


def test_merges_of_merges_are_followed_and_two_blocks_may_have_one_heir(tmp_path: Path) -> None:
    lake = Lake()
    one, two, three = lake.source(A), lake.source(B), lake.source(C)
    version = lake.open().poll()
    first = lake.merge(tmp_path, [one, three])
    assert first is not None
    lake.merge(tmp_path, [first, two])
    done(lake, version, one, two)
    assert lake.plain() == Counter([NEW, C])


def test_a_block_goes_that_holds_nothing_else_by_now(tmp_path: Path) -> None:
    lake = Lake()
    one, two = lake.source(A), lake.source(B)
    version = lake.open().poll()
    merged = lake.merge(tmp_path)
    done(lake, version, one, two)
    assert lake.plain() == Counter([NEW])
    assert merged not in lake.live()


def test_a_repaired_block_is_followed() -> None:
    lake = Lake()
    one = lake.source(A, B)
    version = lake.open().poll()
    rewrite(access(lake), [one], reason="test")
    done(lake, version, one)
    assert lake.plain() == Counter([NEW])


def test_a_chunk_of_a_block_that_was_merged_since_is_a_conflict(tmp_path: Path) -> None:
    with small_chunks():
        lake = Lake()
        one = lake.source(A, B, C, D)
        version = lake.open().poll()
        lake.source(A)
        lake.merge(tmp_path)
        before = lake.plain()
        with pytest.raises(bs.Conflict, match="is not known there: read the table again"):
            done(lake, version, one, first=1)
        assert lake.plain() == before


TAKES: dict[str, Callable[[Lake, str], object]] = {
    "delete": lambda lake, _: lake.open().delete("key = 'a'"),
    "overwrite": lambda lake, _: lake.open().overwrite(table_of([D]), where="key <= 'd'"),
    "revert": lambda lake, ulid: lake.open().revert(ulid),
}


@pytest.mark.parametrize("name", TAKES)
def test_rows_that_others_took_since_are_a_conflict(name: str) -> None:
    lake = Lake()
    one = lake.source(A, B)
    version = lake.open().poll()
    lake.world.clock.sleep(1)
    TAKES[name](lake, one)
    before = lake.plain()
    with pytest.raises(bs.Conflict, match=f"\\({name}\\) changed rows of block {one}"):
        done(lake, version, one)
    assert lake.plain() == before


def test_so_are_they_where_a_merge_came_first(tmp_path: Path) -> None:
    lake = Lake()
    one = lake.source(A, B)
    version = lake.open().poll()
    lake.source(C)
    lake.merge(tmp_path)
    lake.world.clock.sleep(1)
    lake.open().delete("key = 'a'")
    with pytest.raises(bs.Conflict, match="changed rows"):
        done(lake, version, one)


def test_rows_that_others_took_elsewhere_are_none() -> None:
    lake = Lake()
    one, _ = lake.source(A, B), lake.source(C, D)
    version = lake.open().poll()
    lake.world.clock.sleep(1)
    lake.open().delete("key = 'c'")
    done(lake, version, one)
    assert lake.plain() == Counter([NEW, D])


def test_appended_rows_conflict_where_the_table_is_serializable() -> None:
    lake = Lake(properties=Properties.parse({"isolation": "serializable"}))
    one = lake.source(A)
    version = lake.open().poll()
    lake.source(B)
    with pytest.raises(bs.Conflict, match="which it has read"):
        done(lake, version, one)
    done(lake, lake.open().poll(), one)
    assert lake.plain() == Counter([NEW, B])


def test_so_do_rows_that_an_overwrite_brought_elsewhere() -> None:
    lake = Lake(properties=Properties.parse({"isolation": "serializable"}))
    one, _ = lake.source(A), lake.source(C)
    version = lake.open().poll()
    lake.world.clock.sleep(1)
    lake.open().overwrite(table_of([C, D]), where="key >= 'c'")
    with pytest.raises(bs.Conflict, match="which it has read"):
        done(lake, version, one)
    assert lake.plain() == Counter([A, C, D])


def test_a_version_that_is_collected_is_a_conflict() -> None:
    lake = Lake()
    one = lake.source(A)
    asked = wanted(lake, lake.open().poll(), one)
    lake.source(B)
    collected = mock.patch.object(Log, "entries", side_effect=bs.VersionExpired("collected"))
    with collected, pytest.raises(bs.Conflict, match="which this commit has read, is older than"):
        exchange(access(lake), asked)


def test_it_happens_once() -> None:
    lake = Lake()
    one = lake.source(A)
    version = lake.open().poll()
    job = bs.Job("engine", 0)

    def once() -> Committed:
        asked = wanted(lake, version, one)
        return exchange(access(lake), replace(asked, job=job))

    first, second = once(), once()
    assert second.already
    assert second.version == first.version
    assert lake.plain() == Counter([NEW])
