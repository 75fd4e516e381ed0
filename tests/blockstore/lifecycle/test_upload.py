"""R3: meta.json last, then the mark, then the listing; whatever happens in between, no row is lost
or doubled."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace

import pyarrow as pa
import pytest

from blockstore.bucket.api import ObjectInfo
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import (
    AccessDenied,
    BlockCondemned,
    BlockstoreError,
    Corrupt,
    Indeterminate,
    NoSpace,
    Throttled,
    Unanswered,
    Unavailable,
)
from blockstore.format.block import BlockMeta, ChunkFile
from blockstore.format.marks import DeletionMark, MarkReason, encode_mark
from blockstore.format.meta import encode
from blockstore.format.properties import Properties
from blockstore.lifecycle import upload
from blockstore.lifecycle.list_path import list_snapshot
from blockstore.lifecycle.listing import list_directories, look
from blockstore.lifecycle.remove import removal_steps
from blockstore.lifecycle.upload import finish_upload, resume, successor, upload_again
from blockstore.names import deletion_mark_key, meta_key, object_key
from blockstore.world import World
from tests.blockstore.lifecycle.blocks import block
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.segments import segments_everywhere
from tests.support.tally import tally

SCHEMA = bytes(pa.schema([("n", pa.int64())]).serialize())


@pytest.fixture
def world() -> World:
    return World.manual(seed=3)


def uploaded(bucket: MemoryBucket, number: int = 1, chunks: int = 2) -> BlockMeta:
    """A block whose chunks are in the bucket; they are opaque bytes, for nothing here reads
    them."""
    files = []
    for chunk in range(chunks):
        data = f"rows {chunk} of block {number}".encode()
        file = ChunkFile(
            path=f"chunks/{chunk + 1:06d}.parquet",
            bytes=len(data),
            rows=1,
            sha256=hashlib.sha256(data).hexdigest(),
        )
        files.append(file)
    meta = replace(block(number, files=tuple(files)), rows=chunks, schema=SCHEMA)
    for chunk, file in enumerate(files):
        bucket.put(object_key(meta.ulid, file.path), f"rows {chunk} of block {number}".encode())
    return meta


def mark(bucket: MemoryBucket, ulid: str, reason: MarkReason = MarkReason.PARTIAL) -> None:
    bucket.put(
        deletion_mark_key(ulid),
        encode_mark(DeletionMark(ulid=ulid, deletion_time_s=0, reason=reason)),
    )


def remove(bucket: MemoryBucket, ulid: str, steps: int | None = None) -> None:
    """The compactor's removal (R7), or its first ``steps`` deletions."""
    prefix = object_key(ulid, "")
    paths = [found.key.removeprefix(prefix) for found in bucket.list(prefix)]
    bucket.delete([key for step in removal_steps(ulid, paths) for key in step][:steps])


def visible_sources(bucket: MemoryBucket, world: World) -> Counter[str]:
    """How often each source is read by a reader of the list path, long after everything."""
    listing = list_directories(bucket)
    found = look(bucket, world, listing)
    listed = list_snapshot(found, None, Properties(), listing.now_ms + 10**9)
    return Counter(source for chosen in listed.cover.chosen for source in chosen.sources)


def test_the_hot_path_costs_one_put_one_head_and_one_list(
    bucket: MemoryBucket, world: World
) -> None:
    meta = uploaded(bucket)
    metered = Metered(bucket)
    assert finish_upload(metered, world, meta) == meta
    assert metered.counts == {"put": 1, "head": 1, "list": 1}


def test_the_mark_is_looked_for_before_the_listing_and_after_meta(
    bucket: MemoryBucket, world: World
) -> None:
    meta = uploaded(bucket)
    faulty = FaultyBucket(bucket)
    finish_upload(faulty, world, meta)
    assert [(call.method, call.key) for call in faulty.calls] == [
        ("put", meta_key(meta.ulid)),
        ("head", deletion_mark_key(meta.ulid)),
        ("list", object_key(meta.ulid, "")),
    ]


@pytest.mark.parametrize("reason", list(MarkReason))
def test_a_marked_upload_is_copied_under_a_new_name_that_keeps_the_source(
    bucket: MemoryBucket, world: World, reason: MarkReason
) -> None:
    meta = uploaded(bucket)
    mark(bucket, meta.ulid, reason)
    again = finish_upload(bucket, world, meta)
    assert again.ulid != meta.ulid
    assert (again.sources, again.revision, again.files) == (meta.sources, 1, meta.files)
    assert not again.own
    for file in meta.files:
        assert bucket.get(object_key(again.ulid, file.path)) == bucket.get(
            object_key(meta.ulid, file.path)
        )
    remove(bucket, meta.ulid)
    assert visible_sources(bucket, world) == Counter(meta.sources)


