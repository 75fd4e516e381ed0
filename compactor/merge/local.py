"""The local merge engine: one process, its threads, and as much memory as it is given.

How memory is divided: an eighteenth buffers the rows read ahead, and up to five windows of that
size are in progress (cut, joined, sorted, encoded); an eighth gathers a row group; a third is for
the Parquet readers of open chunks. Chunks that would need more are merged in passes over the work
disk first. A large chunk that is sent to a store takes some megabytes more, whatever the memory
(``s3_writer.py``). Nothing here grows with the number of rows. The weight of chunks is guessed; a
few of them, opened first, correct the guess.

Chunks whose block declares another order are sorted first. So is every chunk of a block of which
one chunk was not in its declared order: that ends the attempt, and the next attempt knows. After a
few such blocks all others are sorted first too.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import pyarrow as pa

from blockstore.bucket.api import Bucket
from blockstore.compactor.merge.chunkrun import ChunkRun, ChunkSpec
from blockstore.compactor.merge.codes import carried
from blockstore.compactor.merge.engine import Merged, MergeOptions, MergeTask
from blockstore.compactor.merge.inputs import chunk_specs, in_order
from blockstore.compactor.merge.order import RowOrder
from blockstore.compactor.merge.preflight import Free, Needs, check_space, needs
from blockstore.compactor.merge.pump import Sink, pump
from blockstore.compactor.merge.result import PRODUCER, with_source_names
from blockstore.compactor.merge.run import Run, Unsorted, depth
from blockstore.compactor.merge.shared import Shared
from blockstore.compactor.merge.sources import SOURCE, Sources, with_numbers
from blockstore.compactor.merge.spill import spill, spill_sorted
from blockstore.compactor.merge.stage import PIECE_BYTES, Stage
from blockstore.compactor.merge.versions import extra_columns
from blockstore.compactor.merge.weight import COLUMN_BYTES
from blockstore.compactor.merge.workdir import merge_folder
from blockstore.errors import Corrupt
from blockstore.format.block_writer import BlockWriter
from blockstore.names import META
from blockstore.world import World

_BUFFERS = 18
_ROW_GROUP = 8
_READERS = 3
_ROW_GROUP_BYTES = 128 << 20
_LEAST_RUN_BYTES = 64 << 10
_LEAST_GROUP_BYTES = 1 << 20
_HELD_BYTES = 256 << 10
"""A chunk of at most this many bytes is held in memory, however many there are."""

_MOST_OPEN = 1 << 16
_OF_FILES = 2
"""Half of the files that the process may open are left for its other threads and for sockets."""

_SURPRISES = 3
"""After this many blocks that are not sorted as declared, no declaration is trusted: each costs an
attempt."""

_WEIGHED = 15
"""How many of the small chunks are opened before anything is planned, with the largest chunk: as
many as are read in parallel."""

_REMOTE_LANES = 16
"""How many chunks are read in parallel where reading is mostly waiting."""

_AHEAD = 8
"""How many chunks of a remote store are fetched before the step that needs them."""

_MOST_PIECE_BYTES = 8 << 20
"""A remote chunk is read by requests of at most this many bytes, which follow one another."""


class LocalEngine:
    """Merges in this process."""

    def __init__(self, free: Free | None = None) -> None:
        """``free`` returns the free bytes of a disk; by default the system's value."""
        self._free = free

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        """See ``MergeEngine.merge``.

        A chunk that turns out to be unsorted is sorted first, and noted.
        """
        sources = Sources(task.met)
        specs = chunk_specs(task, sources)
        surprises: dict[str, str] = {}
        while True:
            attempt = _Attempt(bucket, world, task, options, sources, specs, surprises)
            check_space(attempt.needs(), bucket, options.work_dir, self._free)
            try:
                merged = attempt.run()
            except _UnsortedChunk as found:
                surprises[found.spec.ulid] = found.spec.file.path
                continue
            finally:
                attempt.close()
            return merged


