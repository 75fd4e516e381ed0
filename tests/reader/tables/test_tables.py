"""Tables kept fresh: what a poll costs, what is answered when the store fails, and that no two
tables are ever mixed."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.errors import (
    AccessDenied,
    Corrupt,
    Invalid,
    NotFound,
    Unavailable,
    VersionExpired,
)
from blockstore.format.block import BlockMeta
from blockstore.format.meta import from_dict
from blockstore.index import rows
from blockstore.names import BOUNDARY
from blockstore.operations.drop import drop, undrop
from blockstore.reader.errors import Stale, UnknownTable
from blockstore.reader.tables import At, Polling, Tables, TableState
from blockstore.reader.tables.at import at_of_each
from blockstore.reader.tables.decode_budget import DecodeBudget
from blockstore.scan.snapshot import Snapshot
from blockstore.table import open as open_table
from tests.reader.tables.lakes import Scene
from tests.support.faulty import Call


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(f"{tmp_path}/lake")


def test_a_poll_that_finds_nothing_new_is_two_small_requests(scene: Scene) -> None:
    scene.create("t", [1, 2])
    assert scene.values("t") == [1, 2]
    for _ in range(4):
        scene.advance(20)
        before = scene.requests()
        scene.tables.poll_now("t")
        assert scene.requests() - before == 2


def test_what_another_process_appends_is_seen_at_the_next_poll(scene: Scene) -> None:
    table = scene.create("t", [1])
    assert scene.values("t") == [1]
    scene.append(table, 2)
    assert scene.values("t") == [1]
    scene.advance(17)
    scene.settle()
    assert scene.values("t") == [1, 2]


def test_a_snapshot_that_someone_holds_stays(scene: Scene) -> None:
    table = scene.create("t", [1])
    held = scene.tables.snapshot("t")
    scene.append(table, 2)
    scene.tables.poll_now()
    assert held.count() == 1
    assert scene.tables.snapshot("t").count() == 2


def test_blocks_are_decoded_by_the_poll_and_not_by_the_first_query(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = scene.create("t", range(70))
    decoded: list[object] = []

    def counted(*positional: object, **named: object) -> BlockMeta:
        decoded.append(positional)
        return from_dict(*positional, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(rows, "from_dict", counted)
    cold = open_table(table.bucket.url, world=scene.world).snapshot()
    assert not decoded
    cold.scan().to_table()
    assert len(decoded) >= 60, "without a poll, the first query decodes what the checkpoint holds"
    decoded.clear()
    scene.tables.poll_now()
    assert len(decoded) >= 60
    decoded.clear()
    assert scene.values("t") == list(range(70))
    assert not decoded


def test_a_place_without_a_table_is_reported_once_and_looked_at_again(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    def reported() -> list[str]:
        return [one.getMessage() for one in caplog.records if "no table" in one.getMessage()]

    for _ in range(3):
        scene.settle()
        scene.advance(20)
    (said,) = reported()
    assert scene.bucket.url in said
    assert scene.tables.ready, "it may come later"
    scene.create("t", [1])
    for _ in range(3):
        scene.advance(20)
        scene.settle()
    assert scene.tables.names() == ("t",)
    assert len(reported()) == 1


def test_tables_appear_and_vanish(scene: Scene) -> None:
    scene.create("a", [1])
    scene.settle()
    assert scene.tables.names() == ("a",)
    scene.create("b", [2])
    scene.bucket.put("notes/readme.txt", b"no table")
    scene.advance(20)
    scene.settle()
    assert scene.tables.names() == ("a", "b")
    assert scene.values("b") == [2]
    scene.drop("a")
    scene.advance(20)
    scene.settle()
    assert scene.tables.names() == ("b",)
    with pytest.raises(UnknownTable):
        scene.tables.snapshot("a")


def test_a_folder_that_may_not_be_looked_into_takes_no_table_away(scene: Scene) -> None:
    def refuse(call: Call) -> None:
        if call.key.startswith("private/"):
            raise AccessDenied("private: permission denied")

    scene.create("a", [1])
    scene.bucket.put("private/file.txt", b"somebody's")
    scene.faulty[0].before.append(refuse)
    scene.settle()
    assert scene.values("a") == [1]
    scene.create("b", [2])
    scene.advance(20)
    scene.settle()
    assert scene.values("b") == [2]
    assert scene.tables.names() == ("a", "b", "private")
    with pytest.raises(AccessDenied, match="private: permission denied"):
        scene.tables.snapshot("private")


def test_a_table_that_came_just_now_is_found_when_it_is_asked_for(scene: Scene) -> None:
    scene.create("a", [1])
    scene.settle()
    scene.create("b", [2])
    scene.advance(2)
    assert scene.values("b") == [2]


def test_a_folder_that_is_no_table_costs_less_and_less(scene: Scene) -> None:
    scene.create("a", [1])
    scene.bucket.put("notes/readme.txt", b"no table")
    costs = []
    for _ in range(8):
        scene.settle()
        scene.values("a")
        scene.advance(20)
        before = scene.requests()
        scene.settle()
        costs.append(scene.requests() - before)
    # A listing and two requests of the table; now and then a look at the folder.
    assert costs.count(3) >= 4


@pytest.mark.parametrize("more", [0, 1, 2, 5])
def test_a_table_created_again_under_its_name_is_never_mixed_with_the_old(
    scene: Scene, more: int
) -> None:
    scene.create("t", [1, 2, 3])
    assert scene.values("t") == [1, 2, 3]
    scene.drop("t")
    scene.create("t", range(100, 101 + more))
    new = list(range(100, 101 + more))
    scene.advance(20)
    scene.settle()
    assert scene.values_if_there("t") in ([1, 2, 3], new)
    scene.advance(20)
    scene.settle()
    assert scene.values("t") == new
    assert scene.tables.table("t").history() is not None


@pytest.mark.parametrize("entry", [2, 3])
def test_an_earlier_version_is_never_that_of_a_table_created_again(
    scene: Scene, entry: int
) -> None:
    scene.create("t", [1, 2, 3])
    scene.settle()
    scene.drop("t")
    scene.create("t", [100, 101, 102, 103])
    found = scene.tables.snapshot("t", At(version=entry)).scan().to_table()["n"].to_pylist()
    assert sorted(found) == list(range(100, 99 + entry))


def test_the_handle_for_history_is_that_of_the_present_table(scene: Scene) -> None:
    scene.create("t", [1, 2, 3])
    scene.settle()
    scene.drop("t")
    scene.create("t", [100])
    assert [entry.operation for entry in scene.tables.table("t").history()] == ["create", "append"]


def test_the_handle_knows_the_columns_and_the_tags_of_its_snapshot(scene: Scene) -> None:
    table = scene.create("t", [1])
    handle = scene.tables.table("t")
    table.alter(add=[pa.field("later", pa.string())])
    table.tag("good")
    scene.tables.poll_now("t")
    assert scene.tables.table("t") is handle
    assert "later" in handle.definition.schema.names
    assert handle.log.state.tags == {"good": 3}


def test_a_table_that_breaks_is_degraded_and_the_others_go_on(scene: Scene) -> None:
    good, _ = scene.create("good", [1]), scene.create("bad", [2])
    scene.settle()
    assert scene.values("bad") == [2]
    scene.bucket.put(f"bad/{BOUNDARY}", b"garbage")
    scene.bucket.put("ugly/index/00000000000000000001.json", b"{}")
    scene.append(good, 3)
    for _ in range(3):
        scene.advance(20)
        scene.settle()
    views = {view.name: view for view in scene.tables.views()}
    assert views["good"].state is TableState.READY
    assert views["bad"].state is TableState.DEGRADED
    assert "garbage" in (views["bad"].reason or "")
    assert views["ugly"].state is TableState.DEGRADED
    assert scene.values("good") == [1, 3]
    # Young enough to be answered from, and it says how old.
    assert scene.values("bad") == [2]
    assert (views["bad"].staleness_s or 0) > 20
    assert scene.tables.halted is None


def test_past_max_staleness_queries_fail_and_say_why(scene: Scene) -> None:
    scene.create("t", [1])
    scene.settle()
    assert scene.values("t") == [1]
    breaks = [True]

    def refuse(call: Call) -> None:
        if breaks[0]:
            raise Unavailable("the store does not answer")

    scene.faulty[0].before.append(refuse)
    for _ in range(3):
        scene.advance(100)
        scene.settle()
    # Answered from the past while it is young, and the answer says so.
    assert scene.tables.snapshot("t").count() == 1
    assert scene.tables.view("t").state is TableState.DEGRADED
    scene.advance(400)
    scene.settle()
    with pytest.raises(Stale, match=r"max_staleness.*does not answer") as raised:
        scene.tables.snapshot("t")
    assert raised.value.retry_after_s >= 1
    assert scene.tables.view("t").state is TableState.STALE
    assert scene.tables.halted is not None
    breaks[0] = False
    scene.advance(130)
    scene.settle()
    assert scene.values("t") == [1]
    assert scene.tables.view("t").state is TableState.READY


def test_a_table_that_no_one_asks_for_is_polled_on_demand(scene: Scene) -> None:
    table = scene.create("t", [1])
    scene.settle()
    scene.advance(3700)
    scene.settle()
    scene.append(table, 2)
    before = scene.meters[0].counts["get"]
    for _ in range(5):
        scene.advance(20)
        scene.settle()
    assert scene.meters[0].counts["get"] == before
    assert scene.tables.views()[0].idle
    assert scene.values("t") == [1, 2]
    assert not scene.tables.views()[0].idle


def test_a_look_that_hangs_delays_no_query_that_can_be_served(scene: Scene) -> None:
    scene.create("t", [1])
    scene.create("u", [2])
    scene.settle()
    hanging, end = threading.Event(), threading.Event()

    def hang(call: Call) -> None:
        if call.key.startswith("t/index/"):
            hanging.set()
            end.wait(60)

    scene.faulty[0].before.append(hang)
    scene.advance(40)
    thread = threading.Thread(target=scene.tables.poll_now, args=("t",))
    thread.start()
    assert hanging.wait(60)
    assert scene.tables.snapshot("t").count() == 1
    assert scene.tables.snapshot("u").count() == 1
    end.set()
    thread.join(60)
    assert not thread.is_alive()


def test_failures_are_asked_about_less_and_less_often(scene: Scene) -> None:
    scene.create("t", [1])
    scene.settle()

    def refuse(call: Call) -> None:
        raise Unavailable("the store does not answer")

    scene.faulty[0].before.append(refuse)
    assert scene.values("t") == [1]
    for _ in range(40):
        scene.advance(15)
        scene.settle()
    # Ten minutes, at 15 s were 40 looks.
    assert 4 <= scene.tables.counts.failures <= 12


def test_a_url_may_be_one_table(tmp_path: Path) -> None:
    scene = Scene(f"{tmp_path}/lake")
    scene.create("t", [1])
    tables = Tables([f"{scene.url}/t"], world=scene.world)
    assert tables.snapshot("T").count() == 1
    assert tables.names() == ("t",)
    assert tables.folders() == [f"{tmp_path}/lake/t"]


def test_a_table_without_an_index_is_listed(tmp_path: Path) -> None:
    from blockstore.table import create
    from tests.reader.tables.lakes import SCHEMA

    scene = Scene(f"{tmp_path}/lake")
    table = create(
        f"{scene.url}/t",
        schema=SCHEMA,
        index=False,
        properties={"sync_delay": "0s"},
        world=scene.world,
    )
    scene.append(table, 1)
    scene.settle()
    scene.advance(3600)
    scene.settle()
    view = scene.tables.view("t")
    assert (view.state, view.version) == (TableState.READY, None)


def test_names_are_those_that_are_allowed_and_hidden_ones_do_not_exist(scene: Scene) -> None:
    scene.create("flights", [1])
    scene.create("flight_secrets", [2])
    scene.settle()
    allowed = frozenset({"flights"})
    assert scene.tables.names(allowed) == ("flights",)
    errors = []
    for name in ("flight_secrets", "flight_secretz"):
        with pytest.raises(UnknownTable) as raised:
            scene.tables.snapshot(name, allowed=allowed)
        assert raised.value.nearest == ("flights",)
        errors.append(str(raised.value).replace(name, "NAME"))
    assert errors[0] == errors[1]
    assert scene.tables.snapshot("FLIGHTS", allowed=allowed).count() == 1
    with pytest.raises(UnknownTable):
        # No letter of another alphabet is an l, a k or an s.
        scene.tables.snapshot("flight\u017f")


def test_versions_moments_and_tags(scene: Scene) -> None:
    table = scene.create("t", [1])
    scene.settle()
    scene.advance(1)
    moment = scene.world.clock.now_ms()
    scene.advance(1)
    scene.append(table, 2)
    table.tag("q1", version=2)
    assert scene.tables.snapshot("t", At(version=2)).count() == 1
    assert scene.tables.snapshot("t", At(version=3)).count() == 2
    assert scene.tables.snapshot("t", At(as_of=moment)).count() == 1
    assert scene.tables.snapshot("t", At(tag="q1")).version == 2
    with pytest.raises(NotFound, match=r"no tag 'q2'.*'q1'"):
        scene.tables.snapshot("t", At(tag="q2"))
    with pytest.raises(NotFound, match="no version 99"):
        scene.tables.snapshot("t", At(version=99))
    with pytest.raises(Invalid, match="one of version, as_of and tag"):
        At(version=1, tag="q1")
    assert scene.tables.view("t").tags == {"q1": 2}
    scene.create("u", [1])
    scene.tables.poll_now()
    with pytest.raises(Invalid, match="is for one table"):
        scene.tables.snapshots(["t", "u"], At(version=2))
    both = scene.tables.snapshots(["t", "u"], {"T": At(version=2)})
    assert (both["t"].count(), both["u"].count()) == (1, 1)


def test_versions_of_tables_whose_names_sql_tells_apart() -> None:
    """Only A to Z have a case there: a Kelvin sign is no k."""
    asked = {"k": At(version=2), "\N{KELVIN SIGN}": At(version=3)}
    assert at_of_each(asked, asked) == asked
    with pytest.raises(Invalid, match="does not name"):
        at_of_each(["k"], {"\N{KELVIN SIGN}": At(version=3)})


class TestOneInstant:
    """A writer that writes to ``first`` and then to ``second`` is never seen in ``second``
    alone."""

    def test_tables_that_are_joined_are_of_one_instant(self, scene: Scene) -> None:
        first, second = scene.create("first", [0]), scene.create("second", [0])
        scene.tables.poll_now()
        writing = [False]

        def between(call: Call) -> None:
            """Writes to both between two looks: the worst moment, after ``first`` was looked at."""
            if writing[0] and call.method == "get" and "second/index" in call.key:
                writing[0] = False
                scene.append(first, 1)
                scene.append(second, 1)

        scene.faulty[0].before.append(between)
        for _ in range(5):
            scene.advance(31)
            writing[0] = True
            found = scene.tables.snapshots(["first", "second"])
            assert found["first"].count() >= found["second"].count()
            assert not writing[0]

    def test_a_writer_that_never_rests_is_read_as_of_one_moment(self, scene: Scene) -> None:
        first, second = scene.create("first", [0]), scene.create("second", [0])
        scene.tables.poll_now()
        left = [0]

        def always(call: Call) -> None:
            """A write to both before every other look at the index."""
            if call.method == "get" and "index/" in call.key and left[0] > 0:
                left[0] -= 1
                if left[0] % 2:
                    scene.append(first, 1)
                    scene.advance(0.001)
                    scene.append(second, 1)
                    scene.advance(0.001)

        scene.faulty[0].before.append(always)
        for _ in range(3):
            scene.advance(31)
            left[0] = 60
            found = scene.tables.snapshots(["first", "second"])
            assert found["first"].count() - found["second"].count() in (0, 1)


def test_threads_keep_tables_fresh_until_they_are_stopped(tmp_path: Path) -> None:
    """Real threads and the real clock: a block of another writer is answered without anybody asking
    for a poll."""
    from blockstore.table import create
    from blockstore.world import World
    from tests.reader.tables.lakes import SCHEMA

    world = World.real()
    url = f"{tmp_path}/lake"
    table = create(f"{url}/t?durable=false", schema=SCHEMA, world=world)
    tables = Tables([url], world=world, polling=Polling(interval_s=0.05, max_staleness_s=60))
    others = set(threading.enumerate())
    tables.start()
    try:
        import pyarrow as pa

        assert tables.snapshot("t").count() == 0
        table.append(pa.table({"n": [1]}, schema=SCHEMA))
        deadline = world.clock.monotonic_s() + 60
        while world.clock.monotonic_s() < deadline:
            if tables.ready and tables.names() and tables.views()[0].rows == 1:
                break
            world.clock.sleep(0.01)
        assert tables.views()[0].rows == 1
    finally:
        tables.stop(60)
    left = set(threading.enumerate()) - others
    assert [thread for thread in left if thread.name.startswith("tables-")] == []


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"interval_s": 0}, "must be greater than zero"),
        ({"interval_s": 20.0, "max_staleness_s": 10.0}, "raise max_staleness"),
        ({"discovery": "both"}, "expected 'index' or 'list'"),
    ],
)
def test_polling_that_cannot_work_is_refused(keys: dict[str, object], says: str) -> None:
    with pytest.raises(Invalid, match=says):
        Polling(**keys)  # type: ignore[arg-type]


class TestDecodeBudget:
    """What is decoded before somebody asks."""

    def test_a_table_gives_back_what_it_held_and_takes_no_more_than_there_is(self) -> None:
        budget = DecodeBudget(most=10, most_of_one=8)
        assert not budget.swap(0, 9)
        assert budget.swap(0, 8)
        assert not budget.swap(0, 3)
        assert budget.swap(0, 2)
        assert not budget.swap(8, 9)
        assert budget.swap(0, 8)

    def test_tables_beyond_the_room_are_left_to_their_queries(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scene.tables, "_budget", DecodeBudget(most=1_000))
        prepared: list[int] = []
        monkeypatch.setattr(Snapshot, "prepare", lambda self: prepared.append(len(self)))
        scene.create("large", range(70))
        scene.create("other", range(60))
        scene.tables.poll_now()
        assert prepared == [70]
        scene.drop("large")
        scene.advance(20)
        scene.settle()
        scene.append(scene.tables.table("other"), 1)
        scene.tables.poll_now("other")
        assert prepared == [70, 61]

    def test_a_snapshot_that_cannot_be_prepared_is_held_all_the_same(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def damaged(_: Snapshot) -> None:
            raise Corrupt("a block of the checkpoint is no JSON")

        monkeypatch.setattr(Snapshot, "prepare", damaged)
        scene.create("t", [1, 2])
        assert scene.values("t") == [1, 2]


def test_a_dropped_table_is_not_served_and_its_lake_is_not_broken(scene: Scene) -> None:
    scene.create("t", [1, 2])
    assert scene.values("t") == [1, 2]
    url = f"{scene.url}/t"
    drop(url, world=scene.world)
    scene.advance(17)
    scene.settle()
    assert scene.tables.names() == ()
    assert scene.tables.halted is None
    with pytest.raises(UnknownTable):
        scene.tables.snapshot("t")
    assert scene.tables.bucket_of("T").url.endswith("/t")
    with pytest.raises(UnknownTable):
        scene.tables.bucket_of("t", allowed=["other"])
    undrop(url, world=scene.world)
    scene.advance(60)
    scene.settle()
    assert scene.values("t") == [1, 2]
    with pytest.raises(NotFound, match="was dropped at"):
        scene.tables.snapshot("t", At(version=4))


def test_a_table_that_is_created_where_one_was_dropped_is_served_without_its_past(
    scene: Scene,
) -> None:
    scene.create("t", [1, 2])
    assert scene.values("t") == [1, 2]
    drop(f"{scene.url}/t", world=scene.world)
    scene.create("t", [7])
    scene.advance(17)
    scene.settle()
    assert scene.values("t") == [7]
    with pytest.raises(VersionExpired, match="of a table that was dropped"):
        scene.tables.snapshot("t", At(version=2))
