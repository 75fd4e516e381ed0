"""The blocks that may be merged: of a table with an index as columns, else as objects.

Rules:
- Of stored blocks no object is made to find out whether a plan can name them. A plan gets the
  candidates on which it depends (``relevant.py``), and reads the order of those alone.
- What was read of a block stays with it (``index/derived.py``), so the next plan of the same
  process reads only what is new.
- The columns come from ``Blocks.columns()``. Nothing else here asks how the index stores blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.compactor.plan.jobs import Candidate, PlanSettings
from blockstore.compactor.plan.order import orders
from blockstore.compactor.plan.relevant import Columns, relevant
from blockstore.format.block import BlockKind, StreamKey
from blockstore.format.definition import Definition
from blockstore.index import ulids as of_ulids
from blockstore.index.arrow import integers, numbers
from blockstore.index.blocks import Blocks
from blockstore.index.derived import Mask, Places
from blockstore.index.rows import stream_named
from blockstore.index.ulids import UlidArray
from blockstore.scan.candidates import are

N = TypeVar("N", bound=np.generic)

COLUMNS = ("ulid", "min_time", "max_time", "rows", "bytes", "level", "stream")
"""The small columns that are read of all blocks."""

_FEW = 1_000
"""All of so few blocks are planned: it is not worth to choose among them."""


class Candidates(Protocol):
    """The blocks that may be merged, in the order of their ULIDs."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Candidate]:
        """All of them, as objects: for few blocks."""
        ...

    @property
    def marked(self) -> frozenset[str]:
        """Those with a no-compact mark."""
        ...

    def get_all(self, ulids: Iterable[str]) -> dict[str, Candidate]:
        """Those of these ULIDs."""
        ...

    def of_streams(self, chosen: Callable[[StreamKey], bool]) -> Candidates:
        """Those of some streams."""
        ...

    def without(self, ulids: Collection[str]) -> Candidates:
        """Without these. One that has a no-compact mark stays: it separates the others."""
        ...

    def for_plan(
        self, settings: PlanSettings, now_ms: int, hiding: Collection[str] = ()
    ) -> list[Candidate]:
        """Those on which a plan depends, with all that are not plain, and with those of ``hiding``,
        which have hidden rows."""
        ...


@dataclass(frozen=True)
class FewCandidates:
    """Candidates that are objects anyway."""

    blocks: tuple[Candidate, ...] = ()

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.blocks)

    @property
    def marked(self) -> frozenset[str]:
        return frozenset(block.ulid for block in self.blocks if block.no_compact)

    def get_all(self, ulids: Iterable[str]) -> dict[str, Candidate]:
        wanted = frozenset(ulids)
        return {block.ulid: block for block in self.blocks if block.ulid in wanted}

    def of_streams(self, chosen: Callable[[StreamKey], bool]) -> FewCandidates:
        return FewCandidates(tuple(block for block in self.blocks if chosen(block.stream)))

    def without(self, ulids: Collection[str]) -> FewCandidates:
        return FewCandidates(
            tuple(block for block in self.blocks if block.no_compact or block.ulid not in ulids)
        )

    def for_plan(
        self, settings: PlanSettings, now_ms: int, hiding: Collection[str] = ()
    ) -> list[Candidate]:
        return list(self.blocks)