class _UnsortedChunk(Exception):
    def __init__(self, spec: ChunkSpec) -> None:
        super().__init__(spec)
        self.spec = spec


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A run and its chunk; None for a run that the merge itself sorted, which is certainly
    sorted."""

    run: Run
    chunk: ChunkSpec | None


class _Attempt:
    """One attempt at a merge, with what is known so far about unsorted chunks."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        task: MergeTask,
        options: MergeOptions,
        sources: Sources,
        specs: Sequence[ChunkSpec],
        surprises: Mapping[str, str],
    ) -> None:
        """``surprises`` are the blocks that are not sorted as declared, each with the chunk that
        showed it."""
        self._bucket = bucket
        self._world = world
        self._task = task
        self._options = options
        self._sources = sources
        self._surprises = surprises
        self._order = RowOrder(task.definition.sort_by)
        self._buffers = options.memory_bytes // _BUFFERS
        self._held_bytes = max(_HELD_BYTES, self._buffers // max(1, len(specs)))
        # A remote store is mostly waiting: many chunks are read in parallel.
        remote = bucket.path_of(META) is None
        self._lanes = max(options.lanes, _REMOTE_LANES) if remote else options.lanes
        self._ahead = _AHEAD if remote else 0
        self._stage = Stage(
            bucket,
            merge_folder(options.work_dir, task.ulid),
            whole_bytes=self._held_bytes,
            piece_bytes=max(
                PIECE_BYTES, min(_MOST_PIECE_BYTES, self._buffers // (self._lanes + _AHEAD))
            )
            if remote
            else PIECE_BYTES,
        )
        self._extra = extra_columns(task.definition.identity, task.kind)
        self._shared = Shared(task.definition.schema, options.memory_bytes // _READERS, self._extra)
        found = [replace(spec, in_order=not self._is_unsorted(spec)) for spec in specs]
        self._chunks = [ChunkRun(spec, sources, self._stage, self._shared) for spec in found]
        self._spills = 0

    def run(self) -> Merged:
        known = self._weigh_some()
        placed = self._narrowed()
        if all(item.chunk is not None for item in placed):  # the work disk holds texts, not codes
            self._shared.carry(carried(known, self._task.definition.schema, self._order.sort_by))
        writer = BlockWriter(
            self._bucket,
            self._world,
            self._task.ulid,
            self._task.definition,
            labels=dict(self._task.inputs[0].meta.labels),
            producer=PRODUCER,
            chunk_size=self._options.chunk_bytes,
            token=self._world.ids.token()
            if self._surprises or not self._options.one_attempt
            else "",
            row_group_bytes=min(
                _ROW_GROUP_BYTES, max(_LEAST_GROUP_BYTES, self._options.memory_bytes // _ROW_GROUP)
            ),
            extra_columns=(SOURCE, *self._extra),
            coded=self._shared.coded,
            presorted=True,
        )
        try:
            self._pump(placed, lambda table: writer.write(with_source_names(table, self._sources)))
            written = writer.finish()
        except BaseException:
            writer.abort()
            raise
        dropped = self._check_rows(written.rows)
        return Merged(
            written=written,
            dropped_rows=dropped,
            notes=tuple(self._notes()),
        )

    def close(self) -> None:
        for chunk in self._chunks:
            chunk.close()
        self._stage.clear()

    def needs(self) -> Needs:
        """The most disk that this attempt takes."""
        return needs(
            [chunk.spec.file.bytes for chunk in self._chunks],
            open_together=depth(self._chunks) if self._order.sort_by else 1,
            limit=self._open_limit(),
            held_bytes=self._held_bytes,
            remote=self._bucket.path_of(META) is None,
            in_parts=self._task.within is not None,
            sorted_first=sum(
                chunk.spec.file.bytes for chunk in self._chunks if self._is_unsorted(chunk.spec)
            ),
        )

    def _weigh_some(self) -> list[list[str]]:
        """Open the largest chunk, and some of the small ones, spread over all, to correct the
        guesses for the others.

        Returns which columns of these, and of the largest chunk, have small dictionaries.
        """
        small = [chunk for chunk in self._chunks if chunk.bytes <= self._buffers]
        some = small[:: max(1, -(-len(small) // _WEIGHED))]
        largest = max(self._chunks, key=lambda chunk: chunk.bytes, default=None)
        weighed = some if largest is None or largest in some else [largest, *some]
        guessed = sum(chunk.bytes for chunk in some)
        lanes = [weighed[lane :: self._lanes] for lane in range(self._lanes)]
        self._world.pool.map(_open, [lane for lane in lanes if lane])
        self._shared.correct(guessed, sum(chunk.bytes for chunk in some))
        return [chunk.with_small_dictionaries() for chunk in weighed]

    def _open_limit(self) -> int:
        """How many chunks may be open at the same time."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        by_files = _MOST_OPEN if files == resource.RLIM_INFINITY else files // _OF_FILES
        return max(2, min(by_files, self._options.memory_bytes // _READERS // self._reader_bytes()))

    def _narrowed(self) -> list[_Placed]:
        """The runs, after spilling until few enough of them overlap to be open together."""
        runs = [
            placed
            for number, chunk in enumerate(self._chunks)
            for placed in self._placed(number, chunk)
        ]
        if not self._order.sort_by:
            return runs
        limit = self._open_limit()
        while (excess := depth([placed.run for placed in runs]) - limit) > 0:
            first, last = _cheapest([placed.run.bytes for placed in runs], min(limit, excess + 1))
            runs[first:last] = [self._spilled(runs[first:last])]
        return runs

    def _placed(self, number: int, chunk: ChunkRun) -> list[_Placed]:
        if not self._is_unsorted(chunk.spec):
            return [_Placed(run=chunk, chunk=chunk.spec)]
        parts = spill_sorted(
            chunk,
            self._order,
            self._schema(),
            self._stage,
            f"sorted-{number}",
            part_bytes=2 * self._buffers,
        )
        return [_Placed(run=part, chunk=None) for part in parts]

    def _is_unsorted(self, spec: ChunkSpec) -> bool:
        return (
            not spec.in_order or spec.ulid in self._surprises or len(self._surprises) >= _SURPRISES
        )

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
                ahead=self._ahead,
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
        columns = len(self._schema())
        largest = max((chunk.bytes for chunk in self._chunks), default=1)
        return max(1, min(largest, columns * COLUMN_BYTES))

    def _schema(self) -> pa.Schema:
        return with_numbers(self._task.definition.schema, self._extra)

    def _check_rows(self, written: int) -> int:
        read = sum(chunk.read_rows for chunk in self._chunks)
        dropped = sum(chunk.dropped_rows for chunk in self._chunks)
        if read != written + dropped:
            raise Corrupt(
                f"merging into block {self._task.ulid}: {read:,} rows were read and {dropped:,} "
                f"dropped, but {written:,} were written; nothing was committed: report this as a "
                "bug"
            )
        return dropped

    def _notes(self) -> Iterator[str]:
        key = ", ".join(self._task.definition.sort_by)
        otherwise = sum(not in_order(item.meta, self._task) for item in self._task.inputs)
        if otherwise:
            yield (
                f"{otherwise:,} {'block was' if otherwise == 1 else 'blocks were'} not sorted by "
                f"{key}, the table's sort key: {'it was' if otherwise == 1 else 'they were'} "
                "sorted first"
            )
        for ulid, path in sorted(self._surprises.items()):
            yield (
                f"chunk {path} of block {ulid} is not sorted by {key}: all chunks of the block "
                "were sorted first"
            )
        if len(self._surprises) >= _SURPRISES:
            yield (
                f"{_SURPRISES} blocks are not sorted by {key} as they declare, so all others were "
                "sorted first too: check how the blocks were written"
            )


def _open(chunks: Iterable[ChunkRun]) -> None:
    for chunk in chunks:
        chunk.open()


def _cheapest(sizes: Sequence[int], count: int) -> tuple[int, int]:
    """Which ``count`` consecutive runs to merge first: those with the fewest bytes, as a range
    (first, end)."""
    upto = [0, *accumulate(sizes)]
    first = min(range(len(sizes) - count + 1), key=lambda at: upto[at + count] - upto[at])
    return first, first + count
