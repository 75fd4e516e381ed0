"""Runs on the work disk: for merges with more inputs than may be open at once.

Rules:
- Consecutive runs are merged into one spilled run, so that the stable order of the result does not
  depend on the number of passes.
- A spilled run is an Arrow IPC stream in small batches, compressed with lz4: while open, it holds
  one batch in memory.
- ``spill_sorted`` makes sorted runs out of an unsorted one, part by part, each as large as memory
  allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from blockstore.compactor.merge.order import KeyPart, RowOrder, arrange, key_part
from blockstore.compactor.merge.pump import pump
from blockstore.compactor.merge.run import Run
from blockstore.compactor.merge.stage import Stage
from blockstore.compactor.merge.workdir import work_disk
from blockstore.world import Pool

_BATCH_BYTES = 1 << 18


class SpillWriter:
    """Writes one run; ``finish`` returns it."""

    def __init__(
        self, path: Path, schema: pa.Schema, order: RowOrder, *, batch_bytes: int = _BATCH_BYTES
    ) -> None:
        self._path = path
        self._order = order
        self._batch_bytes = batch_bytes
        self._bytes = 0
        self._rows = 0
        self._floor: KeyPart | None = None
        self._ceiling: KeyPart | None = None
        with work_disk(path.parent):
            self._file = pa.OSFile(str(path), "wb")
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writer = pa.ipc.new_stream(self._file, schema, options=options)

    def write(self, table: pa.Table) -> None:
        """Append rows that follow all rows so far."""
        if not table.num_rows:
            return
        if self._order.sort_by:
            column = table.column(self._order.sort_by[0])
            self._floor = key_part(column[0]) if self._floor is None else self._floor
            self._ceiling = key_part(column[-1])
        self._bytes += table.nbytes
        self._rows += table.num_rows
        rows = max(1, self._batch_bytes * table.num_rows // max(1, table.nbytes))
        with work_disk(self._path.parent):
            self._writer.write_table(table, max_chunksize=rows)

    def finish(self) -> SpilledRun:
        with work_disk(self._path.parent):
            self._writer.close()
            self._file.close()
        return SpilledRun(
            self._path, rows=self._rows, size=self._bytes, floor=self._floor, ceiling=self._ceiling
        )

    def abort(self) -> None:
        with suppress(OSError):  # the failure was raised already; the folder goes with the merge
            self._file.close()
            self._path.unlink(missing_ok=True)


class SpilledRun:
    """A run on the work disk; closing it removes its file."""

    def __init__(
        self, path: Path, *, rows: int, size: int, floor: KeyPart | None, ceiling: KeyPart | None
    ) -> None:
        self.bytes = size
        self.floor = floor
        self.ceiling = ceiling
        self._path = path
        self._left = rows
        self._file: pa.NativeFile | None = None
        self._batches: Iterator[pa.RecordBatch] | None = None

    @property
    def exhausted(self) -> bool:
        return self._left == 0

    def open(self) -> None:
        """Nothing is left to do: the work disk is near."""

    def read(self, goal_bytes: int) -> pa.Table | None:
        """About ``goal_bytes`` of rows."""
        with work_disk(self._path.parent):
            return self._read(goal_bytes)

    def _read(self, goal_bytes: int) -> pa.Table | None:
        if self._batches is None:
            self._file = pa.OSFile(str(self._path))
            self._batches = iter(pa.ipc.open_stream(self._file))
        parts: list[pa.RecordBatch] = []
        missing = goal_bytes
        while missing > 0 and (batch := next(self._batches, None)) is not None:
            if batch.num_rows:
                parts.append(batch)
                missing -= batch.nbytes
                self._left -= batch.num_rows
        return pa.Table.from_batches(parts) if parts else None

    def close(self) -> None:
        self._batches = iter(())
        with suppress(OSError):  # as above: a merge that fails closes its runs
            if self._file is not None:
                self._file.close()
            self._path.unlink(missing_ok=True)


def spill(
    runs: Sequence[Run],
    order: RowOrder,
    schema: pa.Schema,
    stage: Stage,
    name: str,
    *,
    run_bytes: int,
    pool: Pool,
    lanes: int,
) -> SpilledRun:
    """Merge ``runs`` into one on the work disk. Raises Unsorted, NoSpace, NoWorkDirectory."""
    writer = SpillWriter(stage.path(name), schema, order)
    try:
        pump(runs, order, writer.write, run_bytes=run_bytes, pool=pool, lanes=lanes)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def pack(
    tables: Iterable[pa.Table], schema: pa.Schema, path: Path, *, batch_bytes: int
) -> SpilledRun:
    """Put the tables on the work disk, in batches of about ``batch_bytes``.

    Raises NoSpace, NoWorkDirectory.
    """
    writer = SpillWriter(path, schema, RowOrder(()), batch_bytes=min(batch_bytes, _BATCH_BYTES))
    try:
        for table in tables:
            writer.write(table)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def spill_sorted(
    run: Run, order: RowOrder, schema: pa.Schema, stage: Stage, name: str, *, part_bytes: int
) -> list[SpilledRun]:
    """Sort a run part by part; return sorted runs on the work disk that together have its rows.

    Raises NoSpace, NoWorkDirectory.
    """
    runs: list[SpilledRun] = []
    try:
        parts: list[pa.Table] = []
        while True:
            part = run.read(part_bytes)
            if part is not None:
                parts.append(part)
            if parts and (part is None or sum(table.nbytes for table in parts) >= part_bytes):
                table = pa.concat_tables(parts).combine_chunks()
                parts = []
                writer = SpillWriter(stage.path(f"{name}-{len(runs)}"), schema, order)
                writer.write(table.take(pa.array(arrange(order.words(table)))))
                runs.append(writer.finish())
            if part is None:
                return runs
    finally:
        run.close()
