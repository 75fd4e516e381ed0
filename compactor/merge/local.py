"""The local merge engine: one process, its threads, and as much memory as it is given.

How memory is shared out: an eighteenth buffers the rows read ahead, and up to five windows of that size are under
way (cut, joined, sorted, encoded); an eighth gathers a row group; a third is what the Parquet readers of open
chunks may take. Chunks that would need more are merged in passes over the work disk first. Nothing here grows
with the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa

from blockstore.bucket.api import Bucket
from blockstore.errors import Corrupt
from blockstore.format.chunks import BlockWriter
from blockstore.names import META
from blockstore.world import World
from compactor.merge.chunkrun import SOURCE, ChunkRun, ChunkSpec, Sources
from compactor.merge.engine import Merged, MergeOptions, MergeTask
from compactor.merge.inputs import chunk_specs
from compactor.merge.order import RowOrder
from compactor.merge.pump import Sink, pump
from compactor.merge.result import PRODUCER, with_source_names
from compactor.merge.run import Run, Unsorted, depth
from compactor.merge.spill import spill, spill_sorted
from compactor.merge.stage import Stage
from compactor.preflight import Free, Needs, check_space, needs

__all__ = ["LocalEngine"]

_BUFFERS = 18
_ROW_GROUP = 8
_READERS = 3
_ROW_GROUP_BYTES = 128 << 20
_READER_COLUMN_BYTES = 300 << 10
"""What an open column of a chunk was measured to take: read-ahead, one page decompressed, its dictionary."""

_LEAST_RUN_BYTES = 64 << 10
_LEAST_GROUP_BYTES = 1 << 20
_HELD_BYTES = 256 << 10
"""A chunk of at most this many bytes is held in memory whole, however many there are."""

_REMOTE_LANES = 16
"""How many chunks are read side by side where reading one is mostly waiting."""


class LocalEngine:
    """Merges in this process."""

    def __init__(self, free: Free | None = None) -> None:
        """``free`` says how many bytes a disk has left; by default the system's own answer."""
        self._free = free

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        """See ``MergeEngine.merge``. A chunk that turns out not to be sorted is sorted first, and noted."""
        sources = Sources(task.met)
        specs = chunk_specs(task, sources)
        unsorted: set[int] = set()
        while True:
            attempt = _Attempt(bucket, world, task, options, sources, specs, frozenset(unsorted))
            if not unsorted:
                check_space(attempt.needs(), bucket, options.work_dir, self._free)
            try:
                merged = attempt.run()
            except _UnsortedChunk as found:
                unsorted.add(found.place)
                continue
            finally:
                attempt.close()
            return merged


