"""Every crash point of an append and of an alter, and every lost response.

The scenario: two writers, three earlier blocks, blocks of two chunks. The process under test dies
before call k, or after call k was applied; or only the result of call k is lost and the process
continues. Then:
- every row that was acknowledged is read exactly once, and nothing is read that was not written;
- a retry by a fresh process (the same job, or ``resume``) leaves each row exactly once;
- another writer continues as if nothing had happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from unittest import mock

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket, Killed, crash_points
from tests.support.segments import segments_everywhere
from tests.support.tally import tally

SCHEMA = pa.schema([("writer", pa.string()), ("row", pa.int64())])
JOB = bs.Job(app="load", batch=7)


def rows(writer: str, count: int = 4) -> pa.Table:
    return pa.table({"writer": [writer] * count, "row": list(range(count))}, schema=SCHEMA)


def expected(**times: int) -> Counter[tuple[str, int]]:
    return Counter({(writer, row): n for writer, n in times.items() for row in range(4) if n})


@dataclass
class Scene:
    bucket: MemoryBucket
    world: World

    def open(self, faulty: FaultyBucket | None = None) -> Table:
        return Table.open_bucket(faulty or self.bucket, self.world)

    def found(self, writer: str = "writer", row: str = "row") -> Counter[tuple[str, int]]:
        table = self.open().snapshot().scan().to_table()
        return Counter(zip(table[writer].to_pylist(), table[row].to_pylist(), strict=True))


@pytest.fixture(autouse=True, params=["small", "with segments"])
def two_chunks_a_block(request: pytest.FixtureRequest) -> Iterator[None]:
    """Four rows make two chunks: what a writer holds is written after every second row. Once as
    they are, and once with the hashes of their segments, as large blocks."""
    make = BlockWriter.__init__

    def small(self: BlockWriter, *args: object, **options: object) -> None:
        make(self, *args, **{**options, "buffer_bytes": 40})  # type: ignore[arg-type]

    with (
        mock.patch.object(BlockWriter, "__init__", small),
        segments_everywhere() if request.param == "with segments" else nullcontext(),
    ):
        yield


def scene() -> Scene:
    world = World.manual(seed=1)
    bucket = MemoryBucket(world.clock)
    index_log.create(bucket, world, Definition.create(SCHEMA, sort_by=["row"]))
    made = Scene(bucket, world)
    for writer in ("a", "b", "c"):
        made.open().append(rows(writer))
    return made


def calls_of(act: Callable[[Table], object]) -> list[Call]:
    made = scene()
    faulty = FaultyBucket(made.bucket)
    act(made.open(faulty))
    return faulty.calls


def run(made: Scene, faulty: FaultyBucket, act: Callable[[Table], object]) -> object:
    """What the act returned; None if the process died; the error if it was shown one."""
    try:
        return act(made.open(faulty))
    except Killed:
        return None
    except bs.BlockstoreError as error:
        return error


def points(act: Callable[[Table], object]) -> Iterator[tuple[Scene, FaultyBucket, str]]:
    for fault, call in crash_points(calls_of(act)):
        made = scene()
        argument = {call.number} if fault == "lose_answer" else call.number
        tally("crash points")
        yield made, FaultyBucket(made.bucket, **{fault: argument}), f"{fault} {call}"  # type: ignore[arg-type]


def test_the_scenario_has_blocks_of_two_chunks() -> None:
    assert {len(block.meta.chunks) for block in scene().open().snapshot().blocks} == {2}
    assert len(calls_of(lambda table: table.append(rows("new")))) >= 8


def test_an_append_is_there_whole_or_not_at_all_and_acknowledged_means_there() -> None:
    for made, faulty, point in points(lambda table: table.append(rows("new"))):
        answer = run(made, faulty, lambda table: table.append(rows("new")))
        found = made.found()
        assert found in (expected(a=1, b=1, c=1), expected(a=1, b=1, c=1, new=1)), point
        if isinstance(answer, bs.AppendedBlock) and answer.published:
            assert found == expected(a=1, b=1, c=1, new=1), point
        made.open().append(rows("other"))
        assert made.found() == found + expected(other=1), point


def test_a_job_that_is_tried_again_counts_once_wherever_the_first_try_ended() -> None:
    for made, faulty, point in points(lambda table: table.append(rows("new"), job=JOB)):
        run(made, faulty, lambda table: table.append(rows("new"), job=JOB))
        made.open().append(rows("other"))
        answer = made.open().append(rows("new"), job=JOB)
        assert answer.published, point
        assert made.found() == expected(a=1, b=1, c=1, new=1, other=1), point


def test_a_resumed_append_counts_once_wherever_the_first_try_ended() -> None:
    """The ULID is what an Indeterminate append names; here it is read off the calls of the process
    that died."""
    for made, faulty, point in points(lambda table: table.append(rows("new"))):
        run(made, faulty, lambda table: table.append(rows("new")))
        started = [
            call.key.partition("/")[0]
            for call in faulty.calls
            if "/chunks/" in call.key and call.writes
        ]
        if not started:
            continue
        answer = made.open().append(rows("new"), resume=started[0])
        assert (answer.ulid, answer.published) == (started[0], True), point
        assert made.found() == expected(a=1, b=1, c=1, new=1), point


ALTERS: dict[str, tuple[dict[str, object], list[str]]] = {
    "add": ({"add": [pa.field("note", pa.string())]}, ["writer", "row", "note"]),
    "a rule that reads the rows, under a new name": (
        {"rename": {"row": "place"}, "columns": {"row": {"check": "place < 4"}}},
        ["writer", "place"],
    ),
}


@pytest.mark.parametrize("change", ALTERS)
def test_an_alter_is_there_or_not_and_never_half(change: str) -> None:
    arguments, after = ALTERS[change]

    def act(table: Table) -> object:
        return table.alter(**arguments)  # type: ignore[arg-type]

    for made, faulty, point in points(act):
        answer = run(made, faulty, act)
        names = made.open().definition.schema.names
        assert names in (["writer", "row"], after), point
        if isinstance(answer, Definition):
            assert names == after, point
        assert made.found(*names[:2]) == expected(a=1, b=1, c=1), point


def test_rows_with_new_columns_come_with_them_or_not_at_all() -> None:
    def act(table: Table) -> object:
        note = pa.array(["x"] * 4)
        return table.append(rows("new").append_column("note", note), evolve=True)

    for made, faulty, point in points(act):
        answer = run(made, faulty, act)
        names, found = made.open().definition.schema.names, made.found()
        if names == ["writer", "row"]:
            assert found == expected(a=1, b=1, c=1), point
        else:
            assert names == ["writer", "row", "note"], point
            assert found == expected(a=1, b=1, c=1, new=1), point
        if isinstance(answer, bs.AppendedBlock):
            assert (answer.published, len(names)) == (True, 3), point
        made.world.clock.sleep(3 * 86_400)
        listing = Table.open_bucket(made.bucket, made.world, discovery="list")
        assert listing.snapshot().scan().to_table().num_rows == sum(found.values()), point
        act(made.open())
        assert made.found()[("new", 0)] == found[("new", 0)] + 1, point


def test_a_create_that_died_can_be_finished_by_another() -> None:
    def create(faulty: FaultyBucket, world: World) -> None:
        index_log.create(faulty, world, Definition.create(SCHEMA))

    world = World.manual()
    counting = FaultyBucket(MemoryBucket(world.clock))
    create(counting, world)
    for fault, call in crash_points(counting.calls, lost=False):
        tally("crash points")
        bucket = MemoryBucket(world.clock)
        with pytest.raises(Killed):
            create(FaultyBucket(bucket, **{fault: call.number}), world)  # type: ignore[arg-type]
        try:
            index_log.create(bucket, world, Definition.create(SCHEMA))
        except bs.Conflict:
            pass
        assert Table.open_bucket(bucket, world).append(rows("a")).published, f"{fault} {call}"
