"""``append(df, url)``: a DataFrame becomes one block, written by Spark's tasks and committed in
this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from blockstore.format import Job
from blockstore.spark.writing.options import (
    DEFAULT_BUFFER_BYTES,
    DEFAULT_CHUNK_BYTES,
    WriteOptions,
    checked_url,
    column_names,
    if_exists_of,
)
from blockstore.spark.writing.result import Written
from blockstore.spark.writing.running import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["append"]


def append(
    df: DataFrame,
    url: str,
    *,
    job: Job | None = None,
    any_order: bool = False,
    if_exists: str = "append",
    time_column: str | None = None,
    sort_by: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    cluster: bool = False,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    tune: bool = True,
    message: str = "",
) -> Written:
    """Append the DataFrame's rows to the table at ``url`` as one block, visible all at once.

    A missing table is created from the DataFrame's schema with ``time_column``, ``sort_by`` and
    ``labels``. A ``job`` that was committed before writes nothing and answers the earlier block;
    with ``any_order`` its batches may come in any order (a backfill). ``if_exists`` is
    ``"append"``, ``"error"`` or ``"ignore"``: what happens where the table holds a write already,
    judged when the write is committed. ``cluster`` exchanges the rows by ranges of the sort key
    first. Each task sorts at most ``buffer_bytes`` of rows in memory. Raises Invalid if the rows do
    not fit the table, and what ``Table.append`` raises.
    """
    options = WriteOptions(
        url=checked_url(url),
        job=job,
        any_order=any_order,
        time_column=time_column,
        sort_by=column_names(sort_by),
        labels=dict(labels or {}),
        buffer_bytes=buffer_bytes,
        chunk_bytes=chunk_bytes,
        if_exists=if_exists_of(if_exists),
        message=message,
    )
    return run(df, options, tune=tune, cluster=cluster)
