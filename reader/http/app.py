"""The ASGI application: routes, access control and middleware."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from blockstore.errors import BlockstoreError
from blockstore.reader.http import (
    change_routes,
    docs_page,
    explain_routes,
    file_routes,
    job_routes,
    query_routes,
    row_routes,
    running_routes,
    statement_routes,
    statistics_routes,
    table_changes,
    table_routes,
)
from blockstore.reader.http.edge import Edge
from blockstore.reader.http.foreign_pages import NoForeignPages
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem, answer
from blockstore.reader.http.tokens import Scope
from blockstore.reader.iceberg.routes import iceberg_catalog
from blockstore.reader.page import page_routes
from blockstore.service.metrics import metrics_route
from blockstore.service.serving import SecurityHeaders, health_routes

_ABOUT = (
    "SQL over tables on object storage. The Accept header selects the form of the rows: Arrow, "
    "JSON, CSV, TSV or Parquet. Long work runs as a job. Every error is one JSON shape with a "
    "sentence and a request id."
)
_LONG_S = 3600.0
"""The seconds after which a body must have come at a least rate."""


def application(gateway: Gateway) -> ASGIApp:
    """The complete HTTP application of a gateway."""
    http = gateway.settings.http
    app = FastAPI(
        title="Blockstore gateway",
        description=_ABOUT,
        version=version("blocklake"),
        docs_url=None,
        redoc_url=None,
    )
    app.state.gateway = gateway
    for kind in (BlockstoreError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer)
    # Files come before rows, and rows before tables: a table's name may contain a slash.
    for module in (
        query_routes,
        running_routes,
        explain_routes,
        statement_routes,
        file_routes,
        row_routes,
        change_routes,
        statistics_routes,
        table_routes,
        table_changes,
        job_routes,
    ):
        app.include_router(module.router)
    app.mount("/iceberg", iceberg_catalog(gateway))
    app.router.routes.extend(
        [
            *health_routes(gateway.healthy, gateway.ready),
            Route("/metrics", _metrics(gateway), methods=["GET"]),
            Route("/docs", docs_page.docs, methods=["GET"]),
            Route("/docs/style.css", docs_page.style, methods=["GET"]),
            *page_routes(),
        ]
    )
    edge = Edge(
        app if gateway.gate.asks else NoForeignPages(app, _hosts(gateway), http.origins),
        gateway.world,
        audit=gateway.audit,
        body_bytes=http.max_body_bytes,
        upload_bytes=http.max_upload_bytes,
        stall_s=http.stall_s,
        long_s=max(http.answer_s, _LONG_S),
        observe=gateway.metrics.of_request,
    )
    return SecurityHeaders(_to_other_origins(edge, http.origins))


def _hosts(gateway: Gateway) -> list[str]:
    """The hosts that a gateway listens on, and by which the others of its group know it."""
    return [gateway.settings.http.listening.host, *gateway.settings.peers.hosts]


def _to_other_origins(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """CORS, around everything, so that a page of another origin can also read errors. Cookies play
    no part: a page sends a token or it does not."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=("GET", "POST", "PATCH", "DELETE"),
        allow_headers=(
            "Authorization",
            "Content-Type",
            "Idempotency-Key",
            "Last-Event-ID",
            "X-Request-Id",
        ),
        expose_headers=(
            "X-Blockstore-Versions",
            "X-Blockstore-Until",
            "X-Request-Id",
            "Retry-After",
            "Location",
        ),
    )


def _metrics(gateway: Gateway):  # type: ignore[no-untyped-def]
    """The metrics, for tokens that may know the name of every table."""
    endpoint = metrics_route(gateway.registry).endpoint

    def guarded(request: Request) -> Response:
        if not gateway.settings.http.open_metrics:
            caller = gateway.gate.caller(request.headers.get("authorization"))
            if caller.tables is not None or not caller.may(Scope.READ):
                raise Problem(
                    403,
                    "the metrics name every table: use a token for all tables, or set open_metrics",
                )
        found: Response = endpoint(request)
        return found

    return guarded