class _UnsortedChunk(Exception):
    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A run and the chunk that it comes from; a run of several chunks is sorted for certain, and has None."""

    run: Run
    chunk: int | None


class _Attempt:
    """One try at a merge, with what is known by now about chunks that are not sorted."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        task: MergeTask,
        options: MergeOptions,
        sources: Sources,
        specs: Sequence[ChunkSpec],
        unsorted: frozenset[int],
    ) -> None:
        self._bucket = bucket
        self._world = world
        self._task = task
        self._options = options
        self._sources = sources
        self._unsorted = unsorted
        self._order = RowOrder(task.definition.sort_by)
        self._buffers = options.memory_bytes // _BUFFERS
        self._held_bytes = max(_HELD_BYTES, self._buffers // max(1, len(specs)))
        self._stage = Stage(
            bucket, options.work_dir / f"blockstore-{task.ulid}", whole_bytes=self._held_bytes
        )
        self._chunks = [ChunkRun(spec, task.definition.schema, sources, self._stage) for spec in specs]
        self._lanes = _lanes(bucket, options.lanes, specs)
        self._spills = 0

    def run(self) -> Merged:
        writer = BlockWriter(
            self._bucket,
            self._world,
            self._task.ulid,
            self._task.definition,
            labels=dict(self._task.inputs[0].meta.labels),
            producer=PRODUCER,
            chunk_size=self._options.chunk_bytes,
            token=self._world.ids.token() if self._unsorted or not self._options.one_attempt else "",
            row_group_bytes=min(
                _ROW_GROUP_BYTES, max(_LEAST_GROUP_BYTES, self._options.memory_bytes // _ROW_GROUP)
            ),
            extra_columns=(SOURCE,),
            presorted=True,
        )
        try:
            self._pump(self._narrowed(), lambda table: writer.write(with_source_names(table, self._sources)))
            written = writer.finish()
        except BaseException:
            writer.abort()
            raise
        dropped = self._check_rows(written.rows)
        return Merged(
            written=written,
            dropped_rows=dropped,
            notes=tuple(self._note(place) for place in sorted(self._unsorted)),
        )

    def close(self) -> None:
        for chunk in self._chunks:
            chunk.close()
        self._stage.clear()

    def needs(self) -> Needs:
        """The room on disk that this takes at most."""
        return needs(
            [chunk.spec.file.bytes for chunk in self._chunks],
            open_together=depth(self._chunks) if self._order.sort_by else 1,
            limit=self._open_limit(),
            held_bytes=self._held_bytes,
            remote=self._bucket.path_of(META) is None,
        )

    def _open_limit(self) -> int:
        """How many chunks may be open at once."""
        return max(2, self._options.memory_bytes // _READERS // self._reader_bytes())

    def _narrowed(self) -> list[_Placed]:
        """The runs, once few enough of them overlap to be open at once."""
        runs = [placed for place, chunk in enumerate(self._chunks) for placed in self._placed(place, chunk)]
        if not self._order.sort_by:
            return runs
        limit = self._open_limit()
        while (excess := depth([placed.run for placed in runs]) - limit) > 0:
            first, last = _cheapest([placed.run.bytes for placed in runs], min(limit, excess + 1))
            runs[first:last] = [self._spilled(runs[first:last])]
        return runs

    def _placed(self, place: int, chunk: ChunkRun) -> list[_Placed]:
        if place not in self._unsorted:
            return [_Placed(run=chunk, chunk=place)]
        parts = spill_sorted(
            chunk, self._order, self._schema(), self._stage, f"sorted-{place}", part_bytes=2 * self._buffers
        )
        return [_Placed(run=part, chunk=None) for part in parts]

    def _spilled(self, group: Sequence[_Placed]) -> _Placed:
        self._spills += 1
        runs = [placed.run for placed in group]
        try:
            spilled = spill(
                runs,
                self._order,
                self._schema(),
                self._stage,
                f"pass-{self._spills}",
                run_bytes=self._run_bytes(runs),
                pool=self._world.pool,
                lanes=self._lanes,
            )
        except Unsorted as found:
            raise self._unsorted_chunk(group, found) from None
        return _Placed(run=spilled, chunk=None)

    def _pump(self, placed: Sequence[_Placed], sink: Sink) -> None:
        runs = [item.run for item in placed]
        try:
            pump(
                runs,
                self._order,
                sink,
                run_bytes=self._run_bytes(runs),
                pool=self._world.pool,
                lanes=self._lanes,
            )
        except Unsorted as found:
            raise self._unsorted_chunk(placed, found) from None

    def _unsorted_chunk(self, placed: Sequence[_Placed], found: Unsorted) -> _UnsortedChunk:
        chunk = placed[found.run].chunk
        assert chunk is not None, "a spilled run is sorted"
        return _UnsortedChunk(chunk)

    def _run_bytes(self, runs: Sequence[Run]) -> int:
        together = depth(runs) if self._order.sort_by else 1
        return max(_LEAST_RUN_BYTES, self._buffers // max(1, together))

    def _reader_bytes(self) -> int:
        columns = len(self._task.definition.schema) + 1
        largest = max((chunk.bytes for chunk in self._chunks), default=1)
        return max(1, min(largest, columns * _READER_COLUMN_BYTES))

    def _schema(self) -> pa.Schema:
        return self._task.definition.schema.append(pa.field(SOURCE, pa.int32()))

    def _check_rows(self, written: int) -> int:
        read = sum(chunk.read_rows for chunk in self._chunks)
        dropped = sum(chunk.dropped_rows for chunk in self._chunks)
        if read != written + dropped:
            raise Corrupt(
                f"merging into block {self._task.ulid}: {read:,} rows were read and {dropped:,} dropped, but "
                f"{written:,} were written; nothing was committed: report this as a bug"
            )
        return dropped

    def _note(self, place: int) -> str:
        spec = self._chunks[place].spec
        key = ", ".join(self._task.definition.sort_by)
        return f"chunk {spec.file.path} of block {spec.ulid} is not sorted by {key}: it was sorted first"


def _lanes(bucket: Bucket, lanes: int, specs: Sequence[ChunkSpec]) -> int:
    """How many chunks to read side by side: many where reading is mostly waiting, one after the other where chunks are
    local and so small that threads would only wait for one another."""
    if bucket.path_of(META) is None:
        return max(lanes, _REMOTE_LANES)
    bytes_read = sum(spec.file.bytes for spec in specs)
    return 1 if bytes_read <= len(specs) * _HELD_BYTES else lanes


def _cheapest(sizes: Sequence[int], count: int) -> tuple[int, int]:
    """Which ``count`` consecutive runs to merge first: those with the fewest bytes, as (first, behind the last)."""
    upto = [0, *accumulate(sizes)]
    first = min(range(len(sizes) - count + 1), key=lambda at: upto[at + count] - upto[at])
    return first, first + count
