"""SQL over snapshots of several tables: admit, parse, prune, place the files, run, stream.

Invariants:
- A query reads exactly the rows of the snapshots that it took when it began; newest snapshots are
  of one instant.
- ``sql/conditions.py`` and ``blockstore.scan`` decide which files are left out: never one that
  matters.
- A query cannot read anything but its tables: ``sql/statement.py`` admits one SELECT,
  ``runners/instance.py`` locks the engine.
- R11: a query that fails because of a file fails with the name of its block.
- Batches are made as they are read: memory does not grow with the result.
- Rows that newer versions hide are found before the files are placed, and left out by their
  numbers (``sql/shown.py``).
- A bare count opens no file if the snapshot, or what is known to be hidden, gives it exactly.
- Of a table that a policy restricts, a query sees what is inside of its fence (``fences.py``), and
  nothing that counts the rows outside.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import pyarrow as pa

from blockstore.format.identity import stored_columns
from blockstore.reader.errors import BadSql
from blockstore.reader.query.admission import Admission, Budget, Capacity
from blockstore.reader.query.answer import Answer, Ending
from blockstore.reader.query.deadlines import Deadlines
from blockstore.reader.query.launch import Launch
from blockstore.reader.query.runners.failures import translated
from blockstore.reader.query.runners.inprocess import InProcess
from blockstore.reader.query.runners.instance import Instance, Limits
from blockstore.reader.query.sight import Sight, visible
from blockstore.reader.query.source import Fixed, Source
from blockstore.reader.query.sql.conditions import conditions
from blockstore.reader.query.sql.counting import Counted, bare_count, reads_all
from blockstore.reader.query.sql.hidden import hide
from blockstore.reader.query.sql.parameters import bind, checked
from blockstore.reader.query.sql.reading import columns_read
from blockstore.reader.query.sql.statement import Statement
from blockstore.reader.query.sql.syntax import Syntax
from blockstore.reader.query.sql.windows import Windows
from blockstore.reader.query.task import Given, Parameters, Runner, Step, Task
from blockstore.reader.tables.at import NEWEST, At
from blockstore.scan.plan import ScanPlan, check_given, plan_scan
from blockstore.scan.reads import Reads
from blockstore.scan.view import TableSnapshot
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.reader.cache import ChunkCache
    from blockstore.reader.query.planned import Planned
    from blockstore.reader.query.runners.pool import WorkerPool
    from blockstore.reader.tables.policies import Policies

_PARSER = Limits(memory_bytes=256 << 20, threads=1, spill_bytes=0)
_MOST_SURPRISING = 64
_NOTHING: Mapping[str, TableSnapshot] = {}
_NO_ROWS: Mapping[str, pa.Table] = {}
_APART_S = 60.0
"""A statement over no data that takes longer ends, in case its gateway is gone."""
_OVERHEAD_BYTES = 768 << 20
"""The memory of a process that DuckDB does not count: decoded pages, values in transit, what the
allocator keeps."""


@dataclass(slots=True)
class Counts:
    """Counters for metrics; they only grow."""

    queries: int = 0
    failed: int = 0
    incomplete: int = 0
    """Queries that read something of a remote table that was not expected."""


class Engine:
    """Runs SQL over the tables of a source, or over fixed snapshots; safe to share between
    threads. ``isolated`` runs each query in a separate process, as SQL of strangers needs."""

    def __init__(
        self,
        source: Source | Mapping[str, TableSnapshot],
        *,
        world: World | None = None,
        cache: ChunkCache | None = None,
        capacity: Capacity | None = None,
        isolated: bool = False,
        strict: bool = True,
    ) -> None:
        self.source: Source = Fixed(source) if isinstance(source, Mapping) else source
        self._world = world or World.real()
        self._cache = cache
        self._strict = strict
        self._lock = threading.Lock()
        capacity = capacity or Capacity()
        self._admission = Admission(capacity, self._world.clock)
        self._deadlines = Deadlines(self._world.clock)
        self._windows = Windows()
        self._reads = Reads(self._world, lambda: self._chunk_cache().fetcher)
        self._surprising: deque[str] = deque(maxlen=_MOST_SURPRISING)
        """The texts of queries that read what was not expected, after they returned rows."""
        folders = self._folders()
        shares = capacity.queries if isolated else 1
        limits = _limits(capacity, shares)
        self.share = _limits(capacity, capacity.queries)  # what one query may take
        self._instance = Instance([], _PARSER) if isolated else Instance(folders, limits)
        self._syntax = Syntax(self._instance.cursor)
        self._runner: Runner = _workers(folders, limits) if isolated else InProcess(self._instance)
        self._translated = partial(translated, limits=limits, shares=shares)
        self.counts = Counts()

    def run(
        self,
        sql: str,
        parameters: object = None,
        *,
        at: At | Mapping[str, At] = NEWEST,
        taken: Mapping[str, TableSnapshot] = _NOTHING,
        allowed: Collection[str] | None = None,
        policies: Policies | None = None,
        budget: Budget | None = None,
        began: Callable[[Callable[[], None]], None] | None = None,
        given: Mapping[str, pa.Table] = _NO_ROWS,
    ) -> Answer:
        """Run one SELECT and return its rows as an ``Answer``, which must be closed.

        Args:
            sql: The SELECT.
            parameters: Values for ``?`` and ``$1``, or for ``$name``.
            at: The version to read, of all tables or of each.
            taken: Snapshots that the caller has taken before, by the tables' own names; ``at`` is
                for the others. One whose name has a ``/`` is no table, but a part of one.
            allowed: The tables that this caller may see; None for all.
            policies: What it sees of the tables that ``allowed`` takes out.
            budget: The limits of this query.
            began: Receives a function that stops the query from any thread, before the query runs:
                some take long until their first row.
            given: Rows that the query may name besides its tables; their names have a ``:``.

        Raises BadSql, UnknownTable, Restricted, Busy, Stale, TimedOut, NoMemory, VersionExpired,
        and Corrupt with the block's name.
        """
        budget = budget or Budget()
        values = checked(parameters)
        started_s = self._world.clock.monotonic_s()
        ending = Ending(budget.seconds, self._admission.turn(budget.seconds).give_back)
        self.counts.queries += 1
        try:
            if began is not None:
                began(ending.cancel)
            if budget.seconds is not None:
                left_s = budget.seconds - (self._world.clock.monotonic_s() - started_s)
                ending.at_end(self._deadlines.watch(max(0.0, left_s), ending.time_out))
            sight = Sight(self.source, allowed, policies, at=at, taken=taken)
            return self._begin(sql, values, sight, budget, ending, given)
        except BaseException as error:
            self.counts.failed += 1
            ending.finish()
            if not isinstance(error, Exception):
                raise
            raise (ending.reason or self._translated(error)) from error

    def with_row_ids(
        self,
        sql: str,
        *,
        at: At | Mapping[str, At] = NEWEST,
        allowed: Collection[str] | None = None,
    ) -> str:
        """The query with the ids and the versions of its rows as its first columns, with a key only
        the versions. Raises BadSql for a query whose rows are not those of one table."""
        from blockstore.reader.query.sql.row_ids import put_first, table_of_rows

        try:
            statement = Sight(self.source, allowed).parse(self._syntax, sql)
            table = table_of_rows(statement)
            identity = self.source.snapshots([table], at, allowed)[table].definition.identity
            if identity is None:
                raise BadSql(
                    f"the rows of table {table} have neither ids nor a key: leave the row ids out"
                )
            put_first(statement, stored_columns(identity))
            return self._syntax.sql(statement.root)
        except Exception as error:
            raise self._translated(error) from error

    def plans(
        self,
        sql: str,
        parameters: object = None,
        *,
        at: At | Mapping[str, At] = NEWEST,
        allowed: Collection[str] | None = None,
        seconds: float | None = None,
    ) -> tuple[Planned, ...]:
        """What a SELECT would read of each table that it names; no file is opened. It takes the
        place of a query for so long. Raises what ``run`` raises before the first row."""
        from blockstore.reader.query.planned import planned

        turn = self._admission.turn(seconds)
        try:
            sight = Sight(self.source, allowed, at=at)
            return planned(sight, self._syntax, sql, checked(parameters))
        except Exception as error:
            raise self._translated(error) from error
        finally:
            turn.give_back()

    def tables(
        self,
        sql: str,
        *,
        allowed: Collection[str] | None = None,
        policies: Policies | None = None,
    ) -> frozenset[str]:
        """The tables that a SELECT names, in their own spelling. Raises BadSql, UnknownTable and
        Restricted for one that ``run`` would refuse."""
        return self._admitted(sql, Sight(self.source, allowed, policies)).newest

    def reads(
        self,
        sql: str,
        *,
        allowed: Collection[str] | None = None,
        policies: Policies | None = None,
    ) -> frozenset[str]:
        """The tables of which a SELECT reads anything, also of earlier versions, or what is known
        of a table. Raises as ``tables``."""
        return self._admitted(sql, Sight(self.source, allowed, policies)).all

    def _admitted(self, sql: str, sight: Sight) -> Statement:
        try:
            return sight.parse(self._syntax, sql)
        except Exception as error:
            raise self._translated(error) from error

    def apart(self, steps: Sequence[Step], sql: str, parameters: object = None) -> pa.Table:
        """Run SQL over nothing but what the steps make, and return its rows. Both are the caller's
        own: nothing of them is admitted first. Raises BadSql with the position in ``sql``."""
        task = Task(views=tuple(steps), sql=sql, parameters=checked(parameters), seconds=_APART_S)
        try:
            running = self._runner.start(task, lambda _: None)
            try:
                return pa.Table.from_batches(running.batches(), running.schema)
            finally:
                running.close()
        except Exception as error:
            raise self._translated(error) from error

    @property
    def syntax(self) -> Syntax:
        """DuckDB's parser."""
        return self._syntax

    def query(self, sql: str, parameters: object = None) -> pa.RecordBatchReader:
        """The rows alone, as a stream."""
        return self.run(sql, parameters).reader

    @property
    def ready(self) -> bool:
        """Whether a query would begin at once, but for others."""
        return self._runner.ready

    def running(self) -> int:
        """How many queries run."""
        return self._admission.running

    def waiting(self) -> int:
        """How many wait for their turn."""
        return self._admission.waiting

    def refused(self) -> int:
        """How many queries were refused because too many ran and waited; only grows."""
        return self._admission.refused

    @contextmanager
    def place(self, seconds: float) -> Iterator[Limits]:
        """The place of one query, for other work within the limits of a query. Raises Busy."""
        turn = self._admission.turn(seconds)
        try:
            yield self.share
        finally:
            turn.give_back()

    def close(self) -> None:
        """End the engine; running queries end with an error."""
        self._deadlines.close()
        self._runner.close()
        self._instance.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(
        self,
        sql: str,
        parameters: Parameters,
        sight: Sight,
        budget: Budget,
        ending: Ending,
        rows: Mapping[str, pa.Table],
    ) -> Answer:
        statement = sight.parse(self._syntax, sql, rows)
        snapshots = sight.snapshots(statement)
        fences = sight.fences(snapshots)
        columns = {name: snapshot.snapshot.columns for name, snapshot in snapshots.items()}
        seen = hide(
            statement,
            {name: visible(one.visible, fences.get(name)) for name, one in columns.items()},
        )
        rewritten = bool(seen.changed or statement.earlier or statement.relations)
        if rewritten:
            sql = self._syntax.sql(statement.root)
        bind(statement.root, parameters)
        wanted = conditions(
            statement, {name: visible(one.all, fences.get(name)) for name, one in columns.items()}
        )
        versions = {name: snapshot.version for name, snapshot in snapshots.items()}
        if self._strict:
            for snapshot in snapshots.values():
                snapshot.check_whole()
        plans: dict[str, ScanPlan] = {}
        for name, one in seen.views.items():
            fence = fences.get(one.table)
            where = wanted[name]
            if fence is not None:
                # What the query asks of its rows holds inside too: no condition of ours can fail.
                where = where.also(fence.rows)
                fences[one.table] = replace(fence, rows=where)
            plan = plan_scan(snapshots[one.table].snapshot, where=where)
            if budget.limit == 0:  # the query is described: its columns need no file
                plan = replace(plan, chunks=(), changes=())
            check_given(plan.chunks, one.hidden)
            plans[name] = self._resolved(plan, snapshots[one.table], ending)
        given = sight.related(statement, snapshots, self._world)
        given += tuple(Given(name, one) for name, one in rows.items())
        # A count that needs no file is one of all rows.
        counted = None if given or fences else bare_count(statement, snapshots, plans)
        if counted is not None and budget.limit != 0:
            return Answer(
                running=Counted(*counted),
                plans={},
                versions=versions,
                budget=budget,
                ending=ending,
                explain=self._translated,
            )
        launch = Launch(
            sql=sql,
            parameters=parameters,
            limit=budget.limit,
            seconds=budget.seconds,
            withs=statement.withs,
            given=given,
            views=seen.views,
            plans=plans,
            snapshots=snapshots,
            named=cache(partial(columns_read, statement)),
            whole=reads_all(statement),
            fences=fences,
            ending=ending,
        )
        explain = launch.explainer(partial(self._translated, placed=not rewritten))
        try:
            running = launch.start(
                self._runner,
                self._windows,
                self._chunk_cache,
                complete=sql in self._surprising,
                incomplete=partial(self._note_incomplete, sql),
            )
        except Exception as error:
            raise (ending.reason or explain(error)) from error
        ending.at_end(running.close)
        return Answer(
            running=running,
            # How many blocks a condition leaves out would say what hidden rows have.
            plans={name: plan for name, plan in plans.items() if name not in fences},
            versions=versions,
            policies={name: fence.policies for name, fence in fences.items()},
            budget=budget,
            ending=ending,
            explain=explain,
        )

    def _resolved(self, plan: ScanPlan, snapshot: TableSnapshot, ending: Ending) -> ScanPlan:
        """The plan with the rows that newer versions hide. The query can be stopped meanwhile."""
        if not plan.changes:
            return plan
        from blockstore.scan.execute import read_plan
        from blockstore.scan.resolve import resolved

        reads = snapshot.reads or self._reads

        def read(columns: ScanPlan) -> Iterator[pa.RecordBatch]:
            for batch in read_plan(snapshot.bucket, columns, self._world, reads=reads):
                ending.check()
                yield batch

        return resolved(plan, read, reads.hidden)

    def _note_incomplete(self, sql: str, again: bool) -> None:
        with self._lock:
            self.counts.incomplete += 1
            if not again:
                self._surprising.append(sql)

    def _folders(self) -> list[str]:
        """The folders that DuckDB may read: those of the tables, and the cache's if some table is
        remote."""
        folders = self.source.folders()
        return [*folders, str(self._chunk_cache().held)] if self.source.remote else folders

    def _chunk_cache(self) -> ChunkCache:
        from blockstore.reader.cache import ChunkCache, default_folder

        with self._lock:
            if self._cache is None:
                self._cache = ChunkCache(default_folder(), self._world)
            return self._cache


def _limits(capacity: Capacity, shares: int) -> Limits:
    """The limits of one of ``shares`` instances."""
    return Limits(
        memory_bytes=None if capacity.memory_bytes is None else capacity.memory_bytes // shares,
        threads=capacity.threads,
        spill_bytes=None if capacity.spill_bytes is None else capacity.spill_bytes // shares,
    )


def _workers(folders: list[str], limits: Limits) -> WorkerPool:
    from blockstore.reader.query.runners.pool import WorkerPool

    most = None if limits.memory_bytes is None else limits.memory_bytes + _OVERHEAD_BYTES
    workers = WorkerPool(folders, limits, most_bytes=most)
    workers.warm()
    return workers
