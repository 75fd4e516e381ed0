"""``read(session, url)``: a snapshot as a DataFrame, by the fastest engine that returns its exact
rows.

Where Spark's JVM reaches the chunks, its own Parquet reader reads the pruned list of them. For
everything else, Python in Spark's tasks does. The choice is logged, ``how`` returns it with its
reason, and ``engine`` overrides it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from blockstore.errors import Invalid
from blockstore.scan.execute import resolve
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
    """What reads the chunks."""

    AUTO = "auto"
    NATIVE = "native"
    """Spark's own Parquet reader."""
    PYTHON = "python"
    """Python in Spark's tasks, as in the data source."""


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
            f"{self.bytes:,} bytes, {self.chunks_pruned} pruned"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A read and the engine chosen for it."""

    target: Target
    snapshot: TableSnapshot
    plan: ScanPlan
    how: How


_how_of: WeakKeyDictionary[Any, How] = WeakKeyDictionary()


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
    """Read one version of the table at ``url`` as a DataFrame.

    Args:
        session: the Spark session, classic or Connect.
        url: the table.
        version: the version to read; default: the newest.
        as_of: read the last version committed at or before this time.
        tag: read the version with this tag.
        discovery: ``"list"`` also reads blocks that only a listing shows so far.
        columns: these columns only; may name hidden ones (``_source``, ``_row_id``, ``_version``).
        where: a condition in Blockstore's SQL subset; chunks that cannot match are not opened.
        engine: ``"native"`` requires Spark's own Parquet reader, ``"python"`` reads by Python in
            Spark's tasks, ``"auto"`` chooses.

    Raises:
        Invalid: an argument is wrong, or ``engine="native"`` cannot read the table exactly.
        NotFound: there is no such table, version or tag.
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
    _how_of[frame] = choice.how
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
    """How ``read`` reads, and why: of a DataFrame that it returned, or with a session, a URL and
    the other arguments of ``read``."""
    if url is None:
        if source not in _how_of:
            raise Invalid(
                "this DataFrame was not returned by blockstore.spark.read (a DataFrame derived "
                "from one is another): call how(session, url, …) with the arguments of that read"
            )
        return _how_of[source]
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
            f"columns is the string {columns!r}, expected a list of column names: [{columns!r}]"
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
    chosen, reason = Engine.PYTHON, "engine='python' requires it"
    if engine is not Engine.PYTHON:
        plan = resolve(snapshot.bucket, plan, snapshot.world)
        against = obstacle(session, plan, snapshot.bucket)
        if against is not None and engine is Engine.NATIVE:
            raise Invalid(
                f"engine='native' cannot read {target.url}, since {against}: use engine='auto'."
            )
        chosen = Engine.NATIVE if against is None else Engine.PYTHON
        reason = against or "it reaches the files and reads these columns exactly"
    chosen_how = How(
        url=target.url,
        engine=chosen,
        reason=reason,
        version=target.version,
        chunks=len(plan.chunks),
        chunks_pruned=plan.pruned.chunks - len(plan.chunks),
        rows=plan.rows,
        bytes=plan.bytes,
    )
    return _Choice(target=target, snapshot=snapshot, plan=plan, how=chosen_how)


def _by_python(session: Any, choice: _Choice, options: ReadOptions) -> DataFrame:
    """The rows by Python, pinned to the resolved version.

    Without a version, the data source makes the listing again.
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
