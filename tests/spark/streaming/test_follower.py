"""Following a table: every row once and in order, with merges, limits and restarts in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.care.marks import Marker
from blockstore.errors import Conflict, NotFound, TableDropped, VersionExpired
from blockstore.format import BlockMeta
from blockstore.format.meta import load_meta
from blockstore.index import log as index_log
from blockstore.index.change import Append
from blockstore.index.log import Log
from blockstore.operations.drop import drop_table, undrop_table
from blockstore.spark.streaming.follower import NO_LIMIT, Follower, Limit
from blockstore.spark.streaming.options import Start, StreamStart
from blockstore.spark.streaming.position import Position
from blockstore.table import Table
from tests.spark.streaming.tables import Followed
from tests.support.faulty import FaultyBucket

quick = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("merge"), st.just(0)),
        st.tuples(st.just("tag"), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 3)),
        st.tuples(st.just("again"), st.integers(0, 3)),
    ),
    max_size=8,
)


def follower(at: Followed, *, ignores: bool = False) -> Follower:
    return Follower(at.open().log, ignores_removal=ignores)


def begun(at: Followed, kind: Start = Start.SNAPSHOT, when: int = 0) -> Position:
    table = at.open()
    return Follower(table.log).begin(StreamStart(kind=kind, at=when), table.log.state.version)


def newest(at: Followed) -> int:
    return at.open().log.state.version


@quick
@given(
    before=st.integers(0, 3), steps=STEPS, start=st.sampled_from([Start.SNAPSHOT, Start.EARLIEST])
)
def test_every_row_comes_once_and_in_order(
    tmp_path: Path, before: int, steps: list[tuple[str, int]], start: Start
) -> None:
    at = Followed(tmp_path)
    for _ in range(before):
        at.append()
    place = begun(at, start)
    found: list[int] = []

    def read(limit: int, *, again: bool) -> None:
        nonlocal place
        bound = Limit(blocks=limit) if limit else NO_LIMIT
        window = follower(at).window(place, newest(at), bound)
        assert not limit or len(window.blocks) <= limit
        rows = at.ids(window)
        if again:
            # A crash after the plan: more happens to the table, and a new process plans the same
            # batch.
            at.append()
            at.merge()
            repeated = follower(at).between(
                Position.from_json(place.to_json()), Position.from_json(window.end.to_json())
            )
            assert at.ids(repeated) == rows
        found.extend(rows)
        place = window.end

    for number, (step, value) in enumerate(steps):
        if step == "append":
            at.append(value)
        elif step == "merge":
            at.merge()
        elif step == "tag":
            at.open().tag(f"t{number}")
        else:
            read(value, again=step == "again")
    ended = False
    while not ended:
        before_it = place
        read(1, again=False)
        ended = place == before_it
    assert sorted(found) == at.written
    assert begun(at) == replace(place, snapshot=True), (
        "in the end it is where a new stream would begin"
    )


def test_a_limit_of_bytes_takes_at_least_one_block(tmp_path: Path) -> None:
    at = Followed(tmp_path)
    for _ in range(3):
        at.append(10)
    window = follower(at).window(Position(version=0), newest(at), Limit(bytes=1))
    assert at.ids(window) == list(range(10))
    size = window.blocks[0].meta.bytes
    window = follower(at).window(window.end, newest(at), Limit(bytes=3 * size))
    assert at.ids(window) == list(range(10, 30))


def test_a_version_of_many_blocks_is_read_in_parts(tmp_path: Path) -> None:
    at = Followed(tmp_path)
    table = at.open()
    for n in range(5):
        table.append(pa.table({"id": [n]}), publish=False)
    table.log.commit(Append(commit=at.world.ids.ulid(), blocks=tuple(_listed(at))))
    place, sizes = Position(version=1), []
    while True:
        window = follower(at).window(place, newest(at), Limit(blocks=2))
        if window.end == place:
            break
        sizes.append(len(window.blocks))
        assert at.ids(follower(at).between(place, window.end)) == at.ids(window)
        place = window.end
    assert sizes == [2, 2, 1]
    assert place.version == 2
    whole = follower(at).between(Position(version=1, blocks=1), Position(version=1, blocks=4))
    assert len(whole.blocks) == 3


def _listed(at: Followed) -> list[BlockMeta]:
    ulids = sorted(
        {one.key.partition("/")[0] for one in at.bucket.list("") if one.key.endswith("meta.json")}
    )
    return [load_meta(at.bucket, ulid) for ulid in ulids]


def test_what_came_before_a_removal_is_delivered_and_then_the_stream_stops(tmp_path: Path) -> None:
    at = Followed(tmp_path)
    at.append(2)
    at.append(2)
    at.open().delete("id = 0")
    at.append(1)
    first = follower(at).window(Position(version=0), newest(at))
    assert at.ids(first) == [0, 1, 2, 3]
    with pytest.raises(Conflict, match=r"version 4 .*\(delete\).*option\('on_removal', 'ignore'\)"):
        follower(at).window(first.end, newest(at))
    rest = follower(at, ignores=True).window(first.end, newest(at))
    assert at.ids(rest) == [4]
    with pytest.raises(Conflict):
        follower(at).between(first.end, rest.end)


def test_a_stream_begins_at_its_start(tmp_path: Path) -> None:
    at = Followed(tmp_path)
    at.append()
    at.collect(hours=1)
    time = at.world.clock.now_ms()
    second = at.append()
    at.append()

    def ids(kind: Start, when: int = 0) -> list[int]:
        return at.ids(follower(at).window(begun(at, kind, when), newest(at)))

    assert sorted(ids(Start.SNAPSHOT)) == [0, 1, 2]
    assert ids(Start.EARLIEST) == [0, 1, 2]
    assert ids(Start.LATEST) == []
    assert ids(Start.VERSION, second) == [1, 2]
    assert ids(Start.VERSION, newest(at) + 1) == []
    assert ids(Start.TIME, time) == [1, 2]
    assert ids(Start.TIME, 0) == [0, 1, 2]
    with pytest.raises(NotFound, match="does not have version 9"):
        begun(at, Start.VERSION, 9)


def test_earliest_is_all_that_is_left_where_versions_were_collected(tmp_path: Path) -> None:
    at = Followed(tmp_path)
    for _ in range(3):
        at.append()
    at.merge()
    at.append()
    assert at.collect() == newest(at) - 1
    at.append()
    window = follower(at).window(begun(at, Start.EARLIEST), newest(at))
    assert sorted(at.ids(window)) == [0, 1, 2, 3, 4]


def test_a_stream_that_paused_too_long_gets_an_error_with_the_remedy(tmp_path: Path) -> None:
    at = Followed(tmp_path)
    at.append()
    place = follower(at).window(begun(at), newest(at)).end
    at.append()
    at.append()
    boundary = at.collect()
    assert boundary > place.version
    for ask in (
        lambda: follower(at).window(place, newest(at)),
        lambda: follower(at).between(place, Position(version=newest(at))),
    ):
        with pytest.raises(
            VersionExpired, match=rf"oldest version left is {boundary + 1}.*new checkpoint location"
        ):
            ask()
    with pytest.raises(VersionExpired):
        begun(at, Start.VERSION, 2)
    with pytest.raises(VersionExpired):
        follower(at).window(Position(version=2, snapshot=True), newest(at))


def test_a_stream_that_has_read_everything_goes_on_however_much_was_collected(
    tmp_path: Path,
) -> None:
    at = Followed(tmp_path)
    at.append()
    at.append()
    place = follower(at).window(begun(at), newest(at)).end
    at.collect()
    assert follower(at).window(place, newest(at)).end == place
    at.append()
    assert at.ids(follower(at).window(place, newest(at))) == [2]


@pytest.mark.parametrize("appends", [1, 5])
def test_a_table_that_was_created_again_is_not_taken_for_the_old_one(
    tmp_path: Path, appends: int
) -> None:
    at = Followed(tmp_path)
    at.append()
    at.append()
    place = follower(at).window(begun(at), newest(at)).end
    at.remake()
    for _ in range(appends):
        at.append()
    for known in (place, replace(place, snapshot=True)):
        with pytest.raises(Conflict, match=r"created again or restored.*new checkpoint location"):
            follower(at).window(known, newest(at))
        with pytest.raises(Conflict, match="created again or restored"):
            follower(at).between(known, replace(place, version=newest(at)))


@pytest.mark.parametrize("appends", [3, 4])
def test_a_table_that_is_created_again_under_a_waiting_stream_is_not_followed(
    tmp_path: Path, appends: int
) -> None:
    at = Followed(tmp_path)
    at.append()
    at.append()
    table = at.open()
    waits = Follower(table.log)
    place = waits.begin(StreamStart(kind=Start.LATEST), table.log.poll().version)
    assert waits.window(place, table.log.poll().version).end == place
    at.remake()
    for _ in range(appends):
        at.append()
    with pytest.raises(Conflict, match=r"created again or restored.*new checkpoint location"):
        waits.window(place, waits.newest())


def test_a_batch_from_before_the_first_version_is_not_planned_again_from_a_table_created_again(
    tmp_path: Path,
) -> None:
    at = Followed(tmp_path)
    at.append()
    at.append()
    end = follower(at).window(Position(version=0), newest(at)).end
    at.remake()
    for _ in range(3):
        at.append()
    with pytest.raises(Conflict, match=r"created again or restored.*new checkpoint location"):
        follower(at).between(Position(version=0), end)


def test_a_stream_that_waits_asks_nothing_but_what_the_newest_version_is(tmp_path: Path) -> None:
    at = Followed(tmp_path)
    at.append()
    bucket = FaultyBucket(at.bucket)
    waits = Follower(Table.open_bucket(bucket, at.world).log)
    place = waits.window(begun(at), newest(at)).end
    assert waits.window(place, place.version).end == place
    found = len(bucket.calls)
    assert waits.window(place, place.version).end == place
    assert len(bucket.calls) == found


def test_a_condition_on_a_label_that_only_some_blocks_bear_stops_nothing(tmp_path: Path) -> None:
    at = Followed(tmp_path)
    at.append()
    at.append(labels={"cluster": "eu1"})
    at.append(labels={"cluster": "us1"})
    window = follower(at).window(Position(version=0), newest(at))
    assert at.ids(window, ("cluster",), "cluster = 'eu1'") == [1]
    assert at.ids(window, ("cluster",), "cluster IS NULL") == [0]


def test_a_waiting_stream_detects_that_its_table_was_created_again(tmp_path: Path) -> None:
    """Also while the new table has fewer versions than the stream has read of the old one."""
    at = Followed(tmp_path)
    for _ in range(5):
        at.append()
    table = at.open()
    waits = Follower(table.log, clock=at.world.clock)
    place = waits.begin(StreamStart(kind=Start.LATEST), table.log.poll().version)
    assert waits.window(place, table.log.poll().version).end == place
    at.remake()
    at.append()
    at.world.clock.sleep(3_600)
    with pytest.raises(Conflict, match="created again"):
        waits.window(place, table.log.poll().version)


def test_a_table_created_again_is_detected_with_its_boundary_at_the_streams_version(
    tmp_path: Path,
) -> None:
    at = Followed(tmp_path)
    at.append()
    at.append()
    place = begun(at, Start.LATEST)
    at.remake()
    for _ in range(3):
        at.append()
    assert at.collect() == place.version == 3
    at.append()
    with pytest.raises(Conflict, match="created again"):
        follower(at).window(place, newest(at))


def test_a_first_batch_from_the_earliest_version_is_planned_again_after_the_index_was_collected(
    tmp_path: Path,
) -> None:
    at = Followed(tmp_path)
    for _ in range(6):
        at.append()
        at.collect(hours=30)
    table = at.open()
    first = Follower(table.log, clock=at.world.clock)
    begins = first.begin(StreamStart(kind=Start.EARLIEST), table.log.poll().version)
    planned = first.window(begins, table.log.poll().version)
    rows = sorted(at.ids(planned))
    assert rows == at.written
    at.append()
    at.collect(hours=20)  # within history_retention of the plan
    assert sorted(at.ids(follower(at).between(begins, planned.end))) == rows


def test_a_block_that_a_person_takes_out_stops_the_stream(tmp_path: Path) -> None:
    at = Followed(tmp_path)
    at.append()
    at.append()
    table = at.open()
    place = follower(at).window(Position(version=0), newest(at)).end
    marker = Marker(
        bucket=table.bucket,
        world=at.world,
        log=table.log,
        properties=table.definition.properties,
        catalog=table.catalog,
    )
    marker.delete(table.log.poll().blocks.ulids()[0], "a bad upload")
    at.append()
    with pytest.raises(Conflict, match="removes or changes rows"):
        follower(at).window(place, newest(at))


def test_a_dropped_table_ends_its_stream_which_goes_on_after_an_undrop(tmp_path: Path) -> None:
    at = Followed(tmp_path)
    at.append()
    following = follower(at)
    place = following.window(begun(at), newest(at)).end
    drop_table(at.open().log, at.world)
    with pytest.raises(TableDropped):
        following.newest()
    undrop_table(Log(at.bucket, at.world), at.world)
    at.append()
    assert following.newest() == 5
    found = following.window(place, 5)
    assert (len(found.blocks), found.end.version) == (1, 5)


def test_a_time_at_which_the_table_was_dropped_begins_with_what_came_after_it(
    tmp_path: Path,
) -> None:
    at = Followed(tmp_path)
    at.append()
    at.world.clock.sleep(1)
    drop_table(at.open().log, at.world)
    at.world.clock.sleep(1)
    when = at.world.clock.now_ms()
    at.world.clock.sleep(1)
    undrop_table(Log(at.bucket, at.world), at.world)
    at.append()
    start = begun(at, Start.TIME, when)
    assert (start.version, start.snapshot) == (3, False)
    assert [block.version for block in follower(at).window(start, newest(at)).blocks] == [5]


def test_the_earliest_snapshot_may_be_of_a_version_in_which_the_table_was_dropped(
    tmp_path: Path,
) -> None:
    at = Followed(tmp_path)
    at.append()
    drop_table(at.open().log, at.world)
    at.world.clock.sleep(30 * 3600)
    undrop_table(Log(at.bucket, at.world), at.world)
    at.append()
    start = begun(at, Start.EARLIEST)
    assert (start.version, start.snapshot) == (3, True)
    found = follower(at).window(start, newest(at))
    assert [block.version for block in found.blocks] == [2, 5]


def test_a_table_that_is_created_where_one_was_dropped_is_not_followed(tmp_path: Path) -> None:
    at = Followed(tmp_path)
    at.append()
    running = follower(at)
    place = running.window(begun(at), newest(at)).end
    definition = at.open().definition
    drop_table(at.open().log, at.world)
    index_log.create(at.bucket, at.world, definition)
    at.append()
    with pytest.raises(Conflict, match="created again or restored"):
        running.newest()
    for ignores in (False, True):
        with pytest.raises(Conflict, match="created in version 4, after a drop"):
            follower(at, ignores=ignores).window(place, newest(at))
    earliest = follower(at).window(begun(at, Start.EARLIEST), newest(at))
    assert [block.version for block in earliest.blocks] == [5]