def test_withdrawing_the_mark_doubles_nothing(bucket: MemoryBucket, world: World) -> None:
    meta = uploaded(bucket)
    mark(bucket, meta.ulid)
    finish_upload(bucket, world, meta)
    bucket.delete([deletion_mark_key(meta.ulid)])
    assert visible_sources(bucket, world) == Counter(meta.sources)


def test_chunks_that_are_gone_are_said_to_be_gone(bucket: MemoryBucket, world: World) -> None:
    meta = uploaded(bucket)
    bucket.delete([object_key(meta.ulid, meta.files[0].path)])
    with pytest.raises(BlockCondemned, match=f"{meta.ulid}.*000001.parquet is missing"):
        finish_upload(bucket, world, meta)
    mark(bucket, meta.ulid)
    with pytest.raises(BlockCondemned, match=meta.ulid):
        finish_upload(bucket, world, meta)


def test_a_chunk_of_another_size_is_refused(bucket: MemoryBucket, world: World) -> None:
    meta = uploaded(bucket)
    bucket.put(object_key(meta.ulid, meta.files[1].path), b"short")
    with pytest.raises(BlockCondemned, match=r"000002.parquet has 5 bytes, expected 17"):
        finish_upload(bucket, world, meta)


def test_a_damaged_chunk_is_never_copied(bucket: MemoryBucket, world: World) -> None:
    meta = uploaded(bucket)
    bucket.put(object_key(meta.ulid, meta.files[0].path), b"x" * meta.files[0].bytes)
    with pytest.raises(Corrupt, match="SHA-256"):
        upload_again(bucket, world, meta)


class Lagging(Wrapper):
    """A store whose listings show nothing for hours; what is requested by name is there."""

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        return iter(())


def test_a_listing_that_lags_refuses_no_block(bucket: MemoryBucket, world: World) -> None:
    meta = uploaded(bucket)
    assert finish_upload(Lagging(bucket), world, meta) == meta


def test_rows_whose_first_upload_may_yet_be_seen_are_never_refused(
    bucket: MemoryBucket, world: World
) -> None:
    """Marked partial, uploaded again, and the copy removed by a cleaner: a caller that was refused
    would write the rows a second time, and the first upload comes back once its mark is withdrawn.
    """
    meta = uploaded(bucket)
    mark(bucket, meta.ulid)
    faulty = FaultyBucket(bucket)

    def copy_is_removed(call: Call) -> None:
        if call.method == "put" and call.key.endswith("meta.json") and meta.ulid not in call.key:
            copy = call.key.partition("/")[0]
            bucket.delete([found.key for found in bucket.list(object_key(copy, "chunks/"))])

    faulty.after.append(copy_is_removed)
    with pytest.raises(Indeterminate) as caught:
        finish_upload(faulty, world, meta)
    assert caught.value.ulid == meta.ulid
    bucket.delete([deletion_mark_key(meta.ulid)])
    assert resume(bucket, world, meta.ulid) == meta
    assert visible_sources(bucket, world) == Counter(meta.sources)


def test_a_resumed_upload_is_looked_for_under_every_name(
    bucket: MemoryBucket, world: World
) -> None:
    meta = uploaded(bucket)
    mark(bucket, meta.ulid)
    held = finish_upload(bucket, world, meta)
    bucket.delete([found.key for found in bucket.list(object_key(meta.ulid, "chunks/"))])
    assert resume(bucket, world, meta.ulid) == held
    bucket.delete([found.key for found in bucket.list(object_key(held.ulid, "chunks/"))])
    with pytest.raises(BlockCondemned):
        resume(bucket, world, meta.ulid)


@pytest.mark.parametrize("gone", [False, True])
def test_rows_that_a_merge_holds_are_not_uploaded_again(
    bucket: MemoryBucket, world: World, gone: bool
) -> None:
    """The writer stalled after its meta.json; its block was seen, merged, and marked superseded:
    one revision up it would knock the merge out of the cover, and the merge's other inputs are on
    their way out."""
    meta, other = uploaded(bucket), uploaded(bucket, 2)
    bucket.put(meta_key(meta.ulid), encode(meta))
    merged = replace(
        uploaded(bucket, 3),
        level=2,
        sources=tuple(sorted((meta.ulid, other.ulid))),
        parents=(),
        own=False,
    )
    bucket.put(meta_key(merged.ulid), encode(merged))
    mark(bucket, meta.ulid, MarkReason.SUPERSEDED)
    if gone:
        bucket.delete([found.key for found in bucket.list(object_key(meta.ulid, ""))])
        assert resume(bucket, world, meta.ulid) is None
    before = {found.key for found in bucket.list()}
    assert finish_upload(bucket, world, meta) == meta
    assert {found.key for found in bucket.list()} - before <= {meta_key(meta.ulid)}
    assert visible_sources(bucket, world) == Counter(merged.sources)


