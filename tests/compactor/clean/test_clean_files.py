"""Files that no row names go by mark and delay; a file that a row names, or will name, stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket, _Contents
from blockstore.care.finding import Check
from blockstore.care.verify import verify
from blockstore.clock import ManualClock
from blockstore.compactor.clean.cleaner import Cleaner, plan_cleaning
from blockstore.compactor.clean.files import CLOCKS_MS, Fate, fate_of, removal_steps
from blockstore.compactor.clean.report import CleaningReport
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError, Invalid
from blockstore.format.definition import Definition
from blockstore.format.file_handle import FileHandle
from blockstore.format.properties import Properties
from blockstore.ids import ulid_at
from blockstore.index import log as index_log
from blockstore.index.change import COMPACTOR
from blockstore.index.epochs import claim
from blockstore.index.gc import collect
from blockstore.index.log import Log
from blockstore.names import DELETION_MARK, FILE_RECORD, FILES, file_key, meta_key, split_file_key
from blockstore.operations.drop import drop_table
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket, Killed

START_MS = 1_700_000_000_000
DAY_S = 86_400.0
PER_S = 1e6
SCHEMA = bs.typed_schema([("name", "string"), bs.file("doc")])


@dataclass
class Lake:
    """One table with files, in memory, and its clock."""

    work_dir: Path
    options: dict[str, Any] = field(default_factory=lambda: {"row_ids": True})
    world: World = field(default_factory=lambda: World.manual(seed=1, now_ms=START_MS))
    bucket: MemoryBucket = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.bucket is None:
            self.bucket = MemoryBucket(self.world.clock)
            index_log.create(self.bucket, self.world, Definition.create(SCHEMA, **self.options))

    def copy(self) -> Lake:
        """The same table at the same moment, in a bucket and with a clock of its own."""
        clock = ManualClock(self.world.clock.now_ms())
        world = World.manual(seed=7, now_ms=clock.now_ms())
        contents = _Contents(dict(self.bucket._contents.objects), list(self.bucket._contents.keys))
        bucket = MemoryBucket(world.clock, contents=contents)
        return Lake(self.work_dir, self.options, world, bucket)

    def open(self, bucket: Bucket | None = None) -> Table:
        return Table.open_bucket(bucket or self.bucket, self.world)

    def sleep(self, days: float) -> None:
        self.world.clock.sleep(days * DAY_S)

    def put(self, data: bytes = b"data") -> FileHandle:
        return self.open().put_file(data, name="f")

    def append(self, *handles: FileHandle | None, bucket: Bucket | None = None) -> None:
        found = [{"name": "x", "doc": handle} for handle in handles]
        self.open(bucket).append(pa.Table.from_pylist(found, schema=SCHEMA))

    def clean(self, bucket: Bucket | None = None) -> CleaningReport:
        """One pass of a fresh compactor: claim, collect the index, clean."""
        table = self.open(bucket)
        held = claim(table.log, table.world, COMPACTOR)
        collect(table.log, table.world, held=held)
        return Cleaner(table, held, objects_per_s=PER_S).run()

    def compact(self) -> None:
        compact_once(self.open(), Settings(tier_blocks=2, work_dir=self.work_dir))

    def pass_days(self, days: float, step: float = 1) -> list[str]:
        """The files that went while so many days passed, with a pass every ``step`` days."""
        gone: list[str] = []
        for _ in range(int(days / step)):
            gone += self.clean().files.removed
            self.sleep(step)
        return gone

    def files(self) -> set[str]:
        """The ids of which some object is left."""
        places = [split_file_key(info.key) for info in self.bucket.list(FILES)]
        return {place[0] for place in places if place is not None}

    def marked(self) -> set[str]:
        return {
            info.key.split("/")[1]
            for info in self.bucket.list(FILES)
            if info.key.endswith(DELETION_MARK)
        }

    def check(self) -> None:
        """Every row of every kept version of a row has its file, byte for byte."""
        table = self.open()
        for handle in table.snapshot().scan().to_table()["doc"].to_pylist():
            if handle is not None:
                assert table.open_handle(handle).read() == b"data"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_a_file_that_no_row_names_goes_and_one_that_a_row_names_stays(lake: Lake) -> None:
    named, left = lake.put(), lake.put()
    lake.append(named)
    assert lake.pass_days(1.5) == []
    assert lake.marked() == set()
    assert lake.pass_days(7) == [left["id"]]
    assert lake.files() == {named["id"]}
    lake.check()
    assert lake.pass_days(5) == []


def test_what_a_dead_upload_left_goes_too(lake: Lake) -> None:
    faulty = FaultyBucket(lake.bucket, kill_after=1)
    with pytest.raises(Killed):
        lake.open(faulty).put_file(b"data", name="f")
    faulty = FaultyBucket(lake.bucket)
    table = lake.open(faulty)

    def die(call: Call) -> None:
        if call.key.endswith(FILE_RECORD):
            raise Killed(call)

    faulty.before.append(die)
    with pytest.raises(Killed):
        table.put_file(b"data", name="f")
    assert len(lake.files()) == 1
    lake.pass_days(8)
    assert lake.files() == set()


def test_an_entry_is_written_only_where_a_file_waits_for_the_horizon(lake: Lake) -> None:
    lake.append(lake.put())
    lake.pass_days(4)
    before = lake.open().poll()
    reports = [lake.clean() for _ in range(3)]
    assert lake.open().poll() == before + 3  # the claims
    assert [report.files.marked for report in reports] == [()] * 3


@pytest.mark.parametrize("history", ["forever", "none"])
def test_a_file_stays_as_long_as_a_version_of_a_row_is_kept(tmp_path: Path, history: str) -> None:
    given = Properties.parse({"row_history": history})
    lake = Lake(tmp_path, {"key": "name", "properties": given})
    first, second = lake.put(), lake.put()
    for handle in (first, second):
        lake.open().upsert(pa.Table.from_pylist([{"name": "x", "doc": handle}], schema=SCHEMA))
    for _ in range(8):
        lake.compact()
        lake.pass_days(2)
    lake.check()
    assert lake.files() == ({first["id"], second["id"]} if history == "forever" else {second["id"]})
    if history == "forever":
        version = lake.open().row_history("x")["_version"][1].as_py()
        assert lake.open().open_file("x", "doc", version=version).read() == b"data"


def test_a_file_stays_as_long_as_a_tag_names_a_version_with_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {})
    handle = lake.put()
    lake.append(handle)
    lake.open().tag("kept")
    lake.open().delete("true")
    assert lake.pass_days(12) == []
    found = lake.open().snapshot(tag="kept").scan().to_table()["doc"][0].as_py()
    assert lake.open().open_handle(found).read() == b"data"
    lake.open().untag("kept")
    assert lake.pass_days(12) == [handle["id"]]


@pytest.mark.parametrize("lost", ["meta.json", "all of it"])
@pytest.mark.parametrize("by", ["a tag", "an older version"])
def test_a_file_stays_where_a_block_that_is_still_named_is_lost(
    tmp_path: Path, by: str, lost: str
) -> None:
    lake = Lake(tmp_path, {"properties": Properties.parse({"history_retention": "20d"})})
    handle = lake.put()
    lake.append(handle)
    version = lake.open().poll()
    (block,) = lake.open().log.state.blocks.ulids()
    if by == "a tag":
        lake.open().tag("kept")
        lake.open().delete("true")
        lake.pass_days(30)
        assert lake.open().log.boundary.read() > version
    else:
        lake.open().delete("true")
    objects = [info.key for info in lake.bucket.list(f"{block}/")]
    gone = objects if lost == "all of it" else [meta_key(block)]
    saved = {key: lake.bucket.get(key).data for key in gone}
    lake.bucket.delete(gone)
    assert lake.pass_days(12) == []
    assert lake.marked() == set()
    why = lake.clean().files.undecided
    assert why is not None
    assert f"block {block}, which {'tag' if by == 'a tag' else 'version'} " in why
    for key, data in saved.items():
        lake.bucket.put(key, data)
    options = {"tag": "kept"} if by == "a tag" else {"version": version}
    found = lake.open().snapshot(**options).scan().to_table()["doc"][0].as_py()
    assert lake.open().open_handle(found).read() == b"data"
    if by == "a tag":
        lake.bucket.delete(gone)
        lake.open().untag("kept")
    assert handle["id"] in lake.pass_days(40)


def test_a_dropped_column_keeps_its_files_as_long_as_its_blocks(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {})
    handle = lake.put()
    lake.append(handle)
    version = lake.open().poll()
    lake.open().tag("before")
    lake.open().alter(drop=["doc"])
    assert lake.pass_days(10) == []
    assert lake.open().snapshot(version=version).scan().to_table()["doc"][0].as_py() == handle


def test_a_mark_on_a_file_that_a_row_names_is_withdrawn_at_once(lake: Lake) -> None:
    handle = lake.put()
    lake.append(handle)
    lake.bucket.put(file_key(handle["id"], DELETION_MARK), b"{}")
    assert lake.clean().files.withdrawn == (handle["id"],)
    assert lake.marked() == set()


def test_a_block_that_cannot_be_read_decides_nothing(lake: Lake) -> None:
    lake.append(lake.put())
    left = lake.put()
    lake.sleep(3)
    (block,) = lake.open().log.state.blocks.ulids()
    chunk = next(info.key for info in lake.bucket.list(f"{block}/chunks/"))
    data = lake.bucket.get(chunk).data
    lake.bucket.put(chunk, b"x" * len(data))
    report = lake.clean().files
    assert report.undecided is not None
    assert chunk in report.undecided
    assert lake.marked() == set()
    lake.bucket.put(chunk, data)
    assert lake.clean().files.marked == (left["id"],)


def test_a_block_whose_meta_is_damaged_decides_nothing(lake: Lake) -> None:
    lake.append(lake.put())
    lake.put()
    lake.sleep(3)
    block = ulid_at(START_MS + 5)
    lake.bucket.put(meta_key(block), b"{")
    report = lake.clean().files
    assert report.undecided is not None
    assert block in report.undecided
    assert lake.marked() == set()


def test_a_table_without_columns_of_files_costs_nothing(tmp_path: Path) -> None:
    world = World.manual(seed=1, now_ms=START_MS)
    bucket = MemoryBucket(world.clock)
    schema = pa.schema([("a", pa.int64())])
    Table(bucket, world, index_log.create(bucket, world, Definition.create(schema)))
    faulty = FaultyBucket(bucket)
    table = Table.open_bucket(faulty, world)
    table.append(pa.table({"a": [1]}))
    Cleaner(table, claim(table.log, world, COMPACTOR), objects_per_s=PER_S).run()
    assert [call for call in faulty.calls if call.key.startswith(FILES)] == []


@pytest.mark.parametrize("schema", [pa.schema([("v", pa.int64())]), SCHEMA])
def test_files_of_a_table_that_was_dropped_go_where_another_one_was_created(
    tmp_path: Path, schema: pa.Schema
) -> None:
    lake = Lake(tmp_path, {})
    handle = lake.put()
    lake.append(handle)
    drop_table(Log(lake.bucket, lake.world), lake.world)
    index_log.create(lake.bucket, lake.world, Definition.create(schema))
    assert lake.clean().due_s == 3600
    assert lake.pass_days(40) == [handle["id"]]
    assert lake.files() == set()


def test_files_of_a_dropped_table_stay_as_long_as_a_version_of_it_can_be_asked_for(
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path, {})
    handle = lake.put()
    lake.append(handle)
    (block,) = lake.open().log.state.blocks.ulids()
    drop_table(Log(lake.bucket, lake.world), lake.world)
    index_log.create(lake.bucket, lake.world, Definition.create(pa.schema([("doc", pa.string())])))
    lake.sleep(3)
    named = plan_cleaning(lake.open())
    assert (block in named.kept, named.files.marked) == (True, ())
    assert verify(lake.bucket, lake.world).errors == ()
    lake.bucket.delete([info.key for info in lake.bucket.list(FILES)])
    assert [one.check for one in verify(lake.bucket, lake.world).errors] == [Check.CELL]


def test_blocks_are_read_once_and_only_while_a_file_is_old(lake: Lake) -> None:
    lake.append(lake.put())
    faulty = FaultyBucket(lake.bucket)
    table = lake.open(faulty)
    cleaner = Cleaner(table, claim(table.log, lake.world, COMPACTOR), objects_per_s=PER_S)

    def reads() -> int:
        found = sum("/chunks/" in call.key for call in faulty.calls)
        faulty.calls.clear()
        return found

    cleaner.run()
    assert reads() == 0
    lake.sleep(3)
    cleaner.run()
    assert reads() == 1
    cleaner.run()
    assert reads() == 0


def test_a_dry_run_says_what_a_pass_would_do_and_does_nothing(lake: Lake) -> None:
    left = lake.put()
    lake.sleep(3)
    before = {info.key for info in lake.bucket.list()}
    assert plan_cleaning(lake.open()).files.marked == (left["id"],)
    assert {info.key for info in lake.bucket.list()} == before
    assert lake.clean().to_json()["files"] == {"marked": [left["id"]]}


# The race of a writer with a pass.


def _paused(
    lake: Lake, handle: FileHandle, during: Callable[[], object], at: str, *, after: bool = False
) -> str | None:
    """Append a row that names a file, with a pause before some object is written, or after; returns
    why it was refused."""
    faulty = FaultyBucket(lake.bucket)
    paused = False

    def pause(call: Call) -> None:
        nonlocal paused
        if call.writes and at in call.key and not paused:
            paused = True
            during()

    (faulty.after if after else faulty.before).append(pause)
    try:
        lake.append(handle, bucket=faulty)
    except BlockstoreError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("before", "uploaded_days_before", "paused_days"),
    [
        ("chunks/", 1.1, 1.5),
        ("meta.json", 0, 2.5),
        ("meta.json", 1.1, 2.5),
        ("meta.json", 2.5, 5.5),
        ("index/0", 1.1, 4),
    ],
)
def test_a_writer_that_pauses_between_its_look_and_its_entry_loses_no_file(
    lake: Lake, before: str, uploaded_days_before: float, paused_days: float
) -> None:
    handle = lake.put()
    lake.sleep(uploaded_days_before)
    problem = _paused(lake, handle, lambda: lake.pass_days(paused_days, 0.5), before)
    lake.pass_days(8)
    lake.check()
    committed = lake.open().snapshot().scan().to_table().num_rows == 1
    assert committed is (problem is None)
    assert lake.files() == ({handle["id"]} if committed else set())
    assert committed or "no row may name" in str(problem) or "again" in str(problem)


def test_a_writer_whose_block_is_uploaded_again_looks_again(lake: Lake) -> None:
    """The file goes while the writer pauses, and the chunks of its block do not yet: they are
    copied under a new ULID, which nothing condemns."""
    handle = lake.put()
    lake.sleep(1.5)
    gone: list[str] = []

    def until_it_is_gone() -> None:
        while not gone:
            gone.extend(lake.pass_days(0.25, 0.25))

    problem = _paused(lake, handle, until_it_is_gone, "chunks/", after=True)
    assert gone == [handle["id"]]
    assert problem is not None
    assert "no row may name" in problem
    assert lake.open().snapshot().scan().to_table().num_rows == 0


def test_a_file_waits_for_the_horizon_where_marks_are_due_soon(tmp_path: Path) -> None:
    """A writer looked before the mark, and commits after the mark is due."""
    lake = Lake(tmp_path, {"properties": Properties.parse({"delete_delay": "12h"})})
    handle = lake.put()
    lake.sleep(1.9)
    marked: list[set[str]] = []

    def a_while() -> None:
        assert lake.pass_days(0.9, 0.15) == []
        marked.append(lake.marked())

    assert _paused(lake, handle, a_while, "chunks/", after=True) is None
    assert marked == [{handle["id"]}]
    lake.pass_days(4)
    assert lake.marked() == set()
    lake.check()


def test_a_row_that_is_replaced_while_it_is_copied_refuses_the_copy(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"key": "name", "properties": Properties.parse({"row_history": "none"})})
    handle = lake.put()
    rows = [{"name": "x", "doc": handle}, {"name": "y", "doc": None}]
    lake.open().upsert(pa.Table.from_pylist(rows, schema=SCHEMA))
    faulty = FaultyBucket(lake.bucket)
    once: list[int] = []

    def of_x(rows: pa.RecordBatch) -> pa.Array:
        docs = [row["doc"] for row in rows.to_pylist() if row["name"] == "x"]
        return pa.array([docs[0] if docs else None] * len(rows), rows["doc"].type)

    def meanwhile(call: Call) -> None:
        if call.writes and call.key.startswith("index/0") and not once:
            once.append(1)
            lake.open().upsert(pa.Table.from_pylist([{"name": "x", "doc": None}], schema=SCHEMA))
            for _ in range(6):
                lake.compact()
                lake.pass_days(2)
            assert lake.files() == set()

    faulty.before.append(meanwhile)
    changed = lake.open(faulty).update({"doc": of_x}, where="name >= 'x'")
    assert once, "the copy was about to be committed"
    assert (changed.version, changed.updated, changed.unchanged) == (None, 0, 2)
    assert lake.open().snapshot().scan().to_table()["doc"].to_pylist() == [None, None]
    lake.check()


# Crash points of a pass.


@pytest.fixture(scope="module")
def due(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A table whose next pass marks a file, withdraws a mark and removes a file."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    named, named_again = lake.put(), lake.put()
    lake.append(named)
    lake.append(named_again)
    lake.put()
    lake.sleep(2.1)
    lake.clean()
    lake.sleep(1.1)
    lake.put()
    lake.sleep(1.1)
    lake.clean()
    lake.bucket.put(file_key(named["id"], DELETION_MARK), b"{}")
    lake.sleep(1)
    return lake


def _points(due: Lake) -> Iterator[tuple[str, int]]:
    """The calls of the pass that concern files, and what may happen to each."""
    lake = due.copy()
    faulty = FaultyBucket(lake.bucket)
    files = lake.clean(faulty).files
    assert files.withdrawn
    assert files.marked
    assert files.removed
    for call in faulty.calls:
        if call.key.startswith(FILES):
            for fault in ("kill_before", "lose_answer"):
                yield fault, call.number


def test_a_pass_that_died_at_any_call_is_finished_and_loses_no_file(due: Lake) -> None:
    for fault, call in _points(due):
        lake = due.copy()
        options: dict[str, Any] = {fault: {call} if fault == "lose_answer" else call}
        faulty = FaultyBucket(lake.bucket, **options)
        try:
            lake.clean(faulty)
        except (BlockstoreError, Killed):
            pass
        lake.check()
        for _ in range(3):
            lake.sleep(2.5)
            lake.clean()
        lake.check()
        assert len(lake.files()) == 2, (fault, call)
        assert lake.marked() == set(), (fault, call)


def test_a_removal_that_died_at_any_delete_is_finished(lake: Lake) -> None:
    left = lake.put()
    while not lake.clean().files.waiting:
        lake.sleep(0.7)
    while lake.copy().clean().files.removed == ():
        lake.clean()
        lake.sleep(0.7)
    for point in range(1, 4):
        dying = lake.copy()
        faulty = FaultyBucket(dying.bucket)
        deletes = 0

        def die(call: Call, point: int = point) -> None:
            nonlocal deletes
            if call.method == "delete" and call.key.startswith(FILES):
                deletes += 1
                if deletes == point:
                    raise Killed(call)

        faulty.before.append(die)
        with pytest.raises(Killed):
            dying.clean(faulty)
        with pytest.raises(Invalid, match="no row may name"):
            dying.append(left)
        dying.pass_days(8)
        assert dying.files() == set()


# Decisions.


def test_the_order_of_a_removal() -> None:
    file = ulid_at(START_MS)
    steps = removal_steps(file, ["f", DELETION_MARK, FILE_RECORD])
    assert steps == [[file_key(file, path)] for path in (FILE_RECORD, "f", DELETION_MARK)]


def test_a_file_goes_only_once_the_horizon_is_above_its_mark(lake: Lake) -> None:
    handle = lake.put()
    lake.bucket.put(file_key(handle["id"], DELETION_MARK), b"{}")
    folder = {info.key.split("/")[2]: info for info in lake.bucket.list(FILES)}
    marked_ms = folder[DELETION_MARK].modified_ms

    def fate(now_ms: int, horizon: str | None, *, named: bool = False) -> Fate:
        return fate_of(
            handle["id"],
            folder,
            named=named,
            now_ms=now_ms,
            properties=Properties(),
            horizon=horizon,
        )

    due = marked_ms + int(2 * DAY_S * 1000)
    above = ulid_at(marked_ms + CLOCKS_MS)
    assert fate(due - 1, above) is Fate.STAY
    assert fate(due, None) is Fate.WAIT
    assert fate(due, ulid_at(marked_ms + CLOCKS_MS - 1)) is Fate.WAIT
    assert fate(due, above) is Fate.REMOVE
    assert fate(due, above, named=True) is Fate.WITHDRAW
