"""``blockstore.sql``: SQL that reads and writes, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from blockstore import extras

if TYPE_CHECKING:
    from blockstore.format.block import Job
    from blockstore.world import World


def sql(
    urls: str | Sequence[str],
    text: str,
    *,
    job: Job | None = None,
    message: str = "",
    world: World | None = None,
    **parameters: object,
) -> Any:
    """Run statements over the tables at some URLs, and return what the last one did: its counts,
    the version that it made, and in ``rows`` what a query or RETURNING returns.

    Args:
        urls: Tables, each named in SQL by the last part of its URL, or lakes: folders of tables. A
            table is created in the first lake.
        text: One statement, or several with ``;`` between them. They run in turn; each is one
            version of one table, or nothing, and those from BEGIN to COMMIT are one together. None
            runs if one of them cannot be parsed.
        job: Makes the statement happen once, however often it is repeated; for one that writes, or
            one transaction.
        message: Kept with the version.
        world: Clock, ids and threads; the real ones by default.
        parameters: Values for ``$name``.

    Raises:
        Invalid: A statement cannot be run; ``line`` and ``column`` say where, if it is known.
        NotFound: A URL or a name has no table.
        RowConflict: Keys exist already, or others change the same rows all the time.
        MissingExtra: The extra ``reader`` is not installed.
    """
    run = extras.load("blockstore.reader.statements.door", "sql", "blockstore.sql")
    return run(urls, text, job=job, message=message, world=world, **parameters)
