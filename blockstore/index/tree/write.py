"""Writing a root: the leaves that are not there, then the root, then a look whether it may be
relied on (decision 62).

Rules:
- Leaves are taken only from the root that the state itself was read from, or written as. Its
  version is at most the state's.
- A leaf that is there already is compared with its hash, and written again under its name where it
  is damaged: the name says what it must hold.
- A root that is there already, of the same history and with equal leaves, is as good as one
  written. One of another history is left alone, and nothing rests on it.
- The base is read just before, and where it is gone or another one, the root gets leaves of its
  own: all others believe what names it.
- A look gets the bytes of a root each time; what bytes say is remembered, so those that the process
  has written or read before are not read again.
- The process relies on the root after looks that come after it. A copy may have been put back
  meanwhile, so all of its leaves are there, and the root itself. The base is unchanged, or was
  collected and proves nothing more. The boundary lets the root be relied on. Where one fails the
  root stays, and a later version has its own, from a state that is read again; the process
  remembers which leaves it missed, and passes over roots that name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from blockstore.bucket.api import Bucket, ReadBucket, is_there
from blockstore.errors import AlreadyExists, Corrupt, ObjectMissing
from blockstore.index.blocks import Blocks
from blockstore.index.checkpoint import decode_checkpoint, encode_root
from blockstore.index.checkpoint_name import NamedCheckpoint, name_of
from blockstore.index.state import State
from blockstore.index.tree.believed import proven_now, root_of
from blockstore.index.tree.encoding import packed, unpacked
from blockstore.index.tree.grow import Grown, block_leaves, source_leaves
from blockstore.index.tree.leaf import AnyLeaf, Leaf, Root
from blockstore.index.tree.loading import Leaves
from blockstore.index.tree.open import base_of, held_by
from blockstore.index.tree.sources import LeafSources
from blockstore.index.tree.sums import BlockSums, SourceSums
from blockstore.names import LEAVES, checkpoint_key

S = TypeVar("S", bound=BlockSums | SourceSums)

_FEW = 16
"""Leaves that are asked for one by one; more are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRoot:
    """What became of a root."""

    name: NamedCheckpoint | None
    """The checkpoint, if this call wrote it."""
    state: State | None
    """The state on the root; None where that may not be relied on."""


def write_root(bucket: Bucket, state: State, leaves: Leaves, *, alone: bool = False) -> WrittenRoot:
    """Make sure that the version has its root. ``alone``: one that is not there yet gets leaves of
    its own, so that it depends on no other root."""
    base = base_of(state)
    assert base is None or base.version <= state.version, "a root is of a version before"
    found = _found(bucket, state, leaves)
    name = None
    if found is None:
        # A copy may have been put back that lacks the base: others would believe what names it.
        alone = alone or (base is not None and root_of(bucket, base.version, leaves) != base)
        blocks = tuple(sent(bucket, block_leaves(state, alone=alone)))
        sources = tuple(sent(bucket, source_leaves(state, alone=alone)))
        root = Root(version=state.version, base=state.version, blocks=blocks, sources=sources)
        if base is not None and any(leaf.generation < root.version for leaf in root.leaves):
            root = replace(root, base=base.version)
        name = _put_if_absent(bucket, state, root, leaves)
        found = root if name is not None else _found(bucket, state, leaves)
    if not isinstance(found, Root) or not _is_whole(bucket, found, base, leaves):
        return WrittenRoot(name=name, state=None)
    return WrittenRoot(name=name, state=on_root(state, found, leaves))


def put_alone(bucket: Bucket, state: State) -> NamedCheckpoint | None:
    """Write a state's root with leaves of its own, and without the look at the boundary: for an
    index that has none, or for another table than the one that the state was read from. None where
    there is a checkpoint. Leaves that went meanwhile with a copy put back are written again."""
    root = _sent_alone(bucket, state)
    name = _put_if_absent(bucket, state, root)
    if name is not None and _missing(bucket, root.leaves):
        _sent_alone(bucket, state)
    return name


def _sent_alone(bucket: Bucket, state: State) -> Root:
    blocks = tuple(sent(bucket, block_leaves(state, alone=True)))
    sources = tuple(sent(bucket, source_leaves(state, alone=True)))
    return Root(version=state.version, base=state.version, blocks=blocks, sources=sources)


