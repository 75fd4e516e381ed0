"""The chunks of a plan for one pass over very many blocks, made when they are looked at.

A plan of all rows of a million blocks would hold 2 GB of chunks, and make them all before the first
one is read. Each pass makes them again, a few at a time: that costs less than to read them.

Rules:
- The same chunks as in a plan of few blocks, in the same order, at each pass.
- Only where no chunk has to be judged: the condition is always true, rows have no identity, and no
  block is known from a listing alone. Then the number of chunks is the sum of each block's.
- Where leaves of the snapshot were collected meanwhile, a pass goes on over the same version read
  again: its blocks have the same places.
- Pickled it is the tuple of its chunks: blocks do not travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.errors import Corrupt, SnapshotExpired
from blockstore.index.blocks import Blocks
from blockstore.index.derived import Arrays
from blockstore.index.documents import read_documents
from blockstore.index.rows import LiveBlock
from blockstore.lazy import once
from blockstore.scan.candidates import Candidate, Candidates
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.snapshot import Snapshot, read_again, renewed


class ManyChunks(Sequence[ScanChunk]):
    """The chunks of these candidates, of which none was listed; ``chunks_of`` makes a block's."""

    def __init__(
        self,
        found: Candidates,
        chunks_of: Callable[[Candidate], Iterable[ScanChunk]],
        snapshot: Snapshot,
    ) -> None:
        assert len(found.live) == len(snapshot.blocks), "nothing was left out"
        self._found = found
        self._chunks_of = chunks_of
        self._snapshot = snapshot
        """Whose blocks these are; replaced where it is read again."""

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def stated(self) -> int:
        """How many there are, by what leaves say of themselves: without a look at each block."""
        if len(self._found.places) < len(self._snapshot.blocks):
            return len(self)
        return renewed(self._snapshot, lambda one: _stated(one.blocks))

    def __iter__(self) -> Iterator[ScanChunk]:
        done, tries = 0, 0
        while True:
            rest = self._found_in(self._snapshot, done)
            try:
                for block in rest:
                    yield from self._chunks_of(block)
                    done, tries = done + 1, 0
                return
            except (SnapshotExpired, Corrupt) as error:
                self._snapshot = read_again(self._snapshot, error, tries)
                tries += 1

    def _found_in(self, snapshot: Snapshot, done: int = 0) -> Candidates:
        """The candidates from one of them on, in the blocks of a snapshot."""
        return replace(self._found, live=snapshot.blocks, places=self._found.places[done:])

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return tuple, (tuple(self),)

    @overload
    def __getitem__(self, index: int) -> ScanChunk: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ScanChunk, ...]: ...
    def __getitem__(self, index: int | slice) -> ScanChunk | tuple[ScanChunk, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"chunk {index} of a plan of {len(self)}")
        block = int(np.searchsorted(self._ends, place, side="right"))
        before = int(self._ends[block - 1]) if block else 0
        found = renewed(self._snapshot, lambda one: self._found_in(one).at(block))
        return list(self._chunks_of(found))[place - before]

    @once
    def _ends(self) -> npt.NDArray[np.int64]:
        """The number of chunks up to each block, with its own."""
        found = self._found
        wanted = np.zeros(len(found.live), dtype=bool)
        wanted[found.places] = True
        (counts,) = renewed(
            self._snapshot, lambda one: one.blocks.derived("chunks", None, _Counts(), wanted)
        )
        return np.cumsum(counts[found.places])


def _stated(blocks: Blocks) -> int:
    """The chunks of all blocks."""
    rest, sums = blocks.summed(lambda leaf: True)
    (counts,) = rest.derived("chunks", None, _Counts(), np.ones(len(rest), dtype=bool))
    return int(counts.sum()) + sum(leaf.chunks for leaf in sums)


class _Counts:
    """Makes an array, by block: the number of its chunks."""

    def of_blocks(self, blocks: Sequence[LiveBlock]) -> Arrays:
        return (np.array([len(block.meta.chunks) for block in blocks], dtype=np.int64),)

    def of_rows(self, rows: pa.Table) -> Arrays | None:
        """By ``numChunks``, which is compared with the files whenever a block is read."""
        count = pa.struct([("numChunks", pa.int64())])
        documents = read_documents(rows, pa.field("stats", count))
        if documents is None:
            return None
        import pyarrow.compute as pc

        counts = pc.struct_field(documents, [0])
        return None if counts.null_count else (np.asarray(counts.to_numpy()),)
