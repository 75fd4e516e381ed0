"""The worker process that runs queries for a gateway, one at a time. ``pool.py`` starts it.

Rules:
- It has nothing worth stealing: no credentials in its environment, no bucket, no token; only
  DuckDB's locked instance over the folders that it was started with.
- Where the kernel can, it confines the process to these folders before DuckDB starts. The process
  also reads files about the machine, and the libraries, which Python and pyarrow load on demand:
  code, not data.
- The gateway watches its memory: a value that exceeds DuckDB's own limit ends this process, never
  the gateway. If the machine runs out of memory first, the kernel ends this process first.
- It ends with the pipe to its gateway.
- What it sends is plain data: a schema, batches, an end or the text of an error.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import resource
import shutil
import signal
import sys
import sysconfig
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import duckdb
import pyarrow as pa

from blockstore.reader.query.runners.frames import Down, Up, read_frame, write_frame
from blockstore.reader.query.runners.inprocess import prepare, relation
from blockstore.reader.query.runners.instance import Instance, Limits
from blockstore.reader.query.runners.interruptible import Interruptible
from blockstore.reader.query.runners.landlock import Identity, confine
from blockstore.reader.query.task import Task

_BATCH_ROWS = 65_536
_OVERTIME_S = 10.0
_FACTS = ("/proc/self/cgroup", "/sys/fs/cgroup", "/sys/devices/system/cpu")
"""From these DuckDB reads how many cores and how much memory it may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The first message to a worker."""

    folders: tuple[str, ...]
    identities: tuple[Identity, ...] | None
    """The identities of the folders, to which the kernel confines the process. None: DuckDB
    does."""
    limits: Limits


class _Query:
    def __init__(self, cursor: duckdb.DuckDBPyConnection, task: Task) -> None:
        self.cursor = cursor
        self.task = task
        self.stopping = Interruptible(cursor.interrupt)


class _Server:
    def __init__(self, source: BinaryIO, out: BinaryIO) -> None:
        self._source = source
        self._out = out
        self._queries: queue.SimpleQueue[_Query] = queue.SimpleQueue()

    def serve(self, start: Start, spill: str) -> None:
        """Run the queries from the pipe until it closes. ``spill`` is the folder for data that
        exceeds memory; it belongs to this process until it ends, and then to the gateway."""
        _go_first()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        instance = Instance(
            start.folders, start.limits, spill=spill, confined=_confined(start, spill)
        )
        threading.Thread(target=self._listen, args=(instance, spill), daemon=True).start()
        write_frame(self._out, Up.READY)
        while True:
            self.run(self._queries.get())

    def _listen(self, instance: Instance, spill: str) -> None:
        try:
            query: _Query | None = None
            while (frame := read_frame(self._source)) is not None:
                kind, payload = frame
                if kind == Down.RUN:
                    query = _Query(instance.cursor(), pickle.loads(payload))
                    self._queries.put(query)
                elif kind == Down.CANCEL and query is not None:
                    query.stopping.stop()
        except Exception:  # noqa: BLE001 - the process ends in any case
            traceback.print_exc()
        # The gateway is gone; or reading failed, and the gateway must notice it by the closed pipe.
        shutil.rmtree(spill, ignore_errors=True)
        os._exit(0)

    def run(self, query: _Query) -> None:
        """Run one query and send its rows or its error."""
        # The kernel's alarm needs no interpreter lock: if the gateway is gone, it also ends a query
        # that cannot be interrupted.
        seconds = query.task.seconds
        signal.setitimer(signal.ITIMER_REAL, 0 if seconds is None else seconds + _OVERTIME_S)
        try:
            with query.stopping.calling():
                prepare(query.cursor, query.task)
                self._send(
                    relation(query.cursor, query.task).to_arrow_reader(_BATCH_ROWS), query.stopping
                )
            write_frame(self._out, Up.END)
        except (
            duckdb.Error,
            pa.ArrowException,
            OSError,
            MemoryError,
            ValueError,
            RuntimeError,
        ) as error:
            prefix = (
                "Out of Memory Error: "
                if isinstance(error, (MemoryError, pa.ArrowMemoryError))
                else ""
            )
            write_frame(self._out, Up.ERROR, json.dumps({"message": prefix + str(error)}).encode())
        finally:
            query.cursor.close()
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _send(self, stream: pa.RecordBatchReader, stopping: Interruptible) -> None:
        schema = pa.schema([_plain(field) for field in stream.schema])
        write_frame(self._out, Up.SCHEMA, memoryview(schema.serialize()))
        with stream:
            for batch in stream:
                stopping.check()
                plain = batch if schema == batch.schema else batch.cast(schema)
                write_frame(self._out, Up.BATCH, memoryview(plain.serialize()))


def _go_first() -> None:
    """Let the kernel end this process first if the machine runs out of memory."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _confined(start: Start, spill: str) -> bool:
    """Confine this process to its folders by the kernel. Return whether that succeeded; if not,
    DuckDB enforces it."""
    if start.identities is None:
        return False
    try:
        confine(read=[*start.folders, *_libraries(), *_FACTS], write=[spill])
    except OSError as error:
        sys.stderr.write(
            f"the kernel cannot confine this process to its folders, so DuckDB does ({error})\n"
        )
        return False
    return True


def _libraries() -> set[str]:
    """The folders of Python's library and of the packages used here."""
    own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return own | {
        str(Path(module.__file__).parents[1]) for module in (duckdb, pa) if module.__file__
    }


def _plain(field: pa.Field) -> pa.Field:
    """The field without dictionary encoding, which a single batch cannot contain."""
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def main(argv: Sequence[str] | None = None) -> None:
    """Serve on standard input and output; nothing else may write to the output."""
    source = os.fdopen(os.dup(0), "rb", buffering=1 << 16)
    out = os.fdopen(os.dup(1), "wb", buffering=1 << 16)
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 0)
    os.dup2(quiet, 1)
    head = read_frame(source)
    if head is None:
        sys.exit(0)
    _Server(source, out).serve(*pickle.loads(head[1]))
