"""Copy a table, with its index or without, to another place, one pass at a time.

Invariants:
- The copy is the same table: the same blocks under the same names, the same entries, tags and
  marks. At every moment its readers see a complete earlier state of the source.
- A pass may die anywhere. The next one continues, and does not copy again what is complete.
- Blocks first, then what makes them count: with an index its entries (``index.py``), without one
  their meta.json.
- No other process writes to a replica, and no compactor cleans it. A fork raises an error; a mark
  that the source does not have is withdrawn.
- Nothing is removed. What the source has removed stays, with no version that names it or superseded
  in the cover, until the copy becomes a table of its own and its own compactor cleans it.

A damaged block that a version names stops the copy of the index before that version. Any other
damaged block is left out and reported, and the others continue.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.bucket.api import Bucket, is_there
from blockstore.bucket.wrapper import ReadOnly
from blockstore.care.replicate.blocks import BlockCopier, Gone
from blockstore.care.replicate.index import IndexCopier
from blockstore.care.ship import RefusedBlock
from blockstore.care.transfer import Advance, patient, place
from blockstore.errors import Conflict, Corrupt, Invalid, NotFound
from blockstore.format.block import VisibleBy
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.lifecycle.listing import Listing, list_directories, look
from blockstore.lifecycle.standing import is_known
from blockstore.names import META, meta_key
from blockstore.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationReport:
    """The result of one pass."""

    version: int | None
    """The replica's version now; None for a table without an index."""
    entries: int
    blocks: int
    bytes: int
    marked: int
    withdrawn: int
    """Marks removed from the replica, because the source no longer has them."""
    left_behind: int
    """Blocks that the source has removed and the replica still has."""
    refused: tuple[RefusedBlock, ...] = ()


class Replicator:
    """Copies one table to one place.

    Keep it between passes: it caches what it read of both indexes.
    """

    def __init__(self, source: Bucket, target: Bucket, world: World) -> None:
        if place(source) == place(target):
            raise Invalid(f"{target.url} is the source itself: name another place for the replica")
        self._source = ReadOnly(patient(source, world))
        self._target = patient(target, world)
        self._world = world
        self._index: IndexCopier | None = None

    def once(self, advance: Advance = lambda _: None) -> ReplicationReport:
        """Bring the replica to the current state of the source.

        Raises Conflict if the target is not a replica of it.
        """
        if self._index is None:
            log = Log(self._source, self._world)
            try:
                log.poll()
            except NotFound:
                return self._pass(None, advance)
            self._index = IndexCopier(log, self._target, self._world)
        try:
            return self._pass(self._index, advance)
        except NotFound:
            # The source may have been dropped, and created again without an index.
            self._index = None
            raise

    def _pass(self, index: IndexCopier | None, advance: Advance) -> ReplicationReport:
        here, there = list_directories(self._source), list_directories(self._target)
        self._check_target(here, there, indexed=index is not None)
        blocks = BlockCopier(self._source, self._target, self._world, here, there, advance)
        before = 0 if index is None else index.entries
        state = None if index is None else index.run(blocks)
        refused = self._copy_aged(here, state, blocks)
        blocks.mirror_marks()
        return ReplicationReport(
            version=None if state is None else state.version,
            entries=0 if index is None else index.entries - before,
            blocks=len(blocks.copied),
            bytes=blocks.bytes,
            marked=blocks.marked,
            withdrawn=blocks.withdrawn,
            left_behind=blocks.left_behind(),
            refused=refused,
        )

    def _copy_aged(
        self, here: Listing, state: State | None, blocks: BlockCopier
    ) -> tuple[RefusedBlock, ...]:
        """Copy the blocks that are visible by their age, and return those that are damaged."""
        refused = []
        for ulid, directory in here.directories.items():
            if META not in directory.objects or ulid in blocks.there or is_known(ulid, state):
                continue
            try:
                if state is None or blocks.read(ulid).meta.visible_by is VisibleBy.AGE:
                    blocks.complete([ulid])
            except Corrupt as error:
                refused.append(RefusedBlock(ulid=ulid, reason=str(error)))
            except Gone:
                if is_there(self._source, meta_key(ulid)):
                    reason = (
                        f"block {ulid}: a file that its meta.json names is missing: restore it "
                        "from a copy"
                    )
                    refused.append(RefusedBlock(ulid=ulid, reason=reason))
        return tuple(refused)

    def _check_target(self, here: Listing, there: Listing, *, indexed: bool) -> None:
        """Raise NotFound if the source is not a table, Conflict if the target cannot become its
        replica."""
        mine, theirs = _complete(here), _complete(there)
        if not indexed and not mine:
            raise NotFound(
                f"no table at {self._source.url}: found neither an index nor a complete block; "
                "check the URL"
            )
        replica = Log(self._target, self._world)
        try:
            replica.poll()
        except NotFound:
            pass
        else:
            if indexed:
                return  # IndexCopier checks each entry
            raise Conflict(
                f"{self._target.url} has an index, and {self._source.url} has none: replicate to "
                "an empty place"
            )
        if theirs and not theirs & mine and not self._share_sources(here, there):
            raise Conflict(
                f"{self._target.url} has blocks (such as {min(theirs)}), but none of "
                f"{self._source.url}: it is another table; replicate to an empty place"
            )
        for ulid in theirs & mine:
            if (
                here.directories[ulid].objects[META].size
                != there.directories[ulid].objects[META].size
            ):
                raise Conflict(
                    f"block {ulid} of {self._target.url} differs from that of {self._source.url}: "
                    "replicate to an empty place"
                )

    def _share_sources(self, here: Listing, there: Listing) -> bool:
        """Return whether blocks of both account for a common write.

        That is so for a replica whose blocks were all merged away at the source.
        """
        sources = [
            {
                source
                for found in look(bucket, self._world, listing).values()
                if found.meta is not None
                for source in found.meta.sources
            }
            for bucket, listing in ((self._source, here), (self._target, there))
        ]
        return not sources[0].isdisjoint(sources[1])


def _complete(listing: Listing) -> set[str]:
    return {ulid for ulid, directory in listing.directories.items() if META in directory.objects}
