"""EXPLAIN at a door: its numbers are the rows of a query.

Rules:
- It needs the scope ``read``, also of a change, which it does not make; it reaches only the tables
  of its token, and takes a place and the time of a query.
- It computes what the statement would, over the tables as they are now.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from blockstore.errors import Invalid
from blockstore.reader.doors.tables_of import OfGateway
from blockstore.reader.errors import BadSql
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller
from blockstore.reader.query.admission import Budget
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.texts import Kind, Text, split
from blockstore.reader.tables import At

if TYPE_CHECKING:
    from blockstore.reader.doors.queries import Asked, Stopper

_ROWS = "explain:numbers"
"""No table is named so."""


def explanation(gateway: Gateway, asked: Asked) -> Text | None:
    """The EXPLAIN that a query is; None for another, and for one that cannot be parsed."""
    if "explain" not in asked.sql.lower():
        return None
    with suppress(BadSql):
        texts = split(gateway.engine.syntax, asked.sql)
        if [one.kind for one in texts] == [Kind.EXPLAIN]:
            return texts[0]
    return None


def numbers(gateway: Gateway, caller: Caller, text: Text, asked: Asked, stopper: Stopper) -> Asked:
    """The query for the numbers of an EXPLAIN. Raises BadSql, Invalid for one of a version that
    the statement does not name itself, and what a query raises."""
    if asked.at not in (At(), {}) or asked.row_ids:
        raise Invalid(
            "EXPLAIN is of the tables as they are now: write AT (VERSION => n) into the statement, "
            "and leave row ids out"
        )
    session = Session(gateway.engine, OfGateway(gateway, caller))
    doing = Doing(
        parameters=asked.parameters,
        allowed=caller.tables,
        budget=Budget(seconds=gateway.settings.query.time_limit_s),
        began=stopper.began,
    )
    rows = session.run(text, doing).to_arrow()
    return replace(asked, sql=f'FROM "{_ROWS}"', parameters=None, given={_ROWS: rows})
