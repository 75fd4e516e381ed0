"""``overwrite(df, url, where=…)``: a DataFrame's rows in the place of others, in one version."""

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
)
from blockstore.spark.writing.result import Written
from blockstore.spark.writing.running import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["overwrite"]


def overwrite(
    df: DataFrame,
    url: str,
    *,
    where: str | None = None,
    isolation: str | None = None,
    read_version: int | None = None,
    job: Job | None = None,
    any_order: bool = False,
    time_column: str | None = None,
    sort_by: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    cluster: bool = False,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    tune: bool = True,
    message: str = "",
) -> Written:
    """Replace all rows of the table at ``url``, or those for which ``where`` is true, by the
    DataFrame's, in one version.

    Every new row must meet ``where``. What others append after this call began stays, unless
    ``isolation`` (default: the table's property) is ``"serializable"``: then it conflicts.
    ``read_version`` is the version that the DataFrame was computed from: what others did is judged
    from there on, and rows that they took away since conflict too. The other arguments are those of
    ``append``. Raises Conflict where others replaced rows that it is about, or the table was
    dropped and made anew, while it ran.
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
        overwrite=True,
        where=where,
        isolation=isolation,
        read_version=read_version,
        message=message,
    )
    return run(df, options, tune=tune, cluster=cluster)
