"""Every crash point of a cleaning pass that publishes, condemns, marks and removes at once.

The process under test dies before call k, or after call k was applied; or only the response to call
k is lost and it continues. Then: every acknowledged row is read exactly once in both discovery
modes, no block that a version or a tag names has lost an object, and the next process finishes: in
the end, as time passes, nothing unneeded is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from blockstore.errors import BlockCondemned
from blockstore.format.block import Job
from blockstore.lifecycle.remove import removal_steps
from blockstore.names import DELETION_MARK, META
from blockstore.operations.append import publish
from tests.compactor.lake import Lake, quietly, rows
from tests.compactor.scene import small_chunks
from tests.support.faulty import Call, FaultyBucket
from tests.support.tally import tally

pytestmark = pytest.mark.usefixtures("decoded_once")

FAULTS = ("kill_before", "kill_after", "lose_answer")


@pytest.fixture(scope="module", autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A table whose next pass has everything to do; two writers, merges, a delete, a tag, debris of
    every kind."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    for writer in "abc":
        lake.append(writer)
    lake.open().tag("kept")
    lake.tagged["kept"] = lake.expected.copy()
    lake.compact()
    for writer in "def":
        lake.append(writer)
    lake.compact()
    lake.open().delete("writer = 'd'")
    lake.expects("d", 0)
    lake.aborted()
    lake.garbage()
    lake.append("g")
    lake.append("h")
    lake.compact_and_die(lambda key: key.startswith("index/0"))
    lake.sleep(1)
    lake.clean()
    lake.sleep(1.5)
    lake.clean()
    assert lake.clean().marked == ()
    assert len(lake.marked()) >= 5
    lake.sleep(0.1)
    lake.append("i", publish=False)
    lake.aborted()
    lake.append("j", job=Job(app="load", batch=1))
    lake.append("k")
    lake.compact_and_die(lambda key: key.startswith("index/0"))
    lake.sleep(2.1)
    lake.check(aged=False)
    return lake


@pytest.fixture(scope="module")
def unindexed(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same without an index: merges by age, one of them twice, a hidden block, debris."""
    lake = Lake(tmp_path_factory.mktemp("lake"), indexed=False)
    for writer in "abc":
        lake.append(writer)
    lake.sleep(0.1)
    lake.compact()
    lake.aborted()
    lake.garbage()
    lake.sleep(2.1)
    lake.clean()
    lake.sleep(2.1)
    for writer in "de":
        lake.append(writer)
    lake.sleep(0.1)
    lake.compact()
    lake.sleep(0.1)
    lake.aborted()
    lake.sleep(2.1)
    lake.check()
    return lake


def points(
    lake: Lake, only: Callable[[Call], bool] = lambda call: True
) -> Iterator[tuple[Lake, FaultyBucket, str]]:
    """A copy of the lake for every call of an undisturbed pass, and every fault at it."""
    plain = lake.copy()
    counting = FaultyBucket(plain.bucket)
    plain.clean(counting)
    for call in filter(only, counting.calls):
        for fault in FAULTS:
            tally("crash points")
            made = lake.copy()
            argument = {call.number} if fault == "lose_answer" else call.number
            faulty = FaultyBucket(made.bucket, **{fault: argument})  # type: ignore[arg-type]
            yield made, faulty, f"{fault} {call}"


def out_of_order(before: Lake, after: Lake) -> str | None:
    """A directory of which something was removed, and meta.json is still there or the mark is gone
    already (R7)."""
    listed = before.directories()
    for ulid, paths in after.directories().items():
        begun = set(paths) < set(listed.get(ulid, ()))
        if begun and (META in paths or DELETION_MARK not in paths):
            return ulid
    return None


def run(lake: Lake) -> None:
    """Every crash point: the pass, what is seen then, a pass by another, and the end.

    What a table looks like decides all that follows, so what looks alike is looked at once.
    """
    crashed: set[str] = set()
    recovered: set[str] = set()
    for made, faulty, point in points(lake):
        quietly(lambda made=made, faulty=faulty: made.clean(faulty))  # type: ignore[misc]
        assert out_of_order(lake, made) is None, point
        if is_new(made, crashed):
            made.check(point, aged=False)
        made.clean(world=made.copy(seed=11).world)
        if is_new(made, recovered):
            made.check(point)
            made.settle()
            made.check(point)
            assert_clean(made, point)
    tally("outcomes of crashes", len(crashed))


