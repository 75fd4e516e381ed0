"""A timeline as JSON: everything is there, and ten thousand blocks stay small."""

from __future__ import annotations

import gzip
from dataclasses import replace

import orjson

from blockstore.service.pages.columns import encode
from blockstore.service.pages.timeline import Shade, Timeline
from tests.blockstore.service.pages.scene import NOW_MS, lived_in


def test_every_block_comes_back_from_its_columns() -> None:
    timeline = lived_in(200)
    value = orjson.loads(encode(timeline))
    assert value["count"] == 200
    columns = value["blocks"]
    for place, block in enumerate(timeline.blocks):
        stream = value["streams"][columns["stream"][place]]
        assert stream == {
            "labels": dict(block.stream.labels),
            "resolution": block.stream.resolution,
        }
        low = value["origin"] + columns["min"][place]
        assert (low, low + columns["length"][place]) == (block.min_time, block.max_time)
        assert value["states"][columns["state"][place]] == block.shade
        assert value["reasons"][columns["reason"][place]] == block.reason
        for name in ("ulid", "level", "rows", "bytes", "sources"):
            assert columns[name][place] == getattr(block, name)
        assert columns["version"][place] == (block.version or 0)
        assert (place in columns["no_compact"]) is block.no_compact
    assert {
        name: value[name] for name in ("table", "version", "boundary", "tags", "time_column")
    } == {
        "table": "readings",
        "version": 1_204,
        "boundary": 310,
        "tags": {"q3-close": 290},
        "time_column": "time",
    }


def test_every_state_is_named_in_one_order_also_where_no_block_has_it() -> None:
    value = orjson.loads(encode(Timeline(table="t", now_ms=NOW_MS)))
    assert value["states"] == list(Shade)
    assert value["count"] == 0
    assert value["version"] is None


def test_ten_thousand_blocks_are_less_than_a_megabyte_and_half_of_that_compressed() -> None:
    data = encode(lived_in(10_000))
    assert len(data) < 1_000_000
    assert len(gzip.compress(data, 6)) < 500_000


def test_times_far_from_each_other_stay_exact() -> None:
    first, second = lived_in(6).blocks[:2]
    far = (
        replace(first, min_time=-(2**52), max_time=-(2**52) + 1),
        replace(second, min_time=2**52, max_time=2**52 + 1),
    )
    value = orjson.loads(encode(Timeline(table="t", now_ms=NOW_MS, blocks=far)))
    assert value["origin"] + value["blocks"]["min"][1] == 2**52
