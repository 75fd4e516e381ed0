"""A table read by its index and by listing: the same rows whenever the index has caught up, and
never a wrong one before.

Histories are drawn at random: appends that are published and some that are not, merges that are
committed and some that died before their entry, reverts, deletes and overwrites, marks by a person,
and time. A model knows the rows of every write. After each step a reader by listing must see what
the index shows and what has aged beside it; at the end the rest is published, and both must see the
same blocks and rows, by our own scan and by DuckDB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError, ObjectMissing
from blockstore.format.block import BlockMeta, Job, VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.marks import MarkReason
from blockstore.format.meta import load_meta
from blockstore.index import log as index_log
from blockstore.lifecycle.mark import place_deletion, withdraw_deletion
from blockstore.lifecycle.upload import finish_upload, upload_again
from blockstore.reader.query import Engine
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World
from tests.compactor.scene import small_chunks
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.tally import tally

SCHEMA = pa.schema([("writer", pa.string()), ("row", pa.int64())])
SYNC_S = 15 * 60 + 1
Rows = Counter[tuple[str, int]]


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


@dataclass
class History:
    """A table, and what each of its writes must show."""

    work_dir: Path
    world: World = field(default_factory=lambda: World.manual(seed=4))
    published: dict[str, str] = field(default_factory=dict)
    """By writer: the ULID of its write, where the index knows it."""
    waiting: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By writer: the ULID of a write that is not published, and when it was uploaded."""
    marked: set[str] = field(default_factory=set)
    writes: int = 0

    def __post_init__(self) -> None:
        self.bucket = MemoryBucket(self.world.clock)
        index_log.create(self.bucket, self.world, Definition.create(SCHEMA, sort_by=["row"]))
        self.table = Table.open_bucket(self.bucket, self.world)
        self.lister = Table.open_bucket(
            self.bucket, self.world, discovery="list", cache=self.work_dir / "cache"
        )

    def rows(self) -> pa.Table:
        self.writes += 1
        writer = f"w{self.writes}"
        return pa.table({"writer": [writer] * 4, "row": list(range(4))}, schema=SCHEMA)

    def append(self, pick: int) -> None:
        answer = self.table.append(self.rows())
        assert answer.ulid is not None
        self.published[f"w{self.writes}"] = answer.ulid

    def append_unpublished(self, pick: int) -> None:
        answer = self.table.append(self.rows(), publish=False)
        assert answer.ulid is not None
        self.waiting[f"w{self.writes}"] = (answer.ulid, self.world.clock.now_ms())

    def publish(self, pick: int) -> None:
        """What a retry of an append, or discovery, does; a marked block is left alone."""
        free = [writer for writer in self.waiting if writer not in self.marked]
        if free:
            writer = free[pick % len(free)]
            ulid, _ = self.waiting.pop(writer)
            assert self.table.append(self.rows(), resume=ulid).published
            self.published[writer] = ulid

    def compact(self, pick: int) -> None:
        compact_once(self.table, Settings(tier_blocks=2, work_dir=self.work_dir))

    def compact_and_die(self, pick: int) -> None:
        """A merge that is uploaded and never committed."""
        settings = Settings(tier_blocks=2, work_dir=self.work_dir)
        self._and_die(lambda table: compact_once(table, settings))

    def append_with_a_job_and_die(self, pick: int) -> None:
        """A block that is complete, and visible only by an entry that never comes."""
        rows = self.rows()
        self._and_die(lambda table: table.append(rows, job=Job(f"w{self.writes}", 1)))

    def _and_die(self, work: Callable[[Table], object]) -> None:
        faulty = FaultyBucket(self.bucket)

        def die(call: Call) -> None:
            if call.method == "put_if_absent" and call.key.startswith("index/0"):
                raise Killed(call)

        faulty.before.append(die)
        try:
            work(Table.open_bucket(faulty, self.world))
        except Killed:
            pass

    def upload_again(self, pick: int) -> None:
        """The rows of a write under a second name, as after a refusal: they keep their source and
        count once."""
        held = {
            meta.ulid: meta
            for ulid in self.published.values()
            if (meta := self._meta(ulid)) is not None
        }
        if held:
            meta = held[sorted(held)[pick % len(held)]]
            again = upload_again(self.bucket, self.world, meta)
            finish_upload(self.bucket, self.world, replace(again, visible_by=VisibleBy.AGE))

    def _meta(self, ulid: str) -> BlockMeta | None:
        try:
            meta = load_meta(self.bucket, ulid)
        except ObjectMissing:
            return None
        return meta if meta.visible_by is VisibleBy.AGE else None

    def revert(self, pick: int) -> None:
        if self.published:
            writer = sorted(self.published)[pick % len(self.published)]
            self.table.revert(self.published.pop(writer))

    def delete(self, pick: int) -> None:
        self._gone(pick, lambda writer: self.table.delete(f"writer = '{writer}'"))

    def overwrite(self, pick: int) -> None:
        def replaced(writer: str) -> None:
            data = pa.table({"writer": [writer] * 4, "row": list(range(4))}, schema=SCHEMA)
            answer = self.table.overwrite(data, where=f"writer = '{writer}'")
            [self.published[writer]] = answer.added

        self._gone(pick, replaced)

    def _gone(self, pick: int, change: Callable[[str], object]) -> None:
        every = sorted((self.published.keys() | self.waiting.keys()) - self.marked)
        if every:
            writer = every[pick % len(every)]
            self.published.pop(writer, None)
            self.waiting.pop(writer, None)
            change(writer)

    def mark(self, pick: int) -> None:
        """A person's mark: it hides what the index does not know, and nothing that it knows."""
        every = {**self.published, **{writer: ulid for writer, (ulid, _) in self.waiting.items()}}
        if every:
            writer = sorted(every)[pick % len(every)]
            try:
                place_deletion(self.bucket, self.world, every[writer], MarkReason.MANUAL)
            except BlockstoreError:
                return
            if writer in self.waiting:
                self.marked.add(writer)

    def unmark(self, pick: int) -> None:
        for writer in list(self.marked):
            withdraw_deletion(self.bucket, self.world, self.waiting[writer][0])
        self.marked.clear()

    def age(self, pick: int) -> None:
        self.world.clock.sleep(SYNC_S)

    def expected(self, *, listed: bool) -> Rows:
        shown = set(self.published)
        if listed:
            now_ms = self.world.clock.now_ms()
            shown |= {
                writer
                for writer, (_, uploaded_ms) in self.waiting.items()
                if writer not in self.marked and now_ms - uploaded_ms >= 15 * 60 * 1000
            }
        return Counter((writer, row) for writer in shown for row in range(4))

    def check(self, step: str) -> None:
        assert scanned(self.lister.snapshot(strict=True)) == self.expected(listed=True), step
        assert scanned(self.table.snapshot()) == self.expected(listed=False), step

    def check_caught_up(self) -> None:
        self.unmark(0)
        while self.waiting:
            self.publish(0)
        self.upload_again(0)
        self.age(0)
        by_index, by_list = self.table.snapshot(), self.lister.snapshot(strict=True)
        fresh = Table.open_bucket(self.bucket, self.world, discovery="list").snapshot()
        assert by_index.snapshot == by_list.snapshot == fresh.snapshot
        for snapshot in (by_index, by_list):
            assert scanned(snapshot) == by_duckdb(snapshot) == self.expected(listed=False)


