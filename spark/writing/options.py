"""What a user may say in ``option(…)``, checked at once and turned into values.

- Option names are case-insensitive, as everywhere in Spark; a name that nobody reads is an error
  that names the nearest known one: a misspelt ``app`` must not quietly cost the exactly-once
  promise.
- ``app`` and ``batch`` come together or not at all.
- Columns are named in one comma-separated string, or in a JSON list where a name holds a comma or
  begins or ends with a space; labels are ``key=value`` pairs separated by commas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from blockstore.errors import Invalid
from blockstore.format.block import Job
from blockstore.format.chunk_size import check_chunk_size
from blockstore.spark.options import (
    checked_url,
    flag,
    known,
    labels,
    names,
    size,
    size_if_given,
    table_url,
    whole,
)

__all__ = [
    "IfExists",
    "ReadOptions",
    "WriteOptions",
    "checked_url",
    "column_names",
    "if_exists_of",
    "listed",
    "read_options",
    "write_options",
]

_WRITE = (
    "path", "app", "batch", "any_order", "time_column", "sort_by", "labels", "buffer_size", "chunk_size",
    "if_exists", "where", "isolation", "read_version", "cluster",
)  # fmt: skip
_READ = (
    "path", "version", "as_of", "tag", "discovery", "columns", "where", "filters", "not_null", "partition_size",
)  # fmt: skip

DEFAULT_BUFFER_BYTES = 256 * 2**20
DEFAULT_CHUNK_BYTES = 256 * 2**20


class IfExists(StrEnum):
    """What a write does where the table holds a write already; one that is only created counts as
    not there yet."""

    APPEND = "append"
    ERROR = "error"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How a DataFrame is written.

    The definition's parts (time column, sort key, labels) serve a first write only.
    """

    url: str
    job: Job | None = None
    any_order: bool = False
    """Whether the job's batches may come in any order: a backfill."""
    time_column: str | None = None
    sort_by: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    """Rows that one task holds in memory before it sorts and writes a chunk."""
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    if_exists: IfExists = IfExists.APPEND
    overwrite: bool = False
    where: str | None = None
    """The rows that an overwrite replaces; None: all."""
    isolation: str | None = None
    read_version: int | None = None
    """The version from which an overwrite's rows were computed."""
    message: str = ""

    def __post_init__(self) -> None:
        check_chunk_size(self.chunk_bytes, "chunk_size (chunk_bytes)")
        if self.any_order and self.job is None:
            raise Invalid(
                "any_order is about a job's batches, and no job is named: give app and batch too"
            )
        if self.overwrite and self.if_exists is not IfExists.APPEND:
            raise Invalid(
                f"if_exists={str(self.if_exists)!r} and an overwrite exclude each other: drop one "
                "of them"
            )
        about = (self.where, self.isolation, self.read_version)
        if not self.overwrite and any(one is not None for one in about):
            raise Invalid(
                "where, isolation and read_version are those of an overwrite, and this is an "
                "append: say mode('overwrite'), or filter the "
                "DataFrame"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Which snapshot is read, and which part of it.

    None means the newest version, all columns, every row.
    """

    url: str
    version: int | None = None
    as_of: str | None = None
    tag: str | None = None
    listed: bool = False
    """Whether blocks that no entry names yet are looked for by a listing."""
    columns: tuple[str, ...] | None = None
    where: str | None = None
    filters: bool = False
    """Whether Spark's own filters prune chunks (needs spark.sql.python.filterPushdown.enabled)."""
    not_null: bool = False
    """Whether columns of which no row of the snapshot is null are declared so."""
    partition_bytes: int | None = None
    """Chunks are gathered, and large ones are cut, into Spark partitions of about this size;

    None: by ``shares.share_bytes``.
    """

    def __post_init__(self) -> None:
        given = {"version": self.version, "as_of": self.as_of, "tag": self.tag}
        named = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        if self.listed:
            named.append("discovery='list'")
        if len(named) > 1:
            raise Invalid(
                f"{' and '.join(named)} are given: expected one of them, drop the others."
            )


def write_options(options: Mapping[str, str], *, overwrite: bool = False) -> WriteOptions:
    """The options of ``df.write``; raises Invalid naming the one that is wrong."""
    given = known(options, _WRITE, "write")
    if flag(given, "cluster"):
        raise Invalid(
            "option cluster='true': a data source is handed rows as they are and cannot exchange "
            "them between tasks; use "
            "spark.append(df, url, cluster=True), or df.repartitionByRange('a', 'b') by the sort "
            "key before the write."
        )
    read = given.get("read_version")
    return WriteOptions(
        url=table_url(given, "save"),
        job=_job(given),
        any_order=flag(given, "any_order"),
        time_column=given.get("time_column") or None,
        sort_by=names(given.get("sort_by", ""), "sort_by"),
        labels=labels(given.get("labels", "")),
        buffer_bytes=size(given, "buffer_size", DEFAULT_BUFFER_BYTES),
        chunk_bytes=size(given, "chunk_size", DEFAULT_CHUNK_BYTES),
        if_exists=if_exists_of(given.get("if_exists", "append")),
        overwrite=overwrite,
        where=given.get("where"),
        isolation=given.get("isolation"),
        read_version=None if read is None else whole(read, "read_version", least=1),
    )


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of ``spark.read``; raises Invalid naming the one that is wrong."""
    given = known(options, _READ, "read")
    version, columns = given.get("version"), given.get("columns")
    return ReadOptions(
        url=table_url(given, "load"),
        version=None if version is None else whole(version, "version", least=1),
        as_of=given.get("as_of"),
        tag=given.get("tag"),
        listed=listed(given.get("discovery", "index")),
        columns=None if columns is None else names(columns, "columns"),
        where=given.get("where"),
        filters=flag(given, "filters"),
        not_null=flag(given, "not_null"),
        partition_bytes=size_if_given(given, "partition_size"),
    )


def if_exists_of(text: str) -> IfExists:
    """What a write does where the table holds a write already. Raises Invalid."""
    try:
        return IfExists(text)
    except ValueError:
        raise Invalid(
            f"if_exists={text!r}: expected one of {', '.join(repr(str(one)) for one in IfExists)}."
        ) from None


def column_names(columns: Iterable[str]) -> tuple[str, ...]:
    """Columns as a caller of a function names them: several, or one by its bare name."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def listed(discovery: str) -> bool:
    """Whether ``discovery`` means a listing. Raises Invalid."""
    if discovery not in ("index", "list"):
        raise Invalid(f"discovery={discovery!r}: expected 'index' or 'list'.")
    return discovery == "list"


def _job(given: Mapping[str, str]) -> Job | None:
    app, batch = given.get("app"), given.get("batch")
    if app is None and batch is None:
        return None
    if not app or batch is None:
        raise Invalid(
            f"a job is named by both options: found app={app!r} and batch={batch!r}; give each "
            "batch a number of its own."
        )
    return Job(app=app, batch=whole(batch, "batch", least=0))
