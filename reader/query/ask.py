"""One question, from URLs to rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.reader.query.below import Below
from blockstore.reader.query.engine import Engine
from blockstore.reader.tables.at import At
from blockstore.world import World


def query(
    urls: str | Sequence[str],
    sql: str,
    *,
    version: int | None = None,
    as_of: object = None,
    tag: str | None = None,
    parameters: object = None,
    world: World | None = None,
) -> pa.RecordBatchReader:
    """The answer to ``sql`` over the tables at ``urls``, each named by the last part of its URL; a
    URL may be a lake's.

    ``version`` and ``tag`` are of one table; ``as_of`` (datetime, ISO 8601, milliseconds) of all;
    ``parameters`` are values for ``?`` and ``$1``, or for ``$name``. Raises NotFound for a URL or a
    name without a table, Invalid for SQL that cannot be answered, Corrupt, with its name, for a
    block that cannot be read.
    """
    wanted = [urls] if isinstance(urls, str) else list(urls)
    if len(wanted) != 1 and (version is not None or tag is not None):
        asked = f"version={version}" if version is not None else f"tag={tag!r}"
        raise Invalid(f"{asked} is of one table, found {len(wanted)} URLs: use as_of")
    world = world or World.real()
    engine = Engine(Below(wanted, world, At(version=version, as_of=as_of, tag=tag)), world=world)
    try:
        reader = engine.query(sql, parameters)
    except BaseException:
        engine.close()
        raise
    batches = _closing(engine, reader)
    next(batches)
    return pa.RecordBatchReader.from_batches(reader.schema, batches)


def _closing(engine: Engine, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The rows; started at once, so that the engine is closed also if nobody takes a row."""
    try:
        yield None
        yield from reader
    finally:
        engine.close()
