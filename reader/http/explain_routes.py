"""``POST /v1/explain``: which blocks a query would read, and what leaves the others out."""

from __future__ import annotations

from fastapi import APIRouter, Request

from blockstore.reader.audit import running
from blockstore.reader.doors.picturing import Picture, pictures
from blockstore.reader.doors.queries import Stopper
from blockstore.reader.http.callers import Here, Reading
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.shapes import (
    BlocksExplained,
    ExplainBody,
    Explained,
    TableExplained,
    at_of,
    parameters_of,
)
from blockstore.reader.http.streaming import while_waited_for

router = APIRouter(responses=ERRORS, tags=["query"])


@router.post("/v1/explain")
async def explain(request: Request, gateway: Here, caller: Reading, body: ExplainBody) -> Explained:
    """Which blocks of its tables a SELECT would read, and why it leaves others out. No file is
    read. A table that a policy restricts is refused. It is among the running queries."""
    statement = running()
    statement.text = body.sql
    stopper = Stopper()
    found = await while_waited_for(
        request.receive,
        stopper,
        lambda: pictures(gateway, caller, body.sql, parameters_of(body), at_of(body), stopper),
    )
    statement.reads({one.table: one.version for one in found})
    return Explained(tables=[_shown(one) for one in found])


def _shown(one: Picture) -> TableExplained:
    blocks = one.listed
    streams: dict[tuple[tuple[str, str], ...], int] = {}
    stream = [
        streams.setdefault(tuple(sorted(block.labels.items())), len(streams)) for block in blocks
    ]
    return TableExplained(
        name=one.table,
        version=one.version,
        condition=list(one.condition),
        key=list(one.key),
        verdicts={str(verdict): number for verdict, number in one.blocks.items()},
        bytes=one.bytes,
        chunks_read=one.chunks_read,
        bytes_read=one.bytes_read,
        counted=one.counted,
        blocks=BlocksExplained(
            ulid=[block.ulid for block in blocks],
            level=[block.level for block in blocks],
            min=[block.min_time for block in blocks],
            max=[block.max_time for block in blocks],
            rows=[block.rows for block in blocks],
            bytes=[block.bytes for block in blocks],
            stream=stream,
            streams=[dict(labels) for labels in streams],
            chunks_read=[block.chunks_read for block in blocks],
            bytes_read=[block.bytes_read for block in blocks],
            verdict=[str(block.verdict) for block in blocks],
        ),
    )
