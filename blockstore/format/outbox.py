"""Small chunks that are complete and not sent yet: sent side by side, where each alone would wait
for the one before it.

Rules:
- At most ``limit`` bytes are held; a chunk beyond that sends all.
- A chunk that becomes a file of this machine is written at once: there is nothing to wait for.
- After an error nothing of it is sent again: the write that it belongs to is over.
"""

from __future__ import annotations

from blockstore.bucket.api import Bucket
from blockstore.world import World

_LIMIT = 16 * 1024 * 1024


class Outbox:
    """The small chunks of one block on their way to ``bucket``."""

    def __init__(self, bucket: Bucket, world: World, *, limit: int = _LIMIT) -> None:
        self._bucket = bucket
        self._world = world
        self._limit = limit
        self._held: list[tuple[str, bytes]] = []

    def put(self, key: str, data: bytes) -> None:
        """Take an object; it is in the bucket once ``send`` has returned."""
        if self._bucket.path_of(key) is not None:
            self._bucket.put(key, data)
            return
        self._held.append((key, data))
        if sum(len(data) for _, data in self._held) > self._limit:
            self.send()

    def send(self) -> None:
        """PUT what is held. Raises the first error of the bucket, after all have ended."""
        held, self._held = self._held, []
        self._world.pool.map(lambda one: self._bucket.put(*one), held)

    def drop(self) -> None:
        """Forget what is held."""
        self._held = []