@pytest.mark.parametrize("lost", [{1}, {1, 2}, {2}, {3}, {1, 2, 3, 4, 5}])
def test_a_lost_answer_is_asked_for_until_it_is_known(
    bucket: MemoryBucket, world: World, lost: set[int]
) -> None:
    meta = uploaded(bucket)
    assert finish_upload(FaultyBucket(bucket, lose_answer=lost), world, meta) == meta
    assert visible_sources(bucket, world) == Counter(meta.sources)


def test_a_store_that_stays_silent_leaves_the_answer_open_and_resume_closes_it(
    bucket: MemoryBucket, world: World
) -> None:
    meta = uploaded(bucket)
    with pytest.raises(Indeterminate) as caught:
        finish_upload(FaultyBucket(bucket, lose_answer=range(1, 10_000)), world, meta, ask_s=5)
    assert caught.value.ulid == meta.ulid
    assert resume(bucket, world, meta.ulid) == meta


@pytest.mark.parametrize("error", [Throttled("slow down"), NoSpace("disk full")])
def test_what_was_certainly_not_applied_is_no_open_question(
    bucket: MemoryBucket, world: World, error: Unavailable
) -> None:
    meta = uploaded(bucket)
    faulty = FaultyBucket(bucket, refuse=dict.fromkeys(range(1, 10_000), error))
    with pytest.raises(type(error)):
        finish_upload(faulty, world, meta, ask_s=5)
    assert resume(bucket, world, meta.ulid) is None
    assert (
        finish_upload(FaultyBucket(bucket, refuse={1: Throttled("slow down")}), world, meta) == meta
    )


def test_marks_without_end_leave_the_answer_open(bucket: MemoryBucket, world: World) -> None:
    meta = uploaded(bucket)
    faulty = FaultyBucket(bucket)

    def mark_at_once(call: Call) -> None:
        if call.method == "put" and call.key.endswith("meta.json"):
            mark(bucket, call.key.partition("/")[0])

    faulty.after.append(mark_at_once)
    with pytest.raises(Indeterminate, match="clock"):
        finish_upload(faulty, world, meta)


def test_a_successor_keeps_all_that_counts_the_rows(world: World) -> None:
    meta = replace(block(5, {1, 2}), revision=3)
    again = successor(meta, world.ids.ulid(), 77)
    assert (again.sources, again.level, again.revision, again.uploaded_time) == (
        meta.sources,
        2,
        4,
        77,
    )


# Crash enumeration: two writers, a merge and a mark; the process of one writer dies at every call.


def scenario(bucket: MemoryBucket) -> BlockMeta:
    """Another writer's blocks, a merge of two of them with a marked parent, and the block to be
    finished."""
    clock_world = World.manual(seed=9)
    for number in (2, 3, 4):
        finish_upload(bucket, clock_world, uploaded(bucket, number))
    merge = replace(uploaded(bucket, 6), sources=(block(2).ulid, block(3).ulid), level=2, own=False)
    finish_upload(bucket, clock_world, merge)
    mark(bucket, block(2).ulid, MarkReason.SUPERSEDED)
    return uploaded(bucket, 1)


def crash_points(prepare: Callable[[MemoryBucket, BlockMeta], None]) -> list[dict[str, int]]:
    """Every way to die while ``finish_upload`` runs after ``prepare``."""
    world = World.manual(seed=3)
    bucket = MemoryBucket(world.clock)
    meta = scenario(bucket)
    prepare(bucket, meta)
    faulty = FaultyBucket(bucket)
    finish_upload(faulty, world, meta)
    numbers = [call.number for call in faulty.calls]
    # A read changes nothing: to die after it is to die before the next call.
    writes = [call.number for call in faulty.writes]
    return [{"kill_before": k} for k in numbers] + [{"kill_after": k} for k in writes]


def nothing(bucket: MemoryBucket, meta: BlockMeta) -> None:
    """No compactor interferes."""


def marked(bucket: MemoryBucket, meta: BlockMeta) -> None:
    """A compactor took the upload for an aborted one before meta.json was written."""
    mark(bucket, meta.ulid)


OTHERS = Counter({block(number).ulid: 1 for number in (2, 3, 4)})


@pytest.fixture(params=["small", "with segments"])
def kind_of_block(request: pytest.FixtureRequest) -> Iterator[None]:
    """A copy under another ULID has the hashes of its segments, or is too small for them."""
    with segments_everywhere() if request.param == "with segments" else nullcontext():
        yield


