"""Every way to write a block leaves the hashes of its segments beside it, or none where it needs
none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from blockstore.format.block import BlockMeta
from blockstore.format.meta import load_meta
from blockstore.lifecycle.upload import finish_upload, upload_again
from blockstore.names import meta_key, object_key
from blockstore.table import Table
from tests.blockstore.care.scene import Care, rows, worn
from tests.compactor.scene import small_chunks
from tests.support.faulty import FaultyBucket
from tests.support.segments import check_segments_of, segments_everywhere, segments_key


@pytest.fixture
def made() -> Iterator[Care]:
    worn()  # it is made once, without them, for the tests of all files
    with segments_everywhere():
        yield worn()


def newest(made: Care) -> BlockMeta:
    """The block that the latest version added."""
    log = made.open().log
    (added,) = next(iter(log.entries(log.poll().version))).add
    assert added.meta.segments == load_meta(made.bucket, added.ulid).segments
    return load_meta(made.bucket, added.ulid)


def test_a_small_block_has_none() -> None:
    table = worn()
    meta = load_meta(table.bucket, table.append("new"))
    assert meta.segments is None
    assert all("segments" not in key for key in table.objects())


def test_an_append(made: Care) -> None:
    made.append("new")
    check_segments_of(made.bucket, newest(made))


def test_an_append_stores_them_with_its_last_chunk_before_its_meta_json(made: Care) -> None:
    faulty = FaultyBucket(made.bucket)
    with small_chunks():
        Table.open_bucket(faulty, made.world).append(rows("new"))
    meta = newest(made)
    puts = [call.key for call in faulty.calls if call.key.startswith(meta.ulid)]
    chunks = [object_key(meta.ulid, file.path) for file in meta.files]
    expected = [*chunks, segments_key(meta), meta_key(meta.ulid)]
    assert puts[: len(expected)] == expected


@pytest.mark.parametrize(
    "change",
    ["overwrite", "delete", "a part overwritten"],
)
def test_rows_that_are_replaced(made: Care, change: str) -> None:
    table = made.open()
    if change == "overwrite":
        table.overwrite(rows("new"))
    elif change == "delete":
        table.delete("writer = 'a' and row = 1")
    else:
        table.overwrite(rows("d", 1), where="writer = 'd' and row = 0")
    log = made.open().log
    entry = next(iter(log.entries(log.poll().version)))
    assert entry.add
    for block in entry.add:
        check_segments_of(made.bucket, load_meta(made.bucket, block.ulid))


def test_a_merge(made: Care) -> None:
    made.append("x")
    made.append("y")
    made.compact()
    meta = newest(made)
    assert meta.level > 1
    check_segments_of(made.bucket, meta)


def test_a_refused_upload_is_copied_with_them(made: Care) -> None:
    meta = load_meta(made.bucket, made.append("new", publish=False))
    again = upload_again(made.bucket, made.world, meta)
    assert (again.ulid != meta.ulid, again.segments) == (True, meta.segments)
    check_segments_of(made.bucket, finish_upload(made.bucket, made.world, again))


def test_a_refused_upload_that_has_lost_them_has_them_again(made: Care) -> None:
    meta = load_meta(made.bucket, made.append("new", publish=False))
    made.bucket.delete([segments_key(meta)])
    check_segments_of(made.bucket, upload_again(made.bucket, made.world, meta))


def test_a_restored_version_keeps_them(made: Care) -> None:
    made.append("new")
    version = made.open().log.poll().version
    meta = newest(made)
    made.open().delete("writer = 'new'")
    made.open().restore(version=version)
    block = made.open().log.poll().blocks.get(meta.ulid)
    assert block is not None
    assert block.meta.segments == meta.segments
