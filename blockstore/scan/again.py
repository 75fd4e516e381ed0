"""A plan of a snapshot whose leaves were collected since it was taken, or are damaged: made again,
over the same version on a root that is there.

Rules:
- The version must be of the same history: its last entry is compared by the digest of the chain.
  Another one is ``HistoryReplaced``, never other rows under the same number.
- The handle that is asked is the one that missed the leaf, so it passes over roots that name it.
- A few times: what is missing then is lost, and that is Corrupt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from blockstore.errors import BlockstoreError, Corrupt, HistoryReplaced, SnapshotExpired
from blockstore.index.checkpoint_name import how_to_replace_checkpoint
from blockstore.index.history import History
from blockstore.index.tree.blocks import LeafRows
from blockstore.scan.snapshot import Snapshot

A = TypeVar("A")

TRIES = 3
"""So often a version is read again."""


def made_again(error: BlockstoreError, snapshot: Snapshot, make: Callable[[Snapshot], A]) -> A:
    """What ``make`` returns of the snapshot's version, read again. Raises VersionExpired,
    HistoryReplaced, and Corrupt where a leaf is lost."""
    for _ in range(TRIES):
        snapshot = reopened(error, snapshot)
        try:
            return make(snapshot)
        except (SnapshotExpired, Corrupt) as again:
            error = again
    raise lost(error, snapshot)


def lost(error: BlockstoreError, snapshot: Snapshot) -> Corrupt:
    """The error where a version was read again, and a leaf is missing all the same."""
    return Corrupt(f"{error}: {how_to_replace_checkpoint(_url(snapshot))}")


def reopened(error: BlockstoreError, snapshot: Snapshot) -> Snapshot:
    """The snapshot on the blocks of its version, read again. Raises ``error`` where that is not for
    a leaf, or the snapshot is not all of a version."""
    rows = snapshot.blocks.base
    if not isinstance(rows, LeafRows) or not (isinstance(error, SnapshotExpired) or rows.is_broken):
        raise error
    handle = rows.loader.handle
    if snapshot.version is None or handle is None:
        raise error
    state = History(handle, handle.cold().state).at(snapshot.version)
    if state.last != snapshot.last:
        raise HistoryReplaced(
            f"version {snapshot.version} of {_url(snapshot)} is another one now than this snapshot "
            "was taken of: a copy was put back; open the table again"
        )
    if len(state.blocks) != len(snapshot.blocks):
        raise error
    return replace(snapshot, blocks=state.blocks)


def _url(snapshot: Snapshot) -> str:
    rows = snapshot.blocks.base
    return rows.loader.url if isinstance(rows, LeafRows) else "the table"
