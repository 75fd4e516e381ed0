"""``read(session, url)``: a snapshot as a DataFrame, by the fastest way that gives exactly its
rows.

Where Spark's JVM reaches the chunks, its own Parquet reader reads the pruned list of them;
everywhere else, and for what that reader cannot do, Python in Spark's tasks does. The choice is
logged, ``how`` tells it and why, and ``engine`` makes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from blockstore.errors import Invalid
from blockstore.scan.plan import ScanPlan
from blockstore.scan.view import TableSnapshot
from blockstore.spark.options import checked_url, names_text
from blockstore.spark.reading.data_source import SnapshotReader
from blockstore.spark.reading.mapped import mapped_frame
from blockstore.spark.reading.native import native_frame, obstacle
from blockstore.spark.reading.options import ReadOptions, listed
from blockstore.spark.reading.target import Target, resolved
from blockstore.spark.source import BlockstoreSource
from blockstore.world import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_log = logging.getLogger("blockstore.spark")


class Engine(StrEnum):
    """Who reads the chunks."""

    AUTO = "auto"
    NATIVE = "native"
    """Spark's own Parquet reader."""
    PYTHON = "python"
    """Python in Spark's tasks, as for the data source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How a read is carried out."""

    url: str
    engine: Engine
    reason: str
    """Why this engine, as the end of a sentence."""
    version: int | None
    chunks: int
    """Chunks that may hold matching rows."""
    chunks_pruned: int
    rows: int
    """The rows of those chunks."""
    bytes: int

    def __str__(self) -> str:
        by = "Spark's Parquet reader" if self.engine is Engine.NATIVE else "Python in Spark's tasks"
        version = "a listing" if self.version is None else f"version {self.version}"
        return (
            f"{self.url}: {version} by {by}, since {self.reason}; {self.chunks} chunks of "
            f"{self.bytes:,} bytes, "
            f"{self.chunks_pruned} left out"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A read, decided."""

    target: Target
    snapshot: TableSnapshot
    plan: ScanPlan
    how: How


_told: WeakKeyDictionary[Any, How] = WeakKeyDictionary()


def read(
    session: Any,
    url: str,
    *,
    version: int | None = None,
    as_of: str | None = None,
    tag: str | None = None,
    discovery: str = "index",
    columns: Iterable[str] | None = None,
    where: str | None = None,
    engine: str = "auto",
) -> DataFrame:
    """The table at ``url`` as a DataFrame of one version: the newest, or that of a number, of a
    time or of a tag.

    ``discovery="list"`` also reads blocks that only a listing shows so far. ``columns`` picks
    columns, also the hidden ones (``_source``, ``_row_id``, ``_version``), and ``where`` (a
    condition in Blockstore's SQL subset) rows; chunks that cannot match are not opened.
    ``engine="native"`` insists on Spark's own Parquet reader and raises Invalid where it cannot
    serve; ``"python"`` reads by Python in Spark's tasks.
    """
    options = _options(url, version, as_of, tag, discovery, columns, where)
    choice = _choice(session, options, _engine(engine))
    _log.info("%s", choice.how)
    if choice.how.engine is Engine.NATIVE:
        frame = native_frame(
            session, choice.plan, choice.snapshot.bucket, choice.target.spark_schema
        )
    else:
        frame = _by_python(session, choice, options)
    _told[frame] = choice.how
    return frame


def how(
    source: Any,
    url: str | None = None,
    *,
    version: int | None = None,
    as_of: str | None = None,
    tag: str | None = None,
    discovery: str = "index",
    columns: Iterable[str] | None = None,
    where: str | None = None,
    engine: str = "auto",
) -> How:
    """How ``read`` reads, and why: of a DataFrame that it answered, or of a session, a URL and what
    else ``read`` takes."""
    if url is None:
        if source not in _told:
            raise Invalid(
                "this DataFrame is not one that spark.read answered (one made from it is "
                "another): ask how(session, url, …) "
                "with what read was given"
            )
        return _told[source]
    options = _options(url, version, as_of, tag, discovery, columns, where)
    return _choice(source, options, _engine(engine)).how


def _options(
    url: str,
    version: int | None,
    as_of: str | None,
    tag: str | None,
    discovery: str,
    columns: Iterable[str] | None,
    where: str | None,
) -> ReadOptions:
    if isinstance(columns, str):
        raise Invalid(
            f"columns is the text {columns!r}, expected a list of column names: [{columns!r}]"
        )
    return ReadOptions(
        url=checked_url(url),
        version=version,
        as_of=as_of,
        tag=tag,
        listed=listed(discovery),
        columns=None if columns is None else tuple(columns),
        where=where,
    )


def _engine(engine: str) -> Engine:
    try:
        return Engine(engine)
    except ValueError:
        raise Invalid(
            f"engine={engine!r}: expected one of {', '.join(repr(str(one)) for one in Engine)}"
        ) from None


def _choice(session: Any, options: ReadOptions, engine: Engine) -> _Choice:
    target, snapshot = resolved(options, World.real())
    plan = snapshot.scan(columns=options.columns, where=options.where).plan
    chosen, reason = Engine.PYTHON, "engine='python' asks for it"
    if engine is not Engine.PYTHON:
        against = obstacle(session, plan, snapshot.bucket)
        if against is not None and engine is Engine.NATIVE:
            raise Invalid(
                f"engine='native' cannot read {target.url}, since {against}: leave the choice "
                "open (engine='auto')."
            )
        chosen = Engine.NATIVE if against is None else Engine.PYTHON
        reason = against or "it reaches the files and reads these columns exactly"
    told = How(
        url=target.url,
        engine=chosen,
        reason=reason,
        version=target.version,
        chunks=len(plan.chunks),
        chunks_pruned=plan.pruned.chunks - len(plan.chunks),
        rows=plan.rows,
        bytes=plan.bytes,
    )
    return _Choice(target=target, snapshot=snapshot, plan=plan, how=told)


def _by_python(session: Any, choice: _Choice, options: ReadOptions) -> DataFrame:
    """The rows by Python, pinned to what was found.

    The data source, where it must be, looks at a listing again by itself.
    """
    found = choice.target
    frame = mapped_frame(
        session, SnapshotReader(choice.snapshot, options, found.spark_schema), choice.plan.rows
    )
    if frame is not None:
        return frame
    given = {
        "version": None if options.listed or found.version is None else str(found.version),
        "discovery": "list" if options.listed else None,
        "columns": None if options.columns is None else names_text(options.columns),
        "where": options.where,
    }
    named = {name: value for name, value in given.items() if value is not None}
    return session.read.format(BlockstoreSource.name()).options(**named).load(found.url)
