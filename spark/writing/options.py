"""The options of a write, checked when they are parsed.

``write_mode`` is ``append``, or ``upsert`` for a table with a key; Spark's own save mode is
``append`` for both. A merge needs the rows of the table, so it is not one of a source's modes.

``app`` and ``batch`` are given together or not at all. An unknown option is an error: a misspelt
``app`` would otherwise lose the exactly-once promise without notice.
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
    integer,
    known,
    labels,
    names,
    size,
    table_url,
)

_WRITE = (
    "path", "app", "batch", "any_order", "time_column", "sort_by", "labels", "buffer_size",
    "chunk_size",
    "if_exists", "where", "isolation", "read_version", "cluster", "write_mode", "key",
    "sequence_by", "evolve",
)  # fmt: skip

DEFAULT_BUFFER_BYTES = 256 * 2**20
DEFAULT_CHUNK_BYTES = 256 * 2**20


class IfExists(StrEnum):
    """What a write does if the table already contains a write. A table that was only created does
    not contain one."""

    APPEND = "append"
    ERROR = "error"
    IGNORE = "ignore"


class WriteMode(StrEnum):
    """What the rows of a write are. An overwrite is Spark's save mode of that name."""

    APPEND = "append"
    """More rows."""
    UPSERT = "upsert"
    """The current rows of their keys, or deletions of them."""
    MERGE = "merge"
    """The same of rows that were read at ``read_version``, and new ones (``merge_into``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How a DataFrame is written.

    The time column, the sort key, the labels and the key define the table on its first write.
    """

    url: str
    job: Job | None = None
    any_order: bool = False
    """Whether the job's batches may be committed in any order: a backfill."""
    time_column: str | None = None
    sort_by: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    """The bytes of rows that a task buffers before it sorts and writes a chunk."""
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    if_exists: IfExists = IfExists.APPEND
    overwrite: bool = False
    where: str | None = None
    """The rows that an overwrite replaces; None: all."""
    isolation: str | None = None
    read_version: int | None = None
    """The version from which the rows of an overwrite or of a merge were computed."""
    mode: WriteMode = WriteMode.APPEND
    key: tuple[str, ...] = ()
    sequence_by: str | None = None
    """The column whose highest value says which of several rows of a key counts."""
    evolve: bool = False
    """Whether an append adds the columns that the table lacks, and widens types."""
    any_numbers: bool = False
    """Whether an append takes numbers of other types than its columns', where nothing is lost."""
    message: str = ""

    def __post_init__(self) -> None:
        check_chunk_size(self.chunk_bytes, "chunk_size (chunk_bytes)")
        if self.any_order and self.job is None:
            raise Invalid(
                "any_order is for the batches of a job, and no job is named: also give app and "
                "batch"
            )
        if self.overwrite and self.if_exists is not IfExists.APPEND:
            raise Invalid(
                f"if_exists={str(self.if_exists)!r} and an overwrite exclude each other: remove one"
            )
        plain = self.mode is WriteMode.APPEND and not self.overwrite
        if self.evolve and not (plain and self.if_exists is IfExists.APPEND):
            raise Invalid(
                "evolve (mergeSchema) is for appends without if_exists: alter the table first, or "
                "remove the option"
            )
        about = (self.where, self.isolation, self.read_version)
        merges = self.mode is WriteMode.MERGE
        if not self.overwrite and not merges and any(one is not None for one in about):
            raise Invalid(
                "where, isolation and read_version are options of an overwrite, and this is an "
                f"{self.mode}: use mode('overwrite'), or filter the DataFrame"
            )
        self._check_mode()

    def _check_mode(self) -> None:
        if self.mode is WriteMode.UPSERT:
            if self.overwrite or self.if_exists is not IfExists.APPEND:
                other = "an overwrite" if self.overwrite else f"if_exists={str(self.if_exists)!r}"
                raise Invalid(
                    f"write_mode='upsert' and {other} exclude each other: save with "
                    "mode('append') and without if_exists"
                )
        elif self.key or self.sequence_by is not None:
            name = "key" if self.key else "sequence_by"
            raise Invalid(
                f"option {name!r} is for upserts: also give write_mode='upsert', or remove it"
            )


def write_options(options: Mapping[str, str], *, overwrite: bool = False) -> WriteOptions:
    """Parse the options of ``df.write``. Raises Invalid with the name of the wrong one."""
    given = known(options, _WRITE, "write")
    if flag(given, "cluster"):
        raise Invalid(
            "option cluster='true': a data source cannot exchange rows between tasks; use "
            "blockstore.spark.append(df, url, cluster=True), or call df.repartitionByRange('a', "
            "'b') with the sort key before the write."
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
        read_version=None if read is None else integer(read, "read_version", least=1),
        mode=write_mode_of(given.get("write_mode", "append")),
        key=names(given.get("key", ""), "key"),
        sequence_by=given.get("sequence_by") or None,
        evolve=flag(given, "evolve"),
    )


def if_exists_of(text: str) -> IfExists:
    """Parse ``if_exists``. Raises Invalid."""
    try:
        return IfExists(text)
    except ValueError:
        raise Invalid(
            f"if_exists={text!r}: expected one of {', '.join(repr(str(one)) for one in IfExists)}."
        ) from None


def write_mode_of(text: str) -> WriteMode:
    """Parse ``write_mode``. Raises Invalid."""
    if text == WriteMode.MERGE:
        raise Invalid(
            "write_mode='merge': a data source cannot read the rows that it is to change; use "
            "blockstore.spark.merge_into(df, url, on=…), also in foreachBatch"
        )
    if text not in (WriteMode.APPEND, WriteMode.UPSERT):
        raise Invalid(
            f"write_mode={text!r}: expected one of 'append', 'upsert'; to replace rows by a "
            "condition use mode('overwrite')."
        )
    return WriteMode(text)


def _job(given: Mapping[str, str]) -> Job | None:
    app, batch = given.get("app"), given.get("batch")
    if app is None and batch is None:
        return None
    if not app or batch is None:
        raise Invalid(
            f"a job needs both options: found app={app!r} and batch={batch!r}; give each batch a "
            "number of its own."
        )
    return Job(app=app, batch=integer(batch, "batch", least=0))
