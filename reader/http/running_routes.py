"""The running queries over HTTP: the list of those that the caller may see, and an end for one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from blockstore.errors import NotFound
from blockstore.names import is_ulid
from blockstore.reader.http.callers import Here, Reading
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.running_queries import QuerySeen
from blockstore.reader.http.shapes import QueriesShown, QueryShown

router = APIRouter(responses=ERRORS, tags=["query"])

Key = Annotated[str, Path(max_length=64, description="The query's id, as the list has it")]


@router.get("/v1/queries")
async def queries(gateway: Here, caller: Reading) -> QueriesShown:
    """The queries that this gateway runs now at any of its doors, the oldest first: those of the
    caller, and with the scope admin all. Jobs are at /v1/jobs."""
    return QueriesShown(queries=[_shown(one) for one in gateway.queries.seen_by(caller)])


@router.delete("/v1/queries/{query}")
def cancel(gateway: Here, caller: Reading, query: Key) -> QueryShown:
    """Cancel a running query of the caller, or with the scope admin any. Its client receives an
    error, or a response without its end. All others are 404."""
    if not is_ulid(query):
        raise NotFound(f"there is no running query {query[:40]}: it may have ended")
    return _shown(gateway.queries.cancel(caller, query))


def _shown(query: QuerySeen) -> QueryShown:
    return QueryShown(
        id=query.id,
        by=query.by,
        own=query.own,
        door=query.door,
        sql=query.sql,
        began=query.began_ms,
        seconds=query.seconds,
        rows=query.rows,
        bytes=query.bytes,
        state=str(query.progress),
    )
