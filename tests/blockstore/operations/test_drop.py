"""Tables that are dropped, brought back, and made again, with others at work on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.api import Bucket, is_there
from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import Unavailable
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.names import deletion_mark_key
from blockstore.operations.drop import drop_table, undrop_table
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.operations.lake import SCHEMA, Lake, Row, table_of
from tests.blockstore.operations.test_races import racing
from tests.blockstore.rows.lake import again, by_id, by_key, rows_of
from tests.blockstore.rows.lake import seen as seen_rows
from tests.support.faulty import FaultyBucket, Killed
from tests.support.interleave import Schedule, interleave, requests_of, schedules
from tests.support.tally import tally

A, B, C = ("a", 1, 0.1), ("b", 2, 0.2), ("c", 3, 0.3)
OTHER = pa.schema([("name", pa.string())])
DAY_S = 24 * 3600


def drop(lake: Lake, bucket: Bucket | None = None) -> int:
    return drop_table(Log(bucket or lake.bucket, lake.world), lake.world)


def undrop(lake: Lake, bucket: Bucket | None = None) -> int:
    return undrop_table(Log(bucket or lake.bucket, lake.world), lake.world)


def create(lake: Lake, bucket: Bucket | None = None, schema: pa.Schema = SCHEMA) -> Log:
    definition = Definition.create(schema, sort_by=[schema.names[0]])
    return index_log.create(bucket or lake.bucket, lake.world, definition)


class TestUrls:
    def test_a_dropped_table_cannot_be_opened_and_comes_back_as_it_was(self) -> None:
        url = "memory://drop-and-back"
        table = bs.create(url, schema=SCHEMA)
        table.append(table_of([A]))
        table.tag("first")
        table.append(table_of([B]))
        before = table.log.state
        assert bs.drop(url, message="by mistake") == 5
        with pytest.raises(bs.TableDropped, match=r"was dropped at \d{4}-.* by version 5: undrop"):
            bs.open(url)
        with pytest.raises(bs.TableDropped):
            table.snapshot()
        with pytest.raises(bs.TableDropped):
            bs.drop(url)
        assert bs.undrop(url) == 6
        back = bs.open(url)
        assert back.log.state.blocks.ulids() == before.blocks.ulids()
        assert back.log.state.tags == before.tags
        assert back.snapshot(tag="first").scan().to_table().num_rows == 1
        assert back.snapshot(version=4).scan().to_table().num_rows == 2
        with pytest.raises(bs.TableDropped):
            back.snapshot(version=5)
        assert [entry.message for entry in back.history()][-2:] == ["by mistake", ""]

    def test_there_is_nothing_to_undrop_where_a_table_is_there(self) -> None:
        url = "memory://undrop-nothing"
        bs.create(url, schema=SCHEMA)
        with pytest.raises(bs.Conflict, match="is not dropped, at version 1"):
            bs.undrop(url)
        assert bs.open(url).poll() == 1

    @pytest.mark.parametrize("act", [bs.drop, bs.undrop])
    def test_without_a_table_there_is_nothing_to_drop(self, act: Callable[[str], int]) -> None:
        with pytest.raises(bs.NotFound, match="no table at memory://drop-nothing"):
            act("memory://drop-nothing")

    def test_a_table_without_an_index_cannot_be_dropped(self) -> None:
        url = "memory://drop-unindexed"
        bs.create(url, schema=SCHEMA, index=False).append(table_of([A]))
        with pytest.raises(bs.Invalid, match="mark its blocks"):
            bs.drop(url)

    def test_a_reader_by_listing_sees_no_dropped_table_either(self) -> None:
        url = "memory://drop-listed"
        bs.create(url, schema=SCHEMA).append(table_of([A]))
        listing = bs.open(url, discovery="list")
        bs.drop(url)
        with pytest.raises(bs.TableDropped):
            listing.snapshot()
        with pytest.raises(bs.TableDropped):
            bs.open(url, discovery="list")

    def test_a_query_that_is_under_way_ends_with_the_rows_that_it_began_with(self) -> None:
        url = "memory://drop-under-a-query"
        table = bs.create(url, schema=SCHEMA)
        table.append(table_of([A, B]))
        snapshot = table.snapshot()
        bs.drop(url)
        assert snapshot.scan().to_table().num_rows == 2


class TestTheNextTable:
    def test_takes_the_name_at_once_and_nothing_else(self) -> None:
        lake = Lake()
        job = bs.Job("nightly", 7)
        lake.append(A, job=job)
        lake.append(B)
        lake.open().tag("kept")
        before = lake.open().log.state
        drop(lake)
        log = create(lake)
        state = log.state
        assert (state.created, len(state.blocks), state.tags) == (state.version, 0, {})
        assert lake.plain() == Counter()
        assert state.next_row_id == state.first_row_id == before.next_row_id
        definition = state.definition
        assert list(definition.schemas) == [before.definition.schema_id + 1]
        assert definition.last_field_id == 2 * before.definition.last_field_id
        again = lake.append(C, job=job)
        assert (again.already, again.published) == (False, True)
        assert lake.plain() == Counter([C])
        with pytest.raises(bs.NotFound, match="'kept'"):
            lake.open().snapshot(tag="kept")

    def test_does_not_show_the_versions_of_the_one_before(self) -> None:
        lake = Lake()
        lake.append(A)
        first_ms = lake.open().log.state.time_ms
        lake.world.clock.sleep(60)
        drop(lake)
        created = create(lake).state.version
        table = lake.open()
        for version in range(1, created):
            with pytest.raises(bs.VersionExpired, match=f"is {created}, in which it was created"):
                table.snapshot(version=version)
            with pytest.raises(bs.VersionExpired):
                table.restore(version=version)
            with pytest.raises(bs.VersionExpired):
                table.tag("old", version=version)
        with pytest.raises(bs.VersionExpired):
            table.snapshot(as_of=first_ms)
        assert table.snapshot(version=created).version == created

    def test_cannot_be_taken_back_for_the_one_before(self) -> None:
        lake = Lake()
        lake.append(A)
        drop(lake)
        version = create(lake).state.version
        with pytest.raises(bs.Conflict, match=f"created in version {version}"):
            undrop(lake)
        drop(lake)
        undrop(lake)
        assert lake.plain() == Counter()

    def test_another_schema_may_have_the_same_names(self) -> None:
        lake = Lake()
        lake.append(A)
        drop(lake)
        create(lake, schema=pa.schema([("key", pa.int64())]))
        table = lake.open()
        table.append(pa.table({"key": [5]}))
        assert table.snapshot().scan().to_table().to_pylist() == [{"key": 5}]

    def test_a_handle_of_the_one_before_is_over(self) -> None:
        lake = Lake()
        old = lake.open()
        drop(lake)
        create(lake)
        for act in (old.snapshot, lambda: old.append(table_of([A])), old.poll):
            with pytest.raises(bs.HistoryReplaced, match="another one was created there"):
                act()
        assert old.log.follow().state.created > 1
        assert lake.plain() == Counter()

    def test_a_checkpoint_holds_when_it_was_created_and_dropped(self) -> None:
        from blockstore.index.checkpoint import decode_checkpoint, encode_checkpoint

        lake = Lake()
        drop(lake)
        create(lake)
        drop(lake)
        state = lake_state(lake)
        assert (state.created, state.dropped and state.dropped.version) == (3, 4)
        assert decode_checkpoint(encode_checkpoint(state), version=4) == state

    def test_of_rows_that_change_gives_no_id_twice(self) -> None:
        table = by_id()
        table.append(pa.table({"name": ["a", "b"], "n": [1, 2]}))
        drop_table(table.log, table.world)
        definition = Definition.create(OTHER, row_ids=True)
        index_log.create(table.bucket, table.world, definition)
        other = again(table)
        other.append(pa.table({"name": ["c"]}))
        assert seen_rows(other, "_row_id", "name") == [{"_row_id": 2, "name": "c"}]
        other.update({"name": "d"}, where="name = 'c'")
        assert seen_rows(other, "name") == [{"name": "d"}]


def lake_state(lake: Lake) -> State:
    return Log(lake.bucket, lake.world).state


ACTS: dict[str, Callable[[Table], object]] = {
    "append": lambda table: table.append(table_of([B])),
    "append with a job": lambda table: table.append(table_of([B]), job=bs.Job("load", 1)),
    "append and evolve": lambda table: table.append(
        table_of([B]).append_column("more", pa.array([1])), evolve=True
    ),
    "overwrite": lambda table: table.overwrite(table_of([B])),
    "delete": lambda table: table.delete("key = 'a'"),
    "alter": lambda table: table.alter(add=[pa.field("more", pa.int64())]),
    "restore": lambda table: table.restore(version=1),
    "revert": lambda table: table.revert(table.log.state.blocks.ulids()[0]),
    "tag": lambda table: table.tag("now"),
}


class TestOthersAtWork:
    @pytest.mark.parametrize("act", list(ACTS))
    def test_what_is_under_way_when_the_table_is_dropped_is_refused_for_good(
        self, act: str
    ) -> None:
        lake = Lake()
        lake.append(A)
        table = racing(lake, lambda: drop(lake))
        with pytest.raises(bs.TableDropped):
            ACTS[act](table)
        undrop(lake)
        assert lake.plain() == Counter([A])
        later(lake, 2)
        assert lake.plain() == Counter([A]) == lake.plain_by_listing()

    @pytest.mark.parametrize("act", list(ACTS))
    def test_nothing_of_it_reaches_the_next_table(self, act: str) -> None:
        lake = Lake()
        lake.append(A)

        def made_again() -> None:
            drop(lake)
            create(lake)
            lake.append(C)

        with pytest.raises(bs.HistoryReplaced, match="another one was created there"):
            ACTS[act](racing(lake, made_again))
        later(lake, 2)
        assert lake.plain() == Counter([C]) == lake.plain_by_listing()

    def test_a_table_that_was_empty_is_not_dropped_as_one_when_rows_come_just_then(self) -> None:
        lake = Lake()
        table = racing(lake, lambda: lake.append(A))
        with pytest.raises(bs.Conflict, match="has rows at version 2, and it was to be dropped"):
            drop_table(table.log, table.world, empty=True)
        assert lake.plain() == Counter([A])
        empty = Lake()
        assert drop_table(empty.open(empty.bucket).log, empty.world, empty=True) == 2

    def test_an_append_whose_mark_cannot_be_placed_is_not_reported_as_refused(self) -> None:
        lake = Lake()
        faulty = FaultyBucket(lake.bucket)

        def interfere(call: object) -> None:
            key = getattr(call, "key", "")
            if getattr(call, "writes", False) and key.startswith("index/0"):
                faulty.before.remove(interfere)
                drop(lake)

        def fail(call: object) -> None:
            if "deletion-mark" in getattr(call, "key", ""):
                raise Unavailable("no response")

        faulty.before += [interfere, fail]
        with pytest.raises(bs.Indeterminate, match="could not be marked") as error:
            lake.open(faulty).append(table_of([B]))
        assert error.value.ulid is not None
        assert not is_there(lake.bucket, deletion_mark_key(error.value.ulid))

    def test_an_append_that_was_left_to_its_age_waits_for_the_undrop(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.append(B, publish=False)
        drop(lake)
        later(lake, 1)
        assert lake_state(lake).blocks.table().num_rows == 1
        undrop(lake)
        later(lake, 1)
        assert lake.plain() == Counter([A, B])

    def test_an_append_that_was_left_to_its_age_never_reaches_the_next_table(self) -> None:
        lake = Lake()
        lake.append(B, publish=False)
        drop(lake)
        create(lake)
        later(lake, 2)
        assert lake.plain() == Counter() == lake.plain_by_listing()

    def test_a_block_of_the_next_table_is_discovered(self) -> None:
        lake = Lake()
        drop(lake)
        create(lake)
        lake.append(B, publish=False)
        later(lake, 2)
        assert lake.plain() == Counter([B])

    @pytest.mark.parametrize("made", [by_key, by_id])
    def test_a_merge_planned_before_a_drop_is_right_after_the_undrop(
        self, made: Callable[[], Table], tmp_path: Path
    ) -> None:
        """The table that comes back is the very one that was read: its blocks, its tombstones."""
        table = made()
        fill(table)
        before = seen_rows(table)

        def drop_and_back() -> None:
            drop_table(again(table).log, table.world)
            undrop_table(again_dropped(table).log, table.world)

        merged(table, drop_and_back, tmp_path)
        assert seen_rows(again(table)) == before
        assert any(entry.operation == "compact" for entry in again(table).history())

    @pytest.mark.parametrize("made", [by_key, by_id])
    def test_a_merge_is_not_committed_on_a_dropped_table(
        self, made: Callable[[], Table], tmp_path: Path
    ) -> None:
        table = made()
        fill(table)
        before = seen_rows(table)
        merged(table, lambda: drop_table(again_dropped(table).log, table.world), tmp_path)
        state = again_dropped(table).log.state
        assert state.dropped is not None
        undrop_table(again_dropped(table).log, table.world)
        assert seen_rows(again(table)) == before
        assert all(entry.operation != "compact" for entry in again(table).history())
        merged(table, lambda: None, tmp_path)
        assert seen_rows(again(table)) == before

    def test_an_update_that_read_before_a_drop_and_an_undrop_is_planned_again(self) -> None:
        table = by_id()
        table.append(pa.table({"name": ["a"], "n": [1]}))
        faulty = FaultyBucket(table.bucket)
        done: list[int] = []

        def interfere(call: object) -> None:
            key = getattr(call, "key", "")
            if getattr(call, "writes", False) and key.startswith("index/0") and not done:
                done.append(1)
                drop_table(again(table).log, table.world)
                undrop_table(again_dropped(table).log, table.world)

        faulty.before.append(interfere)
        Table.open_bucket(faulty, table.world).update({"n": 2}, where="n = 1")
        assert done
        assert seen_rows(again(table), "name", "n") == [{"name": "a", "n": 2}]


def fill(table: Table) -> None:
    if table.definition.identity is not None and "id" in table.definition.schema.names:
        table.upsert(rows_of(*({"id": key, "name": "a", "n": key} for key in range(4))))
        table.upsert(rows_of({"id": 1, "name": "b", "n": 1}))
        table.delete_rows([2])
    else:
        table.append(pa.table({"name": ["a"] * 4, "n": list(range(4))}))
        table.update({"name": "b"}, where="n = 1")
        table.delete_rows([2])


def merged(table: Table, meanwhile: Callable[[], object], work_dir: Path) -> None:
    """One run of the compactor; ``meanwhile`` happens just before its first entry."""
    faulty = FaultyBucket(table.bucket)
    left = [meanwhile]

    def interfere(call: object) -> None:
        written = getattr(call, "writes", False) and getattr(call, "key", "").startswith("index/0")
        if written and left:
            left.pop()()

    faulty.before.append(interfere)
    settings = Settings(tier_blocks=2, work_dir=work_dir)
    compact_once(Table.open_bucket(faulty, table.world), settings)
    assert not left, "the compactor wrote an entry"


def again_dropped(table: Table) -> Table:
    return Table.open_bucket(table.bucket, table.world, dropped=True)


def later(lake: Lake, days: float) -> None:
    """So much time with a cleaning pass every six hours."""
    from blockstore.compactor.by_hand import clean_once

    for _ in range(int(days * 4)):
        lake.world.clock.sleep(DAY_S / 4)
        clean_once(Table.open_bucket(lake.bucket, lake.world, dropped=True))


def some(every: Iterable[Schedule]) -> list[Schedule]:
    """Every seventh: all of them take half a minute."""
    return list(every)[::7]


class TestRaces:
    def test_of_two_drops_one_is_done(self) -> None:
        template = Lake()
        template.append(A)
        length = len(requests_of(template.copy(1).bucket, lambda bucket: drop(template, bucket)))
        outcomes = Counter[str]()
        for schedule in some(schedules(("one", length), ("two", length), 2, alike=True)):
            lake = template.copy(1)
            actors = {
                name: lambda bucket, seed=seed: drop(template.copy_handle(seed), bucket)
                for seed, name in enumerate(("one", "two"), 5)
            }
            found = interleave(lake.bucket, actors, schedule)
            errors = [one for one in found.values() if isinstance(one, BaseException)]
            assert [type(one) for one in errors] == [bs.TableDropped], schedule
            assert lake_state(lake).version == 3
            outcomes["one" if isinstance(found["two"], BaseException) else "two"] += 1
        assert set(outcomes) == {"one", "two"}

    def test_of_an_undrop_and_a_create_one_is_done(self) -> None:
        template = Lake()
        template.append(A)
        drop(template)
        lengths = [
            len(requests_of(template.copy(1).bucket, lambda bucket, act=act: act(template, bucket)))
            for act in (undrop, create)
        ]
        outcomes = Counter[str]()
        for schedule in some(schedules(("undrop", lengths[0]), ("create", lengths[1]), 2)):
            lake = template.copy(1)
            actors: dict[str, Callable[[Bucket], object]] = {
                "undrop": lambda bucket: undrop(template.copy_handle(5), bucket),
                "create": lambda bucket: create(template.copy_handle(6), bucket),
            }
            found = interleave(lake.bucket, actors, schedule)
            lost = [name for name, one in found.items() if isinstance(one, BaseException)]
            assert len(lost) == 1, (schedule, found)
            assert isinstance(found[lost[0]], bs.Conflict), found
            rows = Counter() if lost == ["undrop"] else Counter([A])
            assert lake.plain() == rows
            outcomes[lost[0]] += 1
        assert set(outcomes) == {"undrop", "create"}

    def test_of_an_append_and_a_drop_with_an_undrop_the_answer_says_what_is_seen(self) -> None:
        template = Lake()
        template.append(A)

        def append(bucket: Bucket) -> object:
            handle = template.copy_handle(5)
            return handle.open(bucket).append(table_of([B]))

        def drop_and_back(bucket: Bucket) -> object:
            handle = template.copy_handle(6)
            drop(handle, bucket)
            return undrop(handle, bucket)

        lengths = [
            len(requests_of(template.copy(1).bucket, act)) for act in (append, drop_and_back)
        ]
        outcomes = Counter[str]()
        for schedule in some(schedules(("append", lengths[0]), ("drop", lengths[1]), 2)):
            lake = template.copy(1)
            found = interleave(lake.bucket, {"append": append, "drop": drop_and_back}, schedule)
            error = found["append"] if isinstance(found["append"], BaseException) else None
            assert isinstance(error, bs.TableDropped | None), (schedule, found)
            assert not isinstance(found["drop"], BaseException), (schedule, found)
            assert lake.plain() == Counter([A] if error else [A, B]), schedule
            outcomes["refused" if error else "done"] += 1
        assert set(outcomes) == {"refused", "done"}


FAULTS = ("kill_before", "kill_after", "lose_answer")
STEPS: dict[str, tuple[Callable[[Lake, Bucket], object], bool, tuple[str, ...]]] = {
    "drop": (drop, False, ("here", "dropped")),
    "undrop": (undrop, True, ("dropped", "here")),
    "create": (create, True, ("dropped", "empty")),
}


def status(lake: Lake) -> str:
    state = lake_state(lake)
    if state.dropped is not None:
        return "dropped"
    return "here" if lake.plain() == Counter([A, B]) else "empty"


@pytest.mark.parametrize("name", list(STEPS))
@pytest.mark.parametrize("fault", FAULTS)
def test_killed_anywhere_it_is_done_completely_or_not_at_all(name: str, fault: str) -> None:
    act, begins_dropped, (before, after) = STEPS[name]
    template = Lake()
    template.append(A)
    template.append(B)
    template.open().tag("kept")
    if begins_dropped:
        drop(template)
    calm = FaultyBucket(template.copy(1).bucket)
    act(template, calm)
    seen = Counter[str]()
    calls = calm.writes if fault != "lose_answer" else calm.calls
    for call in calls:
        lake = template.copy(1)
        faults = {fault: [call.number] if fault == "lose_answer" else call.number}
        faulty = FaultyBucket(lake.bucket, **faults)  # type: ignore[arg-type]
        answered = True
        try:
            act(lake, faulty)
        except (Killed, bs.Unavailable, bs.Indeterminate):
            answered = False
        now = status(lake)
        assert now in (before, after)
        assert now == after or not answered, call
        seen[now] += 1
        if now == before:
            act(lake, lake.bucket)
        assert status(lake) == after
        tally(f"{name} killed or unanswered")
    assert (after in seen) == (fault != "kill_before")


def test_a_bucket_of_an_earlier_release_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that does not know the feature must not show a dropped table."""
    from blockstore.format import features

    lake = Lake()
    drop(lake)
    monkeypatch.setattr(features, "KNOWN", features.KNOWN - {"drop"})
    with pytest.raises(bs.NewerFormat, match="'drop', which this release does not know"):
        Log(lake.bucket, World.manual(seed=3)).poll()


def test_memory_buckets_share_nothing() -> None:
    """The copies in these tests are tables of their own."""
    lake = Lake()
    other = lake.copy(1)
    drop(lake)
    assert isinstance(other.bucket, MemoryBucket)
    assert other.plain() == Counter[Row]()
