"""Which blocks a version that can be requested still names: what marking and removal look at (R6,
R8).

Rules:
- The boundary is read first, **then** the state: what a later version brought back is then in the
  state.
- A version above the boundary names a block that is live in the newest one, or that an entry with
  id > boundary + 1 removed: it was live in the version before that entry. Entry boundary + 1 took
  its blocks from the boundary's own version, which cannot be requested.
- A version at or below the boundary is named by its tag alone, and read from the checkpoint that
  the tag pins. One that cannot be read raises an error: nothing may be removed on a guess.
- What was read is not read again: an entry's ``remove`` once, a tag's checkpoint once, also by a
  process that polls for months. A boundary that jumps past everything known leaves nothing to
  forget but that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import immutables

from blockstore.errors import Corrupt, Unavailable, VersionExpired
from blockstore.index import ulids
from blockstore.index.entry import decode_removed
from blockstore.index.history import History
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.names import checkpoint_key

_RESTARTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What the versions above ``boundary``, up to ``state``, and the tags of ``state`` name."""

    boundary: int
    state: State
    removed: Mapping[str, int] = field(default_factory=dict)
    """Blocks removed above the boundary, and the last entry that did it."""
    tagged: Mapping[int, ulids.UlidArray] = field(default_factory=dict)
    """The blocks of tagged versions at or below the boundary, sorted."""

    def names(self, ulid: str) -> bool:
        """Whether a version that can be requested has this block."""
        return self.why(ulid) is not None

    def others(self) -> Iterator[str]:
        """The blocks that earlier versions and tags name; some are live, and some come twice."""
        for ulid, until in self.removed.items():
            if until > self.boundary + 1:
                yield ulid
        for blocks in self.tagged.values():
            yield from ulids.to_texts(blocks)

    def why(self, ulid: str) -> str | None:
        """What names the block, for a message; None if nothing does."""
        if ulid in self.state.blocks:
            return f"version {self.state.version}"
        until = self.removed.get(ulid, 0)
        if until > self.boundary + 1:
            return f"version {until - 1}"
        for version, blocks in self.tagged.items():
            if ulids.position(blocks, ulid) is not None:
                tags = ", ".join(
                    repr(tag)
                    for tag, pinned in sorted(self.state.tags.items())
                    if pinned == version
                )
                return f"tag {tags}"
        return None


class Kept:
    """Follows one table's named blocks; for one thread."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known = 0
        self._boundary = 0
        self._removed: immutables.Map[str, int] = immutables.Map()
        self._tagged: dict[int, ulids.UlidArray] = {}

    def look(self) -> Named:
        """What is named now: three small requests if nothing has changed.

        Raises Corrupt where a tag's checkpoint is missing or damaged, or an entry is; nothing may
        be removed then.
        """
        for _ in range(_RESTARTS):
            boundary = self._log.boundary.read()
            state = self._log.poll()
            if self._follow(boundary, state) and self._load_tags(boundary, state):
                return Named(
                    boundary=boundary, state=state, removed=self._removed, tagged=dict(self._tagged)
                )
        raise Unavailable(
            f"what the versions of {self._log.bucket.url} name could not be read: the boundary or "
            f"a tag moved during each of {_RESTARTS} attempts; try again"
        )

    def _follow(self, boundary: int, state: State) -> bool:
        """Take in the entries not known yet; False if one of them was collected meanwhile."""
        if boundary > self._boundary:
            old = [ulid for ulid, until in self._removed.items() if until <= boundary + 1]
            removed = self._removed.mutate()
            for ulid in old:
                del removed[ulid]
            self._removed, self._boundary = removed.finish(), boundary
        first = max(boundary + 2, self._known + 1)
        if first > state.version:
            return True
        url = self._log.bucket.url
        try:
            for entry, data in History(self._log.reader, state).raw(first, state.version):
                removed = self._removed.mutate()
                for ulid in decode_removed(data, entry_id=entry, url=url):
                    removed[ulid] = entry
                self._removed, self._known = removed.finish(), entry
        except VersionExpired:
            return False
        return True

    def _load_tags(self, boundary: int, state: State) -> bool:
        """Read the checkpoints of tags that the boundary has passed;

        False if a tag was removed meanwhile.
        """
        passed = {version for version in state.tags.values() if version <= boundary}
        self._tagged = {
            version: blocks for version, blocks in self._tagged.items() if version in passed
        }
        reader = self._log.reader
        for version in sorted(passed - self._tagged.keys()):
            data = reader.checkpoint_data(version)
            if data is None:
                latest = self._log.poll()
                tags = [tag for tag, pinned in sorted(latest.tags.items()) if pinned == version]
                if not tags:
                    return False
                reader.looks.check_now(latest)
                raise Corrupt(
                    f"{checkpoint_key(version)} of {self._log.bucket.url} is missing although tag "
                    f"{tags[0]!r} pins version {version}, so it is not known which blocks it "
                    "names: restore it from a copy, or untag"
                )
            self._tagged[version] = ulids.from_texts(
                reader.checkpoint(data, version).blocks.ulids()
            )
        return True
