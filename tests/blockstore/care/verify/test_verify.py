"""``verify`` finds exactly what was damaged, and nothing in a healthy table.

Each damage is done to a copy of the same worn table; then the findings must be the expected ones
and no other. A damage that only a deep look can see must not be seen by a fast one, and each must
not hide another.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from blockstore.bucket.api import Bucket
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.care.finding import Report
from blockstore.care.survey import survey
from blockstore.care.verify import verify
from blockstore.care.verify.kept import kept_blocks
from blockstore.errors import NotFound
from blockstore.format.block import VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.marks import DeletionMark, MarkReason, encode_mark
from blockstore.format.meta import encode, load_meta
from blockstore.index import log as index_log
from blockstore.index.checkpoint import encode_checkpoint
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.reachable import Kept
from blockstore.names import (
    BOUNDARY,
    HINT,
    checkpoint_key,
    deletion_mark_key,
    entry_key,
    meta_key,
    no_compact_mark_key,
    object_key,
)
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.care.scene import Care, rows, worn
from tests.support.faulty import FaultyBucket
from tests.support.raw_text import raw_text, unchecked

Told = list[tuple[str, str, str]]


def told(report: Report) -> Told:
    return [(str(one.severity), str(one.check), one.object) for one in report]


def expect(made: Care, *findings: tuple[str, str, str], deep_only: bool = False) -> Report:
    """Both looks find exactly this; with ``deep_only`` the fast one finds nothing."""
    assert told(made.verify()) == ([] if deep_only else sorted(findings, key=_rank))
    report = made.verify(deep=True)
    assert told(report) == sorted(findings, key=_rank)
    assert all(one.fix and one.what for one in report)
    return report


def _rank(one: tuple[str, str, str]) -> tuple[int, str, str]:
    return ("error", "warning", "note").index(one[0]), one[1], one[2]


def chunk_of(made: Care, ulid: str, number: int = 0) -> str:
    return load_meta(made.bucket, ulid).chunks[number].path


def test_a_healthy_table_gives_no_finding() -> None:
    made = worn()
    for deep in (False, True):
        report = made.verify(deep=deep)
        assert told(report) == []
        assert report.version == made.open().log.state.version
        assert report.blocks == 7
        assert report.files == 26


def test_a_table_without_an_index_is_looked_at_as_well_and_a_healthy_one_gives_no_finding() -> None:
    made = worn().without_index()
    expect(made)
    ulid = made.blocks["d"]
    path = chunk_of(made, ulid)
    made.bucket.delete([object_key(ulid, path)])
    expect(made, ("error", "block", meta_key(ulid)))


def test_blocks_that_only_an_index_shows_tell_that_it_was_lost() -> None:
    made = worn()
    made.bucket.delete([key for key in made.objects() if key.startswith(("index/", "gc/"))])
    report = expect(made, ("error", "block", meta_key(made.merged())))
    assert "index rebuild" in report.findings[0].fix


def test_where_nothing_lies_there_is_no_table() -> None:
    world = World.manual()
    with pytest.raises(NotFound, match="no table"):
        verify(MemoryBucket(world.clock), world)


# -- blocks


def test_a_cut_chunk_of_a_live_block_is_found() -> None:
    made = worn()
    key = object_key(made.merged(), chunk_of(made, made.merged()))
    made.edit(key, lambda data: data[:-7])
    report = expect(made, ("error", "file", key))
    assert "repair" in report.findings[0].fix
    assert report.findings[0].block == made.merged()


def test_a_missing_chunk_of_a_live_block_is_found() -> None:
    made = worn()
    key = object_key(made.blocks["d"], chunk_of(made, made.blocks["d"]))
    made.bucket.delete([key])
    expect(made, ("error", "file", key))


def test_a_flipped_byte_is_found_by_the_deep_look_alone() -> None:
    made = worn()
    key = object_key(made.merged(), chunk_of(made, made.merged(), 1))
    made.edit(key, lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:])
    expect(made, ("error", "hash", key), deep_only=True)


def test_a_meta_json_with_other_sizes_than_the_index_is_found() -> None:
    made = worn()
    ulid = made.blocks["d"]
    made.forge(ulid, lambda meta: dataclasses.replace(meta, files=(
        dataclasses.replace(meta.files[0], bytes=meta.files[0].bytes + 1), *meta.files[1:]),
    ))  # fmt: skip
    report = expect(made, ("error", "meta", meta_key(ulid)))
    assert "in files, but a block" in report.findings[0].what


def test_a_meta_json_that_is_missing_or_garbage_is_found() -> None:
    made = worn()
    made.bucket.delete([meta_key(made.blocks["d"])])
    made.edit(meta_key(made.blocks["e"]), lambda data: data[:100])
    expect(
        made,
        ("error", "block", meta_key(made.blocks["d"])),
        ("error", "block", meta_key(made.blocks["e"])),
    )


def test_a_live_block_without_any_object_is_found() -> None:
    made = worn()
    ulid = made.blocks["d"]
    made.bucket.delete(made.objects(ulid))
    expect(made, ("error", "block", meta_key(ulid)))


def test_a_block_committed_after_the_listing_is_no_finding() -> None:
    """The listing comes first: what the index names and it lacks is looked for again."""
    made = worn()
    faulty = FaultyBucket(made.bucket)
    faulty.after.append(
        lambda call: made.append("late") if (call.method, call.key) == ("list", "") else None
    )
    assert told(verify(faulty, made.world)) == []
    assert made.blocks["late"]


def test_one_damaged_object_hides_no_other() -> None:
    made = worn()
    first = object_key(made.blocks["d"], chunk_of(made, made.blocks["d"]))
    second = object_key(made.blocks["e"], chunk_of(made, made.blocks["e"], 1))
    made.bucket.delete([first])
    made.edit(second, lambda data: data[:-1] + b"!")
    made.bucket.put(f"{made.merged()}/deletion-mark.json", b"{")
    made.bucket.put(checkpoint_key(5), b"garbage")
    made.bucket.put(entry_key(3), b"garbage")
    assert told(made.verify(deep=True)) == [
        ("error", "checkpoint", checkpoint_key(5)),
        ("error", "entry", entry_key(3)),
        ("error", "file", first),
        ("error", "hash", second),
        ("warning", "mark", deletion_mark_key(made.merged())),
    ]


def test_a_damaged_block_that_no_entry_names_is_quarantined_not_lost() -> None:
    made = worn()
    ulid = made.blocks["f"]
    made.bucket.delete([object_key(ulid, chunk_of(made, ulid))])
    expect(made, ("warning", "block", meta_key(ulid)))


def test_a_damaged_block_whose_rows_a_merge_holds_is_a_note() -> None:
    made = worn()
    ulid = made.blocks["a"]
    made.collect()  # until then an older version names it
    made.edit(meta_key(ulid), lambda data: data[:50])
    made.world.clock.sleep(3600)
    expect(made, ("note", "block", meta_key(ulid)))


# -- what only tags and older versions name


def tagged(*, collected: bool) -> tuple[Care, str]:
    """A table with a tag, and a block that it alone names, or that an older version names
    besides."""
    made = worn()
    made.open().tag("close")
    made.open().delete("writer = 'd' and row = 1")
    if collected:
        made.collect()
    return made, made.blocks["d"]


@pytest.mark.parametrize("collected", [True, False])
def test_what_a_tag_names_is_looked_at_as_well(collected: bool) -> None:
    healthy, ulid = tagged(collected=collected)
    expect(healthy)
    chunk = object_key(ulid, chunk_of(healthy, ulid))
    for lost, named in (
        ([chunk], chunk),
        ([meta_key(ulid)], meta_key(ulid)),
        (healthy.objects(ulid), meta_key(ulid)),
    ):
        made = healthy.copy()
        made.bucket.delete(lost)
        (found,) = expect(made, ("error", "tag", named))
        assert "tag 'close' names the block" in found.what
        assert f"repair memory:// --block {ulid} --from" in found.fix
        assert "untag memory:// close" in found.fix
    made = healthy.copy()
    made.edit(chunk, lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:])
    expect(made, ("error", "tag", chunk), deep_only=True)
    made = healthy.copy()
    made.edit(chunk, lambda data: data[:-1])
    expect(made, ("error", "tag", chunk))
    made = healthy.copy()
    made.forge(ulid, lambda meta: dataclasses.replace(meta, producer="other"))
    expect(made, ("error", "tag", meta_key(ulid)))


def test_what_an_older_version_names_is_looked_at_until_it_is_collected() -> None:
    made = worn()
    ulid = made.blocks["a"]
    made.bucket.delete(made.objects(ulid))
    (found,) = expect(made, ("error", "version", meta_key(ulid)))
    assert "version 4 names the block" in found.what
    made.collect()
    expect(made)


def test_what_is_kept_is_what_removal_keeps() -> None:
    for collected in (True, False):
        made, ulid = tagged(collected=collected)
        named = Kept(made.open().log).look()
        there = {key.partition("/")[0] for key in made.objects() if key.endswith("/meta.json")}
        wanted = {one for one in there if named.names(one) and one not in named.state.blocks}
        assert ulid in wanted
        assert kept_blocks(made.bucket, survey(made.bucket, made.world)).keys() == wanted


def test_an_aborted_upload_is_debris_once_it_is_old_and_none_before() -> None:
    made = worn()
    ulid = made.world.ids.ulid()
    made.bucket.put(object_key(ulid, "chunks/000001.parquet"), b"x" * 10)
    expect(made)
    made.world.clock.sleep(49 * 3600)
    report = expect(made, ("note", "partial upload", ulid))
    assert "cleanup" in report.findings[0].fix


def test_chunks_of_failed_attempts_beside_a_complete_block_are_debris() -> None:
    made = worn()
    for number in range(2):
        made.bucket.put(
            object_key(made.blocks["d"], f"chunks/lost-{number:06d}.parquet"), b"x" * 10
        )
    report = expect(made, ("note", "debris", made.blocks["d"]))
    assert "2 objects of 20 bytes" in report.findings[0].what


def test_marks_that_cannot_be_read_and_one_on_a_live_block_are_told() -> None:
    made = worn()
    live, other = made.blocks["d"], made.blocks["e"]
    mark = DeletionMark(ulid=live, deletion_time_s=1, reason=MarkReason.MANUAL)
    made.bucket.put(deletion_mark_key(live), encode_mark(mark))
    made.bucket.put(no_compact_mark_key(other), b"[]")
    expect(
        made,
        ("warning", "mark", no_compact_mark_key(other)),
        ("note", "mark", deletion_mark_key(live)),
    )


def test_the_same_rows_under_two_names_are_suspected() -> None:
    made = worn()
    ulid = made.append("d")
    report = expect(made, ("warning", "duplicate", ulid))
    assert f"revert memory:// {ulid}" in report.findings[0].fix


def test_a_clock_that_is_ahead_is_told_with_the_program() -> None:
    made = worn()
    made.world.clock.sleep(3600)
    ulid = made.append("ahead")
    made.world.clock.sleep(-3600)
    fresh = made.copy()
    report = fresh.verify()
    assert told(report) == [("warning", "clock", ulid)]
    assert "60 minutes ahead" in report.findings[0].what
    assert "'python'" in report.findings[0].what
    made.world.clock.sleep(3600)


def test_a_complete_block_that_nobody_will_publish_is_for_a_person() -> None:
    made = worn()
    strange = made.world.ids.ulid()
    sources = (*load_meta(made.bucket, made.merged()).sources, strange)
    _copy_block(made, made.merged(), strange, sources=sources, visible_by=VisibleBy.AGE)
    made.world.clock.sleep(3600)
    report = expect(made, ("warning", "quarantine", strange))
    assert f"--adopt {strange}" in report.findings[0].fix


def test_an_index_block_that_was_never_committed_is_debris_only_below_the_horizon() -> None:
    made = worn()
    ulid = made.world.ids.ulid()
    _copy_block(made, made.blocks["f"], ulid, sources=(ulid,), level=1, visible_by=VisibleBy.INDEX)
    made.world.clock.sleep(3600)
    expect(made)


def test_unknown_names_are_told_and_reserved_ones_are_not() -> None:
    made = worn()
    for key in (
        "notes.txt",
        "backup/a",
        "backup/b",
        "files/x",
        "jobs/1.json",
        "index/42.json",
        "gc/lock",
    ):
        made.bucket.put(key, b"")
    expect(
        made,
        *(("note", "name", name) for name in ("backup/", "gc/lock", "index/42.json", "notes.txt")),
    )


def _copy_block(made: Care, source: str, ulid: str, **changes: object) -> None:
    meta = load_meta(made.bucket, source)
    for file in meta.files:
        made.bucket.put(
            object_key(ulid, file.path), made.bucket.get(object_key(source, file.path)).data
        )
    made.bucket.put(meta_key(ulid), encode(dataclasses.replace(meta, ulid=ulid, **changes)))


# -- what is inside the files


def test_unsorted_rows_are_found() -> None:
    made = worn()
    ulid = made.open().append(rows("long", 12)).ulid or ""
    path = chunk_of(made, ulid)
    made.forge_chunk(ulid, path, lambda table: table.take(list(reversed(range(table.num_rows)))))
    expect(made, ("error", "order", object_key(ulid, path)), deep_only=True)


def test_a_merged_block_whose_chunks_overlap_is_found() -> None:
    made = worn()
    ulid = made.merged()
    assert len(load_meta(made.bucket, ulid).chunks) > 1
    made.bucket.delete([checkpoint_key(5), HINT])
    for key in (entry_key(5), meta_key(ulid)):
        made.edit(key, _turned)
    last = load_meta(made.bucket, ulid).chunks[1:]
    expect(
        made, *(("error", "order", object_key(ulid, file.path)) for file in last), deep_only=True
    )


def _turned(data: bytes) -> bytes:
    """The files of a block in the opposite order."""
    value = json.loads(data)
    block = value["add"][0] if "add" in value else value
    block["blockstore"]["files"].reverse()
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (
            b'"row":{"min":1,"max":1,"nulls":0}',
            b'"row":{"min":0,"max":0,"nulls":0}',
            "above its upper bound",
        ),
        (
            b'"row":{"min":1,"max":1,"nulls":0}',
            b'"row":{"min":2,"max":2,"nulls":0}',
            "below its lower bound",
        ),
        (
            b'"writer":{"min":"d","max":"d"',
            b'"writer":{"min":"a","max":"c"',
            "above its upper bound",
        ),
        (
            b'"value":{"min":null,"max":null,"nulls":1}',
            b'"value":{"min":null,"max":null,"nulls":0}',
            "1 nulls",
        ),
        (b'"nulls":0,"nans":1', b'"nulls":1,"nans":0', "NaNs"),
    ],
)
def test_statistics_that_leave_a_value_outside_are_found(old: bytes, new: bytes, what: str) -> None:
    made = worn()
    ulid = made.blocks["d"]
    assert old in made.bucket.get(meta_key(ulid)).data
    made.forge_statistics(ulid, old, new)
    report = made.verify(deep=True)
    assert {(str(one.severity), str(one.check), one.block) for one in report} == {
        ("error", "statistics", ulid)
    }
    assert what in " ".join(one.what for one in report)
    assert told(made.verify()) == []


def test_a_wider_bound_or_a_missing_one_is_right() -> None:
    made = worn()
    ulid = made.blocks["d"]
    made.forge_statistics(ulid, b'"row":{"min":1,"max":1,', b'"row":{"min":0,"max":9,')
    made.forge_statistics(ulid, b'"row":{"min":2,"max":2,', b'"row":{"min":null,"max":null,')
    expect(made)


@pytest.mark.parametrize(
    ("old", "new", "check", "said"),
    [
        (b'"value":{"min"', b'"valte":{"min"', "statistics", "'valte'"),
        (b'"time_column":"at"', b'"time_column":"xt"', "time", "'xt'"),
        (b'"sort_by":["writer"', b'"sort_by":["wrjter"', "order", "'wrjter'"),
    ],
)
def test_a_column_s_name_that_was_damaged_hides_nothing_else(
    old: bytes, new: bytes, check: str, said: str
) -> None:
    made = worn()
    ulid, other = made.blocks["d"], made.blocks["e"]
    made.forge_statistics(ulid, old, new)
    flipped = object_key(other, chunk_of(made, other))
    made.edit(flipped, lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:])
    report = made.verify(deep=True)
    assert ("error", "hash", flipped) in told(report)
    of_names = [one for one in report if str(one.check) == check and one.block == ulid]
    assert of_names
    assert all(said in one.what for one in of_names)
    assert {one.block for one in report} == {ulid, other}


def test_times_outside_the_block_s_range_are_found() -> None:
    made = worn()
    ulid = made.append("times", 12)
    file = load_meta(made.bucket, ulid).chunks[0]

    def later(table: pa.Table) -> pa.Table:
        moved = pc.add(table["at"].cast(pa.int64()), pa.scalar(10_000)).cast(
            table.schema.field("at").type
        )
        return table.set_column(table.schema.get_field_index("at"), table.schema.field("at"), moved)

    made.forge_chunk(ulid, file.path, later)
    checks = {str(one.check) for one in made.verify(deep=True)}
    assert checks == {"time", "statistics"}


def test_rows_of_a_foreign_source_are_found() -> None:
    made = worn()
    ulid = made.merged()
    path = chunk_of(made, ulid)

    def foreign(table: pa.Table) -> pa.Table:
        return table.set_column(
            table.schema.get_field_index("_source"),
            table.schema.field("_source"),
            pa.array([made.blocks["d"]] * table.num_rows).dictionary_encode(),
        )

    made.bucket.delete([checkpoint_key(5), HINT])
    made.forge_chunk(ulid, path, foreign)
    report = expect(made, ("error", "source", object_key(ulid, path)), deep_only=True)
    assert made.blocks["d"] in report.findings[0].what


def test_a_column_that_is_not_in_the_schema_is_found() -> None:
    made = worn()
    ulid = made.blocks["d"]
    path = chunk_of(made, ulid)
    made.forge_chunk(
        ulid, path, lambda table: table.append_column("extra", pa.array([1] * table.num_rows))
    )
    report = expect(made, ("error", "chunk", object_key(ulid, path)), deep_only=True)
    assert "'extra'" in report.findings[0].what


def raw_rows(*writers: bytes) -> pa.Table:
    """Rows of writers whose names may be no text."""
    made = rows("x", len(writers))
    return made.set_column(0, made.schema.field(0), raw_text(writers))


def test_text_that_is_no_utf8_is_found_with_its_column_and_its_write() -> None:
    made = worn()
    with unchecked():
        ulid = made.open().append(raw_rows(b"a", b"caf\xe9", b"zz\xff")).ulid or ""
    report = expect(made, ("error", "text", object_key(ulid, chunk_of(made, ulid))), deep_only=True)
    (found,) = report
    assert found.block == ulid
    assert (
        found.what
        == "column 'writer' holds b'caf\\xe9' in row 1 (counted from 0), expected text that is "
        "UTF-8"
    )
    assert f"blockstore revert memory:// {ulid}" in found.fix


def test_text_that_is_no_utf8_is_found_after_merges_too() -> None:
    made = worn()
    with unchecked():
        sources = [
            made.open().append(raw_rows(b"h", bytes([0xE9 + place]))).ulid for place in range(2)
        ]
    assert sources[0]
    for _ in range(8):
        made.append("i")
    made.compact()
    problems = [one for one in made.verify(deep=True) if one.check == "text"]
    assert {one.severity for one in problems} == {"error", "note"}
    (live,) = (one for one in problems if one.severity == "error")
    assert live.block not in sources
    assert f"blockstore revert memory:// {sources[0]}" in live.fix
    made.open().delete('"row" < 9')
    assert made.is_sound()


NESTED = {
    "list": pa.ListArray.from_arrays([0, 1, 3], raw_text([b"a", b"b", b"caf\xe9"])),
    "struct": pa.StructArray.from_arrays([raw_text([b"a", b"caf\xe9"])], ["text"]),
    "map": pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "k"]), raw_text([b"a", b"caf\xe9"])),
}


@pytest.mark.parametrize("column", NESTED.values(), ids=NESTED.keys())
def test_nested_text_that_is_no_utf8_is_found(column: pa.Array) -> None:
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    definition = Definition.create(pa.schema([("n", pa.int64()), ("tags", column.type)]))
    index_log.create(bucket, world, definition)
    with unchecked():
        Table.open_bucket(bucket, world).append(pa.table({"n": [1, 2], "tags": column}))
    (found,) = verify(bucket, world, deep=True)
    assert (str(found.check), "column 'tags' holds bytes in row 1" in found.what) == ("text", True)


def test_a_source_that_is_no_text_is_a_foreign_one() -> None:
    made = worn()
    ulid = made.merged()
    path = chunk_of(made, ulid)

    def foreign(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index("_source")
        sources = [b"\xff" * 26, *(one.encode() for one in table["_source"].to_pylist()[1:])]
        field = table.schema.field(place).with_type(pa.dictionary(pa.int32(), pa.string()))
        return table.set_column(place, field, raw_text(sources).dictionary_encode())

    made.bucket.delete([checkpoint_key(5), HINT])
    made.forge_chunk(ulid, path, foreign)
    report = expect(made, ("error", "source", object_key(ulid, path)), deep_only=True)
    assert r"\xff\xff" in report.findings[0].what


@pytest.mark.parametrize("local", [True, False])
def test_arrow_gets_files_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    """Its threads would drop the bytes of a Python file when they like, and abort a process that is
    ending."""
    made = worn()
    bucket: Bucket = made.bucket
    if local:
        bucket = LocalBucket(tmp_path / "table", made.world.clock, durable=False)
        for key in made.objects():
            bucket.put(key, made.bucket.get(key).data)
    given: list[object] = []
    opened = pq.ParquetFile

    def note(source: object, **options: object) -> pq.ParquetFile:
        if not isinstance(source, pa.BufferReader):  # as a checkpoint is
            given.append((type(source), options.get("pre_buffer", True)))
        return opened(source, **options)

    monkeypatch.setattr(pq, "ParquetFile", note)
    assert verify(bucket, made.world, deep=True).errors == ()
    assert given
    assert {*given} == {(pa.OSFile, False)}


def test_a_merged_chunk_without_its_sources_is_found() -> None:
    made = worn()
    ulid = made.merged()
    path = chunk_of(made, ulid)
    made.bucket.delete([checkpoint_key(5), HINT])
    made.forge_chunk(ulid, path, lambda table: table.drop_columns(["_source"]))
    expect(made, ("error", "chunk", object_key(ulid, path)), deep_only=True)


# -- the index


def test_a_missing_entry_is_found_also_where_a_checkpoint_bridges_it() -> None:
    made = worn()
    made.bucket.delete([entry_key(3)])
    report = expect(made, ("error", "entry", entry_key(3)))
    assert "newer ones can" in report.findings[0].fix
    assert report.version == made.open().log.state.version


def test_a_missing_entry_behind_the_last_checkpoint_stops_readers_and_says_so() -> None:
    made = worn()
    made.bucket.delete([entry_key(6)])
    report = made.verify()
    assert told(report) == [("error", "entry", entry_key(6))]
    assert "index rebuild" in report.findings[0].fix
    assert report.version == 5


def test_a_missing_latest_entry_is_found_by_its_checkpoint() -> None:
    made = worn()
    write_checkpoint(made.bucket, made.open().log.poll())
    made.bucket.delete([entry_key(7)])
    expect(made, ("error", "entry", entry_key(7)))


def test_a_garbage_entry_is_found() -> None:
    made = worn()
    made.bucket.put(entry_key(7), b"{}")
    report = made.verify()
    assert told(report) == [("error", "entry", entry_key(7))]
    assert report.version == 6


def test_an_entry_that_cannot_follow_is_found() -> None:
    made = worn()
    gone = made.world.ids.ulid()
    made.edit(entry_key(7), lambda data: data[:-1] + f',"remove":["{gone}"]}}'.encode())
    report = made.verify()
    assert told(report) == [("error", "entry", entry_key(7))]
    assert gone in report.findings[0].what


def test_a_garbage_checkpoint_is_found_and_can_be_mended_where_the_fold_reaches_it() -> None:
    made = worn()
    made.bucket.put(checkpoint_key(5), b"garbage")
    report = expect(made, ("error", "checkpoint", checkpoint_key(5)))
    assert report.findings[0].fix == "blockstore repair memory://"
    assert report.version == 7


def test_a_checkpoint_that_does_not_equal_the_fold_is_found() -> None:
    made = worn()
    state = made.open().log.at(5)
    wrong = dataclasses.replace(state, blocks=state.blocks.changed([state.blocks.ulids()[0]], ()))
    made.bucket.put(checkpoint_key(5), encode_checkpoint(wrong))
    report = made.verify()
    assert told(report) == [("error", "checkpoint", checkpoint_key(5))]
    assert "differs from the state" in report.findings[0].what


def test_a_lost_or_garbage_boundary_is_found_and_hides_nothing_else() -> None:
    for data in (None, b"", b"12 "):
        made = worn()
        if data is None:
            made.bucket.delete([BOUNDARY])
        else:
            made.bucket.put(BOUNDARY, data)
        made.bucket.delete([meta_key(made.blocks["d"])])
        report = expect(
            made, ("error", "block", meta_key(made.blocks["d"])), ("error", "boundary", BOUNDARY)
        )
        assert "index rebuild" in report.findings[1].fix
        assert report.version == 7


def test_a_boundary_that_has_passed_the_latest_entry_is_found() -> None:
    made = worn()
    made.bucket.put(BOUNDARY, b"7")
    report = made.verify()
    assert [(one.severity, one.check) for one in report] == [("error", "entry")]
    assert "expected entry 8" in report.findings[0].what


def test_entries_below_the_boundary_are_nothing_to_look_at() -> None:
    made = worn()
    made.bucket.put(BOUNDARY, b"5")
    made.bucket.put(entry_key(3), b"zombie")
    expect(made)


def test_a_table_whose_index_is_gone_says_one_thing() -> None:
    made = worn()
    made.bucket.delete(made.objects("index/"))
    made.bucket.put(BOUNDARY, b"5")
    report = made.verify(deep=True)
    assert told(report) == [("error", "entry", "index/")]
    assert report.version is None


def test_a_tag_whose_checkpoint_is_gone_is_found() -> None:
    made = worn()
    made.tag("close", 5)
    expect(made)
    made.bucket.delete([checkpoint_key(5)])
    report = expect(made, ("error", "tag", checkpoint_key(5)))
    assert "'close'" in report.findings[0].what
