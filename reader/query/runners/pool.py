"""A pool of worker processes that run queries, one at a time each; a worker that does not stop is
killed.

Why: DuckDB lets some functions exceed its memory limit, and some cannot be interrupted. In this
process the first would end the gateway, and the second would block it.

Rules:
- A worker that does not stop within ``_GRACE_S`` after a cancellation is killed; so is one that is
  closed before its result ended and does not end soon. The next query gets a new worker.
- A worker that dies fails its own query only. A worker that ran out of memory is not used again.
- A worker that uses more than ``most_bytes`` of memory during a query is killed.
- A worker is started before it is needed, also in place of a killed one.
- A worker does not get the gateway's environment: no credentials, no paths of its user.
- The kernel confines a worker to the folders that it started with, not to their names: if a folder
  is replaced by another of the same name, the worker is ended and the next query gets a new one.
- The spill folder of a worker is removed with it, however it ended.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO, cast

import pyarrow as pa

from blockstore.errors import Unavailable
from blockstore.reader.query.runners.failures import NO_MEMORY, is_no_memory
from blockstore.reader.query.runners.frames import Down, Up, read_frame, write_frame
from blockstore.reader.query.runners.instance import Limits, spill_folder
from blockstore.reader.query.runners.landlock import identity, knows_enough
from blockstore.reader.query.runners.memory import MemoryWatch
from blockstore.reader.query.runners.worker import Start
from blockstore.reader.query.task import Running, Task
from blockstore.scratch import HeldFolder

_logger = logging.getLogger(__name__)

_GRACE_S = 2.0
_TO_DIE_S = 2.0
"""How long a process that closed its pipe may take to exit."""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 1.0, 30.0
"""Between attempts to start a worker before it is needed."""
_WARMING = (
    "SELECT n % 10 AS digit, sum(n * 0.5) AS half FROM range(1000000) AS numbers(n) GROUP BY digit"
)
"""Makes the engine start its threads, allocate memory and load the code of most queries."""
_MAIN = "from blockstore.reader.query.runners.worker import main; main()"
_ALLOCATOR = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Arrow's default allocator reserves a gigabyte of addresses, and next to DuckDB's a large result
takes twice as long with it."""
_KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZDIR", "SYSTEMROOT")


class EngineError(Exception):
    """DuckDB's error in the worker, in its own words."""


