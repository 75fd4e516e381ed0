"""``revert``: entire writes are hidden wherever merges carried them, by metadata alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import blockstore as bs
from tests.blockstore.operations.lake import Lake, Row, small_chunks, table_of
from tests.blockstore.operations.test_delete import contents, read_chunks
from tests.support.faulty import FaultyBucket

A, B, C = ("a", 1, 0.1), ("b", 2, 0.2), ("c", 3, 0.3)
NOBODY = "01HF7YAT00TTTTTTTTTTTTTTTT"


def by_source(lake: Lake) -> Counter[str]:
    counts: Counter[str] = Counter()
    for (_, source), count in lake.rows().items():
        counts[source] += count
    return counts


def test_after_two_levels_of_merges_exactly_the_rows_of_that_job_are_gone(tmp_path: Path) -> None:
    lake = Lake()
    sources: dict[str, int] = {}
    with small_chunks():
        for batch in range(12):
            rows: list[Row] = [(key, batch, None) for key in "abcde"[: 1 + batch % 5]]
            done = lake.append(*rows, job=bs.Job("load", batch))
            assert done.ulid is not None
            sources[done.ulid] = len(rows)
            if batch % 4 == 3:
                fresh = [
                    block.ulid for block in lake.open().log.state.blocks if block.meta.level == 1
                ]
                lake.merge(tmp_path, fresh)
        (top,) = [lake.merge(tmp_path)]
        assert by_source(lake) == sources
        (block,) = lake.open().log.state.blocks
        assert (block.ulid, block.meta.level) == (top, 3)
        bad = sorted(sources)[5]
        planned = lake.open().revert(bad, dry_run=True)
        done_ = lake.open().revert(bad)
        assert (dict(planned.rows), dict(done_.hidden)) == ({bad: sources[bad]}, {bad: top})
        del sources[bad]
        assert by_source(lake) == sources
        lake.merge(tmp_path)
        assert by_source(lake) == sources
        (block,) = lake.open().log.state.blocks
        assert block.meta.rows == sum(sources.values()), "the next merge has dropped the rows"


def test_nothing_but_the_index_is_written_and_no_row_is_read(tmp_path: Path) -> None:
    lake = Lake()
    source = lake.source(A)
    lake.append(B)
    lake.merge(tmp_path)
    faulty = FaultyBucket(lake.bucket)
    lake.open(faulty).revert(source)
    assert [call.key.partition("/")[0] for call in faulty.writes] == ["index"]
    assert read_chunks(faulty) == set()
    assert not [call for call in faulty.calls if call.method == "list" and call.key == ""], (
        "known writes need no listing"
    )


def test_a_block_of_one_write_is_removed(tmp_path: Path) -> None:
    lake = Lake()
    source = lake.source(A, A)
    lake.append(B)
    done = lake.open().revert(source)
    assert (done.removed, dict(done.rows)) == ((source,), {source: 2})
    assert lake.plain() == Counter([B])
    assert source not in lake.live()


def test_several_writes_at_once_are_one_entry(tmp_path: Path) -> None:
    lake = Lake()
    first, second, third = (lake.source(row) for row in (A, B, C))
    merged = lake.merge(tmp_path, [first, second])
    assert merged is not None
    done = lake.open().revert(first, second, third)
    assert set(done.removed) == {merged, third}
    (entry,) = lake.open().log.entries(done.version, done.version)
    assert (entry.operation, entry.parameters["sources"]) == (
        "revert",
        sorted([first, second, third]),
    )
    assert lake.plain() == Counter()


def test_of_a_merged_block_the_rest_stays(tmp_path: Path) -> None:
    lake = Lake()
    first, second = lake.source(A), lake.source(B)
    merged = lake.merge(tmp_path)
    done = lake.open().revert(first)
    assert (dict(done.hidden), done.removed, dict(done.rows)) == ({first: merged}, (), {})
    (entry,) = lake.open().log.entries(done.version, done.version)
    assert dict(entry.excepts) == {merged: (first,)}
    last = lake.open().revert(second)
    assert last.removed == (merged,)
    assert lake.live() == []


def test_reverting_again_is_no_version_and_is_said(tmp_path: Path) -> None:
    lake = Lake()
    first, second = lake.source(A), lake.source(B)
    lake.merge(tmp_path)
    lake.open().revert(first)
    again = lake.open().revert(first)
    assert (again.version, again.already, dict(again.hidden)) == (None, (first,), {})
    both = lake.open().revert(first, second)
    assert (both.already, list(both.hidden)) == ((first,), [second])


def test_what_was_deleted_is_no_longer_to_be_reverted() -> None:
    lake = Lake()
    source = lake.source(A)
    lake.open().delete("true")
    assert lake.open().revert(source).already == (source,)


class TestOverwrites:
    def test_what_they_replaced_does_not_come_back_and_it_is_said(self) -> None:
        lake = Lake()
        replaced = lake.source(A)
        (added,) = lake.open().overwrite(table_of([B])).added
        done = lake.open().revert(added)
        assert (done.overwrites, done.removed, dict(done.rows)) == ((added,), (added,), {added: 1})
        assert lake.plain() == Counter()
        (entry,) = lake.open().log.entries(done.version, done.version)
        assert entry.parameters["overwrites"] == [added]
        assert "restore" in str(entry.parameters["note"])
        lake.open().restore(version=2)
        assert lake.plain() == Counter([A])
        assert set(lake.live()) == {replaced}

    def test_what_they_replaced_is_nothing_to_revert(self) -> None:
        lake = Lake()
        replaced = lake.source(A)
        lake.open().overwrite(table_of([B]))
        done = lake.open().revert(replaced)
        assert (done.version, done.already) == (None, (replaced,))
        assert lake.plain() == Counter([B])

    def test_inside_a_merge_they_are_reverted_as_any_write(self, tmp_path: Path) -> None:
        lake = Lake()
        lake.append(A)
        (added,) = lake.open().overwrite(table_of([B])).added
        lake.append(C)
        lake.merge(tmp_path)
        lake.open().revert(added)
        assert lake.plain() == Counter([C])


class TestUnpublishedWrites:
    def test_are_accounted_for_and_never_seen(self) -> None:
        lake = Lake()
        source = lake.append(A, publish=False).ulid
        assert source is not None
        done = lake.open().revert(source)
        assert done.accounted == (source,)
        lake.world.clock.sleep(86_400)
        assert lake.rows(discovery="list") == Counter()
        assert lake.open().append(table_of([A]), resume=source).already

    def test_of_a_job_that_was_never_committed_there_is_nothing_to_revert(self) -> None:
        lake = Lake()
        faulty = FaultyBucket(lake.bucket, refuse={})
        table = lake.open(faulty)

        def deny(call: object) -> None:
            if getattr(call, "key", "").startswith("index/0") and getattr(call, "writes", False):
                raise bs.AccessDenied("no permission")

        faulty.before.append(deny)
        with pytest.raises(bs.AccessDenied):
            table.append(table_of([A]), job=bs.Job("load", 1))
        (ulid,) = {key.partition("/")[0] for key in contents(lake) if key.endswith("meta.json")}
        with pytest.raises(bs.NotFound, match=ulid):
            lake.open().revert(ulid)


class TestWrongCalls:
    @pytest.mark.parametrize("sources", [(), ("x",), (NOBODY.lower(),), (7,)])
    def test_are_invalid(self, sources: tuple[str, ...]) -> None:
        with pytest.raises(bs.Invalid):
            Lake().open().revert(*sources)

    def test_an_unknown_write_is_named_and_nothing_is_reverted(self) -> None:
        lake = Lake()
        source = lake.source(A)
        before = contents(lake)
        with pytest.raises(bs.NotFound, match=NOBODY):
            lake.open().revert(source, NOBODY)
        assert contents(lake) == before

    def test_a_dry_run_changes_nothing(self, tmp_path: Path) -> None:
        lake = Lake()
        first = lake.source(A, A)
        waiting = lake.append(C, publish=False).ulid
        lake.append(B)
        lake.merge(tmp_path)
        assert waiting is not None
        before = contents(lake)
        planned = lake.open().revert(first, waiting, dry_run=True)
        assert contents(lake) == before
        assert (dict(planned.rows), planned.accounted, planned.version) == (
            {first: 2},
            (waiting,),
            None,
        )
