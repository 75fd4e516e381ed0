"""Which blocks a query reads and which it leaves out, for a picture of its plan.

Rules:
- It needs the scope ``read``, and takes a place of the token and of the engine, as a query does.
  Meanwhile it is among the running queries, and can be cancelled there.
- The query is first described, which reads no file: names of columns and functions that are not
  there are refused as the query itself would be.
- A table that a policy restricts is refused, as EXPLAIN is: what is left out would say what the
  rows of others have.
- Each block becomes an object in the gateway's process, so there is no picture of more than
  ``MOST_JUDGED`` blocks. EXPLAIN has no such limit.
- The counts are of all blocks. At most ``MOST`` blocks are listed, first those that are read.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.errors import Invalid
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.queries import Stopper, placed
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.query.admission import Budget
from blockstore.reader.query.planned import Planned
from blockstore.reader.query.task import Parameters
from blockstore.reader.tables import At
from blockstore.scan.verdicts import Judged, Verdict, verdicts

MOST = 10_000
"""So many blocks of a table are listed."""
MOST_JUDGED = 100_000
"""Of a table with more blocks there is no picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What a query does with one table that it names."""

    table: str
    version: int | None
    condition: tuple[str, ...]
    """The columns whose values can leave something out."""
    key: tuple[str, ...]
    """The columns that the rows of a block are sorted by."""
    blocks: Mapping[Verdict, int]
    """How many blocks there are of each verdict."""
    bytes: int
    """Of all blocks."""
    chunks_read: int
    bytes_read: int
    counted: bool
    """Whether nothing is read because the count is known."""
    listed: tuple[Judged, ...]


def pictures(
    gateway: Gateway,
    caller: Caller,
    sql: str,
    parameters: Parameters,
    at: At | Mapping[str, At],
    stopper: Stopper,
) -> tuple[Picture, ...]:
    """The pictures of a query, one for each name of a table in it. ``stopper`` stops it from any
    thread. Raises Problem 403 without the scope, Invalid for a table of too many blocks, and what a
    query raises."""
    check_scope(caller, Scope.READ)
    seconds = gateway.settings.query.time_limit_s
    with placed(gateway, caller, sql, stopper) as runs:
        _describe(gateway, caller, sql, parameters, at, stopper)
        runs()
        found = gateway.engine.plans(sql, parameters, at=at, allowed=caller.tables, seconds=seconds)
        return tuple(_picture(one, stopper) for one in found)


def _describe(
    gateway: Gateway,
    caller: Caller,
    sql: str,
    parameters: Parameters,
    at: At | Mapping[str, At],
    stopper: Stopper,
) -> None:
    """Raise what the query itself would be refused for."""
    answer = gateway.engine.run(
        sql,
        parameters,
        at=at,
        allowed=caller.tables,
        budget=Budget(seconds=gateway.settings.query.time_limit_s, limit=0),
        began=stopper.began,
    )
    with answer:
        for _ in answer:
            pass


def _picture(one: Planned, stopper: Stopper) -> Picture:
    many = len(one.snapshot)
    if many > MOST_JUDGED:
        raise Invalid(
            f"the table {one.table} has {many:,} blocks, and a picture is made of at most "
            f"{MOST_JUDGED:,}: ask for the numbers with EXPLAIN"
        )
    blocks = Counter[Verdict]()
    size = chunks = read = 0
    every: list[Judged] = []
    for block in verdicts(one.snapshot, one.plan):
        stopper.check()
        every.append(block)
        blocks[block.verdict] += 1
        size += block.bytes
        chunks += block.chunks_read
        read += block.bytes_read
    if len(every) > MOST:
        every = heapq.nsmallest(MOST, every, key=lambda block: block.verdict is not Verdict.READ)
    return Picture(
        table=one.table,
        version=one.snapshot.version,
        condition=tuple(one.plan.predicate.columns),
        key=tuple(one.snapshot.definition.sort_by),
        blocks=blocks,
        bytes=size,
        chunks_read=chunks,
        bytes_read=read,
        counted=one.counted,
        listed=tuple(every),
    )
