"""A running query: its rows as they arrive, what it reads, and how to stop it.

Invariants:
- However an answer ends (last row, error, ``close``, garbage collection), its files, its turn and
  its place in the engine are released exactly once.
- The limits of rows and bytes are checked for each batch, before it is handed out.
- After ``cancel`` or the time limit the reader raises Canceled or TimedOut, whatever the engine
  reports.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from blockstore.errors import BlockstoreError
from blockstore.reader.errors import Canceled, TimedOut, TooMuch
from blockstore.reader.query.admission import Budget
from blockstore.reader.query.task import Running
from blockstore.scan.plan import ScanPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """How much a query reads."""

    chunks: int
    bytes: int
    """The size of the chunks' files; only the columns that the query needs are read."""
    chunks_pruned: int
    blocks_pruned: int

    @classmethod
    def of(cls, plans: Mapping[str, ScanPlan]) -> Read:
        """The sum over the plans of all tables."""
        pruned = [plan.pruned for plan in plans.values()]
        return cls(
            chunks=sum(len(plan.chunks) for plan in plans.values()),
            bytes=sum(plan.bytes for plan in plans.values()),
            chunks_pruned=sum(one.chunks_by_statistics for one in pruned),
            blocks_pruned=sum(
                one.blocks_by_time + one.blocks_by_labels + one.blocks_excepted for one in pruned
            ),
        )


class Ending:
    """Why and how one query ends. Any thread may end it; it is done once."""

    def __init__(self, seconds: float | None, give_back: Callable[[], None]) -> None:
        self._seconds = seconds
        self._give_back = give_back
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self._lets_go: list[Callable[[], None]] = []
        self.reason: BlockstoreError | None = None
        self.over = False

    def began(self, stop: Callable[[], None]) -> None:
        """Register ``stop``; call it at once if the query is already to end."""
        with self._lock:
            self._stop = stop
            late = self.reason is not None
        if late:
            stop()

    def at_end(self, let_go: Callable[[], None]) -> None:
        """Call ``let_go`` at the end; now, if the query has ended."""
        with self._lock:
            if not self.over:
                self._lets_go.append(let_go)
                return
        let_go()

    def check(self) -> None:
        """Raise the reason to end, if there is one."""
        if self.reason is not None:
            raise self.reason

    def cancel(self) -> None:
        """A caller cancels the query."""
        self._end(Canceled("the query was canceled"))

    def time_out(self) -> None:
        """The time limit is reached."""
        self._end(
            TimedOut(
                f"the query exceeded its time limit of {self._seconds or 0:g} s: select less, or "
                "run it as a job"
            )
        )

    def finish(self) -> None:
        """Release everything, in reverse order."""
        with self._lock:
            if self.over:
                return
            self.over = True
            self._stop = None
            lets_go, self._lets_go = self._lets_go, []
        try:
            for let_go in reversed(lets_go):
                let_go()
        finally:
            self._give_back()

    def _end(self, reason: BlockstoreError) -> None:
        with self._lock:
            if self.over or self.reason is not None:
                return
            self.reason = reason
            stop = self._stop
        if stop is not None:
            stop()
        # Now, not at the end: a caller that stopped reading must not delay other queries.
        self._give_back()


class Answer:
    """One running query. Iterate it, or use ``reader``; close it, or use it as a context
    manager."""

    def __init__(
        self,
        *,
        running: Running,
        plans: Mapping[str, ScanPlan],
        versions: Mapping[str, int | None],
        budget: Budget,
        ending: Ending,
        explain: Callable[[BaseException], BlockstoreError],
        policies: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.schema = running.schema
        self.plans = plans
        """What is read and what was pruned, by table; not of tables that policies restrict."""
        self.versions = dict(versions)
        """The version of each table that the query names; None for one without an index."""
        self.policies = dict(policies or {})
        """The names of the policies that restrict what it reads, by table."""
        self._ending = ending
        self._batches = _batches(running, budget, ending, explain)
        next(self._batches)
        self._finalizer = weakref.finalize(self, ending.finish)

    @property
    def read(self) -> Read:
        """How much is read."""
        return Read.of(self.plans)

    @cached_property
    def reader(self) -> pa.RecordBatchReader:
        """The rows, in bounded memory; when it is exhausted or dropped, everything is released."""
        self._finalizer.detach()
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def at_end(self, let_go: Callable[[], None]) -> None:
        """Call ``let_go`` once when the answer ends, however it does."""
        self._ending.at_end(let_go)

    def cancel(self) -> None:
        """Stop the query, from any thread: its reader raises Canceled."""
        self._ending.cancel()

    def close(self) -> None:
        """Stop the query if it runs, and release everything; allowed twice. Not while another
        thread reads rows."""
        self._batches.close()
        self._ending.finish()

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _batches(
    running: Running,
    budget: Budget,
    ending: Ending,
    explain: Callable[[BaseException], BlockstoreError],
) -> Generator[pa.RecordBatch, None, None]:
    """The rows within the budget. The caller takes the first step, which yields nothing, at once:
    only a generator that was started runs its ``finally`` when it is dropped."""
    rows = size = 0
    try:
        yield None
        for batch in running.batches():
            if ending.reason is not None:
                raise ending.reason
            rows += batch.num_rows
            size += batch.nbytes
            _check(rows, size, budget)
            yield batch
        if ending.reason is not None:
            raise ending.reason
    except (GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise (ending.reason or explain(error)) from error
    finally:
        ending.finish()


def _check(rows: int, size: int, budget: Budget) -> None:
    if budget.rows is not None and rows > budget.rows:
        raise TooMuch(
            f"the result exceeds the limit of {budget.rows:,} rows: select less, aggregate, or run "
            "it as a job"
        )
    if budget.bytes is not None and size > budget.bytes:
        raise TooMuch(
            f"the result exceeds the limit of {budget.bytes:,} bytes: select less, aggregate, or "
            "run it as a job"
        )
