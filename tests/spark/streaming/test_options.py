"""Options of streams: wrong ones say so before anything runs."""

from __future__ import annotations

import pytest

from blockstore.errors import Invalid
from blockstore.spark.streaming.options import (
    Start,
    StreamStart,
    is_stream,
    sink_options,
    source_options,
)

URL = {"path": "lake/flights"}


def test_a_plain_stream_begins_with_the_table_as_it_is_and_stops_at_removals() -> None:
    options = source_options(URL)
    assert options.start == StreamStart(kind=Start.SNAPSHOT)
    assert not options.ignores_removal
    assert (options.columns, options.where, options.max_blocks, options.max_bytes) == (
        None,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", StreamStart(kind=Start.EARLIEST)),
        ("Latest", StreamStart(kind=Start.LATEST)),
        (" snapshot ", StreamStart(kind=Start.SNAPSHOT)),
        ("40", StreamStart(kind=Start.VERSION, at=40)),
        ("1970-01-01T00:00:01Z", StreamStart(kind=Start.TIME, at=1000)),
        ("1970-01-01", StreamStart(kind=Start.TIME, at=0)),
    ],
)
def test_a_start_is_a_word_a_version_or_a_time(text: str, start: StreamStart) -> None:
    assert source_options({**URL, "start": text}).start == start


def test_every_source_option_is_read_whatever_its_case() -> None:
    options = source_options(
        {
            **URL,
            "On_Removal": "Ignore",
            "COLUMNS": "a, b",
            "where": "a > 1",
            "labels": "cluster, region",
            "max_blocks": "7",
            "max_bytes": "64MiB",
            "partition_size": "1MiB",
        }
    )
    assert options.ignores_removal
    assert (options.columns, options.where) == (("a", "b"), "a > 1")
    assert options.labels == ("cluster", "region")
    assert (options.max_blocks, options.max_bytes, options.partition_bytes) == (
        7,
        64 * 2**20,
        2**20,
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no table URL is given"),
        ({**URL, "start": "yesterday"}, "start='yesterday': expected snapshot, earliest, latest"),
        ({**URL, "start": "0"}, "start='0': expected a whole number of at least 1"),
        ({**URL, "on_removal": "go"}, "on_removal='go': expected stop or ignore"),
        ({**URL, "max_blocks": "0"}, "max_blocks='0': expected a whole number"),
        ({**URL, "max_bytes": "many"}, "max_bytes='many': expected a size"),
        ({**URL, "version": "3"}, "'version' names one snapshot.*option\\('start'"),
        ({**URL, "strat": "3"}, "did you mean 'start'"),
        ({"path": "memory://lake"}, "memory of one process"),
    ],
)
def test_a_source_option_that_is_wrong_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        source_options(given)


def test_a_sink_takes_the_options_of_a_write_and_leaves_sparks_own_alone() -> None:
    options = sink_options(
        {**URL, "checkpointLocation": "/c", "queryName": "q", "sort_by": "a", "labels": "x=1"}
    )
    assert (options.sort_by, options.labels) == (("a",), {"x": "1"})


@pytest.mark.parametrize("name", ["app", "Batch", "if_exists", "any_order", "where"])
def test_a_sink_refuses_options_that_would_break_its_promise(name: str) -> None:
    with pytest.raises(Invalid, match="not for streams"):
        sink_options({**URL, name: "1"})


def test_only_options_that_reads_lack_make_it_a_stream() -> None:
    assert is_stream({**URL, "Start": "latest"})
    assert not is_stream({**URL, "columns": "a", "where": "a > 1"})
