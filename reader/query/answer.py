"""A running query as its caller holds it: rows as they come, what was read, and the means to stop
it.

Invariants:
- Whatever way an answer ends (its last row, an error, ``close``, being dropped) its files, its turn
  and its place in the engine are let go exactly once.
- The limits of rows and bytes are counted batch by batch, before a batch is handed out.
- After ``cancel`` or the time limit the reader gets Canceled or TimedOut, whatever the engine says.
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
    """What a query had to look at."""

    chunks: int
    bytes: int
    """The size of the chunks' files; of each only the columns that the query needs are read."""
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
    """Why and how one query ends: told from any thread, done once."""

    def __init__(self, seconds: float | None, give_back: Callable[[], None]) -> None:
        self._seconds = seconds
        self._give_back = give_back
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self._lets_go: list[Callable[[], None]] = []
        self.reason: BlockstoreError | None = None
        self.over = False

    def began(self, stop: Callable[[], None]) -> None:
        """From now on ``stop`` stops it; called at once if that was asked for before."""
        with self._lock:
            self._stop = stop
            late = self.reason is not None
        if late:
            stop()

    def at_end(self, let_go: Callable[[], None]) -> None:
        """Call ``let_go`` at the end; now, if it has come."""
        with self._lock:
            if not self.over:
                self._lets_go.append(let_go)
                return
        let_go()

    def heed(self) -> None:
        """Raise why it is to end, if it has been told to."""
        if self.reason is not None:
            raise self.reason

    def cancel(self) -> None:
        """Somebody asked for it."""
        self._end(Canceled("the query was canceled before it ended"))

    def time_out(self) -> None:
        """Its time is up."""
        self._end(
            TimedOut(
                f"the query took longer than the {self._seconds or 0:g} s that it may take: ask "
                "for less, or for it as a job"
            )
        )

    def finish(self) -> None:
        """It is over: let everything go, the last first."""
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
        # Not only at the end: a caller that takes no rows any more must not keep others waiting.
        self._give_back()


class Answer:
    """The answer to one query.

    Iterate it, or take ``reader``; close it, or use it as a context manager.
    """

    def __init__(
        self,
        *,
        running: Running,
        plans: Mapping[str, ScanPlan],
        versions: Mapping[str, int | None],
        budget: Budget,
        ending: Ending,
        explain: Callable[[BaseException], BlockstoreError],
    ) -> None:
        self.schema = running.schema
        self.plans = plans
        """What is read of each table, and what was pruned."""
        self.versions = dict(versions)
        """The version of every table that the query names; None for one without an index."""
        self._ending = ending
        self._batches = _batches(running, budget, ending, explain)
        next(self._batches)
        self._finalizer = weakref.finalize(self, ending.finish)

    @property
    def read(self) -> Read:
        """What had to be looked at."""
        return Read.of(self.plans)

    @cached_property
    def reader(self) -> pa.RecordBatchReader:
        """The rows, in bounded memory; when it is exhausted or dropped, everything is let go."""
        self._finalizer.detach()
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def cancel(self) -> None:
        """Stop the query, from any thread: its reader raises Canceled."""
        self._ending.cancel()

    def close(self) -> None:
        """Stop it if it runs, and let everything go; allowed twice.

        Only where no other thread takes rows.
        """
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
    """The rows within the budget. The first step yields nothing and is taken at once: only a
    generator that was started runs its ``finally`` when it is dropped."""
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
            f"the answer has more than the {budget.rows:,} rows that it may have: select less, "
            "aggregate, or ask for it "
            "as a job"
        )
    if budget.bytes is not None and size > budget.bytes:
        raise TooMuch(
            f"the answer has more than the {budget.bytes:,} bytes that it may have: select less, "
            "aggregate, or ask for "
            "it as a job"
        )
