"""One planned query: its files are placed, its views are made, and it is started.

Rules:
- Files of a local table are checked before a row is handed out: a few before the query starts, more
  of them while it starts.
- Of remote tables, files have only what the query can read. If it reads something else, DuckDB
  fails, whatever it is (``remote.py``). If no row was returned by then, the query is started again
  with complete chunks; else it ends, and the next query of this text begins with complete chunks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from blockstore.errors import BlockstoreError, Corrupt, Unavailable
from blockstore.reader.query.answer import Ending
from blockstore.reader.query.files import Placed, local_folder, place
from blockstore.reader.query.runners.failures import may_be_damage
from blockstore.reader.query.sql.hidden import View
from blockstore.reader.query.sql.reading import Named
from blockstore.reader.query.sql.views import UNREAD, guard, parts_of, view
from blockstore.reader.query.sql.windows import Windows, pages_of_file
from blockstore.reader.query.task import Given, Parameters, Runner, Running, Step, Task
from blockstore.scan.plan import ScanPlan
from blockstore.scan.view import TableSnapshot

if TYPE_CHECKING:
    from blockstore.reader.cache import ChunkCache
    from blockstore.reader.query.fences import Fence

_logger = logging.getLogger(__name__)

_FEW_CHUNKS = 64
"""Up to this many files are checked before the query starts. Checking thousands takes as long as
DuckDB takes to start with them, so it is done at the same time; no row is handed out before."""

_HOLE = "TProtocolException"
"""DuckDB's error for a page that is not there."""

Explain = Callable[[BaseException], BlockstoreError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to run, and over what."""

    sql: str
    parameters: Parameters
    limit: int | None
    seconds: float | None
    withs: frozenset[str]
    """The names of the query's own WITHs."""
    given: tuple[Given, ...]
    """The relations that it names, with their rows."""
    views: Mapping[str, View]
    plans: Mapping[str, ScanPlan]
    """By the names of the views."""
    snapshots: Mapping[str, TableSnapshot]
    named: Callable[[], Mapping[str, Named | None]]
    """Returns the columns that the query names, by view; None: all are read. Only remote tables
    ask: their columns are fetched."""
    whole: bool
    """Whether it reads all rows of one table alone."""
    fences: Mapping[str, Fence]
    """Around the tables that policies restrict, by their names."""
    ending: Ending
    placed: list[Placed] = field(default_factory=list)
    """The files of the query, once they are placed."""

    def start(
        self,
        runner: Runner,
        windows: Windows,
        cache: Callable[[], ChunkCache],
        *,
        complete: bool,
        incomplete: Callable[[bool], None],
    ) -> Running:
        """Start the query.

        Args:
            runner: Where it runs.
            windows: The page indexes that are kept.
            cache: Called if some table is remote.
            complete: Whether complete chunks of remote tables are placed.
            incomplete: Called if something was read that was not placed, and whether the query was
                started again.
        """
        begin = partial(self._begin, runner, windows, cache)
        if complete or all(self._folder(name) is not None for name in self.views):
            return begin(complete)

        def again() -> Running:
            incomplete(True)
            return begin(True)

        try:
            running = begin(False)
        except Exception as error:
            if not _is_unplaced(error):
                raise
            return again()
        return _Partial(running, again, partial(incomplete, False))

    def explainer(self, translate: Explain) -> Explain:
        """Return a function that makes a project error of the query's error; a damaged file comes
        before what DuckDB reports."""

        def explain(error: BaseException) -> BlockstoreError:
            if not isinstance(error, BlockstoreError) and may_be_damage(error):
                for files in self.placed:
                    damage = files.damage(str(error))
                    if damage is not None:
                        return self._shown(damage)
            return self._shown(translate(error))

        return explain

    def _shown(self, error: BlockstoreError) -> BlockstoreError:
        """The error as the caller gets it: what is wrong with a file may have a value of a row that
        it does not see."""
        if not self.fences or not isinstance(error, Corrupt):
            return error
        _logger.error("a query of restricted tables failed: %s", error)
        return Corrupt(
            "a file of a table cannot be read, and the table is restricted: ask the operator, "
            "whose log says which"
        )

    def _begin(
        self,
        runner: Runner,
        windows: Windows,
        cache: Callable[[], ChunkCache],
        complete: bool,
    ) -> Running:
        unchecked: list[Placed] = []
        views: list[Step] = [*self.given, *(guard(name) for name in sorted(self.withs))]
        for name in self.plans:
            self.ending.check()
            folder = self._folder(name)
            if folder is None:
                views += self._remote(name, windows, cache(), complete)
            else:
                views += self._local(name, folder, windows, unchecked)
        task = Task(
            views=tuple(views),
            sql=self.sql,
            parameters=self.parameters,
            limit=self.limit,
            seconds=self.seconds,
        )
        self.ending.check()
        return runner.start(task, self.ending.began, partial(self._check, unchecked))

    def _local(
        self, name: str, folder: str, windows: Windows, unchecked: list[Placed]
    ) -> list[Step]:
        plan, one = self.plans[name], self.views[name]
        files = place(self.snapshots[one.table].bucket, folder, plan.chunks)
        self.placed.append(files)
        if len(plan.chunks) <= _FEW_CHUNKS:
            self._check([files])
        else:
            unchecked.append(files)
        known = windows.of(
            plan, lambda chunk, column: pages_of_file(files.paths[chunk.key], column)
        )
        parts = parts_of(plan, one.hidden, known)
        fence = self.fences.get(one.table)
        return view(name, plan, parts, files.paths, one.hidden, fence=fence, whole=self.whole)

    def _remote(self, name: str, windows: Windows, cache: ChunkCache, complete: bool) -> list[Step]:
        from blockstore.reader.query.remote import Reading

        one = self.views[name]
        fence = self.fences.get(one.table)
        read = self.named()[name]
        named = read if fence is None else fence.reads(read)
        reading = Reading(
            name=name,
            bucket=self.snapshots[one.table].bucket,
            plan=self.plans[name],
            hidden=one.hidden,
            named=None if complete else named,
            fence=fence,
            complete=complete,
        )
        files, steps = reading.place(cache, windows)
        self.ending.at_end(files.release)
        self.placed.append(files)
        return steps

    def _folder(self, name: str) -> str | None:
        return local_folder(self.snapshots[self.views[name].table].bucket)

    def _check(self, placed: Iterable[Placed]) -> None:
        for files in placed:
            for _ in files.checked():
                self.ending.check()


class _Partial:
    """A running query over parts of chunks."""

    def __init__(
        self, running: Running, again: Callable[[], Running], incomplete: Callable[[], None]
    ) -> None:
        self._running = running
        self._again = again
        self._incomplete = incomplete
        self.schema: pa.Schema = running.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        returned = False
        try:
            for batch in self._running.batches():
                returned = True
                yield batch
            return
        except Exception as error:
            if not _is_unplaced(error):
                raise
            if returned:
                self._incomplete()
                raise Unavailable(
                    "the query read columns that were not expected and was ended: repeat it, and "
                    "it will read complete chunks"
                ) from error
        self._running.close()
        self._running = self._again()
        yield from self._running.batches()

    def cancel(self) -> None:
        self._running.cancel()

    def close(self) -> None:
        self._running.close()


def _is_unplaced(error: Exception) -> bool:
    """Whether the query read something that was not placed; or a cached file is damaged."""
    return UNREAD in str(error) or _HOLE in str(error)