def scanned(snapshot: TableSnapshot) -> Rows:
    found = snapshot.scan().to_table()
    assert found.num_rows == snapshot.count()
    return Counter(zip(found["writer"].to_pylist(), found["row"].to_pylist(), strict=True))


def by_duckdb(snapshot: TableSnapshot) -> Rows:
    with Engine({"t": snapshot}) as engine:
        found = engine.query("SELECT writer, row FROM t").read_all()
    return Counter(zip(found["writer"].to_pylist(), found["row"].to_pylist(), strict=True))


STEPS = (
    History.append,
    History.append,
    History.append_unpublished,
    History.append_unpublished,
    History.publish,
    History.compact,
    History.compact_and_die,
    History.append_with_a_job_and_die,
    History.upload_again,
    History.revert,
    History.delete,
    History.overwrite,
    History.mark,
    History.unmark,
    History.age,
    History.age,
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9)), min_size=3, max_size=14))
def test_both_modes_show_the_same_once_the_index_has_caught_up(
    steps: list[tuple[Callable[[History, int], None], int]],
) -> None:
    with TemporaryDirectory() as work_dir:
        history = History(Path(work_dir))
        for step, pick in steps:
            step(history, pick)
            history.check(step.__name__)
        history.check_caught_up()
    tally("histories read in both modes")


def test_rows_of_two_merges_that_overlap_are_read_once_by_every_reader(tmp_path: Path) -> None:
    """A partial overlap beside an index: the listed merge is read for the sources that no entry
    accounts for."""
    from tests.compactor.plain import overlapping

    made = overlapping(tmp_path)
    snapshot = made.open().snapshot()
    assert scanned(snapshot) == by_duckdb(snapshot) == made.expected
    log = index_log.create(made.bucket, made.world, made.open().definition)
    table = Table(made.bucket, made.world, log, discovery="list")
    joined = table.snapshot(strict=True)
    assert any(chosen.only_sources for chosen in joined.snapshot.listed)
    assert scanned(joined) == by_duckdb(joined) == made.expected
