"""Shipping finished blocks from a folder, where a device writes offline, to a table.

Invariants:
- The oldest first. Chunks, then meta.json, then the looks of R3, then the index entry: as an append
  does it, with its code.
- Each row counts once, whatever was killed and however often it is shipped: a block whose sources
  the table accounts for is not sent again; one that lies there complete is finished, not written
  anew; one that was refused by a mark goes on under a new ULID that keeps its source, and the
  folder's state remembers the name.
- A damaged block is refused by name before any byte of it is visible, and so is one that no table
  could show; the others go on. What the store does (no answer, no right, no space) stops the pass,
  and the next one goes on from there.
- Nothing is sent twice that lies in the bucket with its size and SHA-256.
- A block above the horizon is published; one at or below it is left to discovery, one at or below
  the floor is uploaded and reported to a person (protocol 3.6).
- Only what is durable in the table, and written down as such, may be taken from the folder, and
  only when asked.
- What was written down is compared with the table as it is now before it is believed
  (``shipped.py``).
- Nothing is shipped to a place without a table, and nothing taken from the folder for one that is
  gone (``joining.py``).

Works with create-if-absent or without: a store with PUT, GET and LIST has tables without an index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from blockstore.bucket.api import Bucket
from blockstore.care.adopted import adopted_name
from blockstore.care.finished import FinishedBlocks
from blockstore.care.joining import Joining
from blockstore.care.shipped import Looked, look_at_lines
from blockstore.care.shipper_state import Sent, ShipperState, load, save
from blockstore.care.transfer import Advance, holds, patient, place, send_file, sizes_in
from blockstore.care.verify.examine import examine, list_directory
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
    NotFound,
    ObjectMissing,
)
from blockstore.format.block import BlockMeta, ChunkFile, VisibleBy
from blockstore.format.meta import encode, load_meta
from blockstore.ids import ulid_at, ulid_time_ms
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.lifecycle.listing import Directory, list_directories, look
from blockstore.lifecycle.upload import finish_upload, in_time, resume, successor
from blockstore.names import META, SHIPPER_STATE
from blockstore.operations.append import publish
from blockstore.world import World

__all__ = ["RefusedBlock", "ShipReport", "ShippedBlock", "Shipper"]

_REFUSALS = (Corrupt, Invalid, Conflict, Indeterminate)
"""What keeps one block back, and leaves the others."""
_THE_STORES = (AccessDenied, BoundaryLost, Fenced, HistoryReplaced)
"""What would meet every block alike."""
_UPLOADS = 5
_SKEW_MS = 24 * 3600 * 1000
"""A merge is younger than its sources, by clocks that may be wrong by so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedBlock:
    """A block of the folder that is durable in the table now."""

    ulid: str
    lies_as: str
    """Its name in the table."""
    rows: int
    bytes: int
    version: int | None = None
    """The index entry that shows it;

    None: it becomes visible by its age, or once a person lets it.
    """
    already: bool = False
    """The table had its rows before this pass."""
    late: bool = False
    """It lies at or below the table's floor, and is not shown until a person decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBlock:
    """A block that was left in the folder, or, if ``late``, lies in the table and is not shown."""

    ulid: str
    reason: str
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipReport:
    """What one pass did."""

    shipped: tuple[ShippedBlock, ...] = ()
    refused: tuple[RefusedBlock, ...] = ()
    unfinished: tuple[str, ...] = ()
    """Directories without a meta.json: still being written."""
    removed: tuple[str, ...] = ()
    """Blocks taken from the folder, because they are durable in the table."""


class _Stop(Exception):
    """The table's index is damaged; its cause says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Durable:
    """A block of the folder whose rows the table holds."""

    meta: BlockMeta
    lies_as: str
    block: BlockMeta | None
    """As it lies there now; None where the table accounted for its rows before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """What a pass knows of the table before it begins."""

    state: State | None
    held: Mapping[str, str] = field(default_factory=dict)
    """Of a table without an index whose folder has no state, or a wrong one: source to the block
    that holds it."""
    looked: Looked = field(default_factory=Looked)
    """What the table says of the state's lines."""
    lost: frozenset[str] = frozenset()
    """Blocks that are said to be shipped and are not there; a person decides whether they are
    shipped again."""