@dataclass(frozen=True, kw_only=True)
class LiveCandidates:
    """Candidates among the live blocks of an index."""

    blocks: Blocks
    definition: Definition
    offered: Mask
    """Which rows of ``blocks.table()`` are candidates."""
    no_compact: Mask
    """Which of the rows have a no-compact mark."""
    frame: pa.Table
    """``blocks.columns(COLUMNS)``."""
    few: int = _FEW

    @classmethod
    def of(
        cls,
        blocks: Blocks,
        definition: Definition,
        *,
        no_compact: Collection[str] = (),
        but: Collection[str] = (),
        skip: Callable[[StreamKey], bool] = lambda _: False,
    ) -> LiveCandidates:
        """All live blocks but those of some ULIDs and streams."""
        frame = blocks.columns(COLUMNS)
        every = cls(
            blocks=blocks,
            definition=definition,
            offered=np.ones(len(blocks), dtype=bool),
            no_compact=np.zeros(len(blocks), dtype=bool),
            frame=frame,
        )
        every.offered[every.places(but)] = False
        every.no_compact[every.places(no_compact)] = True
        return every.of_streams(lambda stream: not skip(stream))

    def __len__(self) -> int:
        return int(np.count_nonzero(self.offered))

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._made(np.flatnonzero(self.offered)))

    @property
    def marked(self) -> frozenset[str]:
        places = np.flatnonzero(self.offered & self.no_compact)
        return frozenset(of_ulids.to_texts(self._ulids[places]))

    def get_all(self, ulids: Iterable[str]) -> dict[str, Candidate]:
        places = self.places(ulids)
        return {block.ulid: block for block in self._made(places[self.offered[places]])}

    def of_streams(self, chosen: Callable[[StreamKey], bool]) -> LiveCandidates:
        streams, number = self._streams
        verdicts = np.array([chosen(stream) for stream in streams], dtype=bool)
        if verdicts.all():
            return self
        return replace(self, offered=self.offered & verdicts[number])

    def without(self, ulids: Collection[str]) -> LiveCandidates:
        if not ulids:
            return self
        offered, places = self.offered.copy(), self.places(ulids)
        offered[places[~self.no_compact[places]]] = False
        return replace(self, offered=offered)

    def for_plan(
        self, settings: PlanSettings, now_ms: int, hiding: Collection[str] = ()
    ) -> list[Candidate]:
        rows = np.flatnonzero(self.offered)
        if len(rows) > self.few:
            wanted = ~are(BlockKind.PLAIN, self.blocks, self.definition)
            wanted[self.places(hiding)] = True
            rows = rows[relevant(self._columns(rows), settings, now_ms, wanted[rows])]
        return self._made(rows)

    def places(self, ulids: Iterable[str]) -> Places:
        """The rows of those of these ULIDs that are live, sorted."""
        wanted = sorted(set(ulids))
        if not wanted or not len(self._ulids):
            return np.zeros(0, dtype=np.int64)
        names = of_ulids.from_texts(wanted)
        found = np.minimum(self._ulids.searchsorted(names), len(self._ulids) - 1)
        return np.asarray(found[self._ulids[found] == names], dtype=np.int64)

    @cached_property
    def _ulids(self) -> UlidArray:
        return of_ulids.from_arrow(self.frame["ulid"])

    @cached_property
    def _streams(self) -> tuple[list[StreamKey], npt.NDArray[np.int32]]:
        """The streams, and the number of that of each row. A stream may be written in several
        ways."""
        encoded = self.frame["stream"].unify_dictionaries().combine_chunks()
        named = [stream_named(text) for text in encoded.dictionary.to_pylist()]
        streams = sorted(set(named))
        number = {stream: place for place, stream in enumerate(streams)}
        codes = np.array([number[stream] for stream in named], dtype=np.int32)
        return streams, codes[integers(encoded.indices)]

    def _columns(self, rows: Places) -> Columns:
        def of(values: npt.NDArray[N]) -> npt.NDArray[N]:
            return values if len(rows) == len(values) else values[rows]

        return Columns(
            stream=of(self._streams[1]),
            min_time=of(integers(self.frame["min_time"])),
            max_time=of(integers(self.frame["max_time"])),
            bytes=of(integers(self.frame["bytes"])),
            marked=of(self.no_compact),
            timed=self.definition.time_column is not None,
        )

    def _made(self, rows: Places) -> list[Candidate]:
        chosen = np.zeros(len(self.offered), dtype=bool)
        chosen[rows] = True
        streams, number = self._streams
        some = self.frame.select(["min_time", "max_time", "rows", "bytes", "level"])
        values = [column.to_pylist() for column in some.take(numbers(rows)).columns]
        return [
            Candidate(
                ulid=ulid,
                stream=streams[stream],
                min_time=min_time,
                max_time=max_time,
                rows=count,
                bytes=size,
                level=level,
                timed=order.timed,
                sort_by=order.sort_by,
                no_compact=marked,
                kind=order.kind,
                newest_source=order.newest_source,
            )
            for ulid, stream, min_time, max_time, count, size, level, order, marked in zip(
                of_ulids.to_texts(self._ulids[rows]),
                number[rows].tolist(),
                *values,
                orders(self.blocks, self.definition, chosen),
                self.no_compact[rows].tolist(),
                strict=True,
            )
        ]
