"""An overwrite or a delete that names the version it was computed from: what came since is judged
from there on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.format.properties import Properties
from blockstore.operations.access import Access
from blockstore.operations.distributed_overwrite import begin_anew, begun_on, end, rows_of
from blockstore.operations.expire import expire
from blockstore.operations.rewrite import rewrite
from tests.blockstore.operations.lake import Lake, Row, table_of
from tests.blockstore.operations.test_distributed_overwrite import access, write
from tests.blockstore.operations.test_races import racing

A, B, C, D = ("a", 1, 0.1), ("b", 2, 0.2), ("c", 3, 0.3), ("d", 4, 0.4)
NEW: Row = ("a", 9, 0.9)
READ = 3


@pytest.fixture
def lake() -> Lake:
    """Version 3, which was read, holds one block with a and b, and one with d."""
    lake = Lake()
    lake.append(A, B)
    lake.append(D)
    return lake


def seen(*rows: Row) -> Counter[Row]:
    return Counter(rows)


class TestAppendedSince:
    def test_rows_conflict_with_a_serializable_overwrite_and_stay(self, lake: Lake) -> None:
        lake.append(C)
        with pytest.raises(
            bs.Conflict, match=r"version 4 appended block .* after version 3, which it has read"
        ):
            lake.open().overwrite(table_of([NEW]), isolation="serializable", read_version=READ)
        assert lake.plain() == seen(A, B, C, D)

    def test_rows_conflict_by_the_tables_own_isolation(self) -> None:
        lake = Lake(properties=Properties.parse({"isolation": "serializable"}))
        lake.append(A)
        lake.append(B)
        with pytest.raises(bs.Conflict, match="version 3 appended block"):
            lake.open().overwrite(table_of([NEW]), read_version=2)
        with pytest.raises(bs.Conflict, match="version 3 appended block"):
            lake.open().delete("key = 'b'", read_version=2)

    def test_rows_stand_after_an_overwrite_that_is_not(self, lake: Lake) -> None:
        lake.append(C)
        lake.append(B, publish=False)
        done = lake.open().overwrite(table_of([NEW]), read_version=READ)
        assert (done.version, done.rows_removed) == (5, 3)
        lake.world.clock.sleep(86_400)
        assert Counter(row for row, _ in lake.rows(discovery="list").elements()) == seen(NEW, C, B)
        assert next(lake.open().log.entries(5, 5)).read_version == READ

    def test_rows_that_the_condition_excludes_are_no_conflict(self, lake: Lake) -> None:
        lake.append(C)
        lake.open().overwrite(
            table_of([NEW]), where="key = 'a'", isolation="serializable", read_version=READ
        )
        assert lake.plain() == seen(NEW, B, C, D)

    def test_rows_conflict_when_a_merge_has_carried_them_on(
        self, lake: Lake, tmp_path: Path
    ) -> None:
        lake.append(C)
        lake.merge(tmp_path)
        with pytest.raises(
            bs.Conflict, match="after version 3, which it has read: read the table again"
        ):
            lake.open().overwrite(table_of([NEW]), read_version=READ)
        assert lake.plain() == seen(A, B, C, D)

    def test_rows_stand_after_a_delete_or_conflict(self, lake: Lake) -> None:
        lake.append(A)
        with pytest.raises(bs.Conflict, match="version 4 appended block"):
            lake.open().delete("key = 'a'", isolation="serializable", read_version=READ)
        assert lake.open().delete("key = 'a'", read_version=READ).rows_removed == 1
        assert lake.plain() == seen(A, B, D)

    def test_rows_that_come_while_it_runs_are_judged_as_those_before(self, lake: Lake) -> None:
        lake.append(C)
        table = racing(lake, lambda: lake.append(D))
        table.overwrite(table_of([NEW]), read_version=READ)
        assert lake.plain() == seen(NEW, C, D)
        with pytest.raises(bs.Conflict, match="version 7 appended"):
            racing(lake, lambda: lake.append(D)).overwrite(
                table_of([NEW]), isolation="serializable", read_version=6
            )


def _overwritten(lake: Lake) -> object:
    return lake.open().overwrite(table_of([("b", 7, 0.7)]), where="key = 'b'")


def _deleted(lake: Lake) -> object:
    return lake.open().delete("key = 'b'")


def _reverted(lake: Lake) -> object:
    return lake.open().revert(min(source for _, source in lake.rows()))


def _expired(lake: Lake) -> object:
    table = lake.open()
    return expire(table.log, table.world, [min(table.log.state.blocks.ulids())], "retention")


def _restored(lake: Lake) -> object:
    return lake.open().restore(version=2)


TAKE = {
    "overwrite": _overwritten,
    "delete": _deleted,
    "revert": _reverted,
    "expire": _expired,
    "restore": _restored,
}


class TestTakenAwaySince:
    @pytest.mark.parametrize("name", TAKE)
    @pytest.mark.parametrize("isolation", ["serializable", "write-serializable"])
    @pytest.mark.parametrize("merged", [False, True])
    def test_rows_are_never_brought_back(
        self, lake: Lake, name: str, isolation: str, merged: bool, tmp_path: Path
    ) -> None:
        if merged:
            lake.merge(tmp_path)
        TAKE[name](lake)
        left = lake.plain()
        with pytest.raises(
            bs.Conflict, match=rf"version {'[56]' if merged else '[45]'} .*after version 3.*again"
        ):
            lake.open().overwrite(table_of([NEW, B, D]), isolation=isolation, read_version=READ)
        assert lake.plain() == left

    def test_rows_that_the_condition_excludes_are_no_conflict(self, lake: Lake) -> None:
        lake.open().delete("key = 'd'")
        lake.open().overwrite(table_of([NEW]), where="key = 'a'", read_version=READ)
        assert lake.plain() == seen(NEW, B)

    def test_rows_that_came_after_it_too_are_nobodys_loss(self, lake: Lake) -> None:
        late = lake.source(C)
        lake.open().revert(late)
        lake.append(C)
        lake.open().delete("key = 'c'")
        lake.open().overwrite(table_of([NEW]), read_version=READ)
        assert lake.plain() == seen(NEW)

    def test_rows_while_it_runs_conflict_too(self, lake: Lake) -> None:
        with pytest.raises(bs.Conflict, match=r"version 4 \(delete\) took rows out of block"):
            racing(lake, lambda: lake.open().delete("key = 'b'")).overwrite(
                table_of([NEW, B]), read_version=READ
            )
        assert lake.plain() == seen(A, D)

    def test_rows_that_a_delete_would_take_away_as_well_conflict_only_if_it_is_serializable(
        self, lake: Lake
    ) -> None:
        lake.open().delete("key = 'b'")
        with pytest.raises(bs.Conflict, match="took rows out of block"):
            lake.open().delete("number < 3", isolation="serializable", read_version=READ)
        assert lake.open().delete("number < 3", read_version=READ).rows_removed == 1
        assert lake.plain() == seen(D)


@pytest.mark.parametrize("way", ["merge", "rewrite", "alter", "tag"])
def test_what_changes_no_row_is_no_conflict(lake: Lake, way: str, tmp_path: Path) -> None:
    ways: dict[str, Callable[[], object]] = {
        "merge": lambda: lake.merge(tmp_path),
        "rewrite": lambda: rewrite(
            Access.of(lake.bucket, lake.world, lake.open().log),
            lake.open().log.state.blocks.ulids(),
        ),
        "alter": lambda: lake.open().alter(properties={"sync_delay": "20m"}),
        "tag": lambda: lake.open().tag("then"),
    }
    ways[way]()
    lake.open().overwrite(table_of([NEW]), isolation="serializable", read_version=READ)
    assert lake.plain() == seen(NEW)
    lake.check()


def test_a_dry_run_conflicts_as_the_run_would(lake: Lake) -> None:
    lake.append(C)
    with pytest.raises(bs.Conflict, match="version 4 appended"):
        lake.open().overwrite(
            table_of([NEW]), isolation="serializable", read_version=READ, dry_run=True
        )
    assert lake.open().overwrite(table_of([NEW]), read_version=READ, dry_run=True).rows_removed == 3


def test_the_newest_version_is_as_good_as_none(lake: Lake) -> None:
    lake.open().overwrite(table_of([NEW]), isolation="serializable", read_version=READ)
    assert lake.plain() == seen(NEW)


@pytest.mark.parametrize("version", [0, -1, True, "3"])
def test_what_is_no_version_is_refused(lake: Lake, version: object) -> None:
    with pytest.raises(bs.Invalid, match="read_version is"):
        lake.open().delete("true", read_version=version)  # type: ignore[arg-type]


def test_a_version_that_never_was_is_not_found(lake: Lake) -> None:
    with pytest.raises(bs.NotFound, match="no version 9, expected one from 1 to 3"):
        lake.open().overwrite(table_of([NEW]), read_version=9)


def test_a_version_that_was_collected_conflicts(lake: Lake) -> None:
    from blockstore.index.gc import collect

    lake.append(C)
    lake.world.clock.sleep(86_400 * 3)
    lake.append(C)
    collect(lake.open().log, lake.world)
    with pytest.raises(
        bs.Conflict, match="has read version 3, and what changed since is no longer known"
    ):
        lake.open().overwrite(table_of([NEW]), read_version=READ)


class TestBegun:
    """An overwrite whose rows are written by other processes."""

    def test_it_begins_at_the_version_that_was_read(self, lake: Lake) -> None:
        lake.append(C)
        asked = begin_anew_of(lake)
        begun = begun_on(access(lake), asked, READ)
        assert (begun.version, begun.read) == (READ, True)
        end(access(lake), begun, write(lake, begun, [NEW]))
        assert lake.plain() == seen(NEW, C)

    def test_serializable_refuses_what_was_appended_since(self, lake: Lake) -> None:
        lake.append(C)
        begun = begun_on(access(lake), begin_anew_of(lake, isolation="serializable"), READ)
        with pytest.raises(bs.Conflict, match="version 4 appended"):
            end(access(lake), begun, write(lake, begun, [NEW]))

    def test_rows_that_went_since_conflict(self, lake: Lake) -> None:
        lake.open().delete("key = 'b'")
        begun = begun_on(access(lake), begin_anew_of(lake), READ)
        assert list(rows_of(begun, table_of([NEW])))
        with pytest.raises(bs.Conflict, match="took rows out of block"):
            end(access(lake), begun, write(lake, begun, [NEW, B]))


def begin_anew_of(lake: Lake, isolation: str | None = None) -> object:
    from blockstore.operations.distributed_overwrite import Begun

    return begin_anew(
        Begun(source=lake.world.ids.ulid(), definition=lake.open().definition, isolation=isolation)
    )
