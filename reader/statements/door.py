"""``blockstore.sql``: statements over the tables at some URLs, in one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.format.block import Job
from blockstore.reader.query.engine import Engine
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.lake import Lake
from blockstore.reader.statements.outcome import Outcome
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.transaction import Block, carry_out, grouped
from blockstore.world import World


@contextmanager
def opened(urls: str | Sequence[str], world: World | None = None) -> Iterator[Session]:
    """A session over the tables at some URLs, for many statements."""
    world = world or World.real()
    lake = Lake(urls, world)
    with Engine(lake, world=world) as engine:
        yield Session(engine, lake)


def sql(
    urls: str | Sequence[str],
    text: str,
    *,
    job: Job | None = None,
    message: str = "",
    world: World | None = None,
    **parameters: object,
) -> Outcome:
    """Run statements over the tables at some URLs, and return what the last one did.

    Args:
        urls: Tables, each named in SQL by the last part of its URL, or lakes: folders of tables. A
            table is created in the first lake.
        text: One statement, or several with ``;`` between them. They run in turn; each is one
            version of one table, or nothing, and those from BEGIN to COMMIT are one together.
        job: Makes a statement that writes happen once, however often it is repeated; for one
            statement, or one transaction.
        message: Kept with the version.
        world: Clock, ids and threads; the real ones by default.
        parameters: Values for ``$name``.

    Raises:
        Invalid: A statement cannot be run; ``line`` and ``column`` of a BadSql say where. No
            statement of the text has run if one of them cannot be parsed.
        NotFound: A URL or a name has no table.
        RowConflict: Rows exist already, or others change the same rows all the time.
    """
    world = world or World.real()
    lake = Lake(urls, world)
    engine = Engine(lake, world=world)
    try:
        session = Session(engine, lake)
        doing = Doing(parameters=parameters or None, job=job, message=message)
        steps = grouped(session.parse(text))
        if job is not None and len(steps) != 1:
            raise Invalid(
                f"a job is one statement or one transaction, found {len(steps)}: give each a job "
                "of its own"
            )
        last: Outcome | None = None
        for one in steps:
            if isinstance(one, Block):
                last = carry_out(session, one, doing)[-1]
            else:
                last = session.run(one, doing)
        assert last is not None, "a text has a statement"
    except BaseException:
        engine.close()
        raise
    if last.rows is None or last.table is not None:
        engine.close()
        return last
    batches = _closing(engine, last.rows)
    next(batches)
    return last.with_rows(pa.RecordBatchReader.from_batches(last.rows.schema, batches))


def _closing(engine: Engine, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The rows. The caller takes the first step at once, so that the engine is always closed."""
    try:
        yield None
        yield from reader
    finally:
        engine.close()
