"""The requests of the Iceberg REST specification, as an application of its own.

Rules:
- It asks for the tokens of the gateway, with the scope ``read``, for commits of rows ``write``,
  and to create or drop a table or change its columns ``ddl``. A client that has an id and a secret
  sends the token as the secret, and receives it back as its access token.
- The configuration names the requests that are answered, so a client refuses the others itself.
  Those that it sends all the same change nothing and are 406.
- An engine has its own keys of the store, unless the operator has some for it: ``storage.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any
from urllib.parse import parse_qs

import orjson
from fastapi import APIRouter, FastAPI, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from blockstore.errors import BlockstoreError
from blockstore.export.exported import Exported
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.definitions import dropping
from blockstore.reader.http.callers import Here, Reading
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem, Refusal
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.iceberg.commits.altering import NewColumns
from blockstore.reader.iceberg.commits.new_table import NewTable
from blockstore.reader.iceberg.commits.request import wanted_of
from blockstore.reader.iceberg.commits.wanted import Wanted
from blockstore.reader.iceberg.creating import body_of, is_staged
from blockstore.reader.iceberg.new_tables import NewTables, carried_out
from blockstore.reader.iceberg.problems import answer, problem_of
from blockstore.reader.iceberg.storage import NOTHING

_JSON = "application/json"
_OF_FORMS = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
"""What a browser sends for a page of any origin without asking first."""
_TABLE = "/v1/namespaces/{namespace}/tables/{table}"
_ANSWERED = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
)
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "A parameter is not valid, or Iceberg cannot show the table"},
    401: {"description": "The token is missing or unknown"},
    403: {"description": "The token lacks the scope read, or write or ddl for a commit"},
    404: {"description": "There is no such namespace or table, or the token may not know it"},
    409: {"description": "The table has changed since the client loaded it"},
    408: {"description": "The body did not arrive"},
    413: {"description": "The body is too large"},
    415: {"description": "The body is said to be a text or a form"},
    422: {"description": "The memory is too small for the table's metadata"},
    429: {"description": "Too many requests at once"},
    503: {"description": "The store does not respond, or refuses the gateway"},
    504: {"description": "It is not known whether the commit was applied"},
}
_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
_DAY_S = 86_400
_LONGEST_FORM = 64 << 10
_MOST_FIELDS = 16
"""Of a form that anyone may send, and that is read where nothing else happens meanwhile."""
_GRANTS = {
    "client_credentials": "client_secret",
    "urn:ietf:params:oauth:grant-type:token-exchange": "subject_token",
}


def _sent(schema: Mapping[str, object]) -> dict[str, Any]:
    """A body of JSON, as the document describes it."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_OBJECT: dict[str, object] = {"type": "object"}
_COMMIT = {
    "type": "object",
    "required": ["requirements", "updates"],
    "properties": {
        "requirements": {"type": "array", "items": _OBJECT},
        "updates": {"type": "array", "items": _OBJECT},
    },
}
_NEW = {
    "type": "object",
    "required": ["name", "schema"],
    "properties": {
        "name": {"type": "string"},
        "schema": {
            "type": "object",
            "required": ["fields"],
            "properties": {"fields": {"type": "array", "items": _OBJECT}},
        },
        "partition-spec": _OBJECT,
        "write-order": _OBJECT,
        "stage-create": {"type": "boolean"},
        "properties": _OBJECT,
    },
}

Namespace = Annotated[str, Path(max_length=1_000, description="The last part of a lake's URL")]
Name = Annotated[str, Path(max_length=1_000, description="The table's name")]

router = APIRouter(responses=_ERRORS)


