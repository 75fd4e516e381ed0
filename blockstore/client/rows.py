"""The rows of a query, in the form that a program needs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from blockstore.client.wire import Wire, pieces, strange
from blockstore.errors import MissingExtra, Unavailable

if TYPE_CHECKING:
    import httpx

ARROW = "application/vnd.apache.arrow.stream"


class Rows:
    """One query. The first ``to_…`` sends it; ``stream`` sends it again each time."""

    def __init__(self, wire: Wire, question: Mapping[str, object]) -> None:
        self._wire = wire
        self._question = dict(question)
        self._table: pa.Table | None = None
        self.versions: dict[str, int | None] = {}
        """The version of each table that was read, once rows have arrived."""

    @contextmanager
    def stream(self) -> Iterator[pa.RecordBatchReader]:
        """The rows batch by batch, in bounded memory; leaving the block ends the query. The reader
        raises Unavailable if the response breaks off, and again at every later read."""
        headers = {"Accept": ARROW, "Content-Type": "application/json"}
        body = json.dumps(self._question).encode()
        with self._wire.answer("POST", "/v1/query", content=lambda: body, headers=headers) as found:
            try:
                self.versions = json.loads(found.headers.get("x-blockstore-versions", "{}"))
            except ValueError as error:
                raise _broken(error) from error
            with arrow_of(found) as reader:
                yield reader

    def to_arrow(self) -> pa.Table:
        """A pyarrow Table."""
        if self._table is None:
            with self.stream() as reader:
                self._table = reader.read_all()
        return self._table

    def to_pandas(self) -> Any:
        """A pandas DataFrame."""
        try:
            return self.to_arrow().to_pandas()
        except ImportError:
            raise MissingExtra("to_pandas needs pandas: pip install pandas") from None

    def to_polars(self) -> Any:
        """A polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise MissingExtra("to_polars needs polars: pip install polars") from None
        return polars.from_arrow(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """A list of dicts."""
        found: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return found

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


@contextmanager
def arrow_of(found: httpx.Response) -> Iterator[pa.RecordBatchReader]:
    """Read a response that is an Arrow stream. The reader raises Unavailable if it breaks off, and
    again at every later read, Invalid if it is no such stream."""
    if found.headers.get("content-type", ARROW).partition(";")[0].strip() != ARROW:
        raise strange(found)
    try:
        coming = pa.ipc.open_stream(io.BufferedReader(_Body(pieces(found)), 1 << 20))
    except (ValueError, OSError) as error:
        raise _broken(error) from error
    with (
        coming,
        pa.RecordBatchReader.from_batches(coming.schema, _Batches(coming)) as reader,
    ):
        yield reader


class _Body(io.RawIOBase):
    """A response body as a file that is read once, from front to back, in bounded memory. Errors
    are those of the pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._held = memoryview(piece)
        size = min(len(view), len(self._held))
        view[:size] = self._held[:size]
        self._held = self._held[size:]
        return size


class _Batches:
    """The batches of a response. Unlike a generator it raises again after an error."""

    def __init__(self, coming: pa.RecordBatchReader) -> None:
        self._coming = coming
        self._broke: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._broke is not None:
            raise _broken(self._broke) from self._broke
        try:
            return self._coming.read_next_batch()
        except StopIteration:
            raise
        except Exception as error:
            self._broke = error
            raise _broken(error) from error


def _broken(error: Exception) -> Unavailable:
    if isinstance(error, Unavailable):
        return Unavailable(str(error))
    return Unavailable(f"the gateway's response broke off ({error}): retry")
