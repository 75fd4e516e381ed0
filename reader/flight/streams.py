"""The rows of a query as batches of a stream: small ones, made while the client takes them.

Rules:
- A batch has at most 64 k rows and about 4 MiB: a client of gRPC takes no message above 16 MiB
  unless it is set up for it. A single row that is larger remains one batch.
- The next batch is made when the client has taken the one before, so memory does not grow with the
  result.
- However a stream ends, its query is stopped and closed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pyarrow as pa

from blockstore.reader.flight.calls import Call
from blockstore.reader.flight.failures import audit_failure, raised
from blockstore.reader.query import Answer

ROWS = 65_536
BYTES = 4 << 20


def streamed(answer: Answer, call: Call) -> Iterator[pa.RecordBatch]:
    """The rows of an answer, which is closed at the end, also if no row is ever taken."""
    batches = _batches(answer, call)
    next(batches)
    return batches


def _batches(answer: Answer, call: Call) -> Generator[pa.RecordBatch, None, None]:
    """The caller takes the first step, which yields nothing, at once: only a generator that was
    started runs its ``finally`` when it is dropped."""
    try:
        yield None
        for batch in answer:
            for piece in pieces(batch):
                call.statement.gives(rows=piece.num_rows, size=piece.nbytes)
                call.waits()
                yield piece
                call.goes_on()
        call.statement.end()
    except Exception as error:  # noqa: BLE001 - the client gets it
        call.failure = raised(call.reason or error)
        audit_failure(call.statement, call.failure)
        raise call.failure from None
    finally:
        answer.cancel()
        answer.close()


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts that a client takes."""
    rows, size = batch.num_rows, batch.nbytes
    if rows <= 1 or (rows <= ROWS and size <= BYTES):
        if rows:
            yield batch
        return
    parts = max(-(-rows // ROWS), min(rows, -(-size // BYTES)))
    step = -(-rows // parts)
    for start in range(0, rows, step):
        piece = batch.slice(start, step)
        # Rows of unequal size: halve what is still too large.
        half = piece.slice(0, piece.num_rows // 2)
        if piece.nbytes > 2 * BYTES and half.num_rows and half.nbytes < piece.nbytes:
            yield from pieces(half)
            yield from pieces(piece.slice(half.num_rows))
        else:
            yield piece
