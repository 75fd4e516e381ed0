"""What a user may say in ``option(…)``, checked at once and turned into values.

- Option names are case-insensitive, as everywhere in Spark; a name that nobody reads is an error that names the
  nearest known one: a misspelt ``app`` must not quietly cost the exactly-once promise.
- ``app`` and ``batch`` come together or not at all.
- Columns are named in one comma-separated string; labels are ``key=value`` pairs, likewise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from blockstore.errors import Invalid
from blockstore.format.block import Job
from spark.option_texts import checked_url, flag, known, labels, names, size, table_url, whole

__all__ = ["ReadOptions", "WriteOptions", "checked_url", "read_options", "write_options"]

_WRITE = ("path", "app", "batch", "time_column", "sort_by", "labels", "buffer_size", "chunk_size")
_READ = ("path", "version", "as_of", "columns", "where", "filters", "partition_size")

DEFAULT_BUFFER_BYTES = 256 * 2**20
DEFAULT_CHUNK_BYTES = 256 * 2**20
DEFAULT_PARTITION_BYTES = 128 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How a DataFrame is written. The definition's parts (time column, sort key, labels) serve a first write only."""

    url: str
    job: Job | None = None
    time_column: str | None = None
    sort_by: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    """Rows that one task holds in memory before it sorts and writes a chunk."""
    chunk_bytes: int = DEFAULT_CHUNK_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Which snapshot is read, and which part of it. None means the newest version, all columns, every row."""

    url: str
    version: int | None = None
    as_of: str | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    filters: bool = False
    """Whether Spark's own filters prune chunks (needs spark.sql.python.filterPushdown.enabled)."""
    partition_bytes: int = DEFAULT_PARTITION_BYTES
    """Chunks are gathered into Spark partitions of about this size."""


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """The options of ``df.write``; raises Invalid naming the one that is wrong."""
    given = known(options, _WRITE, "write")
    return WriteOptions(
        url=table_url(given, "save"),
        job=_job(given),
        time_column=given.get("time_column") or None,
        sort_by=names(given.get("sort_by", ""), "sort_by"),
        labels=labels(given.get("labels", "")),
        buffer_bytes=size(given, "buffer_size", DEFAULT_BUFFER_BYTES),
        chunk_bytes=size(given, "chunk_size", DEFAULT_CHUNK_BYTES),
    )


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of ``spark.read``; raises Invalid naming the one that is wrong."""
    given = known(options, _READ, "read")
    version, as_of = given.get("version"), given.get("as_of")
    if version is not None and as_of is not None:
        raise Invalid(
            f"both version={version!r} and as_of={as_of!r} are given: expected one of them, drop the other."
        )
    columns = given.get("columns")
    return ReadOptions(
        url=table_url(given, "load"),
        version=None if version is None else whole(version, "version", least=1),
        as_of=as_of,
        columns=None if columns is None else names(columns, "columns"),
        where=given.get("where"),
        filters=flag(given, "filters"),
        partition_bytes=size(given, "partition_size", DEFAULT_PARTITION_BYTES),
    )


def _job(given: Mapping[str, str]) -> Job | None:
    app, batch = given.get("app"), given.get("batch")
    if app is None and batch is None:
        return None
    if not app or batch is None:
        raise Invalid(
            f"a job is named by both options: found app={app!r} and batch={batch!r}; give each batch a number of its own."
        )
    return Job(app=app, batch=whole(batch, "batch", least=0))