def is_new(lake: Lake, seen: set[str]) -> bool:
    """Whether no table looked like this one before: its objects, its live blocks and its
    watermarks."""
    looks = [sorted(lake.directories().items())]
    if lake.indexed:
        state = lake.open().log.state
        looks += [lake.live(), state.horizon, state.floor, len(state.accounted)]  # type: ignore[list-item]
    key = repr(looks)
    new = key not in seen
    seen.add(key)
    return new


def assert_clean(lake: Lake, point: str) -> None:
    """Nothing unneeded is left: one wreck for a person, and what versions and tags
    name."""
    left = lake.directories()
    assert lake.marked() == set(), point
    wrecks = [ulid for ulid, paths in left.items() if len(paths) == 2 and META in paths]
    assert len(wrecks) == 1, point
    if lake.indexed:
        tagged = lake.open().log.tagged("kept").blocks.ulids()
        assert left.keys() == {*lake.live(), *tagged, *wrecks}, point
    else:
        assert left.keys() == {*(block.meta.ulid for block in lake.chosen()), *wrecks}, point


def test_the_pass_does_everything_at_once(indexed: Lake) -> None:
    cleaned = indexed.copy().clean()
    assert (len(cleaned.discovered), len(cleaned.quarantined)) == (1, 1)
    assert cleaned.horizon is not None
    assert len(cleaned.marked) >= 2
    assert len(cleaned.removed) >= 5
    assert len(cleaned.kept) == 3
    assert {one.reason for one in cleaned.removed} == {"superseded", "partial"}
    done = indexed.copy()
    done.clean()
    again = done.clean()
    assert not again.changed, "a second pass finds nothing to do"


@pytest.mark.slow
def test_every_crash_of_a_pass_with_an_index(indexed: Lake) -> None:
    run(indexed)


def test_the_pass_without_an_index_does_everything_at_once(unindexed: Lake) -> None:
    cleaned = unindexed.copy().clean()
    assert len(cleaned.marked) == 4
    assert len(cleaned.removed) == 4
    assert (cleaned.version, cleaned.horizon, cleaned.discovered) == (None, None, ())


def test_every_crash_of_a_pass_without_an_index(unindexed: Lake) -> None:
    run(unindexed)


def test_a_removal_in_another_order_is_caught(
    indexed: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark first and meta.json last: a process that dies in between leaves a block that looks
    aborted or whole."""

    def swapped(ulid: str, paths: object) -> tuple[list[str], list[str], list[str]]:
        first, others, last = removal_steps(ulid, paths)  # type: ignore[arg-type]
        return last, others, first

    monkeypatch.setattr("blockstore.lifecycle.remove.removal_steps", swapped)
    for made, faulty, point in points(indexed, only=lambda call: call.method == "delete"):
        quietly(lambda made=made, faulty=faulty: made.clean(faulty))  # type: ignore[misc]
        block = out_of_order(indexed, made)
        if block is not None:
            print(f"caught: {block} after {point}")
            return
    raise AssertionError("the order of R7 was reversed, and no check noticed")


@pytest.mark.parametrize("passes", [1, 2])
def test_a_stalled_committer_keeps_its_rows_wherever_the_pass_over_its_block_dies(
    passes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The horizon against a stalled commit, half-way: the first pass condemns and marks the block,
    the second removes it.

    Its writer comes back after the crash: its commit is in, or refused and the rows are uploaded
    again.
    """
    lake = Lake(tmp_path_factory.mktemp("lake"))
    lake.append("a")
    late = lake.unpublished("slow")
    lake.sleep(2.2)
    if passes == 2:
        lake.clean()
        assert lake.marked() == {late.ulid}
        lake.sleep(2.2)
    same_blocks = set()
    seen: set[str] = set()
    for made, faulty, point in points(lake):
        quietly(lambda made=made, faulty=faulty: made.clean(faulty))  # type: ignore[misc]
        table = made.open()
        try:
            appended = publish(made.bucket, made.world, table.log, late)
        except BlockCondemned:
            appended = table.append(rows("slow"), job=late.job)
        assert appended.published, point
        same_blocks.add(appended.ulid == late.ulid)
        made.expects("slow")
        shape = repr(
            (sorted(made.directories().values()), len(made.live()), appended.ulid == late.ulid)
        )
        if shape in seen:
            continue
        seen.add(shape)
        made.check(point)
        made.settle(12)
        made.check(point)
        assert made.directories().keys() == set(made.live()), point
    assert same_blocks == ({True, False} if passes == 1 else {False})