def _put_if_absent(
    bucket: Bucket, state: State, root: Root, leaves: Leaves | None = None
) -> NamedCheckpoint | None:
    data = encode_root(state, root)
    if leaves is not None:
        leaves.remember_root(data, root)
    try:
        bucket.put_if_absent(checkpoint_key(state.version), data)
    except AlreadyExists:
        return None
    return name_of(state.version, data)


def _found(bucket: ReadBucket, state: State, leaves: Leaves) -> Root | bool | None:
    """The root of the state that is there already; None where nothing is there, False where
    something else is."""
    try:
        data = bucket.get(checkpoint_key(state.version)).data
        found = decode_checkpoint(
            data, version=state.version, url=bucket.url, leaves=lambda: leaves
        )
    except ObjectMissing:
        return None
    except Corrupt:
        return False
    root = base_of(found)
    return root if root is not None and found.last == state.last and _has(root, state) else False


def _has(root: Root, state: State) -> bool:
    """Whether a root has the leaves of a state."""
    sources = [(one.leaf.sha256, one.leaf.sums) for one in source_leaves(state)]
    if sources != [(leaf.sha256, leaf.sums) for leaf in root.sources]:
        return False
    blocks = [(one.leaf.sha256, one.leaf.sums) for one in block_leaves(state)]
    return blocks == [(leaf.sha256, leaf.sums) for leaf in root.blocks]


def on_root(state: State, root: Root, leaves: Leaves) -> State:
    """The state, whose version the root is of, held by its leaves."""
    rows, sources = held_by(root, leaves)
    return replace(state, blocks=Blocks(rows), accounted=sources)


def moved(later: State, at: State, written: State) -> State:
    """A later state than ``at``, on the root that was written of it; itself where it rests on
    another root than ``at`` did."""
    if later.version == at.version:
        return written
    held, before, accounted = later.accounted, at.accounted, written.accounted
    if (
        later.version < at.version
        or later.blocks.base is not at.blocks.base
        or not isinstance(held, LeafSources)
        or not isinstance(before, LeafSources)
        or not isinstance(accounted, LeafSources)
    ):
        return later
    return replace(
        later,
        blocks=later.blocks.on(written.blocks.base, at.blocks),
        accounted=held.after(before, accounted),
    )


def _is_whole(bucket: ReadBucket, root: Root, base: Root | None, leaves: Leaves) -> bool:
    """Whether a root that is there may be relied on, by the looks that come after it."""
    missing = _missing(bucket, root.leaves)
    if missing:
        leaves.missed(missing)
    if missing or root_of(bucket, root.version, leaves) != root:
        return False
    if not _is_unchanged(bucket, root, base, leaves):
        if is_there(bucket, checkpoint_key(root.base)):
            return False
        root = replace(root, base=0)
    return proven_now(bucket, root)


def _missing(bucket: ReadBucket, leaves: Sequence[AnyLeaf]) -> list[str]:
    """Those of these leaves that are not there. A listing may lag, so it does not say so alone."""
    listed = {info.key for info in bucket.list(LEAVES)} if len(leaves) > _FEW else frozenset[str]()
    unseen = [leaf.key for leaf in leaves if leaf.key not in listed]
    return [key for key in unseen if not is_there(bucket, key)]


def _is_unchanged(bucket: ReadBucket, root: Root, base: Root | None, leaves: Leaves) -> bool:
    """Whether the root from which a root's leaves were taken is there and names them: a copy may
    have been put back, in which it is another one or none. ``base`` is the one that this process
    took leaves from."""
    if root.base == root.version:
        return True
    there = root_of(bucket, root.base, leaves)
    if there is None or (base is not None and base.version == root.base and there != base):
        return False
    every = root.leaves
    return there.keys.issuperset(leaf.key for leaf in every if leaf.generation != root.version)


def sent(bucket: Bucket, grown: Iterable[Grown[S]]) -> Iterator[Leaf[S]]:
    """The leaves, each written if its content is given."""
    for one in grown:
        if one.canonical is not None:
            send(bucket, one.leaf.key, one.leaf.sha256, one.canonical)
        yield one.leaf


def send(bucket: Bucket, key: str, sha256: str, canonical: bytes) -> None:
    """Write a leaf, unless it is there and has its hash."""
    try:
        bucket.put_if_absent(key, packed(canonical))
        return
    except AlreadyExists:
        pass
    try:
        unpacked(bucket.get(key).data, sha256, key)
    except (Corrupt, ObjectMissing):
        bucket.put(key, packed(canonical))
