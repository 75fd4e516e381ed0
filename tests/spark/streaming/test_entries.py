"""What entries mean to a stream, with real operations on a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.index.change import Expire
from blockstore.index.entry import Entry
from blockstore.spark.streaming.entries import News, news_of
from blockstore.table import Table
from blockstore.world import World

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def at(tmp_path: Path) -> Table:
    return bs.create(
        f"{tmp_path}/t?durable=false", schema=ROWS.schema, sort_by=["id"], world=World.manual()
    )


def news(at: Table) -> list[News]:
    return [news_of(entry) for entry in at.history()]


def test_an_append_brings_its_blocks_numbered_as_the_index_numbers_them(at: Table) -> None:
    first, second = at.append(ROWS), at.append(ROWS)
    found = news(at)[1:]
    assert [one.blocks[0].ulid for one in found] == [first.ulid, second.ulid]
    assert [one.blocks[0] for one in found] == [
        at.snapshot().blocks.get(one.blocks[0].ulid) for one in found
    ]
    assert not any(one.changes for one in found)


def test_tags_definitions_and_retention_bring_nothing_and_change_nothing(at: Table) -> None:
    block = at.append(ROWS)
    at.tag("q3")
    at.untag("q3")
    at.alter(add=[pa.field("x", pa.int64())])
    at.log.commit(
        Expire(commit=at.world.ids.ulid(), read={str(block.ulid): frozenset()}, reason="retention")
    )
    found = [one for one in news(at) if one.operation != "append"]
    assert {one.operation for one in found} == {"create", "tag", "untag", "alter", "expire"}
    assert not any(one.blocks or one.changes for one in found)


def test_a_removal_or_change_is_one_and_brings_only_new_rows(at: Table) -> None:
    first = at.append(ROWS)
    second = at.append(ROWS)
    at.delete("id = 1")
    at.revert(str(second.ulid))
    at.overwrite(pa.table({"id": [7]}), where="id = 7")
    at.overwrite(pa.table({"id": [8]}))
    at.restore(version=2)
    found = {one.version: one for one in news(at)}
    assert [found[version].changes for version in (4, 5)] == [True, True]
    assert [found[version].blocks for version in (4, 5)] == [(), ()]
    assert not found[6].changes, "an overwrite that replaced nothing is an addition"
    assert found[6].blocks[0].meta.rows == 1
    assert found[7].changes
    assert [block.meta.rows for block in found[7].blocks] == [1], (
        "the rewrites of others are not its own rows"
    )
    restored = [one for one in found.values() if one.operation == "restore"]
    assert [(one.changes, one.blocks) for one in restored] == [(True, ())], (
        "what comes back was there before"
    )
    assert first.ulid in at.snapshot().blocks


def test_new_rows_whose_upload_was_refused_once_are_still_new(at: Table) -> None:
    at.append(ROWS)
    at.overwrite(pa.table({"id": [8]}))
    entry = list(at.history())[-1]
    block = entry.add[0]
    again = replace(block, meta=replace(block.meta, own=False), sources=block.meta.sources)
    assert news_of(replace(entry, add=(again,))).blocks


@pytest.mark.parametrize(
    ("removes", "changes"), [((), False), (("01JD0000000000000000000000",), True)]
)
def test_an_operation_of_a_later_release_is_judged_by_its_content(
    at: Table, removes: tuple[str, ...], changes: bool
) -> None:
    at.append(ROWS)
    entry = replace(list(at.history())[-1], operation="sharpen", remove=removes)
    found = news_of(entry)
    assert (found.changes, len(found.blocks)) == (changes, 1)


def test_an_entry_without_blocks_brings_none() -> None:
    empty = Entry(id=5, commit="01JD0000000000000000000000", time=0, operation="overwrite")
    assert news_of(empty) == News(version=5, commit=empty.commit, operation="overwrite")


def test_rebuilding_an_index_counts_as_a_change() -> None:
    entry = Entry(id=5, commit="01JD0000000000000000000000", time=0, operation="rebuild")
    assert news_of(entry).changes
