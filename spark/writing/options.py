"""What a user may say in ``option(…)``, checked at once and turned into values.

- Option names are case-insensitive, as everywhere in Spark; a name that nobody reads is an error
  that names the nearest known one: a misspelt ``app`` must not quietly cost the exactly-once
  promise.
- ``app`` and ``batch`` come together or not at all.
- Columns are named in one comma-separated string, or in a JSON list where a name holds a comma or
  begins or ends with a space; labels are ``key=value`` pairs separated by commas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from blockstore.errors import Invalid
from blockstore.format.block import Job
from blockstore.format.chunk_size import check_chunk_size
from blockstore.spark.options import (
    flag,
    known,
    labels,
    names,
    size,
    table_url,
    whole,
)

_WRITE = (
    "path", "app", "batch", "any_order", "time_column", "sort_by", "labels", "buffer_size", "chunk_size",
    "if_exists", "where", "isolation", "read_version", "cluster",
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


def if_exists_of(text: str) -> IfExists:
    """What a write does where the table holds a write already. Raises Invalid."""
    try:
        return IfExists(text)
    except ValueError:
        raise Invalid(
            f"if_exists={text!r}: expected one of {', '.join(repr(str(one)) for one in IfExists)}."
        ) from None


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
