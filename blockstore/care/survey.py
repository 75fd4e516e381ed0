"""Read as much of an index as is possible, past damaged objects: the basis of ``verify``,
``repair`` and ``rebuild``.

A reader stops at the first damaged object, as it must (protocol 3.5). A survey continues, and
reports the damage. Rules:
- Objects at or below a readable boundary are not read: they are void.
- The fold begins at the oldest checkpoint that is left and follows every entry. After a gap it
  continues from the next checkpoint, because a checkpoint equals the fold. ``state`` is the last
  state reached; ``later`` are the readable entries above it, which no reader can follow.
- Without a boundary only the newest readable checkpoint counts: entries before it may be void.
- The boundary is read before and after (the double look): if it moved, the survey is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from blockstore.bucket.api import ReadBucket
from blockstore.errors import BoundaryLost, Corrupt, ObjectMissing, Unavailable
from blockstore.format.block import BlockMeta
from blockstore.format.features import TREE
from blockstore.index.added import AddedBlock
from blockstore.index.boundary import Boundary
from blockstore.index.checkpoint import decode_checkpoint, encode_checkpoint, holds_state
from blockstore.index.entry import Entry
from blockstore.index.fold import fold
from blockstore.index.read import IndexReader
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.names import BOUNDARY, checkpoint_key, entry_key
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.index.tree.loading import Leaves

REPAIR = "repair"
"""The reason in an entry by which a repair replaced damaged blocks."""
_RESTARTS = 5
_PAGE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A block that an entry removed during the fold."""

    block: LiveBlock
    """Without statistics."""
    entry: int
    by_repair: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The result of reading an index."""

    indexed: bool
    """Whether any part of an index exists."""
    boundary: int | None
    """None if it cannot be read."""
    lost: str | None
    """Why the boundary cannot be read; None if it can."""
    entries: tuple[int, ...]
    """The entries listed above the boundary; all of them if it is lost."""
    missing: tuple[tuple[int, int], ...]
    """The gaps among them, first and last."""
    damaged: Mapping[int, str]
    """Entries that cannot be read, or do not follow from the state before them."""
    checkpoints: tuple[int, ...]
    """The checkpoints listed at or above the boundary."""
    bad_checkpoints: Mapping[int, str]
    """Those among them that were compared, and cannot be read or do not equal the fold."""
    folded: Mapping[int, State]
    """For each bad checkpoint that the fold reached: the state that it should contain."""
    base: int
    """The version of the last checkpoint from which the fold continued; 0 if it began with entry
    1."""
    state: State | None
    """The state as far as the entries can be followed."""
    later: tuple[Entry, ...]
    """Readable entries above ``state``, oldest first."""
    void: tuple[Entry, ...] = ()
    """Void entries: written on top of another history, and skipped by every reader."""
    removed: Mapping[str, Removed] = field(default_factory=dict)
    """Blocks that a version above the boundary names and a later one does not, by their last
    removal."""

    @property
    def added_later(self) -> Mapping[str, AddedBlock]:
        """Blocks that a later entry adds and none after it removes: live as far as is known."""
        added: dict[str, AddedBlock] = {}
        for entry in self.later:
            for ulid in entry.remove:
                added.pop(ulid, None)
            added.update({block.ulid: block for block in entry.add})
        return added

    @property
    def removed_later(self) -> frozenset[str]:
        """Blocks that a later entry removes."""
        return frozenset(ulid for entry in self.later for ulid in entry.remove)

    @property
    def highest(self) -> int:
        """The highest id seen anywhere."""
        return max((0, self.boundary or 0, *self.entries[-1:], *self.checkpoints[-1:]))

    @property
    def is_complete(self) -> bool:
        """Whether ``state`` is certainly the newest version.

        The latest entry is never deleted, so if it exists and was reached, nothing came after it.
        """
        newest = self.entries[-1] if self.entries else None
        return self.state is not None and self.state.version == newest == self.highest


@dataclass(slots=True)
class _Look:
    """The survey while it runs."""

    damaged: dict[int, str] = field(default_factory=dict)
    bad_checkpoints: dict[int, str] = field(default_factory=dict)
    folded: dict[int, State] = field(default_factory=dict)
    base: int = 0
    state: State | None = None
    reached: State | None = None
    later: list[Entry] = field(default_factory=list)
    void: dict[int, Entry] = field(default_factory=dict)
    removed: dict[str, Removed] = field(default_factory=dict)
    named_from: int | None = None
    """Blocks that an entry from here on removes are named by the version before it (R8).

    None if that is not known.
    """


def survey(
    bucket: ReadBucket,
    world: World,
    *,
    every_checkpoint: bool = False,
    advance: Callable[[float], None] = lambda _: None,
) -> Survey:
    """Read a complete index.

    ``every_checkpoint`` compares each checkpoint with the fold, otherwise only the newest.
    ``advance`` is called with the number of entries read.
    """
    for _ in range(_RESTARTS):
        found = _survey(bucket, world, every_checkpoint, advance)
        if _boundary(bucket, world)[0] == found.boundary:
            return found
    raise Unavailable(
        f"the boundary of {bucket.url} moved each of the {_RESTARTS} times that its index was "
        "read: try again"
    )


def state_at(bucket: ReadBucket, world: World, found: Survey, version: int) -> State | None:
    """Fold the state of a version above the boundary from the checkpoint before it.

    None if an entry between them is missing or damaged.
    """
    if found.boundary is None:
        return None
    before = [
        one for one in found.checkpoints if one < version and one not in found.bad_checkpoints
    ]
    try:
        state = read_checkpoint(bucket, before[-1]) if before else State.EMPTY
        if not before and found.boundary:
            return None
        reader = IndexReader(bucket, world, Boundary(bucket, world))
        for start in range(state.version + 1, version + 1, _PAGE):
            page = range(start, min(start + _PAGE, version + 1))
            for entry, data in zip(page, reader.get_all(page), strict=True):
                if data is None:
                    return None
                state = fold(state, reader.decode(data, entry, state.last))
    except Corrupt:
        return None
    return state


def slim(meta: BlockMeta) -> BlockMeta:
    """Return the meta without statistics, which would fill the memory for thousands of blocks."""
    return replace(meta, files=tuple(replace(file, columns={}) for file in meta.files))


def read_checkpoint(bucket: ReadBucket, version: int) -> State:
    """Read and decode a complete checkpoint. Raises Corrupt, also if it is missing."""
    try:
        state = decode_checkpoint(
            bucket.get(checkpoint_key(version)).data,
            version=version,
            leaves=lambda: _leaves_of(bucket),
        )
    except ObjectMissing:
        raise Corrupt(f"{checkpoint_key(version)} is missing") from None
    if state.root is not None:
        broken = broken_leaves_of(bucket, state)
        if broken:
            raise Corrupt(f"{checkpoint_key(version)} is not whole: {min(broken.values())}")
    for _ in state.blocks:
        pass
    return state


def broken_leaves_of(bucket: ReadBucket, state: State) -> dict[str, str]:
    """The leaves that the root of a state names and that are missing or damaged, and what is wrong
    with each."""
    from blockstore.index.tree.open import base_of
    from blockstore.index.tree.repair import broken_leaves

    root = base_of(state)
    return {} if root is None else broken_leaves(bucket, root)


def _leaves_of(bucket: ReadBucket) -> Leaves:
    from blockstore.index.tree.loading import leaves_of

    return leaves_of(bucket)


def _survey(
    bucket: ReadBucket, world: World, every: bool, advance: Callable[[float], None]
) -> Survey:
    boundary, lost = _boundary(bucket, world)
    reader = IndexReader(bucket, world, Boundary(bucket, world))
    entries = reader.entries(boundary or 0)
    checkpoints = reader.checkpoints(boundary or 0)
    look = _Look()
    if boundary is not None:
        look.named_from = boundary + 2
        look.state = State.EMPTY if boundary == 0 else None
        compared = set(checkpoints if every else checkpoints[-1:])
        followed: Iterable[int] = entries
        usable = checkpoints
    else:
        look.state = _newest(bucket, checkpoints, look) or (
            State.EMPTY if entries[:1] == [1] else None
        )
        look.base = 0 if look.state is None else look.state.version
        followed = [entry for entry in entries if entry > look.base]
        usable = []
        compared = set(look.bad_checkpoints)
    look.reached = look.state if look.state is not None and look.state.version else None
    _follow(reader, bucket, list(followed), usable, compared, look, advance)
    return Survey(
        indexed=boundary is not None or bool(entries or checkpoints) or lost != _MISSING,
        boundary=boundary,
        lost=lost,
        entries=tuple(entries),
        missing=_holes(entries, boundary),
        damaged=look.damaged,
        checkpoints=tuple(checkpoints),
        bad_checkpoints=look.bad_checkpoints,
        folded=look.folded,
        base=look.base,
        state=look.reached,
        later=tuple(look.later),
        void=tuple(look.void.values()),
        removed=look.removed,
    )


_MISSING = f"{BOUNDARY} is missing"


def _boundary(bucket: ReadBucket, world: World) -> tuple[int | None, str | None]:
    try:
        value = Boundary(bucket, world).look()
    except BoundaryLost as error:
        return None, str(error)
    return (value, None) if value is not None else (None, _MISSING)


def _newest(bucket: ReadBucket, checkpoints: list[int], look: _Look) -> State | None:
    """Read the newest checkpoint that can be read."""
    for version in reversed(checkpoints):
        try:
            return read_checkpoint(bucket, version)
        except Corrupt as error:
            look.bad_checkpoints[version] = str(error)
    return None


def _follow(
    reader: IndexReader,
    bucket: ReadBucket,
    entries: list[int],
    checkpoints: list[int],
    compared: set[int],
    look: _Look,
    advance: Callable[[float], None],
) -> None:
    """Fold the entries one after the other, and compare the checkpoints."""
    bases = list(checkpoints)
    for start in range(0, len(entries), _PAGE):
        page = entries[start : start + _PAGE]
        for entry, data in zip(page, reader.get_all(page), strict=True):
            _rebase(bucket, bases, entry, look)
            if data is None:
                look.damaged[entry] = f"{entry_key(entry)} was listed, but is gone"
            else:
                _step(reader, entry, data, look)
            if look.state is not None and look.state.version in compared:
                _compare(bucket, look.state, look)
        advance(len(page))
    for version in bases:
        _rebase(bucket, [version], version + 1, look)


def _rebase(bucket: ReadBucket, bases: list[int], entry: int, look: _Look) -> None:
    """If the fold has not reached ``entry``, continue it from a checkpoint directly before."""
    while bases and bases[0] < entry:
        version = bases.pop(0)
        reached = 0 if look.state is None else look.state.version
        if version <= reached or version in look.bad_checkpoints:
            continue
        try:
            look.state = look.reached = read_checkpoint(bucket, version)
            look.base = version
        except Corrupt as error:
            look.bad_checkpoints[version] = str(error)
        else:
            look.later.clear()


def _step(reader: IndexReader, entry: int, data: bytes, look: _Look) -> None:
    below = look.state.last if look.state is not None and look.state.version == entry - 1 else None
    try:
        decoded = reader.decode(data, entry, below)
    except Corrupt as error:
        look.damaged[entry] = str(error)
        return
    if look.state is None or look.state.version != entry - 1:
        look.later.append(decoded)
        return
    before = look.state
    try:
        look.state = look.reached = fold(look.state, decoded)
        if entry in look.state.void[-1:]:
            look.void[entry] = decoded
        elif look.named_from is not None and entry >= look.named_from:
            look.removed.update(_removed(before, decoded))
    except Corrupt as error:
        look.damaged[entry] = str(error)
        look.later.append(decoded)


def _removed(before: State, entry: Entry) -> Iterator[tuple[str, Removed]]:
    by_repair = entry.parameters.get("reason") == REPAIR
    for ulid in entry.remove:
        block = before.blocks.get(ulid)
        if block is not None:
            found = replace(block, meta=slim(block.meta))
            yield ulid, Removed(block=found, entry=entry.id, by_repair=by_repair)


def _compare(bucket: ReadBucket, state: State, look: _Look) -> None:
    """Compare the checkpoint of this version with the fold."""
    key = checkpoint_key(state.version)
    problem = None
    try:
        data = bucket.get(key).data
        if TREE in state.requires:
            same = holds_state(read_checkpoint(bucket, state.version), state)
        else:
            same = data == encode_checkpoint(state) or (
                decode_checkpoint(data, version=state.version) == state
            )
        if not same:
            problem = f"{key} differs from the state that the entries up to {state.version} produce"
    except ObjectMissing:
        return
    except Corrupt as error:
        problem = str(error)
    if problem is not None:
        look.bad_checkpoints[state.version] = problem
        look.folded[state.version] = state


def _holes(entries: list[int], boundary: int | None) -> tuple[tuple[int, int], ...]:
    known = entries if boundary is None else [boundary, *entries]
    return tuple(
        (before + 1, after - 1) for before, after in pairwise(known) if after != before + 1
    )
