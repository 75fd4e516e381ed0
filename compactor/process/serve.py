"""Running the compactor as a process: configuration in, exit code out.

Rules:
- SIGTERM or SIGINT stops it safely, within ``grace``; a second one abandons the running merge at
  once. Exit code 0.
- A fatal failure ends it with the error as its last line and exit code 1, even if a merge does not
  return.
- Work directories left by dead merges are removed first.
- It serves HTTP from its first moment to its last: a probe sees it start and stop.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.types import ASGIApp

from blockstore.bucket import open_bucket
from blockstore.cli.failure import report
from blockstore.compactor.config import ProcessConfig
from blockstore.compactor.merge import MergeEngine
from blockstore.compactor.merge.workdir import check_outside_tables, clear_abandoned
from blockstore.compactor.plan.shards import Shard
from blockstore.compactor.process.instruments import Instruments
from blockstore.compactor.process.process import Process
from blockstore.compactor.web import routes
from blockstore.service.billing import Billed
from blockstore.service.connections import raise_limit
from blockstore.service.logs import set_up
from blockstore.service.metrics import BucketRequests, metrics_route
from blockstore.service.serving import Health, SecurityHeaders, Server, health_routes
from blockstore.service.signals import on_signals
from blockstore.world import World

_logger = logging.getLogger(__name__)


def serve(
    url: str, config: ProcessConfig, engine: MergeEngine, *, shard: Shard | None = None
) -> None:
    """Run until a signal, or until a fatal failure, which is raised: Fenced or BoundaryLost."""
    world = World.real()
    bucket = Billed(open_bucket(url, world))
    process = Process(bucket, world, config, engine, shard=shard)
    registry = CollectorRegistry()
    Instruments(registry, process.status)
    requests = BucketRequests(registry, lambda: [bucket], prices=config.prices, clock=world.clock)
    process.month_cost = requests.estimate
    set_up(config.log)
    raise_limit()
    check_outside_tables(config.settings.work_dir)
    cleared = clear_abandoned(config.settings.work_dir)
    if cleared:
        _logger.info("removed %s work folders of dead merges", cleared)
    with on_signals(lambda: _end(process)), _served(process, registry, config):
        _logger.info("manages %s in the role %s", bucket.url, process.status().role)
        process.start()
        world.pool.wait(process.ended)
        _logger.info("stops%s", "" if process.fatal is None else " after a fatal failure")
        idle = process.stop()
    if not idle:
        _end_without_threads(process.fatal)
    if process.fatal is not None:
        raise process.fatal
    _logger.info("stopped")


def application(process: Process, registry: CollectorRegistry) -> ASGIApp:
    """The process's HTTP application: metrics, probes and the page. It changes nothing."""
    probes = health_routes(
        healthy=lambda: Health(reasons=process.status().unhealthy),
        ready=lambda: Health(reasons=process.status().not_ready),
    )
    return SecurityHeaders(Starlette(routes=[metrics_route(registry), *probes, *routes(process)]))


def _end(process: Process) -> None:
    """The first signal ends the process, a second one does not wait for the running merge."""
    if process.ended.is_set():
        process.hurry()
    process.end()


def _end_without_threads(fatal: BaseException | None) -> NoReturn:
    """End now, with the error as the last line where there is one.

    A thread that does not return from the store or the disk would keep the interpreter alive
    forever. Its work is debris that readers never see; the next start continues.
    """
    _logger.warning("an abandoned merge did not stop: the process ends without waiting for it")
    logging.shutdown()
    code = 0 if fatal is None else 1
    with suppress(OSError, ValueError):  # standard error may be closed
        if fatal is not None:
            report(fatal)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


@contextmanager
def _served(process: Process, registry: CollectorRegistry, config: ProcessConfig) -> Iterator[None]:
    if config.http.off:
        yield
        return
    with Server(application(process, registry), config.http) as server:
        _logger.info("serves %s", server.url)
        yield
