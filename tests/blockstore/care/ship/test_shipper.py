"""Shipping: every row once, the damaged named, the late told, nothing sent twice; with an index and
without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.care.ship.build import build_block
from blockstore.care.ship.shipper import Shipper
from blockstore.care.ship.state import load
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.errors import AccessDenied, Corrupt, Invalid, Throttled, Unavailable
from blockstore.format.block import BlockMeta, Job, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.format.marks import DeletionMark, MarkReason, encode_mark
from blockstore.format.meta import encode, load_meta
from blockstore.format.new_block import block_meta
from blockstore.ids import ulid_at
from blockstore.index import log as index_log
from blockstore.index.change import Draft
from blockstore.index.entry import Operation
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.lifecycle.upload import finish_upload
from blockstore.names import BOUNDARY, SHIPPER_STATE, deletion_mark_key, meta_key, object_key
from blockstore.operations.unindexed import declare
from tests.blockstore.care.ship.devices import (
    DEFINITION,
    HOUR,
    NOW,
    ROWS,
    SCHEMA,
    Device,
    Place,
    everywhere,
    expected,
    rows,
)
from tests.support.faulty import FaultyBucket, Killed
from tests.support.index_data import Planned
from tests.support.tally import tally

FAULTS = ("kill_before", "kill_after", "lose_answer")


@pytest.fixture(params=[True, False], ids=["index", "no-index"])
def place(request: pytest.FixtureRequest) -> Place:
    return Place.new(indexed=request.param)


def fault(kind: str, number: int) -> dict[str, object]:
    return {kind: {number} if kind == "lose_answer" else number}


def test_finished_blocks_are_shipped_the_oldest_first_and_published(place: Place) -> None:
    device = Device.new()
    built = device.build("a", "b", "c")
    report = device.shipper(place.bucket).once()
    assert [block.ulid for block in report.shipped] == [meta.ulid for meta in built]
    assert [block.stored_ulid for block in report.shipped] == [meta.ulid for meta in built]
    assert [block.version for block in report.shipped] == (
        [2, 3, 4] if place.indexed else [None] * 3
    )
    assert report.refused == ()
    if place.indexed:
        assert place.found() == expected(a=1, b=1, c=1)
    assert everywhere(place) == expected(a=1, b=1, c=1)


def test_what_was_shipped_costs_no_upload_and_no_look_at_its_directory(place: Place) -> None:
    device = Device.new()
    device.build("a", "b")
    metered = Metered(place.bucket)
    shipper = device.shipper(metered)
    shipper.once()
    metered.reset()
    assert shipper.once().shipped == ()
    assert metered.counts.total() <= 3
    assert shipper.waiting_bytes() == 0
    device.build("c")
    assert shipper.waiting_bytes() > 0
    assert [block.rows for block in shipper.once().shipped] == [4]
    assert everywhere(place) == expected(a=1, b=1, c=1)


def test_a_directory_without_a_meta_json_is_left_alone(place: Place) -> None:
    device = Device.new()
    (meta,) = device.build("a")
    device.folder.delete([meta_key(meta.ulid)])
    report = device.shipper(place.bucket).once()
    assert (report.shipped, report.refused, report.unfinished) == ((), (), (meta.ulid,))
    assert [key for key in keys(place.bucket) if meta.ulid in key] == []


def keys(bucket: Bucket, prefix: str = "") -> list[str]:
    return [info.key for info in bucket.list(prefix)]


def damages(meta: BlockMeta) -> Iterator[tuple[str, str, bytes | None]]:
    """What may be wrong with a block: what the error says of it, the object, and what lies there
    instead."""
    first, second = (object_key(meta.ulid, file.path) for file in meta.files)
    yield "missing", second, None
    yield "bytes", first, b"x"
    yield "SHA-256", first, b"x" * meta.files[0].bytes
    yield "JSON", meta_key(meta.ulid), b"{"
    yield "version", meta_key(meta.ulid), encode(meta).replace(b'"version":1', b'"version":9', 1)
    yield (
        "ulid",
        meta_key(meta.ulid),
        encode(meta).replace(meta.ulid.encode(), ulid_at(5).encode(), 1),
    )


@pytest.mark.parametrize("number", range(6))
def test_a_damaged_block_is_refused_by_name_and_the_others_go_on(place: Place, number: int) -> None:
    device = Device.new()
    _, damaged, _ = device.build("a", "b", "c")
    said, key, data = [*damages(damaged)][number]
    if data is None:
        device.folder.delete([key])
    else:
        device.folder.put(key, data)
    report = device.shipper(place.bucket).once()
    assert [refused.ulid for refused in report.refused] == [damaged.ulid]
    assert damaged.ulid in report.refused[0].reason
    assert said in report.refused[0].reason
    assert [key for key in keys(place.bucket) if damaged.ulid in key] == []
    assert everywhere(place) == expected(a=1, c=1)
    again = device.shipper(place.bucket).once()
    assert [refused.ulid for refused in again.refused] == [damaged.ulid]


def test_a_chunk_that_changes_while_it_is_sent_becomes_visible_nowhere(place: Place) -> None:
    """Hashed before, and again on its way."""
    device = Device.new()
    (meta,) = device.build("a")
    key = object_key(meta.ulid, meta.files[1].path)
    whole = device.folder.get(key).data
    folder = FaultyBucket(device.folder)
    reads = 0

    def break_it(call: object) -> None:
        nonlocal reads
        if getattr(call, "key", "") == key and getattr(call, "method", "") == "get_range":
            reads += 1
            if reads == 2:
                device.folder.put(key, bytes(reversed(whole)))

    folder.before.append(break_it)
    report = Shipper(folder, place.bucket, device.world).once()
    assert [refused.ulid for refused in report.refused] == [meta.ulid]
    assert meta_key(meta.ulid) not in keys(place.bucket)
    assert object_key(meta.ulid, meta.files[1].path) not in keys(place.bucket)
    device.folder.put(key, whole)
    assert len(device.shipper(place.bucket).once().shipped) == 1
    assert everywhere(place) == expected(a=1)


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("side", ["table", "folder"])
def test_killed_at_any_call_and_run_again_every_row_is_there_once(indexed: bool, side: str) -> None:
    """On either side: the store's calls, and the folder's."""

    def scene() -> tuple[Device, Place]:
        device, place = Device.new(), Place.new(indexed=indexed)
        place.open().append(rows("before")) if indexed else None
        device.build("a", "b", "c")
        return device, place

    def run(device: Device, place: Place, **faults: object) -> FaultyBucket:
        faulty = FaultyBucket(device.folder if side == "folder" else place.bucket, **faults)  # type: ignore[arg-type]
        folder, target = (faulty, place.bucket) if side == "folder" else (device.folder, faulty)
        try:
            Shipper(folder, target, device.world, remove_shipped=True).once()
        except (Killed, bs.BlockstoreError):
            pass
        return faulty

    wanted = expected(before=int(indexed), a=1, b=1, c=1)
    calls = len(run(*scene()).calls)
    assert calls > 20
    for number in range(1, calls + 1):
        for kind in FAULTS:
            tally("crash points")
            device, place = scene()
            run(device, place, **fault(kind, number))
            for _ in range(2):
                Shipper(device.folder, place.bucket, device.world, remove_shipped=True).once()
            place.age()
            assert place.found("list") == wanted, f"{kind} {number}"
            if indexed:
                assert place.found() == wanted, f"{kind} {number}"
            assert keys(device.folder) == [SHIPPER_STATE], f"{kind} {number}"


def test_chunks_that_lie_there_whole_are_not_sent_again_and_others_are(place: Place) -> None:
    device = Device.new()
    (meta,) = device.build("a")
    first, second = meta.files
    place.bucket.put(
        object_key(meta.ulid, first.path), device.folder.get(object_key(meta.ulid, first.path)).data
    )
    place.bucket.put(object_key(meta.ulid, second.path), b"x" * second.bytes)
    faulty = FaultyBucket(place.bucket)
    device.shipper(faulty).once()
    sent = [call.key for call in faulty.writes if "/chunks/" in call.key]
    assert sent == [object_key(meta.ulid, second.path)]
    assert everywhere(place) == expected(a=1)


@pytest.mark.parametrize("state", ["lost", "damaged"])
def test_a_state_that_is_lost_or_damaged_is_asked_of_the_table(place: Place, state: str) -> None:
    device = Device.new()
    device.build("a", "b")
    device.shipper(place.bucket).once()
    if state == "lost":
        device.folder.delete([SHIPPER_STATE])
    else:
        device.folder.put(SHIPPER_STATE, device.folder.get(SHIPPER_STATE).data[:-9])
    device.build("c")
    faulty = FaultyBucket(place.bucket)
    report = device.shipper(faulty).once()
    assert [block.rows for block in report.shipped] == [4, 4, 4]
    assert len([call for call in faulty.writes if "/chunks/" in call.key]) == 2
    assert everywhere(place) == expected(a=1, b=1, c=1)
    assert load(device.folder) is not None


def test_a_lost_state_does_not_bring_back_what_a_merge_has_taken_in() -> None:
    """Without an index the merge's own sources tell, also once the merged blocks are gone."""
    place, device = Place.new(indexed=False), Device.new()
    built = device.build("a", "b")
    device.shipper(place.bucket).once()
    place.age()
    merge_all(place)
    for meta in built:
        place.bucket.delete([key for key in keys(place.bucket) if key.startswith(meta.ulid)])
    device.folder.delete([SHIPPER_STATE])
    before = keys(place.bucket)
    report = device.shipper(place.bucket).once()
    assert all(block.already for block in report.shipped)
    assert keys(place.bucket) == before
    assert everywhere(place) == expected(a=1, b=1)


