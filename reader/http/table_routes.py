"""The tables: their freshness, blocks, history, tags, and the difference between two versions."""

from __future__ import annotations

from bisect import bisect_right
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from blockstore.cli.rules import rules_json
from blockstore.cli.schema_text import type_name
from blockstore.errors import Invalid
from blockstore.format.block import BlockMeta
from blockstore.format.fields import required
from blockstore.format.identity import Key, RowIds
from blockstore.index.entry import Entry
from blockstore.names import is_ulid
from blockstore.reader.doors.seen import Seen, seen_of
from blockstore.reader.http.callers import Here, Known, Reading
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.shapes import ColumnShown, TableShown, TablesShown, Whoami
from blockstore.reader.http.tokens import Caller
from blockstore.reader.tables import At, TableView
from blockstore.reader.tables.names import listed_in
from blockstore.service.pages.columns import encode
from blockstore.service.pages.detail import encode_detail
from blockstore.service.pages.responses import json_response
from blockstore.table import Table

router = APIRouter(responses=ERRORS, tags=["tables"])

Name = Annotated[
    str,
    Path(description="The table's name; a slash in it needs no escape", max_length=1_000),
]
Version = Annotated[int | None, Query(ge=1, le=2**63 - 1)]
Moment = Annotated[
    str | None, Query(max_length=64, description="ISO 8601, or milliseconds since the epoch")
]
MinVersion = Annotated[
    int | None,
    Query(
        ge=1,
        le=2**63 - 1,
        description="Answer with this version at least: that of a change that the caller has made",
    ),
]
Tag = Annotated[str | None, Query(max_length=1_000)]


@router.get("/v1/whoami")
async def whoami(gateway: Here, caller: Known) -> Whoami:
    """The caller of this token, and what it may do."""
    listed, out = listed_in(caller.tables)
    return Whoami(
        name=caller.name,
        scopes=sorted(caller.scopes),
        tables=None if listed is None else sorted(listed),
        restricted=sorted(out),
        auth=gateway.gate.asks,
    )


@router.get("/v1/tables")
def tables(gateway: Here, caller: Reading) -> TablesShown:
    """All tables, with the age of what the gateway knows of each."""
    if caller.restricted is None:
        return TablesShown(tables=[_shown(view) for view in gateway.tables.views(caller.tables)])
    seen = [view for view in gateway.tables.views() if caller.sees(view.name)]
    return TablesShown(
        tables=[_shown(view) if caller.knows(view.name) else _restricted(view) for view in seen]
    )


@router.get("/v1/tables/{table:path}/blocks")
def blocks(
    gateway: Here,
    caller: Reading,
    table: Name,
    version: Version = None,
    as_of: Moment = None,
    tag: Tag = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
    after: Annotated[
        str | None,
        Query(
            max_length=26,
            description="`next` of another page: the blocks that come after it. With `version` of "
            "the first page all pages are of one version",
        ),
    ] = None,
) -> dict[str, object]:
    """The blocks of one version by their ULIDs, and in ``next`` where the page after this one
    begins; null in the last one."""
    snapshot = gateway.tables.snapshot(table, at_of_query(version, as_of, tag), caller.tables)
    every = snapshot.blocks
    begin = 0
    if after is not None:
        _check_ulid("after", after)
        places = range(len(every))
        begin = bisect_right(places, after, key=lambda place: every.take([place])[0].ulid)
    end = min(begin + limit, len(every))
    found = every.take(range(begin, end))
    shown = [
        {**_block(block.meta), "version": block.version or None, "excepted": sorted(block.excepted)}
        for block in found
    ]
    return {
        "table": table,
        "version": snapshot.version,
        "blocks": shown,
        "next": found[-1].ulid if end < len(every) else None,
    }


@router.get("/v1/tables/{table:path}/history")
def history(
    gateway: Here,
    caller: Reading,
    table: Name,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    before: Version = None,
) -> dict[str, object]:
    """The newest versions, or those before ``before``, newest first; as far back as the index is
    kept."""
    handle = _handle(gateway, table, caller)
    newest = handle.log.poll().version
    last = newest if before is None else min(newest, before - 1)
    first = max(1, last - limit + 1)
    found = [] if last < 1 else list(handle.log.entries(first, last))
    entries = [_entry(entry) for entry in reversed(found)]
    oldest = found[0].id if found else 1
    return {
        "table": table,
        "entries": entries,
        "more": bool(found) and oldest == first and first > 1,
    }


@router.get("/v1/tables/{table:path}/diff")
def diff(
    gateway: Here,
    caller: Reading,
    table: Name,
    from_: Annotated[int, Query(alias="from", ge=1, le=2**63 - 1)],
    to: Annotated[int, Query(ge=1, le=2**63 - 1)],
) -> dict[str, object]:
    """The changes from one version to another. ``rows`` is null where only reading the rows could
    determine it."""
    found = _handle(gateway, table, caller).diff(from_, to)
    return {
        "table": table,
        "from": found.before,
        "to": found.after,
        "added": [_block(meta) for meta in found.added],
        "removed": [_block(meta) for meta in found.removed],
        "hidden": {ulid: list(sources) for ulid, sources in found.excepted.items()},
        "shown": {ulid: list(sources) for ulid, sources in found.shown.items()},
        "rows": found.rows,
        "schema_changed": found.schema_changed,
    }


@router.get("/v1/tables/{table:path}/tags")
def tags(gateway: Here, caller: Reading, table: Name) -> dict[str, object]:
    """The names that keep versions readable."""
    found = _handle(gateway, table, caller).log.state.tags
    return {
        "table": table,
        "tags": [{"name": name, "version": found[name]} for name in sorted(found)],
    }


