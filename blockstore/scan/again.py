"""A plan of a snapshot whose leaves were collected since it was taken: made again, over the same
version on a root that is there.

Rules:
- The version must be of the same history: its last entry is compared by the digest of the chain.
  Another one is ``HistoryReplaced``, never other rows under the same number.
- Once: what is missing then is missing.
"""

from __future__ import annotations

from dataclasses import replace

from blockstore.bucket import ReadBucket
from blockstore.errors import HistoryReplaced, SnapshotExpired
from blockstore.index.log import Log
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World


def reopened(bucket: ReadBucket, world: World, snapshot: Snapshot) -> Snapshot:
    """The snapshot on the blocks of its version, read again. Raises SnapshotExpired where it has no
    version."""
    if snapshot.version is None:
        raise SnapshotExpired(f"a snapshot of {bucket.url} has no version to be read again")
    state = Log(bucket, world).at(snapshot.version)
    if state.last != snapshot.last:
        raise HistoryReplaced(
            f"version {snapshot.version} of {bucket.url} is another one now than this snapshot "
            "was taken of: a copy was put back; open the table again"
        )
    return replace(snapshot, blocks=state.blocks)
