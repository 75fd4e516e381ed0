"""How many requests of an operation must follow one another."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.names import BOUNDARY, entry_key
from blockstore.table import Table
from tests.compactor.scene import Hide, small_chunks
from tests.support.depth import LATENCY_S, DepthBucket, Time

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = pa.table({"n": [1]}, schema=SCHEMA)


def known(*, latency_s: float = LATENCY_S) -> tuple[Time, DepthBucket, Table]:
    """A table whose handle has written version 2, and its store."""
    time = Time()
    world = time.world()
    memory = MemoryBucket(time)
    index_log.create(memory, world, Definition.create(SCHEMA))
    bucket = DepthBucket(memory, time, latency_s=latency_s)
    table = Table.open_bucket(bucket, world)
    table.append(ROWS)
    return time, bucket, table


def test_an_append_to_a_known_table() -> None:
    _, bucket, table = known()
    with bucket.watch() as seen:
        assert table.append(ROWS).version == 3
    seen.expect(4, "chunk, meta.json, entry, boundary")
    _, meta, _, boundary = seen.waves()
    assert boundary == sorted([f"GET {BOUNDARY}", f"GET {entry_key(2)}"])
    assert f"GET {entry_key(2)}" in meta, "the look before the PUT costs no time"


def test_a_handle_that_was_opened_while_the_store_was_near_notices_that_it_is_far() -> None:
    """As where a network becomes slow: what it learnt first must not hold for its whole life."""
    _, bucket, table = known(latency_s=0.0001)
    table.append(ROWS)
    bucket.latency_s = LATENCY_S
    table.append(ROWS)
    with bucket.watch() as seen:
        table.append(ROWS)
    seen.expect(4, "chunk, meta.json, entry, boundary")


@pytest.mark.parametrize(
    ("began_s", "waits_s", "looks"),
    [(0.1, 0, 0), (6, 0, 0), (0.1, 6, 1), (None, 0, 1)],
    ids=["shortly before", "long before", "and waited long after", "after"],
)
def test_what_this_handle_has_created_needs_no_look_by_a_commit_that_had_begun_by_then(
    began_s: float | None, waits_s: float, looks: int
) -> None:
    """As the threads of one process do that share a handle: while one's entry is created the next
    ones upload."""
    time, bucket, table = known()
    begun, appended = threading.Event(), threading.Event()
    seen: list[list[str]] = []

    def another() -> None:
        with table.log.own_looks() if began_s is not None else nullcontext():
            time.sleep(began_s or 0)
            begun.set()
            time.wait(appended)
            time.sleep(waits_s)
            commit()

    def commit() -> None:
        source = next(iter(table.log.state.blocks)).ulid
        with bucket.watch() as requests:
            hide = Hide(commit=table.world.ids.ulid(), source=source)
            assert table.log.commit(hide).version == 4
        seen.extend(requests.waves())

    def one() -> None:
        time.wait(begun)
        table.append(ROWS)
        appended.set()

    time.together([another, one])
    look, put = [f"GET {entry_key(3)}"], [f"PUT {entry_key(4)}"]
    assert seen == [*[look] * looks, put, sorted([f"GET {BOUNDARY}", *look])]


def test_an_append_of_several_chunks_sends_them_side_by_side() -> None:
    _, bucket, table = known()
    with small_chunks(), bucket.watch() as seen:
        table.append(pa.table({"n": list(range(20))}, schema=SCHEMA))
    assert len(seen.waves()[0]) > 2, "several chunks"
    seen.expect(4, "the chunks, meta.json, entry, boundary")


def test_an_append_with_a_job() -> None:
    _, bucket, table = known()
    with bucket.watch() as seen:
        table.append(ROWS, job=Job("load", 1))
    seen.expect(4, "chunk, meta.json, entry, boundary")


def test_a_delete_of_some_rows_of_a_block() -> None:
    _, bucket, table = known()
    table.append(pa.table({"n": [1, 2, 3]}, schema=SCHEMA))
    with bucket.watch() as seen:
        table.delete("n = 2")
    # The state is polled after the listing: what is durable by then is in one of the two.
    seen.expect(
        9, "listing, poll, its boundary, rows that match, rows that stay, then as an append"
    )


def test_an_overwrite() -> None:
    _, bucket, table = known()
    with bucket.watch() as seen:
        table.overwrite(ROWS)
    seen.expect(7, "listing, poll, its boundary, then as an append")


def test_a_tag_an_untag_and_an_altered_definition() -> None:
    _, bucket, table = known()
    with bucket.watch() as seen:
        table.tag("x")
    seen.expect(
        8, "poll, its boundary, look, checkpoint, look, entry, boundary, the version's boundary"
    )
    with bucket.watch() as seen:
        table.untag("x")
    seen.expect(5, "poll, its boundary, look, entry, boundary")
    with bucket.watch() as seen:
        table.alter(add=[pa.field("m", pa.int64())])
    seen.expect(5, "poll, its boundary, look, entry, boundary")


def test_what_one_append_asks_for() -> None:
    """Each request is CPU here and money there."""
    _, bucket, table = known()
    with bucket.watch() as seen:
        table.append(ROWS)
    seen.expect(4, "chunk, meta.json, entry, boundary", requests=7)


ALONE, EACH, THREADS = 10, 10, 64


def test_threads_that_share_a_handle_commit_together_while_the_next_ones_upload() -> None:
    """With one entry after the other they would be as slow as one thread; with a commit that holds
    up the uploads, half as quick as here."""
    time, bucket, table = known()
    began_s = time.monotonic_s()
    for _ in range(ALONE):
        table.append(ROWS)
    alone_s = (time.monotonic_s() - began_s) / ALONE

    def some() -> None:
        for _ in range(EACH):
            table.append(ROWS)

    before, began_s = table.log.state.version, time.monotonic_s()
    with bucket.watch() as seen:
        time.together([some] * THREADS)
    each_s = (time.monotonic_s() - began_s) / (EACH * THREADS)
    commits = table.log.state.version - before
    rows = sum(block.meta.rows for block in table.log.state.blocks)
    assert rows == 1 + ALONE + EACH * THREADS
    assert alone_s / each_s > 35, "ten times one thread's rate is what is asked for"
    assert EACH * THREADS / commits > 20, "what waits is committed together"
    looks = [one for one in seen.requests if one.what == "GET" and one.key != BOUNDARY]
    assert len(looks) < 2 * commits, "and looks together"
    entries = {one.began_s for one in seen.requests if one.what == "PUT" and "index/" in one.key}
    uploads = [one for one in seen.requests if one.what == "PUT" and one.began_s in entries]
    assert len(uploads) > 10 * len(entries), "blocks are uploaded while an entry is created"
