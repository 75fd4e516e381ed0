"""What the compactor sees of a table before it plans: one listing, then the index if there is one.

Rules:
- With an index only its live blocks are candidates: their rows are what readers see. Without one
  the candidates are what the exact cover chooses among the ready blocks, each with the sources for
  which it is read (3.2).
- Without an index, a block that the cover will choose differently once all complete blocks have
  aged is not a candidate: a fresh merge of it counts as done, so that many passes within
  ``sync_delay`` make one merge.
- A block with a no-compact mark stays out of merges. So does a block with a deletion mark, whatever
  its reason (a person wants its rows gone, and a merge would keep them), and a damaged block.
- A block that is ordered by another sort key or time column than the table's current one is merged
  only with its like (R9). A block whose schema contradicts the others' is not merged.
- Where rows have an identity, which of them are hidden is read with it. A block that cannot be read
  then is damaged, and its stream is left alone.
- A table that was dropped has no candidates.
- Blocks of an index are looked at by columns; only those of a planned merge become objects.
- Where a leaf of the index was collected meanwhile, or is damaged, the state is read again.
- The time of a plan is the store's, read with the listing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from blockstore.compactor.merge import MergeInput
from blockstore.compactor.plan.candidates import (
    COLUMNS,
    Candidates,
    FewCandidates,
    LiveCandidates,
)
from blockstore.compactor.plan.damage import contradicted, suspects
from blockstore.compactor.plan.inputs import LiveInputs
from blockstore.compactor.plan.jobs import Candidate
from blockstore.compactor.plan.skip import Labels, has_label, is_skipped
from blockstore.errors import Corrupt, SnapshotExpired
from blockstore.format.block import BlockMeta, StreamKey, VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.names_now import sort_by_of, time_column_of
from blockstore.index.blocks import Blocks
from blockstore.index.state import State
from blockstore.lifecycle.list_path import list_snapshot
from blockstore.lifecycle.listing import Found, Listing
from blockstore.lifecycle.schemas import fitting_cover, is_mergeable
from blockstore.names import DELETION_MARK
from blockstore.scan.shadows import NO_SHADOWS, ShadowCache, Shadows, look
from blockstore.scan.snapshot import Snapshot
from blockstore.table import Table

_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A table at one moment, as planning looks at it."""

    definition: Definition
    version: int | None
    """The version of the index; None without one."""
    now_ms: int
    inputs: Mapping[str, MergeInput]
    """Every block that readers see, as a merge would read it."""
    candidates: Candidates
    listing: Listing
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Live blocks with missing objects, which are not candidates: ULID to what is wrong."""
    blocks: Blocks = field(default_factory=Blocks.of)
    """All live blocks of the index."""
    shadows: Shadows = NO_SHADOWS
    """Which rows newer versions hide, where rows have an identity."""

    @property
    def read_rows(self) -> int:
        """The rows of the blocks that queries read."""
        if isinstance(self.inputs, LiveInputs):
            return self.inputs.read_rows(self.definition)
        return sum(one.meta.rows for one in self.inputs.values())

    @property
    def hidden_rows(self) -> int:
        """Those among them that newer versions hide, and tombstones."""
        return sum(
            own.hidden_rows(ulid)
            for own in self.shadows.streams.values()
            for ulid in (*own.changes, *own.hidden)
        )

    @property
    def read_amplification(self) -> float:
        """The rows that are read for each row that queries see; 1 in an empty table."""
        read = self.read_rows
        return read / max(1, read - self.hidden_rows) if read else 1.0

    def offers(self, ulid: str, wanted: MergeInput) -> bool:
        """Whether the block may be merged, and would be read as ``wanted`` says."""
        block = self.candidates.get_all([ulid]).get(ulid)
        return block is not None and not block.no_compact and self.inputs.get(ulid) == wanted

    def read(self, ulids: Iterable[str]) -> tuple[MergeInput, ...]:
        """These blocks, as a merge reads them."""
        wanted = tuple(ulids)
        held = self.inputs
        found = held.get_all(wanted) if isinstance(held, LiveInputs) else held
        return tuple(found[ulid] for ulid in wanted)


def observe(
    table: Table,
    *,
    skip: Labels = (),
    left_out: Collection[str] = (),
    cache: ShadowCache | None = None,
) -> Observation:
    """Look at the table.

    Args:
        table: The table.
        skip: Streams with one of these labels are ignored.
        left_out: Blocks that are not candidates.
        cache: What the look before has found of rows with an identity.
    """
    if not table.indexed:
        return _by_listing(table, skip, left_out)
    return _by_index(table, table.catalog.listing(), skip, left_out, cache)


def observe_again(
    table: Table,
    before: Observation,
    *,
    skip: Labels = (),
    left_out: Collection[str] = (),
    cache: ShadowCache | None = None,
) -> Observation:
    """The same for a table with an index, from its current state and the listing of the look
    ``before``: a listing of a large table is slow and costs requests. Marks placed since are not
    seen."""
    return _by_index(table, before.listing, skip, left_out, cache)


def _by_index(
    table: Table,
    listing: Listing,
    skip: Labels,
    left_out: Collection[str],
    cache: ShadowCache | None,
) -> Observation:
    for left in reversed(range(_TRIES)):
        state = table.log.poll()
        try:
            return _of_state(table, state, listing, skip, left_out, cache)
        except (SnapshotExpired, Corrupt):
            # A leaf of its root went, or is damaged: the next poll begins at another root.
            if not left or not state.is_broken:
                raise
    raise AssertionError("the last try returns or raises")


def _of_state(
    table: Table,
    state: State,
    listing: Listing,
    skip: Labels,
    left_out: Collection[str],
    cache: ShadowCache | None,
) -> Observation:
    if state.dropped is not None:
        return Observation(
            definition=state.definition,
            version=state.version,
            now_ms=listing.now_ms,
            inputs={},
            candidates=FewCandidates(),
            listing=listing,
        )
    kept, marked = _marks(listing)
    unmarked = suspects(listing, state.blocks.columns(COLUMNS), but=kept | marked | {*left_out})
    odd = LiveInputs(state.blocks, skip).get_all(unmarked).values()
    damaged = contradicted(table.bucket, listing, (one.meta for one in odd))

    def skipped(stream: StreamKey) -> bool:
        return has_label(stream, skip)

    shadows = look(
        table.bucket, table.world, Snapshot.of(state), cache or ShadowCache(), skip=skipped
    )
    damaged |= {ulid: why for ulid, why in shadows.unread.values() if ulid not in damaged}
    return Observation(
        definition=state.definition,
        version=state.version,
        now_ms=listing.now_ms,
        inputs=LiveInputs(state.blocks, skip),
        candidates=LiveCandidates.of(
            state.blocks,
            state.definition,
            no_compact=kept,
            but=marked | damaged.keys() | {*left_out},
            skip=skipped,
        ),
        listing=listing,
        damaged=damaged,
        blocks=state.blocks,
        shadows=shadows,
    )


def _by_listing(table: Table, skip: Labels, left_out: Collection[str]) -> Observation:
    synced = table.catalog.sync()
    listing, properties = synced.listing, table.definition.properties
    listed = list_snapshot(synced.found, None, properties, listing.now_ms)
    chosen = listed.cover.chosen
    inputs = {
        block.meta.ulid: MergeInput(meta=block.meta, only=block.only_sources)
        for block in chosen
        if not is_skipped(block.meta, skip)
    }
    definition = listed.definition or table.definition
    ahead = _once_aged(synced.found)
    return Observation(
        definition=definition,
        version=None,
        now_ms=listing.now_ms,
        inputs=inputs,
        candidates=FewCandidates(
            tuple(
                _candidate(one.meta, definition, listing)
                for ulid, one in inputs.items()
                if ulid not in left_out
                and not _is_marked(listing, ulid)
                and ahead.get(ulid) == one
                and one.meta.rows
                and is_mergeable(one.meta, definition)
            )
        ),
        listing=listing,
    )


def _once_aged(found: Mapping[str, Found]) -> dict[str, MergeInput]:
    """What the cover will choose once every block that is complete now is ready."""
    metas = (one.meta for one in found.values() if one.meta is not None and one.damage is None)
    marks = {ulid: one.mark for ulid, one in found.items() if one.mark is not None}
    chosen = fitting_cover((meta for meta in metas if meta.visible_by is VisibleBy.AGE), marks)[
        0
    ].chosen
    return {
        block.meta.ulid: MergeInput(meta=block.meta, only=block.only_sources) for block in chosen
    }


def _is_marked(listing: Listing, ulid: str) -> bool:
    directory = listing.directories.get(ulid)
    return directory is not None and DELETION_MARK in directory.objects


def _marks(listing: Listing) -> tuple[frozenset[str], frozenset[str]]:
    """The blocks with a no-compact mark, and those with a deletion mark."""
    directories = listing.directories.items()
    return (
        frozenset(ulid for ulid, directory in directories if directory.no_compact),
        frozenset(ulid for ulid, directory in directories if DELETION_MARK in directory.objects),
    )


def _candidate(meta: BlockMeta, definition: Definition, listing: Listing) -> Candidate:
    directory = listing.directories.get(meta.ulid)
    return Candidate(
        ulid=meta.ulid,
        stream=meta.stream,
        min_time=meta.min_time,
        max_time=meta.max_time,
        rows=meta.rows,
        bytes=meta.bytes,
        level=meta.level,
        timed=meta.time_column is not None
        and time_column_of(meta, definition) == definition.time_column,
        sort_by=sort_by_of(meta, definition),
        no_compact=directory is not None and directory.no_compact,
        kind=meta.kind,
    )