def merge_all(place: Place) -> None:
    """Replace what lies there by one block of level 2, as a compactor would."""
    ulids = sorted(
        {key.partition("/")[0] for key in keys(place.bucket) if key.endswith("/meta.json")}
    )
    metas = [load_meta(place.bucket, ulid) for ulid in ulids]
    parts = []
    for meta in metas:
        read = place.open().snapshot().scan(columns=["writer", "row", "_source"]).to_table()
        parts.append(read.filter(pa.compute.equal(read["_source"], meta.sources[0])))
    merged = place.world.ids.ulid()
    with BlockWriter(
        place.bucket, place.world, merged, DEFINITION, producer="test", extra_columns=("_source",)
    ) as writer:
        writer.write(pa.concat_tables(parts))
        written = writer.finish()
    made = block_meta(
        written,
        ulid=merged,
        definition=DEFINITION,
        visible_by=VisibleBy.AGE,
        producer="test",
        level=2,
        own=False,
        sources=tuple(sorted(source for meta in metas for source in meta.sources)),
        uploaded_time=place.world.clock.now_ms(),
    )
    finish_upload(place.bucket, place.world, made)


def test_a_refused_upload_goes_on_under_a_new_name_that_the_state_remembers(place: Place) -> None:
    device = Device.new()
    (meta,) = device.build("a")
    mark(place, meta.ulid)
    report = device.shipper(place.bucket).once()
    (block,) = report.shipped
    assert block.stored_ulid != meta.ulid
    state = load(device.folder)
    assert state is not None
    assert state.sent_to(place.bucket.url)[meta.ulid].stored_ulid == block.stored_ulid
    if place.indexed:
        assert place.found() == expected(a=1)
        live = place.open().log.state.blocks.get(block.stored_ulid)
        assert live is not None
        assert (live.meta.sources, live.meta.revision) == ((meta.ulid,), 1)
    assert everywhere(place) == expected(a=1)
    place.bucket.delete([deletion_mark_key(meta.ulid)])
    assert everywhere(place) == expected(a=1), "a withdrawn mark brings no row back"


