"""``read(session, url)``: a snapshot as a DataFrame, by the fastest way that gives exactly its rows.

Where Spark's JVM reaches the chunks, its own Parquet reader reads the pruned list of them; everywhere else, and for
what that reader cannot do, the data source does. The choice is logged, and ``native`` makes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from blockstore.errors import Invalid
from blockstore.world import World
from spark.native import native_frame, obstacle
from spark.options import ReadOptions, checked_url
from spark.source import BlockstoreSource
from spark.target import Target, resolved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["read"]

_log = logging.getLogger("blockstore.spark")


def read(
    session: Any,
    url: str,
    *,
    version: int | None = None,
    as_of: str | None = None,
    columns: Iterable[str] | None = None,
    where: str | None = None,
    native: bool | None = None,
) -> DataFrame:
    """The table at ``url`` as a DataFrame of one version: the newest, or that of a number, or of a time.

    ``columns`` picks columns, and ``where`` (a condition in Blockstore's SQL subset) rows; chunks that cannot match are
    not opened. ``native=True`` insists on Spark's own Parquet reader and raises Invalid where it cannot serve;
    ``native=False`` takes the data source.
    """
    if isinstance(columns, str):
        raise Invalid(f"columns is the text {columns!r}, expected a list of column names: [{columns!r}]")
    options = ReadOptions(
        url=checked_url(url),
        version=version,
        as_of=as_of,
        columns=None if columns is None else tuple(columns),
        where=where,
    )
    world = World.real()
    found, snapshot = resolved(options, world)
    if native is None:
        native = None if _same_machine(session) else False
    if native is not False:
        plan = snapshot.scan(columns=options.columns, where=where).plan
        reason = obstacle(plan, snapshot.bucket)
        if reason is None:
            _log.info(
                "%s: version %s by Spark's Parquet reader, %d chunks",
                found.url,
                found.version,
                len(plan.chunks),
            )
            return native_frame(session, plan, snapshot.bucket, found.spark_schema)
        if native:
            raise Invalid(
                f"native=True cannot read {found.url}, since {reason}: leave the choice open (native=None)."
            )
        _log.info("%s: version %s by the data source, since %s", found.url, found.version, reason)
    return _by_source(session, found, options)


def _by_source(session: Any, found: Target, options: ReadOptions) -> DataFrame:
    reader = session.read.format(BlockstoreSource.name())
    if found.version is not None:
        reader = reader.option("version", found.version)
    if options.columns is not None:
        reader = reader.option("columns", ",".join(options.columns))
    if options.where is not None:
        reader = reader.option("where", options.where)
    return reader.load(found.url)


def _same_machine(session: Any) -> bool:
    """Whether the paths of this process are those of Spark's driver: not so across Spark Connect."""
    return not type(session).__module__.startswith("pyspark.sql.connect")