class WorkerPool:
    """A runner over a few worker processes; safe to share between threads."""

    def __init__(
        self, folders: list[str], limits: Limits, *, most_bytes: int | None = None
    ) -> None:
        """``most_bytes`` is the memory limit of one worker; None: no limit."""
        self._folders = tuple(folders)
        self._limits = limits
        self._watch = None if most_bytes is None else MemoryWatch(most_bytes)
        self._lock = threading.Lock()
        self._free: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._closed = threading.Event()
        self._warming = False
        self._warmer: threading.Thread | None = None
        self.ready = False
        """Whether a worker has run a query."""
        self.killed = 0
        """How many workers were killed or died; only grows."""
        _logger.info(
            "queries are confined to their folders by %s",
            "the kernel" if knows_enough() else "DuckDB alone",
        )

    def start(
        self,
        task: Task,
        began: Callable[[Callable[[], None]], None],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Running:
        worker = self._take()
        if self._watch is not None:
            self._watch.begin(worker.pid, worker.outgrew)
        running = _Remote(worker, self._give_back)
        began(running.cancel)
        try:
            worker.send(Down.RUN, pickle.dumps(task))
            meanwhile()
            running.begin()
        except BaseException:
            running.close()
            raise
        return running

    def close(self) -> None:
        """End all workers; running queries fail. A worker that is just being started in advance is
        ended as well."""
        with self._lock:
            self._closed.set()
            warmer = self._warmer
            free, running = self._free, self._all.difference(self._free)
            self._all, self._free = set(), []
        for worker in running:
            # The reader of its query sees the end of the pipe and closes the pipe.
            worker.kill(
                Unavailable("the engine was closed while the query ran: retry after a restart")
            )
        for worker in free:
            worker.end()
        if self._watch is not None:
            self._watch.close()
        if warmer is not None:
            warmer.join(_TO_DIE_S)

    def warm(self) -> None:
        """Start a worker and run one query in it, in the background: the first query takes twice as
        long as later ones, in the worker and here."""
        with self._lock:
            if self._warming:
                return
            self._warming = True
            self._warmer = threading.Thread(target=self._warm, name="warming", daemon=True)
            self._warmer.start()

    def _warm(self) -> None:
        # With its first array pyarrow imports pandas, if installed, which may take seconds.
        pa.array([0])
        pause_s = _FIRST_PAUSE_S
        while self._is_cold():
            try:
                self._answer_once()
            except Exception as error:  # noqa: BLE001 - the next attempt may succeed
                if self._closed.is_set():
                    return
                _logger.warning("a query process could not be started in advance: %s", error)
                self._closed.wait(pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    def _is_cold(self) -> bool:
        with self._lock:
            self._warming = not self._free and not self._closed.is_set()
            return self._warming

    def _answer_once(self) -> None:
        running = self.start(Task(views=(), sql=_WARMING), lambda _: None)
        try:
            deque(running.batches(), maxlen=0)
        finally:
            running.close()

    def _take(self) -> _Worker:
        # Read before a worker starts: if a folder is replaced meanwhile, a worker is ended once too
        # often, never too rarely.
        identities = tuple(identity(folder) for folder in self._folders) if knows_enough() else None
        with self._lock:
            while self._free:
                worker = self._free.pop()
                if worker.alive and worker.start.identities == identities:
                    return worker
                self._all.discard(worker)
                worker.end()
        worker = _Worker(
            Start(
                folders=self._folders,
                identities=identities,
                limits=self._limits,
            )
        )
        with self._lock:
            if self._closed.is_set():
                worker.end()
                raise Unavailable("the engine is closed: retry after a restart")
            self._all.add(worker)
        return worker

    def _give_back(self, worker: _Worker, *, reusable: bool) -> None:
        if self._watch is not None:
            self._watch.end(worker.pid)
        if reusable and worker.alive:
            with self._lock:
                if not self._closed.is_set():
                    self._free.append(worker)
                    self.ready = True
                    return
        worker.end()
        with self._lock:
            self._all.discard(worker)
            self.killed += 1
        self.warm()


class _Worker:
    """One process, its two pipes, and its spill folder."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.spill = spill_folder()
        self.why: Exception | None = None
        """Why it was killed, if it was."""
        environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
        path = [entry or os.getcwd() for entry in sys.path]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {path!r}; {_MAIN}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environ | _ALLOCATOR,
                start_new_session=True,
                pass_fds=(self.spill.held,),
            )
        except BaseException:
            self.spill.remove()
            raise
        # Also if the engine is never closed.
        self._let_go = weakref.finalize(self, _let_go, self._process, self.spill)
        self._lock = threading.Lock()
        self._down = cast(BinaryIO, self._process.stdin)
        self._up = cast(BinaryIO, self._process.stdout)
        self.send(0, pickle.dumps((start, str(self.spill.path))))
        frame = self.receive()
        if frame is None or frame[0] != Up.READY:
            self.end()
            raise Unavailable(
                "a query process could not be started: see the gateway's log, and check that the "
                "machine has free memory"
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, kind: int, payload: bytes = b"") -> None:
        """Write a frame. If the process is gone, ``receive`` reports it."""
        with self._lock:
            try:
                write_frame(self._down, kind, payload)
            except (OSError, ValueError):
                pass

    def receive(self) -> tuple[int, bytes] | None:
        """The next frame; None once the process is gone."""
        try:
            return read_frame(self._up)
        except (OSError, ValueError):
            return None

    def kill(self, why: Exception | None = None) -> None:
        """End it at once; allowed twice, from any thread."""
        self.why = self.why or why
        self._process.kill()
        self._process.wait()

    def outgrew(self, held: int) -> None:
        """Kill it, because it uses ``held`` bytes of memory."""
        self.kill(EngineError(f"{NO_MEMORY}: its process held {held >> 20:,} MiB"))

    def failure(self) -> Exception:
        """The reason for its end."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_TO_DIE_S)
        if self.why is not None:
            return self.why
        code = self._process.returncode
        if code == -signal.SIGKILL:
            return EngineError(
                f"{NO_MEMORY}: its process was killed before the result was complete, most likely "
                "because the machine has no free memory"
            )
        return Unavailable(
            f"the query process ended with code {code} before the result was complete: retry, and "
            "see the gateway's log if it happens again"
        )

    def end(self) -> None:
        """End it and close the pipes. Not while another thread reads them."""
        self.kill()
        for pipe in (self._down, self._up):
            try:
                pipe.close()
            except OSError:
                pass
        self._let_go()


def _let_go(process: subprocess.Popen[bytes], spill: HeldFolder) -> None:
    """Kill a process and remove its spill folder."""
    process.kill()
    process.wait()
    spill.remove()


class _Remote:
    """One query in one worker, which sends frames until END or ERROR and is then free again."""

    schema: pa.Schema

    def __init__(self, worker: _Worker, give_back: Callable[..., None]) -> None:
        self._worker = worker
        self._give_back = give_back
        self._lock = threading.Lock()
        self._over = False
        self._returned = False
        self._spent = False
        self._killer: threading.Timer | None = None

    def begin(self) -> None:
        """Wait for the schema. Raises the error of the SQL."""
        frame = self._next()
        assert frame is not None, "a query begins with its schema"
        assert frame[0] == Up.SCHEMA, "a query begins with its schema"
        self.schema = pa.ipc.read_schema(pa.py_buffer(frame[1]))

    def batches(self) -> Iterator[pa.RecordBatch]:
        while (frame := self._next()) is not None:
            yield pa.ipc.read_record_batch(pa.py_buffer(frame[1]), self.schema)

    def cancel(self) -> None:
        with self._lock:
            if self._over or self._killer is not None:
                return
            self._killer = threading.Timer(_GRACE_S, self._kill)
            self._killer.daemon = True
            self._killer.start()
            # Under the lock: after its end, the worker may run another query.
            self._worker.send(Down.CANCEL)

    def close(self) -> None:
        """Return the worker to the pool: after its query ended or stopped, or killed."""
        with self._lock:
            if self._returned:
                return
            self._returned = True
            over = self._over
        if not over:
            self.cancel()
            self._drain()
        if self._killer is not None:
            self._killer.cancel()
        reusable = self._over and not self._spent and self._worker.alive
        self._give_back(self._worker, reusable=reusable)

    def _kill(self) -> None:
        with self._lock:
            if self._over:
                return
        self._worker.kill()

    def _drain(self) -> None:
        """Discard the remaining frames; the timer kills a worker that sends no end."""
        while not self._over:
            frame = self._worker.receive()
            if frame is None:
                return
            self._over = frame[0] in (Up.END, Up.ERROR)

    def _next(self) -> tuple[int, bytes] | None:
        """The next schema or batch; None at the end. Raises EngineError, and Unavailable if the
        process is gone."""
        frame = self._worker.receive()
        if frame is None:
            raise self._worker.failure()
        if frame[0] == Up.ERROR:
            self._finish()
            message = str(json.loads(frame[1])["message"])
            # The allocator may keep memory of such a query, which the next one would lack.
            self._spent = is_no_memory(message)
            raise EngineError(message)
        if frame[0] == Up.END:
            self._finish()
            return None
        return frame

    def _finish(self) -> None:
        with self._lock:
            self._over = True
