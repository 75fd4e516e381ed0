"""Queries and downloads: rows written to a file in the bucket.

Rules:
- A job reads only the tables that its owner may read, whichever gateway runs it: those of the
  request.
- Each attempt writes a file with a name of its own; the outcome names the valid one, so a stalled
  attempt does no harm.
- The file is written as the rows arrive, in bounded memory, and is visible only when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from blockstore.bucket import Bucket, ObjectWriter
from blockstore.errors import BlockstoreError
from blockstore.names import job_result_key
from blockstore.reader.errors import Busy
from blockstore.reader.forms.encode import Form, Unwritable, pieces
from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.record import Failure, Request, Result
from blockstore.reader.jobs.work import Ended, Failed, Work
from blockstore.world import World

_PIECE = 1 << 20


class Rows(Protocol):
    """The result of a running query."""

    @property
    def reader(self) -> pa.RecordBatchReader: ...

    @property
    def versions(self) -> Mapping[str, int]:
        """The version of each table that was read and has versions."""
        ...

    @property
    def tables(self) -> Collection[str]:
        """Every table that was read."""
        ...


Began = Callable[[Callable[[], None]], None]
"""Receives a function that stops the query that is about to run, from any thread."""

Ask = Callable[[Request, float, Began], Rows]
"""From a request, its time limit in seconds and a ``Began`` to its rows."""


class Extracts(Work):
    """Runs queries and downloads."""

    def __init__(
        self, bucket: Bucket, world: World, ask: Ask, *, time_limit_s: float, result_bytes: int
    ) -> None:
        self._bucket = bucket
        self._clock = world.clock
        self._ask = ask
        self._time_limit_s = time_limit_s
        self._result_bytes = result_bytes

    def run(self, job: str, attempt: int, request: Request, meter: Meter) -> Ended:
        try:
            rows = self._begun(request, meter)
        except BlockstoreError:
            meter.check()
            raise
        key = job_result_key(job, attempt)
        out = _Counted(self._bucket.writer(key), meter, self._result_bytes)
        reader = rows.reader
        try:
            for piece in pieces(Form(request.form), reader.schema, _counted(reader, meter)):
                out.write(piece)
            out.close()
        except BaseException as error:
            out.abort()
            meter.check()
            if isinstance(error, Unwritable):
                raise Failed(Failure(error="invalid", message=str(error))) from error
            raise
        finally:
            reader.close()
        return Ended(
            result=Result(
                key=key,
                bytes=out.size,
                rows=meter.progress.rows,
                versions=dict(rows.versions),
                tables=tuple(sorted(rows.tables)),
            )
        )

    def _begun(self, request: Request, meter: Meter) -> Rows:
        """Begin the query; wait for its turn as long as it takes."""
        while True:
            try:
                return self._ask(request, self._time_limit_s, meter.interruptible)
            except Busy as busy:
                meter.check()
                self._clock.sleep(min(busy.retry_after_s, 1.0))


def _counted(reader: pa.RecordBatchReader, meter: Meter) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        meter.check()
        meter.advance(rows=batch.num_rows)
        yield batch


class _Counted:
    """A new object: what is written to it is counted, and bounded."""

    def __init__(self, inner: ObjectWriter, meter: Meter, limit: int) -> None:
        self._inner = inner
        self._meter = meter
        self._limit = limit
        self._pending = bytearray()
        self.size = 0

    def write(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._limit:
            raise Failed(
                Failure(
                    error="too_large",
                    message=f"the result is larger than the limit of {self._limit:,} bytes: "
                    "select less, or raise max_result",
                )
            )
        self._meter.advance(size=len(data))
        self._pending += data
        if len(self._pending) >= _PIECE:
            self._flush()

    def close(self) -> None:
        """Make the object visible."""
        self._flush()
        self._inner.close()

    def abort(self) -> None:
        """Discard what was written."""
        self._inner.abort()

    def _flush(self) -> None:
        if self._pending:
            self._inner.write(bytes(self._pending))
            self._pending.clear()