@router.get("/v1/tables/{table:path}/timeline", response_class=Response)
def timeline(request: Request, gateway: Here, caller: Reading, table: Name) -> Response:
    """The blocks by time and level, as columns, for the page's timeline."""
    name = gateway.tables.find(table, caller.tables)
    return json_response(request, encode(gateway.timelines.timeline(name)))


@router.get("/v1/tables/{table:path}/timeline/block", response_class=Response)
def block(
    request: Request,
    gateway: Here,
    caller: Reading,
    table: Name,
    ulid: Annotated[str, Query(max_length=26)],
) -> Response:
    """The details of one block."""
    _check_ulid("ulid", ulid)
    name = gateway.tables.find(table, caller.tables)
    return json_response(request, encode_detail(gateway.timelines.detail(name, ulid)))


@router.get("/v1/tables/{table:path}")
def one_table(
    gateway: Here,
    caller: Reading,
    table: Name,
    version: Version = None,
    as_of: Moment = None,
    tag: Tag = None,
    min_version: MinVersion = None,
) -> TableShown:
    """One table with its columns and tags, now or at a version."""
    now = all(given is None for given in (version, as_of, tag, min_version))
    if caller.restricted is not None and now:
        seen = seen_of(gateway, caller, table)
        if seen.restricted:
            return _part(gateway, seen)
    gateway.tables.at_least(table, min_version, caller.tables)
    snapshot = gateway.tables.snapshot(table, at_of_query(version, as_of, tag), caller.tables)
    shown = _shown(gateway.tables.view(table, caller.tables))
    definition = snapshot.definition
    need = {*required(definition.schema), definition.time_column}
    shown.version = snapshot.version
    shown.rows = sum(block.meta.rows for block in snapshot.blocks)
    shown.bytes = sum(block.meta.bytes for block in snapshot.blocks)
    shown.blocks = len(snapshot.blocks)
    shown.columns = [
        ColumnShown.model_validate(
            {
                "name": field.name,
                "type": type_name(field.type),
                "nullable": field.name not in need,
                **rules_json(field),
            }
        )
        for field in definition.schema
    ]
    shown.time_column = definition.time_column
    shown.sort_by = list(definition.sort_by)
    shown.row_ids = isinstance(definition.identity, RowIds)
    shown.key = list(definition.identity.columns) if isinstance(definition.identity, Key) else []
    own = definition.schema.names
    labels = (one for one in snapshot.snapshot.columns.visible.names if one not in own)
    shown.labels = {one: definition.labels.get(one) for one in labels}
    handle = gateway.tables.table(table, caller.tables)
    shown.tags = dict(sorted(handle.log.state.tags.items())) if handle.indexed else {}
    return shown


def _restricted(view: TableView) -> TableShown:
    """A table of which the caller sees a part, without what is known of the whole."""
    whole = _shown(view)
    nothing = {"error": None, "version": None, "rows": None, "bytes": None, "blocks": None}
    return whole.model_copy(update={**nothing, "restricted": True})


def _part(gateway: Gateway, seen: Seen) -> TableShown:
    shown = _restricted(gateway.tables.view(seen.name))
    shown.columns = [
        ColumnShown.model_validate(
            {
                "name": field.name,
                "type": type_name(field.type),
                "nullable": field.name not in seen.needed,
                **rules_json(field),
            }
        )
        for field in seen.columns
    ]
    # No row is found by its id or its key: all that changes one is refused.
    shown.sort_by, shown.row_ids, shown.key, shown.tags, shown.labels = [], False, [], {}, {}
    return shown


_DIGITS = 18
"""Of a moment as a number; a longer one is a text that is no moment."""


def at_of_query(version: int | None, as_of: str | None, tag: str | None) -> At:
    """The version that the parameters of a request name. Raises Invalid."""
    moment: object = (
        int(as_of)
        if as_of is not None and as_of.isascii() and as_of.isdigit() and len(as_of) <= _DIGITS
        else as_of
    )
    return At(version=version, as_of=moment, tag=tag)


def _check_ulid(name: str, given: str) -> None:
    if not is_ulid(given):
        raise Invalid(f"{name} is {given!r}, expected a block's ULID of 26 characters")


def _handle(gateway: Gateway, table: str, caller: Caller) -> Table:
    handle = gateway.tables.table(table, caller.tables)
    handle.poll() if handle.indexed else None
    return handle


def _shown(view: TableView) -> TableShown:
    return TableShown(
        name=view.name,
        status=str(view.state),
        error=view.reason,
        version=view.version,
        rows=view.rows,
        bytes=view.bytes,
        blocks=view.blocks,
        staleness_s=None if view.staleness_s is None else round(view.staleness_s, 3),
    )


def _block(meta: BlockMeta) -> dict[str, object]:
    return {
        "ulid": meta.ulid,
        "min_time": meta.min_time,
        "max_time": meta.max_time,
        "rows": meta.rows,
        "bytes": meta.bytes,
        "chunks": len(meta.chunks),
        "level": meta.level,
        "sources": len(meta.sources),
        "labels": dict(meta.labels),
        "producer": meta.producer,
    }


def _entry(entry: Entry) -> dict[str, object]:
    return {
        "version": entry.id,
        "time": entry.time,
        "operation": str(entry.operation),
        "by": entry.by,
        "message": entry.message,
        "job": None if entry.job is None else {"app": entry.job.app, "batch": entry.job.batch},
        "added": [block.meta.ulid for block in entry.add],
        "removed": list(entry.remove),
        "rows_added": sum(block.meta.rows for block in entry.add),
        "tags": dict(entry.tags),
        "schema_changed": entry.table is not None,
    }
