"""Upload finished blocks from a folder, where a device writes offline, to a table.

Invariants:
- The oldest block first. Chunks, then meta.json, then the checks of R3, then the index entry, in
  the order of an append and with its code.
- Each row counts once, whatever process was killed and however often a block is shipped. A block
  whose sources the table accounts for is not sent again. One that is stored there complete is
  finished, not written again. One that a mark refused is uploaded under a new ULID that keeps its
  source, and the folder's state remembers the name.
- A damaged block is refused by name before any byte of it is visible; so is a block that the table
  could never show. The others continue. An error of the store (no response, no permission, no
  space) stops the pass; the next one continues from there.
- Nothing is sent twice that is stored in the bucket with its size and SHA-256.
- A block above the horizon is published; one at or below it is left to discovery; one at or below
  the floor is uploaded and reported to a person (protocol 3.6).
- A block is deleted from the folder only if that was requested, and only after the table's index
  accounts for it, or after it is durable in a table without one. It stays while another table that
  the folder serves lacks it.
- A folder without space for its record stops no pass: the record only saves requests, and what is
  deleted from the folder makes space for it.
- The folder's record is compared with the table before it is trusted (``state.py``).
- Nothing is shipped to a place without a table, and nothing is deleted from the folder for a table
  that is gone (``unindexed.py``).

Works with create-if-absent or without: a store with PUT, GET and LIST has tables without an index.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from blockstore.bucket.api import Bucket
from blockstore.care.examine import examine, list_directory
from blockstore.care.marks.adopted import adopted_name
from blockstore.care.ship.finished import FinishedBlocks
from blockstore.care.ship.report import (
    RefusedBlock,
    ShippedBlock,
    ShipReport,
    forgotten_reason,
    late_reason,
    lost_reason,
)
from blockstore.care.ship.state import CheckedLines, Sent, ShipperState, check_lines, load, save
from blockstore.care.ship.unindexed_target import UnindexedTarget
from blockstore.care.ship.wanted import check_wanted
from blockstore.care.transfer import Advance, patient, place, send_missing, sizes_in
from blockstore.errors import (
    AccessDenied,
    BlockCondemned,
    BoundaryLost,
    Conflict,
    Corrupt,
    Fenced,
    HistoryReplaced,
    Indeterminate,
    Invalid,
    NoSpace,
    NotFound,
    ObjectMissing,
)
from blockstore.format.block import BlockMeta
from blockstore.format.meta import encode, load_meta
from blockstore.ids import ulid_at, ulid_time_ms
from blockstore.index.lives import check_there
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.lifecycle.listing import Directory, list_directories, look
from blockstore.lifecycle.upload import finish_upload, in_time, resume, successor
from blockstore.names import META, SHIPPER_STATE
from blockstore.operations.append import publish
from blockstore.world import World

_logger = logging.getLogger(__name__)

_REFUSALS = (Corrupt, Invalid, Conflict, Indeterminate)
"""Errors that refuse one block, and leave the others."""
_THE_STORES = (AccessDenied, BoundaryLost, Fenced, HistoryReplaced)
"""Errors that would refuse every block."""
_UPLOADS = 5
_SKEW_MS = 24 * 3600 * 1000
"""A merge is younger than its sources, by clocks that may be wrong by this much."""


class _Stop(Exception):
    """The table's index is damaged; the cause says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Durable:
    """A block of the folder whose rows the table holds."""

    meta: BlockMeta
    stored_ulid: str
    block: BlockMeta | None
    """The block as stored there; None if the table accounted for its rows before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """What is known of the table when a pass begins."""

    state: State | None
    held: Mapping[str, str] = field(default_factory=dict)
    """For a table without an index, if the folder has no state or a wrong one: each source and the
    block that holds it."""
    checked: CheckedLines = field(default_factory=CheckedLines)
    """The state's lines, compared with the table."""
    lost: frozenset[str] = frozenset()
    """Blocks recorded as shipped that are not in the table; a person decides whether to ship them
    again."""