def iceberg_catalog(gateway: Gateway) -> FastAPI:
    """The catalog of a gateway's tables, to be mounted."""
    app = FastAPI(
        title="Blockstore's Iceberg REST catalog",
        description="What Iceberg's REST specification asks of a catalog.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.gateway = gateway
    for kind in (BlockstoreError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer)
    app.include_router(router)
    return app


@router.get("/v1/config")
def config(caller: Reading, warehouse: str | None = None) -> dict[str, Any]:
    """Which requests are answered. There is one warehouse, whatever it is called."""
    return {"defaults": {}, "overrides": {}, "endpoints": list(_ANSWERED)}


@router.post("/v1/oauth/tokens")
async def token(request: Request, gateway: Here) -> Response:
    """An access token for an id and a secret: the secret, where it is a token of the gateway."""
    form = await request.body()
    if len(form) > _LONGEST_FORM:
        return _refused(400, "invalid_request", f"the form has more than {_LONGEST_FORM:,} bytes")
    try:
        sent = parse_qs(form.decode("utf-8", "replace"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        return _refused(400, "invalid_request", f"the form has more than {_MOST_FIELDS} fields")
    secret = sent.get(_GRANTS.get(_one(sent, "grant_type"), ""), [""])[0]
    if not secret:
        return _refused(400, "invalid_request", f"expected grant_type {' or '.join(_GRANTS)}")
    try:
        caller = gateway.gate.caller(f"Bearer {secret}")
    except Refusal as error:
        return _refused(401, "invalid_client", str(error.detail))
    left_s = gateway.gate.left_s(caller)
    return JSONResponse(
        {
            "access_token": secret,
            "token_type": "bearer",
            "issued_token_type": _TOKEN,
            "expires_in": _DAY_S if left_s is None else min(_DAY_S, int(left_s)),
        },
        headers={"Cache-Control": "no-store"},
    )


@router.get("/v1/namespaces")
async def namespaces(gateway: Here, caller: Reading, parent: str | None = None) -> dict[str, Any]:
    """The lakes. They have no namespaces within."""
    found = gateway.catalog.namespaces(caller.tables)
    if parent is not None:
        gateway.catalog.tables(parent, caller.tables)
        found = []
    return {"namespaces": [[name] for name in found], "next-page-token": None}


@router.get("/v1/namespaces/{namespace}")
async def namespace(gateway: Here, caller: Reading, namespace: Namespace) -> dict[str, Any]:
    """A namespace, which has no properties."""
    gateway.catalog.tables(namespace, caller.tables)
    return {"namespace": [namespace], "properties": {}}


@router.head("/v1/namespaces/{namespace}", status_code=204)
async def namespace_exists(gateway: Here, caller: Reading, namespace: Namespace) -> Response:
    """Whether there is such a namespace."""
    gateway.catalog.tables(namespace, caller.tables)
    return Response(status_code=204)


@router.get("/v1/namespaces/{namespace}/tables")
async def tables(gateway: Here, caller: Reading, namespace: Namespace) -> dict[str, Any]:
    """The tables of a namespace."""
    found = gateway.catalog.tables(namespace, caller.tables)
    return {
        "identifiers": [{"namespace": [namespace], "name": name} for name in found],
        "next-page-token": None,
    }


@router.post(
    "/v1/namespaces/{namespace}/tables", response_class=Response, openapi_extra=_sent(_NEW)
)
async def create(
    request: Request, gateway: Here, caller: Reading, namespace: Namespace
) -> Response:
    """Create a table, in the first lake of this gateway; or only say what it would be, for a client
    that creates it in a commit with its rows."""
    check_scope(caller, Scope.DDL)
    asked = await _json(request)
    new = NewTables(gateway, caller, namespace)
    # Read first: a table that was made is never answered with an error.
    config = await _config(gateway, caller, namespace)
    if is_staged(asked):
        document = await in_thread(lambda: new.staged(asked))
        body = {"metadata": document, "config": config}
        return Response(orjson.dumps(body), media_type=_JSON, headers=_unkept(config))
    return _table_of(await in_thread(lambda: new.created(body_of(asked))), config)


@router.delete(_TABLE, status_code=204)
async def drop(
    gateway: Here,
    caller: Reading,
    namespace: Namespace,
    table: Name,
    purge: Annotated[bool, Query(alias="purgeRequested")] = False,
) -> Response:
    """Drop a table. It can be brought back for its delete_delay."""
    check_scope(caller, Scope.DDL)
    if purge:
        raise Problem(
            400, "a table is dropped without PURGE here: its rows go a delete_delay later"
        )

    def dropped() -> None:
        gateway.catalog.check_table(namespace, table, caller.tables)
        carried_out(gateway, dropping(gateway, caller, table, ""), {})

    await in_thread(dropped)
    return Response(status_code=204)


@router.get(_TABLE, response_class=Response)
async def load(
    gateway: Here,
    caller: Reading,
    namespace: Namespace,
    table: Name,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """A table: its newest version, and those with tags."""
    made = await in_thread(lambda: gateway.catalog.load(namespace, table, caller.tables))
    found = _table_of(made, await _config(gateway, caller, namespace))
    etag = found.headers["ETag"]
    if if_none_match == etag:
        return Response(status_code=304, headers={"ETag": etag})
    return found


@router.post(_TABLE, response_class=Response, openapi_extra=_sent(_COMMIT))
async def commit(
    request: Request, gateway: Here, caller: Reading, namespace: Namespace, table: Name
) -> Response:
    """Append rows, or replace files by others, or change columns, as one version; or create a table
    and append to it, as two."""
    try:
        made = await _committed(request, gateway, caller, namespace, table)
    except Exception as error:
        gateway.metrics.of_iceberg_commit(problem_of(error).status_code)
        raise
    gateway.metrics.of_iceberg_commit(200)
    return _table_of(made, {})


@router.head(_TABLE, status_code=204)
async def table_exists(
    gateway: Here, caller: Reading, namespace: Namespace, table: Name
) -> Response:
    """Whether there is such a table."""
    gateway.catalog.check_table(namespace, table, caller.tables)
    return Response(status_code=204)


@router.post(f"{_TABLE}/metrics", status_code=204)
async def report(
    request: Request, gateway: Here, caller: Reading, namespace: Namespace, table: Name
) -> Response:
    """What an engine says of a scan: it is counted, and not kept."""
    gateway.catalog.check_table(namespace, table, caller.tables)
    await request.body()
    gateway.metrics.of_iceberg_report()
    return Response(status_code=204)


@router.api_route(
    "/v1/{rest:path}", methods=["POST", "PUT", "PATCH", "DELETE"], include_in_schema=False
)
def refuse(caller: Reading, rest: str) -> None:
    """Refuse what would change something."""
    raise Problem(
        406,
        "this catalog creates, loads and drops tables, and takes commits to them: all else "
        "is done with Blockstore's own means, as SQL or at /v1/tables",
    )


@router.get("/v1/{rest:path}", include_in_schema=False)
def unknown(caller: Reading, rest: str) -> None:
    """Nothing is there."""
    raise Problem(404, f"there is nothing at {rest[:200]}: GET config names what there is")


async def _json(request: Request) -> object:
    kind = request.headers.get("content-type", _JSON).partition(";")[0].strip().lower()
    if kind in _OF_FORMS:
        raise Problem(415, f"the Content-Type is {kind}, expected {_JSON}")
    try:
        return orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"the body is not valid JSON: {error}") from error


async def _committed(
    request: Request, gateway: Gateway, caller: Caller, namespace: str, table: str
) -> Exported:
    wanted = wanted_of(await _json(request), table)
    if not isinstance(wanted, Wanted):
        check_scope(caller, Scope.DDL)
    if not isinstance(wanted, NewColumns):
        check_scope(caller, Scope.WRITE)
    if isinstance(wanted, NewTable):
        new = NewTables(gateway, caller, namespace)
        return await in_thread(lambda: new.created_with_rows(wanted))
    catalog = gateway.catalog
    return await in_thread(lambda: catalog.commit(namespace, table, caller.tables, wanted))


async def _config(gateway: Gateway, caller: Caller, namespace: str) -> Mapping[str, str]:
    storage = gateway.settings.engines.get(namespace, NOTHING)
    return await in_thread(lambda: storage.properties(caller))


def _unkept(config: Mapping[str, str]) -> dict[str, str]:
    """Headers that keep keys out of caches."""
    return {"Cache-Control": "no-store"} if config else {}


def _table_of(made: Exported, config: Mapping[str, str]) -> Response:
    body: dict[str, Any] = {
        "metadata-location": made.metadata,
        "metadata": orjson.Fragment(made.document),
        "config": config,
    }
    if config:
        folder = made.metadata.rpartition("/metadata/")[0]
        # DuckDB takes a store's endpoint from here only.
        body["storage-credentials"] = [{"prefix": f"{folder}/", "config": config}]
    # A client that has this tag has the keys that are given out now.
    keys = f"-{sha256(orjson.dumps(config)).hexdigest()[:16]}" if config else ""
    etag = f'"{made.metadata.rpartition("/")[2]}{keys}"'
    headers = {"ETag": etag, **_unkept(config)}
    return Response(orjson.dumps(body), media_type=_JSON, headers=headers)


def _one(sent: dict[str, list[str]], name: str) -> str:
    return sent.get(name, [""])[0]


def _refused(status: int, error: str, why: str) -> Response:
    return JSONResponse({"error": error, "error_description": why}, status_code=status)