@pytest.mark.usefixtures("kind_of_block")
@pytest.mark.parametrize("prepare", [nothing, marked])
def test_killed_at_any_call_the_rows_are_there_once_or_not_at_all_and_resume_finishes(
    prepare: Callable[[MemoryBucket, BlockMeta], None],
) -> None:
    points = crash_points(prepare)
    for point in points:
        world = World.manual(seed=3)
        bucket = MemoryBucket(world.clock)
        meta = scenario(bucket)
        prepare(bucket, meta)
        with pytest.raises(Killed):
            finish_upload(FaultyBucket(bucket, **point), world, meta)  # type: ignore[arg-type]
        seen = visible_sources(bucket, world) - OTHERS
        assert seen <= Counter(meta.sources), point
        next_world = World.manual(seed=4, now_ms=world.clock.now_ms() + 1)
        done = resume(bucket, next_world, meta.ulid) or finish_upload(bucket, next_world, meta)
        assert done.sources == meta.sources
        if prepare is marked:
            remove(bucket, meta.ulid)
        assert visible_sources(bucket, next_world) == OTHERS + Counter(meta.sources), point
    tally("crash points", len(points))


def acknowledged_and_kept(steps: int, at: int) -> bool:
    """Mark before, and remove ``steps`` objects at call ``at`` of the upload: is an acknowledged
    row ever lost?"""
    world = World.manual(seed=3)
    bucket = MemoryBucket(world.clock)
    meta = scenario(bucket)
    faulty = FaultyBucket(bucket)

    def compactor(call: Call) -> None:
        if call.number == at:
            mark(bucket, meta.ulid)
            remove(bucket, meta.ulid, steps)

    faulty.before.append(compactor)
    try:
        finish_upload(faulty, world, meta)
    except BlockCondemned:
        return True
    if bucket_has_mark(bucket, meta.ulid):
        remove(bucket, meta.ulid)
    return visible_sources(bucket, world) == OTHERS + Counter(meta.sources)


def bucket_has_mark(bucket: MemoryBucket, ulid: str) -> bool:
    return any(found.key == deletion_mark_key(ulid) for found in bucket.list(object_key(ulid, "")))


STALLED = [(steps, 1) for steps in range(6)]
"""The writer stalled before its PUT of meta.json while the compactor marked, and removed 0 to all
objects."""


def test_a_stalled_writer_never_acknowledges_what_is_being_removed() -> None:
    assert all(acknowledged_and_kept(steps, at) for steps, at in STALLED)
    tally("crash points", len(STALLED))


def test_without_the_look_after_meta_the_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault:

    R3's after-check off. The enumeration must find the points at which rows are lost.
    """
    monkeypatch.setattr(upload, "_look", lambda bucket, meta: None)
    lost = [point for point in STALLED if not acknowledged_and_kept(*point)]
    print("rows are lost at", lost)
    assert lost


def test_without_the_look_for_the_mark_the_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: only the listing is looked at, so a marked but complete block is
    acknowledged and goes."""
    monkeypatch.setattr(upload, "is_there", lambda bucket, key: False)
    lost = [point for point in STALLED if not acknowledged_and_kept(*point)]
    print("rows are lost at", lost)
    assert lost


@pytest.mark.parametrize(
    "error", [Throttled("slow down"), NoSpace("disk full"), AccessDenied("expired"), Unanswered("")]
)
def test_giving_up_after_a_refusal_names_the_ulid_under_which_the_write_began(
    bucket: MemoryBucket, world: World, error: BlockstoreError
) -> None:
    """The refused block is complete: if its mark is withdrawn its rows are seen, whatever result
    their writer got."""
    meta = uploaded(bucket)
    mark(bucket, meta.ulid)
    faulty = FaultyBucket(bucket)

    def refuse(call: Call) -> None:
        if call.key.endswith("meta.json") and not call.key.startswith(meta.ulid):
            raise error

    faulty.before.append(refuse)
    with pytest.raises(Indeterminate) as caught:
        finish_upload(faulty, world, meta, ask_s=5)
    assert caught.value.ulid == meta.ulid
    bucket.delete([deletion_mark_key(meta.ulid)])
    assert resume(bucket, world, meta.ulid) == meta


def test_a_complete_block_that_may_not_be_looked_at_leaves_the_answer_open(
    bucket: MemoryBucket, world: World
) -> None:
    meta = uploaded(bucket)
    faulty = FaultyBucket(bucket, refuse={2: AccessDenied("no permission to look")})
    with pytest.raises(Indeterminate) as caught:
        finish_upload(faulty, world, meta)
    assert caught.value.ulid == meta.ulid
