"""The requests of the Iceberg REST specification, as an application of its own.

Rules:
- It asks for the tokens of the gateway, with the scope ``read``. A client that has an id and a
  secret sends the token as the secret, and receives it back as its access token.
- The configuration names the requests that are answered, so a client refuses the others itself.
  Those that it sends all the same change nothing and are 406.
- No response holds the credentials of a store: an engine has its own.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs

import orjson
from fastapi import APIRouter, FastAPI, Header, Path, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from blockstore.errors import BlockstoreError
from blockstore.reader.http.callers import Here, Reading
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.iceberg.problems import answer

_TABLE = "/v1/namespaces/{namespace}/tables/{table}"
_ANSWERED = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
)
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "A parameter is not valid, or Iceberg cannot show the table"},
    401: {"description": "The token is missing or unknown"},
    403: {"description": "The token lacks the scope read"},
    404: {"description": "There is no such namespace or table, or the token may not know it"},
    408: {"description": "The body did not arrive"},
    413: {"description": "The body is too large"},
    422: {"description": "The memory is too small for the table's metadata"},
    429: {"description": "Too many requests at once"},
    503: {"description": "The store does not respond, or refuses the gateway"},
}
_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
_GRANTS = {
    "client_credentials": "client_secret",
    "urn:ietf:params:oauth:grant-type:token-exchange": "subject_token",
}

Namespace = Annotated[str, Path(max_length=1_000, description="The last part of a lake's URL")]
Name = Annotated[str, Path(max_length=1_000, description="The table's name")]

router = APIRouter(responses=_ERRORS)


def iceberg_catalog(gateway: Gateway) -> FastAPI:
    """The catalog of a gateway's tables, to be mounted."""
    app = FastAPI(
        title="Blockstore's Iceberg REST catalog",
        description="What Iceberg's REST specification asks of a catalog that is for reading.",
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
    sent = parse_qs((await request.body()).decode("utf-8", "replace"))
    secret = sent.get(_GRANTS.get(_one(sent, "grant_type"), ""), [""])[0]
    if not secret:
        return _refused(400, "invalid_request", f"expected grant_type {' or '.join(_GRANTS)}")
    if gateway.tokens.caller(f"Bearer {secret}") is None:
        return _refused(401, "invalid_client", "the secret is no token made by `blockstore token`")
    return JSONResponse(
        {
            "access_token": secret,
            "token_type": "bearer",
            "issued_token_type": _TOKEN,
            "expires_in": 86_400,
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
    etag = f'"{made.metadata.rpartition("/")[2]}"'
    if if_none_match == etag:
        return Response(status_code=304, headers={"ETag": etag})
    body = {
        "metadata-location": made.metadata,
        "metadata": orjson.Fragment(made.document),
        "config": {},
    }
    return Response(orjson.dumps(body), media_type="application/json", headers={"ETag": etag})


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
        "this catalog is for reading: change tables with Blockstore's own writers, with SQL at "
        "/v1/statements, or from Spark",
    )


@router.get("/v1/{rest:path}", include_in_schema=False)
def unknown(caller: Reading, rest: str) -> None:
    """Nothing is there."""
    raise Problem(404, f"there is nothing at {rest[:200]}: GET config names what there is")


def _one(sent: dict[str, list[str]], name: str) -> str:
    return sent.get(name, [""])[0]


def _refused(status: int, error: str, why: str) -> Response:
    return JSONResponse({"error": error, "error_description": why}, status_code=status)