class Shipper:
    """Ships from one folder to one table.

    Keep it between passes: it caches what it read of the index.
    """

    def __init__(
        self, folder: Bucket, target: Bucket, world: World, *, remove_shipped: bool = False
    ) -> None:
        if place(folder) == place(target):
            raise Invalid(f"{target.url} is the folder itself: name the table to ship to")
        self._blocks = FinishedBlocks(folder)
        self._blocks.check()
        self._bucket = patient(target, world)
        self._table = place(target)
        self._world = world
        self._log: Log | None = None
        self._indexed = False
        self._unsaved: ShipperState | None = None
        self._warned: set[str] = set()
        self._unindexed = UnindexedTarget(self._bucket, world)
        self._remove = remove_shipped

    def waiting_bytes(self) -> int:
        """Return the size of the blocks that are not recorded as shipped, for a progress bar."""
        state = load(self._blocks.bucket) or ShipperState()
        sent = state.sent_to(self._table)
        return sum(
            found.size
            for ulid, directory in self._blocks.directories().items()
            if ulid not in sent and META in directory.objects
            for found in directory.objects.values()
        )

    def once(self, advance: Advance = lambda _: None) -> ShipReport:
        """Ship the blocks that are finished now.

        Raises the error that stops the pass; the next pass continues from there.
        """
        directories = self._blocks.directories()
        finished = {ulid: one for ulid, one in directories.items() if META in one.objects}
        remembered = self._unsaved or load(self._blocks.bucket)
        state = (remembered or ShipperState()).only(directories)
        known = self._look(finished, state, rebuild=remembered is None)
        state = state.without(self._table, known.checked.gone - known.lost)
        before = state
        if known.state is not None:
            state = state.with_index(self._table).compared(self._table, known.checked)
        if state != before and state.sent_to(self._table):
            self._record(state)
        shipped: list[ShippedBlock] = []
        refused: list[RefusedBlock] = []
        adopted: list[str] = []
        for ulid, directory in finished.items():
            sent = state.sent_to(self._table).get(ulid)
            if sent is None:
                try:
                    block = self._shown(self._durable(directory, known, advance), known.state)
                except _Stop as stop:
                    raise stop.__cause__ or stop from None
                except _REFUSALS as error:
                    if isinstance(error, _THE_STORES):
                        raise
                    refused.append(RefusedBlock(ulid=ulid, reason=str(error)))
                    continue
                sent = Sent(
                    stored_ulid=block.stored_ulid,
                    late=block.late,
                    waits=not block.late and _waits(block, known.state),
                )
                state = state.with_sent(self._table, ulid, sent)
                self._record(state)
                shipped.append(block)
            if ulid in known.lost:
                refused.append(RefusedBlock(ulid=ulid, reason=lost_reason(sent)))
            if sent.late:
                name, gone = self._late_fate(sent.stored_ulid, known.state)
                if name is None:
                    reason = forgotten_reason(sent) if gone else late_reason(sent)
                    refused.append(RefusedBlock(ulid=ulid, reason=reason, late=True))
                    continue
                state = state.with_sent(self._table, ulid, Sent(stored_ulid=name))
                self._record(state)
                adopted.append(ulid)
        return ShipReport(
            shipped=tuple(shipped),
            refused=tuple(refused),
            unfinished=tuple(
                sorted(directories.keys() - finished.keys() - state.sent_to(self._table).keys())
            ),
            removed=self._take_away(
                directories,
                state,
                known.checked.there.union(adopted, (one.ulid for one in shipped)),
            ),
        )

    def _look(
        self, finished: Mapping[str, Directory], state: ShipperState, *, rebuild: bool
    ) -> _Pass:
        log = self._log or Log(self._bucket, self._world)
        try:
            self._log = log.follow()
        except NotFound as error:
            self._log = None
            new = finished.keys() - state.sent_to(self._table).keys()
            if new or (self._remove and finished):
                had_one = self._indexed or self._table in state.indexed
                self._unindexed.begin(error, indexed=had_one)
            checked = self._check_lines(state, None)
            wanted = checked.gone | (new if rebuild else set())
            held = self._held(min(wanted)) if wanted else {}
            lost = frozenset(
                ulid for ulid in checked.gone if not held.keys() >= {*self._sources(ulid)}
            )
            return _Pass(state=None, held=held, checked=checked, lost=lost)
        self._indexed = True
        check_there(self._log.state, self._bucket.url)
        checked = self._check_lines(state, self._log.state)
        return _Pass(state=self._log.state, checked=checked, lost=checked.gone & checked.forgotten)

    def _check_lines(self, state: ShipperState, index: State | None) -> CheckedLines:
        lines = state.sent_to(self._table)
        return check_lines(
            self._bucket, self._world, lines, self._sources, index, removing=self._remove
        )

    def _sources(self, ulid: str) -> tuple[str, ...]:
        """Return the sources of a block of the folder; its own name if they cannot be read."""
        try:
            return load_meta(self._blocks.reader, ulid).sources
        except Corrupt:
            return (ulid,)

    def _held(self, oldest: str) -> Mapping[str, str]:
        """Return the holder of each source in a table without an index.

        Only blocks are read that can hold a source from ``oldest`` on.
        """
        first = ulid_at(max(0, ulid_time_ms(oldest) - _SKEW_MS))
        found = look(
            self._bucket,
            self._world,
            list_directories(self._bucket),
            skip=lambda ulid: ulid < first,
        )
        metas = [one.meta for one in found.values() if one.meta is not None and one.damage is None]
        return {source: meta.ulid for meta in metas for source in meta.sources}

    def _durable(self, directory: Directory, known: _Pass, advance: Advance) -> _Durable:
        """Make one block durable in the table, unless the table has its rows already."""
        meta = self._blocks.load(directory)
        check_wanted(meta, known.state, self._unindexed)
        holder = _holder(meta, known)
        if holder is not None:
            return _Durable(meta=meta, stored_ulid=holder, block=None)
        if known.state is not None and any(map(known.state.below_floor, meta.sources)):
            adopted, _ = self._late_fate(meta.ulid, known.state)
            if adopted is not None:
                return _Durable(meta=meta, stored_ulid=adopted, block=None)
        block = self._uploaded(meta, advance)
        return _Durable(meta=meta, stored_ulid=block.ulid, block=block)

    def _shown(self, durable: _Durable, state: State | None) -> ShippedBlock:
        """Publish a durable block, if that is the writer's task.

        Raises _Stop for a damaged index, which would refuse every block.
        """
        block, meta = durable.block, durable.meta
        shipped = ShippedBlock(
            ulid=meta.ulid,
            stored_ulid=durable.stored_ulid,
            rows=meta.rows,
            bytes=meta.bytes,
            already=block is None,
        )
        if block is None:
            return shipped
        if state is not None and any(map(state.below_floor, (block.ulid, *block.sources))):
            return replace(shipped, late=True)
        if block.level > 1 or self._log is None:
            return shipped
        try:
            published = publish(self._bucket, self._world, self._log, block)
        except Corrupt as error:
            raise _Stop from error
        return replace(
            shipped,
            stored_ulid=published.ulid or block.ulid,
            version=published.version,
            already=published.already,
        )

    def _uploaded(self, meta: BlockMeta, advance: Advance) -> BlockMeta:
        """Upload the folder's block ``meta`` and return the block that holds its rows (R3)."""
        origin, begun_ms = meta.ulid, self._world.clock.now_ms()
        self._blocks.verify(meta, origin)
        there = sizes_in(self._bucket, origin)
        try:
            if META in there:
                self._check_same(meta)
                durable = resume(self._bucket, self._world, origin)
                if durable is not None:
                    return durable
        except BlockCondemned:
            meta, there = self._successor(meta), {}
        left = _UPLOADS
        while True:
            send_missing(
                self._blocks.reader, self._bucket, self._world, meta, there, origin, advance
            )
            try:
                return finish_upload(
                    self._bucket, self._world, in_time(self._bucket, self._world, meta, begun_ms)
                )
            except BlockCondemned:
                left, begun_ms = left - 1, self._world.clock.now_ms()
                meta, there = self._successor(meta), {}
                if not left:
                    raise

    def _check_same(self, meta: BlockMeta) -> None:
        """Raise Conflict if the table has another block under this name."""
        try:
            if encode(load_meta(self._bucket, meta.ulid)) == encode(meta):
                return
        except ObjectMissing:
            return  # removed since it was listed: its upload is finished, or repeated
        raise Conflict(
            f"block {meta.ulid} in the table differs from the one in this folder: build its rows "
            "again; two devices must not share a folder or a source of randomness"
        )

    def _successor(self, refused: BlockMeta) -> BlockMeta:
        return successor(refused, self._world.ids.ulid(), self._world.clock.now_ms())

    def _late_fate(self, ulid: str, state: State | None) -> tuple[str | None, bool]:
        """Return the block as which a person has adopted a late one, and whether the late one is
        gone.

        Its mark names the new write, and the table has that; both are known until it is removed.
        """
        found = examine(self._bucket, list_directory(self._bucket, ulid))
        name = adopted_name(found.mark)
        if state is None or name is None or name not in state.accounted:
            name = None
        return name, META not in found.directory.objects

    def _take_away(
        self, directories: Mapping[str, Directory], state: ShipperState, durable: frozenset[str]
    ) -> tuple[str, ...]:
        """Delete from the folder what is durable in the table, if that was requested."""
        if not self._remove:
            if self._unsaved is not None:
                self._record(state, last=True)
            return ()
        sent = state.sent_to(self._table)
        gone = tuple(
            ulid
            for ulid in directories
            if ulid in durable
            and not (sent[ulid].late or sent[ulid].waits or self._is_lacked(state, ulid))
        )
        for ulid in gone:
            self._blocks.delete(directories[ulid])
        self._record(state.only(directories.keys() - set(gone)), last=True)
        return gone

    def _is_lacked(self, state: ShipperState, ulid: str) -> bool:
        """Return whether a block stays for another table; a person is warned of it once."""
        other = state.lacking(self._table, ulid)
        if other is not None and other not in self._warned:
            self._warned.add(other)
            _logger.warning(
                "blocks stay in %s until %s shows them too; if nothing is shipped there any more, "
                "delete %s in the folder",
                self._blocks.bucket.url,
                other,
                SHIPPER_STATE,
            )
        return other is not None

    def _record(self, state: ShipperState, *, last: bool = False) -> None:
        """Replace the folder's state, or keep it in memory while the folder has no space."""
        try:
            save(self._blocks.bucket, state)
        except NoSpace as error:
            self._unsaved = state
            if last:
                _logger.warning(
                    "%s: what was shipped is not recorded in %s; the table is asked again",
                    error,
                    SHIPPER_STATE,
                )
            return
        self._unsaved = None


def _waits(block: ShippedBlock, state: State | None) -> bool:
    """Return whether a block of a table with an index is left to discovery."""
    return state is not None and block.version is None and not block.already


def _holder(meta: BlockMeta, known: _Pass) -> str | None:
    """Return the block, or its name, that already accounts for all sources of ``meta``.

    Raises Invalid where the index accounts for some of them only: the block could not be added.
    """
    sources = meta.sources
    held = 0 if known.state is None else len(known.state.accounted.held(sources))
    if held == len(sources):
        return meta.ulid
    if held:
        raise Invalid(
            f"block {meta.ulid} cannot be shipped: it is a merge of {len(sources)} writes, and the "
            f"table has {held} of them already; ship the blocks that it was made of, or read its "
            "rows and append those whose _source the table does not have"
        )
    holders = {known.held.get(source) for source in sources}
    holder = holders.pop() if len(holders) == 1 else None
    # A block stored under its own name is checked completely (R3) before it is trusted.
    return holder if holder != meta.ulid else None
