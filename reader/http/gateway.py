"""One gateway as its routes see it: tables, engine, jobs, tokens and metrics, built from the
settings.

Owns how the parts are constructed and closed; it decides nothing else about them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from prometheus_client import CollectorRegistry

from blockstore.bucket import Bucket, open_bucket
from blockstore.errors import BlockstoreError, Invalid, Unavailable
from blockstore.index.boundary import BoundaryCounts
from blockstore.reader.audit import AuditLog
from blockstore.reader.audit.job import line_of_job
from blockstore.reader.cache import ChunkCache, default_folder
from blockstore.reader.http.gate import Gate
from blockstore.reader.http.metrics import GatewayMetrics
from blockstore.reader.http.people import People
from blockstore.reader.http.quotas import Quotas
from blockstore.reader.http.running_queries import RunningQueries
from blockstore.reader.http.tokens import Caller
from blockstore.reader.iceberg.catalog import Catalog
from blockstore.reader.iceberg.commits.commit import Commits
from blockstore.reader.jobs.extract import Began, Extracts, Rows
from blockstore.reader.jobs.record import Kind, Request
from blockstore.reader.jobs.rows import RowChanges
from blockstore.reader.jobs.runner import Runner, Terms
from blockstore.reader.jobs.shares import of_anyone
from blockstore.reader.jobs.statements import Statements
from blockstore.reader.jobs.store import Job, JobStore
from blockstore.reader.jobs.tables import TableChanges, What
from blockstore.reader.jobs.upload import Uploads
from blockstore.reader.jobs.work import Work
from blockstore.reader.peers import Peers
from blockstore.reader.query import Answer, Budget, Capacity, Engine
from blockstore.reader.query.runners.instance import clear_abandoned_spill
from blockstore.reader.query.task import Parameters
from blockstore.reader.settings import GatewaySettings
from blockstore.reader.tables import At, Polling, Tables
from blockstore.scan.reads import Reads
from blockstore.scan.view import TableSnapshot
from blockstore.service.billing import Billed
from blockstore.service.pages.live import LiveTimelines
from blockstore.service.serving import Health
from blockstore.world import World

_logger = logging.getLogger(__name__)

_WAY_S = 10.0
_OF_THE_ENGINE = (Kind.QUERY, Kind.DOWNLOAD, Kind.STATEMENT)
"""Jobs that need the engine, besides those that make a table of a query."""


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """The parts of a gateway that run jobs."""

    store: JobStore
    runner: Runner
    uploads: Uploads


class Gateway:
    """Everything behind the routes; safe to share between threads."""

    def __init__(self, settings: GatewaySettings, world: World) -> None:
        self.settings = settings
        self.world = world
        people = People(settings.issuers, settings.groups, world.clock)
        self.gate = Gate(settings.tokens, world.clock, people)
        self.quotas = Quotas(world.clock)
        self.queries = RunningQueries(world)
        self.audit = AuditLog(settings.audit.file, world)
        self.registry = CollectorRegistry()
        self._meters: list[Billed] = []
        configured = settings.tables
        if not configured.urls:
            raise Invalid(
                "the gateway has no URL: name tables or lakes with blockstore serve URL, or with "
                "urls in [tables] of the configuration"
            )
        polling = Polling(
            interval_s=configured.poll_s,
            active_for_s=configured.active_for_s,
            max_staleness_s=configured.max_staleness_s,
            discovery=configured.discovery,
        )
        self.tables = Tables(configured.urls, world=world, polling=polling, wrap=self._metered)
        folder = settings.cache.folder or default_folder()
        self.cache = ChunkCache(folder, world, limit_bytes=settings.cache.size_bytes)
        query = settings.query
        self.engine = Engine(
            self.tables,
            world=world,
            cache=self.cache,
            capacity=Capacity(
                queries=query.at_once,
                waiting=query.waiting,
                wait_s=query.wait_s,
                memory_bytes=query.memory_bytes,
                threads=query.threads or None,
                spill_bytes=query.spill_bytes,
            ),
            isolated=query.isolated,
            strict=configured.strict,
        )
        work = settings.jobs.work_dir
        self.catalog = Catalog(
            self.tables, Commits(scratch=lambda: work / f"commit-{world.ids.token()}")
        )
        self.receiving = threading.BoundedSemaphore(settings.http.uploads_at_once)
        """The places of what is received to be stored: files and rows, at every door."""
        self.reads = Reads(world)
        """What lookups of single rows keep, of all tables."""
        self.timelines = LiveTimelines(lambda name: self.tables.table(name), world)
        self.jobs: Jobs | None = None
        self.peers: Peers | None = None
        """The group of gateways that this one belongs to."""
        if settings.peers.any:
            # A query may wait for its turn, and then take its time; a little more for the way.
            patience_s = query.wait_s + query.time_limit_s + _WAY_S
            self.peers = Peers(settings.peers, world, patience_s=patience_s)
        self.metrics = GatewayMetrics(
            self.registry,
            tables=self.tables,
            engine=self.engine,
            cache=self.cache,
            ready=lambda: not self.ready().reasons,
            tokens_current=lambda: self.gate.broken is None,
            audited=lambda: self.audit.broken is None,
            peers=lambda: (0, 0) if self.peers is None else self.peers.members.counts(),
            jobs_running=lambda: 0 if self.jobs is None else self.jobs.runner.running,
            boundary=lambda: (
                BoundaryCounts() if self.jobs is None else self.jobs.uploads.asked_of_boundary
            ),
            meters=self._meters,
            prices=settings.prices,
            clock=world.clock,
        )
        self.lake = self._metered(open_bucket(configured.urls[0], world))
        """The first URL: it holds the records of jobs, and new tables."""
        if settings.jobs.enabled:
            self.jobs = self._jobs()

    def start(self) -> None:
        """Remove the spill folders of killed gateways, then keep tables fresh and run jobs until
        ``close``."""
        cleared = clear_abandoned_spill()
        if cleared:
            _logger.info("removed %d spill folders of dead processes", cleared)
        self.tables.start()
        if self.peers is not None:
            self.peers.start()
        if self.jobs is not None:
            self.jobs.runner.start()

    def close(self) -> None:
        """Close the parts, each before those that it uses."""
        if self.jobs is not None:
            self.jobs.runner.close()
        if self.peers is not None:
            self.peers.close()
        self.tables.stop()
        self.engine.close()
        self.audit.close()

    def ask(
        self,
        sql: str,
        *,
        caller: Caller,
        at: At | Mapping[str, At],
        parameters: Parameters = None,
        limit: int | None = None,
        began: Began | None = None,
        taken: Mapping[str, TableSnapshot] | None = None,
        given: Mapping[str, pa.Table] | None = None,
    ) -> Answer:
        """Begin a query for a caller. ``began`` receives a function that stops it; ``taken`` and
        ``given`` are as those of ``Engine.run``."""
        query = self.settings.query
        budget = Budget(
            rows=query.max_rows, bytes=query.max_bytes, seconds=query.time_limit_s, limit=limit
        )
        return self.engine.run(
            sql,
            parameters=parameters,
            at=at,
            taken=taken or {},
            allowed=caller.tables,
            policies=caller.restricted,
            budget=budget,
            began=began,
            given=given or {},
        )

    def healthy(self) -> Health:
        """Whether the process can continue without a restart."""
        return Health()

    def ready(self) -> Health:
        """Whether queries can be answered: the tables were read once, some of them can be read,
        and the audit log can be written."""
        odd = (self.gate.broken, self.gate.people.broken)
        warnings = tuple(why for why in odd if why is not None)
        lasting = tuple(why for why in (self.tables.halted, self.audit.broken) if why is not None)
        if lasting:
            return Health(reasons=lasting, warnings=warnings)
        waits = {
            "the tables are being read for the first time": not self.tables.ready,
            "a query process is starting": not self.engine.ready,
        }
        reasons = tuple(why for why, holds in waits.items() if holds)
        return Health(reasons=reasons, warnings=warnings)

    def need_jobs(self) -> Jobs:
        """The jobs. Raises Unavailable if this gateway runs none."""
        if self.jobs is None:
            raise Unavailable(
                "this gateway runs no jobs: use one that does, or set enabled in [jobs]"
            )
        return self.jobs

    def _appeared(self, name: str) -> None:
        """Serve a new table at once."""
        try:
            self.tables.appeared()
        except BlockstoreError as error:
            _logger.warning("table %s was created and is listed later: %s", name, error)

    def _metered(self, bucket: Bucket) -> Bucket:
        meter = Billed(bucket)
        self._meters.append(meter)
        return meter

    def _jobs(self) -> Jobs:
        jobs = self.settings.jobs
        bucket = self.lake
        store = JobStore(bucket)
        common = (bucket, self.world, self.tables.table, jobs.work_dir, self.tables.catch_up)
        uploads, rows = Uploads(*common), RowChanges(*common)
        tables = TableChanges(
            *common,
            lake=self.lake,
            appeared=self._appeared,
            bucket_of=self.tables.bucket_of,
            engine=self.engine,
            time_limit_s=jobs.time_limit_s,
        )
        statements = Statements(*common, engine=self.engine, time_limit_s=jobs.time_limit_s)
        for work in (rows, tables, statements):
            work.asked_of_boundary = uploads.asked_of_boundary
        extracts = Extracts(
            bucket,
            self.world,
            self._rows,
            time_limit_s=jobs.time_limit_s,
            result_bytes=jobs.max_result_bytes,
        )
        terms = Terms(
            lease_s=jobs.lease_s,
            poll_s=jobs.poll_s,
            time_limit_s=jobs.time_limit_s,
            keep_s=jobs.keep_s,
            places=jobs.places,
            cluster_places=dict(jobs.cluster_places),
        )
        works: dict[Kind, Work] = {
            Kind.UPLOAD: uploads,
            Kind.ROWS: rows,
            Kind.TABLE: tables,
            Kind.STATEMENT: statements,
            Kind.QUERY: extracts,
            Kind.DOWNLOAD: extracts,
        }
        runner = Runner(
            store,
            self.world,
            works,
            terms,
            report=self.metrics.of_job,
            audit=self._job_ended,
            share=self._share_of,
        )
        return Jobs(store=store, runner=runner, uploads=uploads)

    def _share_of(self, request: Request) -> Callable[[], None] | None:
        """A place of a job's owner, as its queries take them; None where none is free. A job that
        does not need the engine needs none."""
        if request.kind not in _OF_THE_ENGINE and request.what != What.CREATE_AS:
            return of_anyone(request)
        return self.quotas.take_of(request.owner, self.gate.most_of(request.owner))

    def _job_ended(self, job: Job) -> None:
        self.audit.record(line_of_job(job, self.gate.name_of(job.request.owner)))

    def _rows(self, request: Request, limit_s: float, began: Began) -> Rows:
        """The rows of a job, with the permissions of its owner."""
        sql = request.sql
        if sql is None:
            assert request.table is not None, "a download names its table"
            name = self.tables.find(request.table, request.allowed)
            sql = f'SELECT * FROM "{name.replace(chr(34), chr(34) * 2)}"'
        at = At(version=request.version, as_of=request.as_of, tag=request.tag)
        if request.row_ids:
            sql = self.engine.with_row_ids(sql, at=at, allowed=request.allowed)
        budget = Budget(seconds=limit_s, limit=request.limit)
        return _Running(
            self.engine.run(sql, at=at, allowed=request.allowed, budget=budget, began=began)
        )


class _Running:
    """A result as a job needs it."""

    def __init__(self, answer: Answer) -> None:
        self.reader: pa.RecordBatchReader = answer.reader
        self.tables = tuple(answer.versions)
        self.versions = {
            name: version for name, version in answer.versions.items() if version is not None
        }
