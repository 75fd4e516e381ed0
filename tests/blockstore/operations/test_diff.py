"""``diff``: what is between two versions, whatever happened to the table in between; and never a
wrong number of rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from blockstore.operations.diff import Diff
from tests.blockstore.operations.lake import Lake, table_of

A, B, C, D = ("a", 1, 0.1), ("b", 2, 0.2), ("c", 3, 0.3), ("d", 4, 0.4)

ACTS = ["append", "delete", "revert", "merge", "restore", "overwrite"]


def between(lake: Lake, before: int, after: int) -> Diff:
    return lake.open().diff(before, after)


def version(lake: Lake) -> int:
    return lake.open().poll()


@pytest.mark.parametrize("seed", range(8))
def test_the_rows_are_those_that_readers_see_more_or_the_number_is_not_told(
    seed: int, tmp_path: Path
) -> None:
    chosen = random.Random(seed)
    lake = Lake()
    sources = [lake.source(A, B, C)]
    for number in range(10):
        table = lake.open()
        match chosen.choice([*ACTS, "revert", "merge"]):
            case "append":
                sources.append(lake.source(*chosen.choices([A, B, C, D], k=chosen.randint(1, 4))))
            case "delete":
                table.delete(f"key = '{chosen.choice('abcd')}'")
            case "revert":
                table.revert(chosen.choice(sources))
            case "merge":
                live = lake.live()
                lake.merge(tmp_path, chosen.sample(live, chosen.randint(0, len(live))))
            case "restore":
                table.restore(version=chosen.randint(1, version(lake)))
            case "overwrite":
                table.overwrite(table_of([D] * number), where="key = 'd'")
    seen = {one: lake.plain(version=one) for one in range(1, version(lake) + 1)}
    known, table = 0, lake.open()
    for before, rows in seen.items():
        for after, others in seen.items():
            found = table.diff(before, after)
            assert found.rows is None or found.rows == others.total() - rows.total(), (
                before,
                after,
            )
            known += found.rows is not None
            back = table.diff(after, before)
            assert (back.added, back.removed) == (found.removed, found.added)
            assert found.rows is None or back.rows == -found.rows
            same = not (found.added or found.removed or found.excepted or found.shown)
            assert not same or seen[before] == seen[after]
    assert known > 2 * len(seen), "hardly ever told"


def test_what_a_restore_shows_again_is_told(tmp_path: Path) -> None:
    lake = Lake()
    source = lake.source(A, B)
    lake.append(C)
    merged = lake.merge(tmp_path)
    assert merged is not None
    shown = version(lake)
    lake.open().revert(source)
    hidden = version(lake)
    lake.open().restore(version=shown)
    back, hid = between(lake, hidden, version(lake)), between(lake, shown, hidden)
    assert (dict(back.shown), dict(back.excepted)) == ({merged: (source,)}, {})
    assert (dict(hid.shown), dict(hid.excepted)) == ({}, {merged: (source,)})
    assert (back.rows, hid.rows) == (None, None), (
        "how many rows of the merged block are hidden only reading tells"
    )
    whole = between(lake, shown, version(lake))
    assert (whole.added, whole.removed, whole.rows) == ((), (), 0)
    assert (dict(whole.shown), dict(whole.excepted)) == ({}, {})


def test_a_merge_loses_nothing(tmp_path: Path) -> None:
    lake = Lake()
    source = lake.source(A, B)
    lake.append(C)
    lake.append(D)
    before = version(lake)
    lake.merge(tmp_path, lake.live()[:2])
    assert between(lake, before, version(lake)).rows == 0
    lake.open().revert(source)
    hidden = version(lake)
    lake.merge(tmp_path)
    assert between(lake, hidden, version(lake)).rows is None
    assert between(lake, before, version(lake)).rows == -2


def test_a_hidden_block_of_one_write_has_no_rows_to_lose() -> None:
    lake = Lake()
    source = lake.source(A, B)
    before = version(lake)
    lake.open().revert(source)
    assert between(lake, before, version(lake)).rows == -2


def test_what_a_block_that_comes_hides_is_told(tmp_path: Path) -> None:
    lake = Lake()
    source = lake.source(A, B)
    lake.append(C)
    merged = lake.merge(tmp_path)
    assert merged is not None
    lake.open().revert(source)
    hiding = version(lake)
    lake.open().delete("true")
    empty = version(lake)
    lake.open().restore(version=hiding)
    found = between(lake, empty, version(lake))
    assert [meta.ulid for meta in found.added] == [merged]
    assert (dict(found.excepted), found.rows) == ({merged: (source,)}, None)
