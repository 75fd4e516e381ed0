"""EXPLAIN at a door: its numbers are the rows of a query.

Rules:
- It needs the scope ``read``, also of a change, which it does not make; it reaches only the tables
  of its token, and takes a place and the time of a query.
- It computes what the statement would, over the tables as they are now.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa

from blockstore.reader.doors.tables_of import OfGateway
from blockstore.reader.errors import BadSql
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller
from blockstore.reader.query.admission import Budget
from blockstore.reader.query.task import Parameters
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.texts import Kind, Text, split


def explanation(gateway: Gateway, sql: str) -> Text | None:
    """The EXPLAIN that a text is; None for another, and for one that cannot be parsed."""
    if "explain" not in sql.lower():
        return None
    with suppress(BadSql):
        texts = split(gateway.engine.syntax, sql)
        if [one.kind for one in texts] == [Kind.EXPLAIN]:
            return texts[0]
    return None


def numbers(
    gateway: Gateway,
    caller: Caller,
    text: Text,
    parameters: Parameters,
    began: Callable[[Callable[[], None]], None],
) -> pa.Table:
    """What an EXPLAIN says; ``began`` receives what stops it. Raises BadSql, and what a query
    raises."""
    session = Session(gateway.engine, OfGateway(gateway, caller))
    doing = Doing(
        parameters=parameters,
        allowed=caller.tables,
        budget=Budget(seconds=gateway.settings.query.time_limit_s),
        began=began,
    )
    return session.run(text, doing).to_arrow()
