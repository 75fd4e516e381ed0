"""What the process answers over HTTP: its metrics, its probes, and the page."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.types import ASGIApp

from blockstore.compactor.process.process import Process
from blockstore.service.metrics import metrics_route
from blockstore.service.serving import Health, SecurityHeaders, health_routes

__all__ = ["application"]


def application(process: Process, registry: CollectorRegistry) -> ASGIApp:
    """The application of a process. It changes nothing."""
    from blockstore.compactor.web import routes

    probes = health_routes(
        healthy=lambda: Health(reasons=process.status().unhealthy),
        ready=lambda: Health(reasons=process.status().not_ready),
    )
    return SecurityHeaders(Starlette(routes=[metrics_route(registry), *probes, *routes(process)]))