class Shipper:
    """Ships from one folder to one table.

    Keep it between passes: it keeps what it read of the index.
    """

    def __init__(
        self, folder: Bucket, target: Bucket, world: World, *, remove_shipped: bool = False
    ) -> None:
        if place(folder) == place(target):
            raise Invalid(
                f"{target.url} is the folder itself: name the table that its blocks are for"
            )
        self._blocks = FinishedBlocks(folder)
        self._blocks.check()
        self._bucket = patient(target, world)
        self._table = place(target)
        self._world = world
        self._log: Log | None = None
        self._joining = Joining(self._bucket, world)
        self._remove = remove_shipped

    def waiting_bytes(self) -> int:
        """The size of what the folder holds and the state does not call shipped: for a progress
        bar."""
        state = load(self._blocks.bucket) or ShipperState()
        sent = state.sent_to(self._table)
        return sum(
            found.size
            for ulid, directory in self._blocks.directories().items()
            if ulid not in sent and META in directory.objects
            for found in directory.objects.values()
        )

    def once(self, advance: Advance = lambda _: None) -> ShipReport:
        """Ship what is finished now.

        Raises what keeps the whole pass from going on; the next one continues.
        """
        directories = self._blocks.directories()
        finished = {ulid: one for ulid, one in directories.items() if META in one.objects}
        remembered = load(self._blocks.bucket)
        state = (remembered or ShipperState()).only(directories)
        known = self._look(finished, state, rebuild=remembered is None)
        state = state.without(self._table, known.looked.gone - known.lost)
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
                sent = Sent(lies_as=block.lies_as, late=block.late)
                state = state.with_sent(self._table, ulid, sent)
                save(self._blocks.bucket, state)
                shipped.append(block)
            if ulid in known.lost:
                refused.append(RefusedBlock(ulid=ulid, reason=_lost(sent)))
            if sent.late and self._was_adopted(sent.lies_as, known.state):
                sent = replace(sent, late=False)
                state = state.with_sent(self._table, ulid, sent)
                save(self._blocks.bucket, state)
                adopted.append(ulid)
            if sent.late:
                refused.append(RefusedBlock(ulid=ulid, reason=_too_late(sent), late=True))
        return ShipReport(
            shipped=tuple(shipped),
            refused=tuple(refused),
            unfinished=tuple(
                sorted(directories.keys() - finished.keys() - state.sent_to(self._table).keys())
            ),
            removed=self._take_away(
                directories, state, known.looked.there.union(adopted, (one.ulid for one in shipped))
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
                self._joining.begin(error)
            looked = self._look_at_lines(state, None)
            wanted = looked.gone | (new if rebuild else set())
            held = self._held(min(wanted)) if wanted else {}
            lost = frozenset(
                ulid for ulid in looked.gone if not held.keys() >= {*self._sources(ulid)}
            )
            return _Pass(state=None, held=held, looked=looked, lost=lost)
        looked = self._look_at_lines(state, self._log.state)
        return _Pass(state=self._log.state, looked=looked, lost=looked.gone & looked.forgotten)

    def _look_at_lines(self, state: ShipperState, index: State | None) -> Looked:
        lines = state.sent_to(self._table)
        return look_at_lines(
            self._bucket, self._world, lines, self._sources, index, removing=self._remove
        )

    def _sources(self, ulid: str) -> tuple[str, ...]:
        """The sources of a block of the folder; its own name where they cannot be read."""
        try:
            return load_meta(self._blocks.reader, ulid).sources
        except Corrupt:
            return (ulid,)

    def _held(self, oldest: str) -> Mapping[str, str]:
        """Who in a table without an index holds which source, among blocks that can hold one from
        ``oldest`` on."""
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
        """Make one block durable in the table, unless its rows are there already."""
        meta = self._blocks.load(directory)
        self._check_wanted(meta, known.state)
        holder = _holder(meta, known)
        if holder is not None:
            return _Durable(meta=meta, lies_as=holder, block=None)
        block = self._uploaded(meta, advance)
        return _Durable(meta=meta, lies_as=block.ulid, block=block)

    def _shown(self, durable: _Durable, state: State | None) -> ShippedBlock:
        """Publish a durable block, where that is for a writer to do. A damaged index stops the
        pass: it would meet every block alike."""
        block, meta = durable.block, durable.meta
        shipped = ShippedBlock(
            ulid=meta.ulid,
            lies_as=durable.lies_as,
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
            answer = publish(self._bucket, self._world, self._log, block)
        except Corrupt as error:
            raise _Stop from error
        return replace(
            shipped,
            lies_as=answer.ulid or block.ulid,
            version=answer.version,
            already=answer.already,
        )

    def _check_wanted(self, meta: BlockMeta, state: State | None) -> None:
        """Raise Invalid for a block that the table could never show."""
        if meta.visible_by is VisibleBy.INDEX:
            raise Invalid(
                f"block {meta.ulid} is a transaction's and visible by its index entry only, which "
                "is not in this folder: copy "
                "the table it belongs to with 'blockstore replicate', or write its rows again"
            )
        if state is None:
            contradiction = self._joining.why_not(meta.schema)
            if contradiction is not None:
                raise Invalid(
                    f"block {meta.ulid} contradicts the blocks in {self._bucket.url}: "
                    f"{contradiction}; build it again under the "
                    "table's definition (--like), or ship it to another table"
                )
            return
        if meta.time_column != state.definition.time_column:
            raise Invalid(
                f"block {meta.ulid} says that its times are those of {meta.time_column!r}, and "
                "the table's are those of "
                f"{state.definition.time_column!r}: build its rows again under the table's "
                "definition (--like)"
            )
        if state.definition.id_of(meta.schema) is None:
            raise Invalid(
                f"block {meta.ulid} has a schema that the table does not know, expected one of the "
                f"{len(state.definition.schemas)} of its definition: build it again under the "
                "table's (--like), or alter the "
                "table"
            )

    def _uploaded(self, meta: BlockMeta, advance: Advance) -> BlockMeta:
        """The block in the table that holds, under R3, the rows of the folder's block ``meta``."""
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
            meta, there = self._anew(meta), {}
        for _ in range(_UPLOADS):
            self._send(meta, origin, there, advance)
            try:
                return finish_upload(
                    self._bucket, self._world, in_time(self._bucket, self._world, meta, begun_ms)
                )
            except BlockCondemned as error:
                condemned, begun_ms = error, self._world.clock.now_ms()
                meta, there = self._anew(meta), {}
        raise condemned

    def _check_same(self, meta: BlockMeta) -> None:
        """Raise Conflict where another block lies in the table under this name."""
        try:
            if encode(load_meta(self._bucket, meta.ulid)) == encode(meta):
                return
        except ObjectMissing:
            return  # gone since it was listed: its upload is finished, or made again
        raise Conflict(
            f"block {meta.ulid} in the table is another one than the one in this folder: two "
            "devices must not share a "
            "folder or a source of randomness; build its rows again"
        )

    def _anew(self, refused: BlockMeta) -> BlockMeta:
        return successor(refused, self._world.ids.ulid(), self._world.clock.now_ms())

    def _send(
        self, meta: BlockMeta, origin: str, there: Mapping[str, int], advance: Advance
    ) -> None:
        """Send the files of the folder's block ``origin`` that do not lie under ``meta``'s name
        yet."""

        def send(file: ChunkFile) -> None:
            if holds(self._bucket, meta.ulid, file, there.get(file.path)):
                advance(file.bytes)
                return
            send_file(
                self._blocks.reader, self._bucket, origin, file, lies_as=meta.ulid, advance=advance
            )

        self._world.pool.map(send, meta.files)

    def _was_adopted(self, ulid: str, state: State | None) -> bool:
        """Whether a person has let a late block in: its mark names the write that its rows are, and
        the table has that."""
        name = adopted_name(examine(self._bucket, list_directory(self._bucket, ulid)).mark)
        return state is not None and name is not None and bool(state.accounted.held([name]))

    def _take_away(
        self, directories: Mapping[str, Directory], state: ShipperState, durable: frozenset[str]
    ) -> tuple[str, ...]:
        """Delete from the folder what is durable in the table, if asked."""
        if not self._remove:
            return ()
        sent = state.sent_to(self._table)
        gone = tuple(ulid for ulid in directories if ulid in durable and not sent[ulid].late)
        for ulid in gone:
            self._blocks.take_away(directories[ulid])
        save(self._blocks.bucket, state.only(directories.keys() - set(gone)))
        return gone


def _holder(meta: BlockMeta, known: _Pass) -> str | None:
    """The block, or a name for it, that accounts for all sources of ``meta`` in the table
    already."""
    sources = meta.sources
    if known.state is not None and len(known.state.accounted.held(sources)) == len(sources):
        return meta.ulid
    holders = {known.held.get(source) for source in sources}
    holder = holders.pop() if len(holders) == 1 else None
    # A block that lies there under its own name is looked at whole (R3) before it is believed.
    return holder if holder != meta.ulid else None


def _lost(sent: Sent) -> str:
    return (
        f"block {sent.lies_as} was shipped and is not in the table now, nor is it known that "
        "others hold its rows: if the table "
        f"was lost, delete {SHIPPER_STATE} in the folder, and what the table lacks is shipped "
        "again; if the block was removed "
        "there on purpose, delete it here"
    )


def _too_late(sent: Sent) -> str:
    return (
        f"block {sent.lies_as} was uploaded and is at or below the table's floor: it comes too "
        "late to be told from a write "
        "that was removed, and readers leave it out; let a person decide with 'blockstore repair "
        "--adopt'"
    )
