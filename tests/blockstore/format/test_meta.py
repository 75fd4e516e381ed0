"""meta.json: the same after its bytes; hostile bytes are Corrupt, newer ones NewerFormat, both by
the block's name."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.clock import ManualClock
from blockstore.errors import Corrupt, NewerFormat, ObjectMissing
from blockstore.format.block import BlockMeta, ColumnStats, SegmentsFile
from blockstore.format.meta import decode, encode, from_dict, load_meta, to_dict
from blockstore.format.sources import encode_sources, hash_sources, write_sources
from blockstore.ids import MAX_ULID
from tests.blockstore.format.blocks import SHA, A, B, block, chunk, merged
from tests.support.examples import few

HUGE = 2**63


@pytest.mark.parametrize(
    "meta", [block(), merged(), block(labels={}, job=None, revision=1, sources=(B,))]
)
def test_a_block_is_the_same_after_its_bytes(meta: BlockMeta) -> None:
    assert decode(encode(meta), ulid=meta.ulid) == meta


def test_the_bytes_depend_on_the_value_alone() -> None:
    meta = block()
    turned = replace(meta, labels=dict(reversed(meta.labels.items())))
    assert encode(meta) == encode(turned)


def test_the_document_has_the_names_of_the_format() -> None:
    value = json.loads(encode(block()))
    assert list(value) == [
        "version",
        "ulid",
        "minTime",
        "maxTime",
        "stats",
        "compaction",
        "blockstore",
    ]
    assert value["stats"] == {"numRows": 2, "numBytes": 100, "numChunks": 1}
    assert value["compaction"] == {"level": 1, "parents": [], "sources": [A]}
    assert set(value["blockstore"]) == {
        "labels", "resolution", "visible_by", "ignore_delay", "revision", "own", "uploaded_time",
        "producer", "job",
        "time_column", "sort_by", "schema", "files",
    }  # fmt: skip
    assert value["blockstore"]["files"][0]["columns"]["v"] == {
        "min": None,
        "max": "Infinity",
        "nulls": 0,
        "nans": 1,
    }


def test_an_entry_holds_the_meta_without_sources_and_schema() -> None:
    meta = merged(schema_id=3)
    value = orjson.loads(orjson.dumps(to_dict(meta)))
    assert "sources" not in value["compaction"]
    assert "schema" not in value["blockstore"]
    assert "version" not in value
    assert from_dict(value, sources=meta.sources) == replace(meta, schema=b"")
    assert from_dict(value).sources == (meta.ulid,)


SEGMENTS = SegmentsFile(bytes=1_234, sha256="cd" * 32)


@pytest.mark.parametrize("meta", [block(segments=SEGMENTS), merged(segments=SEGMENTS)])
def test_segments_and_footers_are_the_same_after_their_bytes(meta: BlockMeta) -> None:
    meta = replace(meta, files=tuple(replace(file, footer=77) for file in meta.files))
    assert decode(encode(meta), ulid=meta.ulid) == meta
    value = to_dict(replace(meta, schema_id=3))
    assert from_dict(value, sources=meta.sources) == replace(meta, schema=b"", schema_id=3)


def test_a_block_without_them_has_the_bytes_of_earlier_releases() -> None:
    value = json.loads(encode(block()))
    assert "segments" not in value["blockstore"]
    assert list(value["blockstore"]["files"][0]) == ["path", "bytes", "rows", "sha256", "columns"]


def test_segments_of_another_block_do_not_count() -> None:
    """Release 0.1 copies fields that it does not know into the blocks that it rewrites."""
    value = json.loads(encode(block(segments=SEGMENTS)))
    value["blockstore"]["segments"]["ulid"] = B
    meta = decode(json.dumps(value).encode(), ulid=A)
    assert (meta.segments, meta.unknown) == (None, b"")


def test_unknown_fields_are_kept_when_a_block_is_rewritten() -> None:
    value = json.loads(encode(block()))
    value["thanos"] = {"labels": {"a": "b"}}
    value["blockstore"]["color"] = [1, 2.5, None]
    value["compaction"]["failed"] = True
    value["stats"]["numSeries"] = 2**64 - 1
    meta = decode(json.dumps(value).encode(), ulid=A)
    again = json.loads(encode(replace(meta, producer="rewrite")))
    assert again["thanos"] == {"labels": {"a": "b"}}
    assert again["blockstore"]["color"] == [1, 2.5, None]
    assert again["compaction"]["failed"] is True
    assert again["stats"]["numSeries"] == 2**64 - 1
    assert again["blockstore"]["producer"] == "rewrite"
    assert from_dict(to_dict(meta)).unknown == meta.unknown


def test_more_than_a_thousand_sources_stand_in_their_own_file() -> None:
    sources = tuple(f"01JD{number:022d}" for number in range(1001))
    meta = merged(sources=sources, parents=())
    data = encode(meta)
    assert len(data) < 4000
    assert decode(data, ulid=meta.ulid, load_sources=lambda: encode_sources(sources)) == meta
    with pytest.raises(Corrupt, match="were not loaded"):
        decode(data, ulid=meta.ulid)
    with pytest.raises(Corrupt, match="count and hash"):
        decode(data, ulid=meta.ulid, load_sources=lambda: encode_sources((*sources[:-1], MAX_ULID)))
    with pytest.raises(Corrupt, match=r"sources\.parquet"):
        decode(data, ulid=meta.ulid, load_sources=lambda: b"garbage")


def test_a_higher_version_is_refused_before_anything_else() -> None:
    with pytest.raises(
        NewerFormat, match=f"block {A}: meta.json has format version 2.*upgrade blocklake"
    ):
        decode(b'{"version": 2, "everything": "else"}', ulid=A)


def _at(path: str, value: object) -> Callable[[Any], None]:
    """A change of one field, named by its path."""

    def change(document: Any) -> None:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
        for part in parents:
            document = document[part]
        if value is _at:
            del document[last]
        else:
            document[last] = value

    return change


DAMAGE = [
    ("version", "1"), ("version", 0), ("version", True), ("version", _at),
    ("ulid", B), ("ulid", "x"), ("ulid", A.lower()), ("ulid", _at),
    ("minTime", "0"), ("minTime", 1.5), ("minTime", 10), ("minTime", HUGE), ("maxTime", None),
    ("stats", []), ("stats", _at), ("stats/numRows", -1), ("stats/numRows", 3),
    ("stats/numBytes", -1),
    ("stats/numBytes", HUGE), ("stats/numChunks", 2),
    ("compaction", _at), ("compaction/level", 0), ("compaction/level", 2**40),
    ("compaction/sources", []),
    ("compaction/sources", [B]), ("compaction/sources", [A, B]), ("compaction/sources", A),
    ("compaction/sources", ["x"]), ("compaction/sources", {"count": 1}),
    ("compaction/parents", [{"ulid": "x"}]),
    ("compaction/parents", {}),
    ("blockstore", _at), ("blockstore/labels", {"a": 1}), ("blockstore/labels", {"_source": "x"}),
    ("blockstore/resolution", -1), ("blockstore/visible_by", "magic"),
    ("blockstore/visible_by", _at),
    ("blockstore/ignore_delay", 0), ("blockstore/revision", -1), ("blockstore/revision", HUGE - 1),
    ("blockstore/own", "yes"), ("blockstore/uploaded_time", "now"), ("blockstore/producer", 1),
    ("blockstore/job", "x"), ("blockstore/job", {"app": "x"}),
    ("blockstore/job", {"app": 1, "batch": 1}),
    ("blockstore/job", {"app": "x", "batch": -1}), ("blockstore/time_column", 1),
    ("blockstore/time_column", "nowhere"), ("blockstore/sort_by", "t"),
    ("blockstore/sort_by", ["nowhere"]),
    ("blockstore/schema", _at), ("blockstore/schema", "***"), ("blockstore/schema", ""),
    ("blockstore/schema", "AAAAAAAA"), ("blockstore/schema", 5),
    ("blockstore/files", _at), ("blockstore/files", []), ("blockstore/files/0", None),
    ("blockstore/files/0/path", "../../etc/passwd"), ("blockstore/files/0/path", "/etc/passwd"),
    ("blockstore/files/0/path", "chunks/../meta.json"),
    ("blockstore/files/0/path", "chunks//a.parquet"),
    ("blockstore/files/0/path", "chunks/a.parquet\n"), ("blockstore/files/0/path", "meta.json"),
    ("blockstore/files/0/path", _at), ("blockstore/files/0/bytes", -5),
    ("blockstore/files/0/bytes", "5"),
    ("blockstore/files/0/rows", -1), ("blockstore/files/0/rows", 2.0),
    ("blockstore/files/0/sha256", "ab"),
    ("blockstore/files/0/sha256", SHA.upper()), ("blockstore/files/0/columns", []),
    ("blockstore/files/0/columns/t", 1), ("blockstore/files/0/columns/t/min", "early"),
    ("blockstore/files/0/columns/t/min", []), ("blockstore/files/0/columns/origin/max", 7),
    ("blockstore/files/0/columns/v/max", "high"), ("blockstore/files/0/columns/t/nulls", -1),
    ("blockstore/files/0/columns/t/nulls", 3), ("blockstore/files/0/columns/t/nulls", _at),
    ("blockstore/files/0/columns/v/nans", 3), ("blockstore/files/0/columns/other",
     {"min": 1, "max": 2, "nulls": 0}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value"), DAMAGE, ids=lambda part: "missing" if part is _at else str(part)[:40]
)
def test_a_damaged_field_is_corrupt_and_the_block_is_named(path: str, value: object) -> None:
    document = json.loads(encode(block()))
    _at(path, value)(document)
    with pytest.raises(Corrupt, match=f"block {A}: meta.json"):
        decode(json.dumps(document).encode(), ulid=A)


def test_every_truncation_is_corrupt() -> None:
    data = encode(block())
    for length in range(len(data)):
        with pytest.raises(Corrupt):
            decode(data[:length], ulid=A)


def test_a_repeated_key_is_corrupt() -> None:
    data = encode(block()).replace(b'"own":true', b'"own":true,"own":false')
    with pytest.raises(Corrupt, match="'own' occurs twice"):
        decode(data, ulid=A)


def test_two_files_of_one_path_are_corrupt() -> None:
    document = json.loads(encode(block(files=(chunk(rows=1), chunk(2, rows=1)))))
    document["blockstore"]["files"][1]["path"] = document["blockstore"]["files"][0]["path"]
    with pytest.raises(Corrupt, match="a path twice"):
        decode(json.dumps(document).encode(), ulid=A)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(max_size=8)
    | st.just([])
    | st.just({})
)


@settings(max_examples=few(200))
@given(st.data())
def test_whatever_is_changed_decoding_answers_or_is_corrupt(data: st.DataObject) -> None:
    document = json.loads(encode(merged()))
    target: Any = document
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        key = data.draw(st.sampled_from(keys))
        if not (isinstance(target[key], (dict, list)) and target[key] and data.draw(st.booleans())):
            break
        target = target[key]
    target[key] = data.draw(SCALARS)
    try:
        data_bytes = json.dumps(copy.deepcopy(document)).encode()
        meta = decode(data_bytes, ulid=merged().ulid)
    except Corrupt:
        return
    assert decode(encode(meta), ulid=meta.ulid) == meta


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5).filter(
            lambda name: not name.startswith("_")
        ),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        max_size=3,
    ),
    st.integers(0, 2**31 - 1),
    st.integers(-(2**62), 2**62),
)
def test_any_block_survives_its_bytes(labels: dict[str, str], revision: int, start: int) -> None:
    meta = block(
        labels=labels,
        revision=revision,
        min_time=start,
        max_time=start + 1,
        files=(chunk(v=ColumnStats(min=-1.5, max=2.0, nulls=1)),),
    )
    assert decode(encode(meta), ulid=A) == meta


@pytest.mark.parametrize("spelling", ["sha256", "hash"])
def test_the_hash_of_a_long_list_is_read_under_both_of_its_names(spelling: str) -> None:
    """0.1 wrote ``hash`` alone here, and ``sha256`` in entries.

    Its readers need the old name, and no ``requires`` stops them.
    """
    sources = tuple(f"01JD{number:022d}" for number in range(1001))
    meta = merged(sources=sources, parents=())
    value = json.loads(encode(meta))
    outside = value["compaction"]["sources"]
    assert outside == {
        "path": "sources.parquet",
        "count": 1001,
        "sha256": hash_sources(sources),
        "hash": hash_sources(sources),
    }
    value["compaction"]["sources"] = {name: outside[name] for name in ("path", "count", spelling)}
    load = lambda: encode_sources(sources)  # noqa: E731
    assert decode(json.dumps(value).encode(), ulid=meta.ulid, load_sources=load) == meta
    value["compaction"]["sources"][spelling] = "0" * 64
    with pytest.raises(Corrupt, match="the count and hash"):
        decode(json.dumps(value).encode(), ulid=meta.ulid, load_sources=load)


def test_a_block_is_loaded_with_one_get() -> None:
    bucket = Metered(MemoryBucket(ManualClock()))
    bucket.put(f"{A}/meta.json", encode(block()))
    assert load_meta(bucket, A) == block()
    assert bucket.counts["get"] == 1


def test_many_sources_are_loaded_from_their_file() -> None:
    bucket = MemoryBucket(ManualClock())
    sources = tuple(f"01JD{number:022d}" for number in range(1001))
    meta = merged(sources=sources)
    file = write_sources(bucket, meta.ulid, sources)
    meta = merged(sources=sources, files=(chunk(), file))
    bucket.put(f"{meta.ulid}/meta.json", encode(meta))
    assert load_meta(bucket, meta.ulid) == meta


def test_a_missing_and_a_misplaced_meta_are_told_apart() -> None:
    bucket = MemoryBucket(ManualClock())
    with pytest.raises(ObjectMissing):
        load_meta(bucket, A)
    bucket.put(f"{B}/meta.json", encode(block()))
    with pytest.raises(Corrupt, match="the name of its directory"):
        load_meta(bucket, B)