def test_a_merge_of_which_the_table_has_a_part_is_refused_and_stays_on_the_device() -> None:
    """A folder that was compacted locally after a first upload."""
    place, device = Place.new(), Device.new()
    device.build("a")
    device.shipper(place.bucket).once()
    device.build("b", "c")
    olds = sorted({key.partition("/")[0] for key in keys(device.folder) if "/" in key})
    device.world.clock.sleep(2 * HOUR)
    merge_all(Place(device.folder, device.world, False))  # type: ignore[arg-type]
    device.folder.delete([key for old in olds for key in keys(device.folder, f"{old}/")])
    before = keys(place.bucket)
    report = device.shipper(place.bucket, remove_shipped=True).once()
    (refused,) = report.refused
    assert "the table has 1 of them already" in refused.reason
    assert (report.shipped, report.removed) == ((), ())
    assert keys(place.bucket) == before
    assert meta_key(refused.ulid) in keys(device.folder)


def mark(place: Place, ulid: str, reason: MarkReason = MarkReason.PARTIAL) -> None:
    data = encode_mark(DeletionMark(ulid=ulid, deletion_time_s=NOW // 1000, reason=reason))
    place.bucket.put(deletion_mark_key(ulid), data)


def test_an_upload_that_is_removed_meanwhile_is_made_again_from_the_folder(place: Place) -> None:
    """Taken for an aborted one: its chunks go just before its meta.json comes."""
    device = Device.new()
    (meta,) = device.build("a")
    faulty = FaultyBucket(place.bucket)

    def clean(call: object) -> None:
        if getattr(call, "key", "") == meta_key(meta.ulid) and getattr(call, "method", "") == "put":
            place.bucket.delete([object_key(meta.ulid, file.path) for file in meta.files])

    faulty.before.append(clean)
    (block,) = device.shipper(faulty).once().shipped
    assert block.stored_ulid != meta.ulid
    if place.indexed:
        assert place.found() == expected(a=1)


def test_a_removed_upload_that_died_before_it_knew_is_made_again(place: Place) -> None:
    device = Device.new()
    (meta,) = device.build("a")
    place.bucket.put(meta_key(meta.ulid), encode(meta))
    mark(place, meta.ulid)
    (block,) = device.shipper(place.bucket).once().shipped
    assert block.stored_ulid != meta.ulid
    if place.indexed:
        assert place.found() == expected(a=1)


def raise_watermarks(place: Place, horizon_s: float, floor_s: float | None = None) -> None:
    """Horizon and floor so many seconds before the store's now."""
    now = place.world.clock.now_ms()
    draft = Draft(
        horizon=ulid_at(now - int(horizon_s * 1000)),
        floor=None if floor_s is None else ulid_at(now - int(floor_s * 1000)),
    )
    change = Planned(operation=Operation.HORIZON, commit=place.world.ids.ulid(), plan=draft)
    place.open().log.commit(change)


def test_below_the_horizon_a_block_is_left_to_discovery_and_above_the_floor_nothing_is_lost() -> (
    None
):
    place = Place.new()
    device = Device.new()
    device.build("late")
    place.wait(72 * HOUR)
    device.world.clock.sleep(72 * HOUR)
    device.build("new")
    raise_watermarks(place, horizon_s=48 * HOUR)
    report = device.shipper(place.bucket).once()
    assert [block.version for block in report.shipped] == [None, 3]
    assert report.refused == ()
    assert place.found() == expected(new=1)
    assert everywhere(place) == expected(late=1, new=1)


@pytest.mark.parametrize("remove", [True, False])
def test_a_block_that_waits_stays_until_it_is_discovered_or_is_late_once_the_floor_overtakes_it(
    remove: bool,
) -> None:
    place, device = Place.new(), Device.new()
    first, second = device.build("first", "second")
    place.wait(72 * HOUR)
    device.world.clock.sleep(72 * HOUR)
    raise_watermarks(place, horizon_s=48 * HOUR)
    shipper = device.shipper(place.bucket, remove_shipped=remove)
    assert [block.version for block in shipper.once().shipped] == [None, None]
    assert {first.ulid, second.ulid} <= {key.partition("/")[0] for key in keys(device.folder)}
    assert shipper.once().refused == ()
    discovered = place.open().log
    place.bucket.delete([meta_key(second.ulid)])
    place.age()
    clean(place)
    assert first.ulid in discovered.poll().accounted
    place.bucket.put(meta_key(second.ulid), device.folder.get(meta_key(second.ulid)).data)
    assert shipper.once().removed == ((first.ulid,) if remove else ())
    raise_watermarks(place, horizon_s=48 * HOUR, floor_s=49 * HOUR)
    report = shipper.once()
    assert [(refused.ulid, refused.late) for refused in report.refused] == [(second.ulid, True)]
    assert report.removed == ()
    assert meta_key(second.ulid) in keys(device.folder)


def test_below_the_floor_a_block_is_uploaded_and_a_person_is_told_until_one_decides() -> None:
    place = Place.new()
    device = Device.new()
    (late,) = device.build("late")
    place.wait(40 * 24 * HOUR)
    device.world.clock.sleep(40 * 24 * HOUR)
    device.build("new")
    raise_watermarks(place, horizon_s=48 * HOUR, floor_s=30 * 24 * HOUR)
    shipper = device.shipper(place.bucket, remove_shipped=True)
    report = shipper.once()
    assert [(refused.ulid, refused.late) for refused in report.refused] == [(late.ulid, True)]
    assert "--adopt" in report.refused[0].reason
    assert meta_key(late.ulid) in keys(place.bucket)
    assert meta_key(late.ulid) in keys(device.folder), "what no reader sees stays on the device"
    assert everywhere(place) == expected(new=1)
    faulty = FaultyBucket(place.bucket)
    again = device.shipper(faulty).once()
    assert [refused.ulid for refused in again.refused] == [late.ulid]
    assert faulty.writes == []


def test_two_devices_an_hour_off_either_way_and_one_of_them_days_late_lose_and_double_nothing() -> (
    None
):
    """The scenario of the device guide, on a table with an index."""
    place = Place.new()
    ahead, behind = Device.new(seed=2, off_s=HOUR), Device.new(seed=3, off_s=-HOUR)
    ahead.build("ahead1", "ahead2")
    behind.build("behind1", "behind2")
    ahead.shipper(place.bucket).once()
    everyone = expected(ahead1=1, ahead2=1, behind1=1, behind2=1)
    for _ in range(4):
        for world in (place.world, ahead.world, behind.world):
            world.clock.sleep(24 * HOUR)
    raise_watermarks(place, horizon_s=48 * HOUR, floor_s=10 * 24 * HOUR)
    damaged = behind.build("behind3", "behind4")[0]
    behind.folder.put(object_key(damaged.ulid, damaged.files[0].path), b"rot")
    report = behind.shipper(place.bucket).once()
    assert [refused.ulid for refused in report.refused] == [damaged.ulid]
    assert [block.version is None for block in report.shipped] == [True, True, False]
    assert everywhere(place) == everyone + expected(behind4=1)
    for device in (ahead, behind):
        device.folder.delete([SHIPPER_STATE])
        device.shipper(place.bucket).once()
    assert everywhere(place) == everyone + expected(behind4=1)
    for _ in range(6):
        clean(place)
        assert place.found() == everyone + expected(behind4=1), "discovered, and kept"
        for world in (place.world, behind.world):
            world.clock.sleep(25 * HOUR)
        behind.shipper(place.bucket).once()
    assert everywhere(place) == everyone + expected(behind4=1)


def clean(place: Place) -> None:
    """One cleaning pass of the compactor: what is aged is discovered, what is debris goes in
    time."""
    table = place.open()
    Cleaner(table, claim(table.log, place.world, COMPACTOR)).run()


def test_what_the_table_could_never_show_is_refused_before_a_byte_is_sent(place: Place) -> None:
    device = Device.new()
    (transaction,) = device.build("a")
    device.folder.put(
        meta_key(transaction.ulid), encode(replace(transaction, visible_by=VisibleBy.INDEX))
    )
    report = device.shipper(place.bucket).once()
    assert "transaction" in report.refused[0].reason
    assert [key for key in keys(place.bucket) if transaction.ulid in key] == []


def test_a_block_under_a_schema_that_the_table_does_not_know_is_refused_before_a_byte_is_sent() -> (
    None
):
    place, device = Place.new(), Device.new()
    strange = Definition.create(pa.schema([("other", pa.int64())]))
    meta = build_block(device.folder, device.world, strange, pa.table({"other": [1]}))
    assert meta is not None
    device.build("a")
    report = device.shipper(place.bucket).once()
    assert [refused.ulid for refused in report.refused] == [meta.ulid]
    assert "schema" in report.refused[0].reason
    assert place.found() == expected(a=1)
    assert [key for key in keys(place.bucket) if meta.ulid in key] == []


@pytest.mark.parametrize("remove", [True, False])
def test_a_place_without_a_table_is_told_and_folder_and_place_stay_as_they_were(
    remove: bool,
) -> None:
    device, nowhere = Device.new(), MemoryBucket(Device.new().world.clock, "memory://mistyped")
    device.build("a")
    before = contents(device.folder)
    for _ in range(2):
        with pytest.raises(
            bs.NotFound, match=r"no table at memory://mistyped: .*neither an index nor a complete"
        ):
            device.shipper(nowhere, remove_shipped=remove).once()
    assert contents(device.folder) == before
    assert keys(nowhere) == []


def contents(bucket: Bucket) -> dict[str, bytes]:
    return {key: bucket.get(key).data for key in keys(bucket)}


def test_nothing_is_taken_from_the_folder_once_the_table_is_gone(place: Place) -> None:
    """What was shipped may be the only copy by then."""
    device = Device.new()
    device.build("a")
    device.shipper(place.bucket).once()
    before = contents(device.folder)
    place.bucket.delete(keys(place.bucket))
    with pytest.raises(bs.NotFound, match="no table"):
        device.shipper(place.bucket, remove_shipped=True).once()
    assert contents(device.folder) == before


def test_uploads_that_never_ended_are_no_table_to_ship_to() -> None:
    device, nowhere = Device.new(), MemoryBucket(Device.new().world.clock, "memory://mistyped")
    (meta,) = device.build("a")
    nowhere.put(object_key(ulid_at(NOW), meta.files[0].path), b"half")
    with pytest.raises(bs.NotFound, match="no table"):
        device.shipper(nowhere, remove_shipped=True).once()
    assert len(keys(nowhere)) == 1


def test_a_table_that_was_never_finished_is_none_to_ship_to() -> None:
    device, begun = Device.new(), MemoryBucket(Device.new().world.clock, "memory://begun")
    device.build("a")
    begun.put(BOUNDARY, b"0")
    with pytest.raises(bs.NotFound, match="never finished"):
        device.shipper(begun, remove_shipped=True).once()
    assert keys(begun) == [BOUNDARY]


def test_where_an_index_was_lost_nothing_is_shipped() -> None:
    place, device = Place.new(), Device.new()
    place.open().append(rows("before"), job=Job(app="app", batch=1))
    device.build("a")
    place.bucket.delete([key for key in keys(place.bucket) if key.startswith(("index/", "gc/"))])
    before = keys(place.bucket)
    with pytest.raises(Corrupt, match="index rebuild"):
        device.shipper(place.bucket, remove_shipped=True).once()
    assert keys(place.bucket) == before


def without_its_index(place: Place) -> None:
    """The second step of putting a table back from a copy."""
    place.bucket.delete([key for key in keys(place.bucket) if key.startswith(("index/", "gc/"))])


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("jobs", [True, False])
def test_while_an_indexed_table_is_put_back_nothing_is_shipped_and_nothing_removed(
    running: bool, jobs: bool
) -> None:
    """Its oldest block is a plain append; with ``jobs`` a later one is shown by the index alone."""
    place, device = Place.new(), Device.new()
    place.open().append(rows("before"))
    if jobs:
        place.open().append(rows("job"), job=Job(app="app", batch=1))
    device.build("a")
    shipper = device.shipper(place.bucket)
    shipper.once()
    device.build("b")
    shipper = shipper if running else device.shipper(place.bucket)
    without_its_index(place)
    there, here = keys(place.bucket), contents(device.folder)
    shipper._remove = True
    for _ in range(2):
        with pytest.raises(Corrupt, match="the index was lost"):
            shipper.once()
    assert keys(place.bucket) == there
    assert contents(device.folder) == here


def test_a_device_that_does_not_know_the_table_finds_in_its_newest_block_that_it_had_an_index() -> (
    None
):
    place, device = Place.new(), Device.new()
    place.open().append(rows("before"))
    place.open().append(rows("job"), job=Job(app="app", batch=1))
    device.build("a")
    without_its_index(place)
    before = keys(place.bucket)
    with pytest.raises(Corrupt, match="the index was lost"):
        device.shipper(place.bucket, remove_shipped=True).once()
    assert keys(place.bucket) == before


@pytest.mark.parametrize("remove", [True, False])
def test_without_an_index_a_block_that_contradicts_the_blocks_there_is_refused_and_kept(
    remove: bool,
) -> None:
    """Also one that is older than they are: by age it would push them out."""
    place, early, device = (
        Place.new(indexed=False),
        Device.new(seed=2, off_s=-HOUR),
        Device.new(seed=3),
    )
    clash = Definition.create(pa.schema([("writer", pa.int64())]))
    meta = build_block(early.folder, early.world, clash, pa.table({"writer": [1]}))
    assert meta is not None
    device.build("a")
    for _ in range(2):
        report = early.shipper(place.bucket, remove_shipped=remove).once()
        assert [refused.ulid for refused in report.refused] == [meta.ulid]
        assert "'writer' has the type int64, and string in older blocks" in report.refused[0].reason
        assert (report.shipped, report.removed) == ((), ())
    assert device.shipper(place.bucket, remove_shipped=remove).once().refused == ()
    assert [key for key in keys(place.bucket) if meta.ulid in key] == []
    assert meta_key(meta.ulid) in keys(early.folder)
    assert everywhere(place) == expected(a=1)


def test_without_an_index_a_block_may_bring_a_column_and_the_next_must_agree_with_it() -> None:
    place, device = Place.new(indexed=False), Device.new()

    def build(writer: str, type_: pa.DataType) -> BlockMeta:
        definition = Definition.create(pa.schema([*SCHEMA, ("more", type_)]), sort_by=["row"])
        more = pa.array([1] * ROWS).cast(type_)
        meta = build_block(
            device.folder, device.world, definition, rows(writer).append_column("more", more)
        )
        assert meta is not None
        device.world.clock.sleep(1)
        return meta

    first, second, third = build("a", pa.int64()), build("b", pa.string()), build("c", pa.int64())
    report = device.shipper(place.bucket).once()
    assert [block.ulid for block in report.shipped] == [first.ulid, third.ulid]
    assert [refused.ulid for refused in report.refused] == [second.ulid]
    assert everywhere(place) == expected(a=1, c=1)


def test_a_schema_that_lies_there_costs_a_device_no_look_at_every_block() -> None:
    """Few requests on a thin line, however many blocks the table has."""

    def requests(others: int) -> int:
        place, device = Place.new(indexed=False), Device.new()
        for number in range(others):
            place.open().append(rows(f"other{number}"))
        device.build("a")
        device.shipper(place.bucket).once()
        device.build("b")
        metered = Metered(place.bucket)
        device.shipper(metered).once()
        return metered.counts.total()

    assert requests(9) == requests(2)


def test_another_block_under_the_same_name_is_not_taken_for_it(place: Place) -> None:
    device, twin = Device.new(seed=5), Device.new(seed=5)
    (one,) = device.build("a")
    (other,) = twin.build("b")
    assert one.ulid == other.ulid
    device.shipper(place.bucket).once()
    report = twin.shipper(place.bucket).once()
    if place.indexed:
        assert [block.already for block in report.shipped] == [True]
    else:
        assert "differs from the one" in report.refused[0].reason
    assert everywhere(place) == expected(a=1)


@pytest.mark.parametrize("error", [AccessDenied("no"), Throttled("slow down"), Unavailable("gone")])
def test_what_the_store_does_stops_the_pass_and_the_next_one_goes_on(
    place: Place, error: bs.BlockstoreError
) -> None:
    device = Device.new()
    device.build("a", "b", "c")

    class Refusing(FaultyBucket):
        def writer(self, key: str) -> object:  # type: ignore[override]
            if sum(call.method == "writer" for call in self.calls) >= 3:
                raise error
            return super().writer(key)

    with pytest.raises(type(error)):
        device.shipper(Refusing(place.bucket)).once()
    state = load(device.folder)
    assert state is not None
    assert len(state.sent_to(place.bucket.url)) == 1
    assert len(device.shipper(place.bucket).once().shipped) == 2
    assert everywhere(place) == expected(a=1, b=1, c=1)


def test_an_answer_that_is_lost_once_is_asked_for_again_with_a_pause(place: Place) -> None:
    device = Device.new()
    device.build("a")
    before = device.world.clock.now_ms()
    device.shipper(FaultyBucket(place.bucket, refuse={5: Throttled("slow down")})).once()
    assert device.world.clock.now_ms() > before
    assert everywhere(place) == expected(a=1)


def test_a_store_without_conditional_writes_has_tables_without_an_index() -> None:
    class Plain(FaultyBucket):
        def put_if_absent(self, key: str, data: bytes) -> str:
            raise Invalid("no conditions here")

        put_if_match = put_if_absent  # type: ignore[assignment]

    place, device = Place.new(indexed=False), Device.new()
    device.build("a", "b")
    assert len(device.shipper(Plain(place.bucket)).once().shipped) == 2
    assert everywhere(place) == expected(a=1, b=1)


def test_a_damaged_index_stops_the_pass() -> None:
    place, device = Place.new(), Device.new()
    device.build("a")
    place.bucket.put("index/00000000000000000001.json", b"{")
    with pytest.raises(Corrupt):
        device.shipper(place.bucket).once()


def test_entries_without_a_boundary_stop_the_pass_instead_of_being_no_index() -> None:
    place, device = Place.new(), Device.new()
    device.build("a")
    place.bucket.delete(["gc/index.boundary"])
    with pytest.raises(bs.BoundaryLost):
        device.shipper(place.bucket).once()


def test_removal_takes_only_what_is_durable_and_written_down(place: Place) -> None:
    device = Device.new()
    _, damaged = device.build("a", "b")
    device.folder.put(object_key(damaged.ulid, damaged.files[0].path), b"rot")
    report = device.shipper(place.bucket, remove_shipped=True).once()
    assert report.removed == tuple(block.ulid for block in report.shipped)
    assert {key.partition("/")[0] for key in keys(device.folder)} == {SHIPPER_STATE, damaged.ulid}
    assert everywhere(place) == expected(a=1)


def test_nothing_is_taken_from_the_folder_unless_asked(place: Place) -> None:
    device = Device.new()
    device.build("a")
    before = keys(device.folder)
    device.shipper(place.bucket).once()
    assert sorted(keys(device.folder)) == sorted([*before, SHIPPER_STATE])


def test_one_folder_serves_two_tables(place: Place) -> None:
    device, other = Device.new(), Place.new()
    other.bucket.url = "memory://other"
    device.build("a")
    for target in (place, other, place, other):
        device.shipper(target.bucket).once()
    assert everywhere(place) == everywhere(other) == expected(a=1)


def test_a_block_stays_in_the_folder_until_each_table_that_it_serves_has_it(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    device, other = Device.new(), Place.new()
    other.bucket.url = "memory://other"
    device.build("a")
    for target in (place, other):
        device.shipper(target.bucket).once()
    for writer in "bcd":
        device.build(writer)
        assert len(device.shipper(place.bucket, remove_shipped=True).once().shipped) == 1
        assert len(keys(device.folder)) > 1
        device.shipper(other.bucket, remove_shipped=True).once()
        assert keys(device.folder) == [SHIPPER_STATE]
    assert "memory://other" in caplog.text
    everyone = expected(a=1, b=1, c=1, d=1)
    assert everywhere(place) == everywhere(other) == everyone


def test_a_table_is_no_folder_of_finished_blocks_and_nothing_is_shipped_into_itself(
    place: Place,
) -> None:
    table = Place.new()
    with pytest.raises(Invalid, match="replicate"):
        Shipper(table.bucket, MemoryBucket(table.world.clock, "memory://to"), table.world)
    with pytest.raises(Invalid, match="the folder itself"):
        Shipper(place.bucket, place.bucket, place.world)


@pytest.mark.parametrize("remove", [True, False])
def test_a_table_lost_and_made_anew_at_the_same_place_gets_the_rows_again(remove: bool) -> None:
    place, device = Place.new(), Device.new()
    device.build("a", "b")
    device.shipper(place.bucket).once()
    made_anew(place)
    report = device.shipper(place.bucket, remove_shipped=remove).once()
    assert [block.version for block in report.shipped] == [2, 3]
    assert report.refused == ()
    assert bool(report.removed) is remove
    assert place.found() == expected(a=1, b=1)
    assert everywhere(place) == expected(a=1, b=1)


def made_anew(place: Place) -> None:
    place.bucket.delete(keys(place.bucket))
    if place.indexed:
        index_log.create(place.bucket, place.world, DEFINITION)
    else:
        declare(place.bucket, place.world, DEFINITION)


def test_without_an_index_the_last_copy_of_a_lost_table_stays_until_a_person_decides() -> None:
    place, device = Place.new(indexed=False), Device.new()
    (meta,) = device.build("a")
    device.shipper(place.bucket).once()
    made_anew(place)
    report = device.shipper(place.bucket, remove_shipped=True).once()
    assert (report.shipped, report.removed) == ((), ())
    assert [refused.ulid for refused in report.refused] == [meta.ulid]
    assert f"delete {SHIPPER_STATE}" in report.refused[0].reason
    device.folder.delete([SHIPPER_STATE])
    assert device.shipper(place.bucket, remove_shipped=True).once().removed == (meta.ulid,)
    assert everywhere(place) == expected(a=1)


def test_without_an_index_each_removal_is_asked_for_once_and_lines_alone_are_not() -> None:
    place, device = Place.new(indexed=False), Device.new()
    built = device.build("a", "b")
    device.shipper(place.bucket).once()
    names = [meta_key(meta.ulid) for meta in built]
    faulty = FaultyBucket(place.bucket)
    asked: list[str] = []
    faulty.before.append(lambda call: asked.append(call.key) if call.method == "head" else None)
    device.shipper(faulty).once()
    assert asked == []
    report = device.shipper(faulty, remove_shipped=True).once()
    assert report.removed == tuple(meta.ulid for meta in built)
    assert [key for key in asked if key in names] == names


def test_what_a_merge_has_taken_in_is_removed_though_its_block_is_gone() -> None:
    place, device = Place.new(indexed=False), Device.new()
    metas = device.build("a", "b")
    device.shipper(place.bucket).once()
    place.age()
    merge_all(place)
    place.bucket.delete([key for meta in metas for key in keys(place.bucket, f"{meta.ulid}/")])
    report = device.shipper(place.bucket, remove_shipped=True).once()
    assert report.refused == ()
    assert report.removed == tuple(meta.ulid for meta in metas)
    assert everywhere(place) == expected(a=1, b=1)


def test_what_was_removed_from_the_table_on_purpose_is_not_shipped_again() -> None:
    place, device = Place.new(), Device.new()
    (meta,) = device.build("a")
    device.shipper(place.bucket).once()
    place.open().delete("writer = 'a'")
    place.bucket.delete(keys(place.bucket, f"{meta.ulid}/"))
    metered = Metered(place.bucket)
    report = device.shipper(metered, remove_shipped=True).once()
    assert (report.shipped, report.refused, report.removed) == ((), (), (meta.ulid,))
    assert metered.counts["head"] == 0
    assert everywhere(place) == expected()


def test_the_floor_is_no_witness_for_a_removal() -> None:
    """The index forgets there: it can tell a lost block from a removed one no longer."""
    place, device = Place.new(), Device.new()
    (old,) = device.build("old")
    device.shipper(place.bucket).once()
    made_anew(place)
    place.wait(40 * 24 * HOUR)
    device.world.clock.sleep(40 * 24 * HOUR)
    raise_watermarks(place, horizon_s=48 * HOUR, floor_s=30 * 24 * HOUR)
    report = device.shipper(place.bucket, remove_shipped=True).once()
    assert (report.shipped, report.removed) == ((), ())
    assert [refused.ulid for refused in report.refused] == [old.ulid]
    assert meta_key(old.ulid) in keys(device.folder)
    assert device.shipper(place.bucket).once().refused == ()
