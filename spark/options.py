"""What a user may say in ``option(…)``, checked at once and turned into values.

- Option names are case-insensitive, as everywhere in Spark; a name that nobody reads is an error that names the
  nearest known one: a misspelt ``app`` must not quietly cost the exactly-once promise.
- ``app`` and ``batch`` come together or not at all.
- Columns are named in one comma-separated string; labels are ``key=value`` pairs, likewise.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from blockstore.errors import Invalid
from blockstore.format.block import Job

__all__ = ["ReadOptions", "WriteOptions", "checked_url", "read_options", "write_options"]

_WRITE = ("path", "app", "batch", "time_column", "sort_by", "labels", "buffer_size", "chunk_size")
_READ = ("path", "version", "as_of", "columns", "where", "filters", "partition_size")
_SIZES = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_YES_NO = {"true": True, "false": False}

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
    given = _known(options, _WRITE, "write")
    return WriteOptions(
        url=_url(given, "save"),
        job=_job(given),
        time_column=given.get("time_column") or None,
        sort_by=_names(given.get("sort_by", ""), "sort_by"),
        labels=_labels(given.get("labels", "")),
        buffer_bytes=_size(given, "buffer_size", DEFAULT_BUFFER_BYTES),
        chunk_bytes=_size(given, "chunk_size", DEFAULT_CHUNK_BYTES),
    )


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of ``spark.read``; raises Invalid naming the one that is wrong."""
    given = _known(options, _READ, "read")
    version, as_of = given.get("version"), given.get("as_of")
    if version is not None and as_of is not None:
        raise Invalid(
            f"both version={version!r} and as_of={as_of!r} are given: expected one of them, drop the other."
        )
    columns = given.get("columns")
    return ReadOptions(
        url=_url(given, "load"),
        version=None if version is None else _whole(version, "version", least=1),
        as_of=as_of,
        columns=None if columns is None else _names(columns, "columns"),
        where=given.get("where"),
        filters=_flag(given, "filters"),
        partition_bytes=_size(given, "partition_size", DEFAULT_PARTITION_BYTES),
    )


def _known(options: Mapping[str, str], known: tuple[str, ...], verb: str) -> dict[str, str]:
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]!r}?" if near else "drop it."
            raise Invalid(
                f"blockstore has no {verb} option {name!r}: expected one of {', '.join(known)}; {meant}"
            )
    return given


def checked_url(url: str) -> str:
    """The URL of a table that several processes can reach; raises Invalid for one that lives in one process."""
    if url.startswith("memory://"):
        raise Invalid(
            f"{url} lives in the memory of one process and Spark's tasks run in others: use a folder or an s3:// URL."
        )
    return url


def _url(given: Mapping[str, str], method: str) -> str:
    url = given.get("path", "")
    if not url:
        raise Invalid(f"no table is named: give its URL, as in .{method}('s3://lake/flights').")
    return checked_url(url)


def _job(given: Mapping[str, str]) -> Job | None:
    app, batch = given.get("app"), given.get("batch")
    if app is None and batch is None:
        return None
    if not app or batch is None:
        raise Invalid(
            f"a job is named by both options: found app={app!r} and batch={batch!r}; give each batch a number of its own."
        )
    return Job(app=app, batch=_whole(batch, "batch", least=0))


def _whole(text: str, name: str, *, least: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise Invalid(f"option {name}={text!r}: expected a whole number of at least {least}.")
    return int(text)


def _names(text: str, name: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
    if "" in names or len(set(names)) != len(names):
        raise Invalid(f"option {name}={text!r}: expected different column names separated by commas.")
    return names


def _labels(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in _names(text, "labels")]
    if any(not key.strip() or not equals for key, equals, _ in pairs):
        raise Invalid(
            f"option labels={text!r}: expected key=value pairs separated by commas, as in 'cluster=eu1'."
        )
    return {key.strip(): value.strip() for key, _, value in pairs}


def _flag(given: Mapping[str, str], name: str) -> bool:
    value = given.get(name, "false").lower()
    if value not in _YES_NO:
        raise Invalid(f"option {name}={given[name]!r}: expected true or false.")
    return _YES_NO[value]


def _size(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    digits = text.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text.strip()[len(digits) :].strip().lower()
    if not (digits.isascii() and digits.isdigit()) or unit not in _SIZES or int(digits) == 0:
        raise Invalid(f"option {name}={text!r}: expected a size such as '64MiB'.")
    return int(digits) * _SIZES[unit]
