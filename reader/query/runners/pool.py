"""Queries run in processes of their own, one at a time each, kept between queries and killed when
they do not stop.

Why: DuckDB lets some functions outgrow its memory limit and some run without an end that an
interrupt reaches; in this process the one would take the gateway down, and the other would hold it
still.

Rules:
- A process that was asked to stop and has not within ``_GRACE_S`` is killed; so is one that is
  closed in mid-answer and does not come to its end at once. The next query gets a new one.
- A process that dies by itself costs its own query only, which says so. One that ran out of memory
  is not used again.
- While it runs a query a process may hold ``most_bytes`` of memory; one that holds more is ended.
- A process is started before it is needed, also in the place of one that was killed.
- Nothing of the gateway's environment goes down: no credentials, no paths of its user.
- The kernel keeps a process to the folders that it began with, not to their names: once another
  folder bears one of the names, the process is ended, and the next query gets a new one.
- What a process spilled is removed with it, however it ended.
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
"""How long a process that closed its pipe has to be gone."""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 1.0, 30.0
"""Between attempts to start a process before it is needed."""
_WARMING = (
    "SELECT n % 10 AS digit, sum(n * 0.5) AS half FROM range(1000000) AS numbers(n) GROUP BY digit"
)
"""Has the engine's threads, its memory and the code of most queries made ready."""
_BOOT = "import sys; sys.path[:] = {path!r}; from blockstore.reader.query.runners.worker import main; main()"
_ALLOCATOR = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Arrow's own choice reserves a gigabyte of addresses, and makes a large answer take twice as long
where it shares a process with DuckDB's."""
_KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZDIR", "SYSTEMROOT")


class EngineError(Exception):
    """What DuckDB said in the other process, in its own words."""


class WorkerPool:
    """A runner over a few processes; safe to share between threads."""

    def __init__(
        self, folders: list[str], limits: Limits, *, most_bytes: int | None = None
    ) -> None:
        """``most_bytes`` is what one process may hold of memory; None: all there is."""
        self._folders = tuple(folders)
        self._limits = limits
        self._watch = None if most_bytes is None else MemoryWatch(most_bytes)
        self._lock = threading.Lock()
        self._free: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._closed = threading.Event()
        self._warming = False
        self.ready = False
        """Whether a process has answered."""
        self.killed = 0
        """How many processes had to be killed, or died; only grows."""
        _logger.info(
            "queries are kept to their folders by %s",
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
        """End every process; running queries end with an error."""
        with self._lock:
            self._closed.set()
            free, running = self._free, self._all.difference(self._free)
            self._all, self._free = set(), []
        for worker in running:
            # Its reader meets the end of the pipe, and closes it.
            worker.kill(
                Unavailable(
                    "the engine was closed while the query ran: ask again once it is started"
                )
            )
        for worker in free:
            worker.end()
        if self._watch is not None:
            self._watch.close()

    def warm(self) -> None:
        """Have a process start and answer once, in the background: the first answer takes twice as
        long as the next, here and there."""
        with self._lock:
            if self._warming:
                return
            self._warming = True
        threading.Thread(target=self._warm, name="warming", daemon=True).start()

    def _warm(self) -> None:
        pa.array(
            [0]
        )  # with its first array pyarrow imports pandas, where it is installed: up to seconds
        pause_s = _FIRST_PAUSE_S
        while self._is_cold():
            try:
                self._answer_once()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may do better
                if self._closed.is_set():
                    return
                _logger.warning(
                    "no process for queries could be started before it is needed: %s", error
                )
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
        # Looked at before a process begins: a folder that is made anew meanwhile ends that process
        # once too often, never too seldom.
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
                raise Unavailable("the engine is closed: start it again")
            self._all.add(worker)
        return worker

    def _give_back(self, worker: _Worker, *, whole: bool) -> None:
        if self._watch is not None:
            self._watch.end(worker.pid)
        if whole and worker.alive:
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
    """One process, its two pipes, and its folder for what outgrows memory."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.spill = spill_folder()
        self.why: Exception | None = None
        """Why it was killed, where it was."""
        environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
        path = [entry or os.getcwd() for entry in sys.path]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _BOOT.format(path=path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environ | _ALLOCATOR,
                start_new_session=True,
                pass_fds=(self.spill.held,),
            )
        except BaseException:
            self.spill.remove()
            raise
        # Also where nobody closes the engine before this process ends.
        self._let_go = weakref.finalize(self, _let_go, self._process, self.spill)
        self._lock = threading.Lock()
        self._down = cast(BinaryIO, self._process.stdin)
        self._up = cast(BinaryIO, self._process.stdout)
        self.send(0, pickle.dumps((start, str(self.spill.path))))
        frame = self.receive()
        if frame is None or frame[0] != Up.READY:
            self.end()
            raise Unavailable(
                "a process for a query could not be started: look into the log for what it said, "
                "and whether the "
                "machine has memory left"
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, kind: int, payload: bytes = b"") -> None:
        """Say something; that nobody hears it any more is told by ``receive``."""
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
        """End it, because it holds so many bytes of memory."""
        self.kill(EngineError(f"{NO_MEMORY}: its process held {held >> 20:,} MiB"))

    def failure(self) -> Exception:
        """Why it is gone."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_TO_DIE_S)
        if self.why is not None:
            return self.why
        code = self._process.returncode
        if code == -signal.SIGKILL:
            return EngineError(
                f"{NO_MEMORY}: its process was killed and ended before the answer did, most "
                "likely because the machine "
                "has no memory left"
            )
        return Unavailable(
            f"the process that ran the query ended before the answer did, with code {code}: ask "
            "again, and look into the "
            "gateway's log if it comes back"
        )

    def end(self) -> None:
        """End it, and close the pipes; only by who reads them, or where nobody does."""
        self.kill()
        for pipe in (self._down, self._up):
            try:
                pipe.close()
            except OSError:
                pass
        self._let_go()


def _let_go(process: subprocess.Popen[bytes], spill: HeldFolder) -> None:
    """End a process for good, and remove what it spilled."""
    process.kill()
    process.wait()
    spill.remove()


class _Remote:
    """One query in one process.

    It answers frames until END or ERROR; then the process is free again.
    """

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
        """Wait for the schema. Raises what the SQL is refused for."""
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
            # Under the lock: once the query is over, the process may be another's.
            self._worker.send(Down.CANCEL)

    def close(self) -> None:
        """Give the process back: as it is after its end, else after it has stopped, or killed."""
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
        whole = self._over and not self._spent and self._worker.alive
        self._give_back(self._worker, whole=whole)

    def _kill(self) -> None:
        with self._lock:
            if self._over:
                return
        self._worker.kill()

    def _drain(self) -> None:
        """Take what still comes until the end; the killer sees to it that there is one."""
        while not self._over:
            frame = self._worker.receive()
            if frame is None:
                return
            self._over = frame[0] in (Up.END, Up.ERROR)

    def _next(self) -> tuple[int, bytes] | None:
        """The next schema or batch;

        None at the end. Raises EngineError, and Unavailable if the process is gone.
        """
        frame = self._worker.receive()
        if frame is None:
            raise self._worker.failure()
        if frame[0] == Up.ERROR:
            self._finish()
            message = str(json.loads(frame[1])["message"])
            # What the allocator kept of such a query, the next one would lack.
            self._spent = is_no_memory(message)
            raise EngineError(message)
        if frame[0] == Up.END:
            self._finish()
            return None
        return frame

    def _finish(self) -> None:
        with self._lock:
            self._over = True
