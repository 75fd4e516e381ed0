"""The options of a stream, checked when they are parsed.

- ``start`` is where a new stream begins; afterwards Spark's checkpoint has the position.
- A stream is named by its query, not by ``app`` and ``batch``: these are refused.
- ``labels`` of a source are names of label columns that the stream has from its start, even if no
  block has them yet. ``labels`` of a sink are ``key=value`` pairs, as in every write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from blockstore.errors import Invalid
from blockstore.operations.instants import to_ms
from blockstore.spark.options import integer, known, names, size_if_given, table_url
from blockstore.spark.writing.options import WriteOptions, write_options

_STREAM_ONLY = ("start", "on_removal", "max_blocks", "max_bytes", "labels")
_SOURCE = ("path", "columns", "where", "partition_size", *_STREAM_ONLY)
_OF_JOBS = ("app", "batch", "any_order", "if_exists", "where", "isolation", "read_version")
"""Options of a write that is a job of its own."""
_OF_SPARK = ("checkpointlocation", "queryname")
"""Options of the query that Spark passes to its sink."""


class Start(StrEnum):
    """Where a new stream begins."""

    SNAPSHOT = "snapshot"
    """With every row that the table has now, and then every new one."""
    EARLIEST = "earliest"
    """With every row of the oldest version left, and then every later one."""
    LATEST = "latest"
    """With the next new row."""
    VERSION = "version"
    """With the rows that a version added."""
    TIME = "time"
    """With the rows that were added at or after a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """A start, and the version or the time (milliseconds since the epoch) that goes with it."""

    kind: Start = Start.SNAPSHOT
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReadOptions:
    """Which rows a stream delivers, and how many at a time.

    None means all columns, every row, no limit.
    """

    url: str
    start: StreamStart = StreamStart()
    ignores_removal: bool = False
    """Whether removed and changed rows are ignored; otherwise they stop the stream."""
    columns: tuple[str, ...] | None = None
    where: str | None = None
    labels: tuple[str, ...] = ()
    max_blocks: int | None = None
    max_bytes: int | None = None
    partition_bytes: int | None = None


def is_stream(options: Mapping[str, str]) -> bool:
    """Whether the options contain one that only ``spark.readStream`` has."""
    return any(name.lower() in _STREAM_ONLY for name in options)


def source_options(options: Mapping[str, str]) -> StreamReadOptions:
    """Parse the options of ``spark.readStream``. Raises Invalid with the name of the wrong one."""
    for name in options:
        if name.lower() in ("version", "as_of", "tag"):
            raise Invalid(
                f"option {name!r} names one snapshot, and a stream follows the table: set its "
                "beginning with option('start', …)."
            )
    given = known(options, _SOURCE, "stream")
    columns, blocks = given.get("columns"), given.get("max_blocks")
    return StreamReadOptions(
        url=table_url(given, "load"),
        start=_start(given.get("start", Start.SNAPSHOT).strip()),
        ignores_removal=_ignores(given.get("on_removal", "stop")),
        columns=None if columns is None else names(columns, "columns"),
        where=given.get("where"),
        labels=names(given.get("labels", ""), "labels"),
        max_blocks=None if blocks is None else integer(blocks, "max_blocks", least=1),
        max_bytes=size_if_given(given, "max_bytes"),
        partition_bytes=size_if_given(given, "partition_size"),
    )


def sink_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse the options of ``writeStream``. Raises Invalid with the name of the wrong one."""
    given = {
        name.lower(): value for name, value in options.items() if name.lower() not in _OF_SPARK
    }
    for name in _OF_JOBS:
        if name in given:
            raise Invalid(
                f"option {name!r} is not for streams: every micro-batch is appended as a job that "
                "is named by its query and its number, both kept in the checkpoint. Remove the "
                "option, or use foreachBatch."
            )
    return write_options(given)


def _start(text: str) -> StreamStart:
    if text.lower() in (Start.SNAPSHOT, Start.EARLIEST, Start.LATEST):
        return StreamStart(kind=Start(text.lower()))
    if text.isascii() and text.isdigit():
        return StreamStart(kind=Start.VERSION, at=integer(text, "start", least=1))
    try:
        return StreamStart(kind=Start.TIME, at=to_ms(text))
    except Invalid:
        raise Invalid(
            f"option start={text!r}: expected snapshot, earliest, latest, the number of a "
            "version, or a time such as '2024-01-31T12:00:00Z'."
        ) from None


def _ignores(text: str) -> bool:
    if text.lower() not in ("stop", "ignore"):
        raise Invalid(f"option on_removal={text!r}: expected stop or ignore.")
    return text.lower() == "ignore"
