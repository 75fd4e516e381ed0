"""Every crash point of every transaction, and every lost response.

A process that dies at a read leaves what its last write left, so deaths are enumerated at the
writes, and lost responses at every call. The scene: a merge of two levels with a write reverted in
it, blocks of several chunks, two streams, and a durable write that was not published. The process
under test dies before call k, or after call k was applied; or only the result of call k is lost and
the process continues. Then:
- the table shows the rows from before or those from after, never a part, and a result means after;
- the same call by a fresh process ends in what one undisturbed call would have done, also where
  everything was merged before;
- others continue as if nothing had happened, and when time passes a listing brings nothing back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.operations.access import Access
from blockstore.operations.exchange import Exchange, exchange
from blockstore.operations.expire import expire
from blockstore.operations.rewrite import rewrite
from blockstore.table import Table
from tests.blockstore.operations.lake import Lake, Row, small_chunks, table_of
from tests.support.faulty import FaultyBucket, Killed, crash_points
from tests.support.tally import tally

pytestmark = pytest.mark.usefixtures("decoded_once")

JOB = bs.Job("nightly", 1)
OTHER: Row = ("z", 9, 0.9)
NEW: list[Row] = [("a", 7, 0.7), ("b", 7, 0.7)]


@pytest.fixture(autouse=True)
def blocks_of_several_chunks() -> Iterator[None]:
    with small_chunks():
        yield


@dataclass
class Scene:
    lake: Lake
    merged: str
    reverted: str
    inside: str
    """A write inside the merged block."""
    alone: str
    """A block of one write."""
    version: int
    """A version to go back to."""
    head: int
    """The newest version."""


def scene(work_dir: Path) -> Scene:
    lake = Lake()
    inside = lake.source(("a", 1, 0.1), ("b", 1, 0.1), ("c", 1, 0.1), ("a", 1, 0.15))
    lake.append(("a", 2, 0.2), ("b", 2, 0.2))
    first = lake.merge(work_dir)
    reverted = lake.source(("a", 3, 0.3), ("c", 3, 0.3))
    assert first is not None
    merged = lake.merge(work_dir, [first, reverted])
    version = lake.open().poll()
    lake.open().revert(reverted)
    alone = lake.source(("a", 4, 0.4), ("b", 4, 0.4), ("c", 4, 0.4), ("d", 4, 0.4))
    lake.append(("b", 5, 0.5), ("e", 5, 0.5), site="x")
    lake.append(("a", 6, 0.6), ("d", 6, 0.6), publish=False)
    assert merged is not None
    return Scene(lake, merged, reverted, inside, alone, version, lake.open().poll())


Act = Callable[[Scene, Table], object]


def _rewrite(at: Scene, table: Table) -> object:
    return rewrite(
        Access.of(table.bucket, table.world, table.log), [at.merged, at.alone], reason="test"
    )


def _expire(at: Scene, table: Table) -> object:
    return expire(table.log, table.world, [at.merged, at.alone], "retention")


def _exchange(at: Scene, table: Table, *, chunks: int | None) -> object:
    """Exchange the chunks of two blocks, of one of them only the first so many."""
    read = table.log.at(at.head)
    live = read.blocks.get_all([at.merged, at.alone])
    paths = {ulid: [file.path for file in block.meta.chunks] for ulid, block in live.items()}
    wanted = Exchange(
        read=read,
        chunks={
            at.merged: frozenset(paths[at.merged]),
            at.alone: frozenset(paths[at.alone][:chunks]),
        },
        rows={(): table_of(NEW).to_batches(), (("site", "x"),): table_of([OTHER]).to_batches()},
        job=JOB,
    )
    return exchange(Access.of(table.bucket, table.world, table.log), wanted)


ACTS: dict[str, Act] = {
    "delete across the unpublished": lambda at, table: table.delete("key = 'a'"),
    "delete whole": lambda at, table: table.delete("number >= 4"),
    "overwrite all": lambda at, table: table.overwrite(table_of(NEW)),
    "overwrite by condition": lambda at, table: table.overwrite(
        table_of(NEW), where="key IN ('a', 'b')"
    ),
    "overwrite what was read": lambda at, table: table.overwrite(
        table_of(NEW), where="key IN ('a', 'b')", read_version=table.log.state.version
    ),
    "overwrite with a job": lambda at, table: table.overwrite(
        table_of(NEW), where="key < 'c'", job=JOB
    ),
    "overwrite by nothing with a job": lambda at, table: table.overwrite(
        table_of([]), where="key = 'q'", job=JOB
    ),
    "revert": lambda at, table: table.revert(at.inside, at.alone),
    "restore": lambda at, table: table.restore(version=at.version),
    "exchange": lambda at, table: _exchange(at, table, chunks=None),
    "exchange a chunk": lambda at, table: _exchange(at, table, chunks=1),
    "rewrite": _rewrite,
    "expire": _expire,
}


BY_BLOCK = {"rewrite", "expire", "exchange a chunk"}
"""Those that name blocks, which a merge in between replaces."""


def plain_blocks(at: Scene) -> list[str]:
    """The live blocks without labels: one stream."""
    return [block.ulid for block in at.lake.open().log.state.blocks if not block.meta.labels]


def run(at: Scene, bucket: FaultyBucket, act: Act) -> object:
    """What the act returned; None if the process died, or was shown an error."""
    try:
        return act(at, at.lake.open(bucket))
    except Killed:
        return None
    except bs.BlockstoreError:
        return None


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    with small_chunks():
        return scene(tmp_path_factory.mktemp("work"))


def copied(base: Scene, seed: int) -> Scene:
    return Scene(
        base.lake.copy(seed),
        base.merged,
        base.reverted,
        base.inside,
        base.alone,
        base.version,
        base.head,
    )


def again(at: Scene, act: Act) -> None:
    """The same call by a fresh process; what is gone already was done."""
    try:
        act(at, at.lake.open())
    except bs.NotFound:
        pass


@pytest.mark.parametrize("name", ACTS)
def test_all_or_nothing_at_every_point_and_once_after_a_retry(
    base: Scene, name: str, tmp_path: Path
) -> None:
    act = ACTS[name]
    whole = copied(base, 1)
    counting = FaultyBucket(whole.lake.bucket)
    assert run(whole, counting, act) is not None
    before, after = base.lake.plain(), whole.lake.plain()
    everything = by_listing(whole)
    assert len(counting.calls) > 5
    for fault, call in crash_points(counting.calls):
        point = f"{name}: {fault} {call}"
        tally("crash points")
        at = copied(base, 1)
        argument = {call.number} if fault == "lose_answer" else call.number
        answer = run(at, FaultyBucket(at.lake.bucket, **{fault: argument}), act)  # type: ignore[arg-type]
        # A write that was published on the way is not part of the transaction: it may be seen,
        # or not yet.
        found = at.lake.plain()
        assert found in (before, after) or found == before + unpublished(base), point
        if answer is not None:
            assert found == after, point
        if fault == "kill_after" and name not in BY_BLOCK:
            at.lake.merge(tmp_path, plain_blocks(at))
            assert at.lake.plain() == found, point
        again(at, act)
        assert at.lake.plain() == after, point
        if not call.writes:
            continue
        at.lake.append(OTHER)
        assert at.lake.plain() == after + Counter([OTHER]), point
        at.lake.check()
        assert by_listing(at) == everything + Counter([OTHER]), point
        assert not [tag for tag in at.lake.open().log.state.tags if tag.startswith("_restore_")], (
            point
        )


def unpublished(base: Scene) -> Counter[Row]:
    return Counter([("a", 6, 0.6), ("d", 6, 0.6)])


def by_listing(at: Scene) -> Counter[Row]:
    """What a listing shows once every wait is over."""
    later = Lake(at.lake.copy(99).world, at.lake.sort_by, at.lake.properties, at.lake.bucket)
    later.world.clock.sleep(3600)
    seen: Counter[Row] = Counter()
    for (row, _), count in later.rows(discovery="list").items():
        seen[row] += count
    return seen
