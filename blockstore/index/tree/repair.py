"""Leaves and roots written again in the place of missing or damaged ones.

Rules:
- A leaf keeps its name: other roots have it too. Its content is what its hash says; it is looked
  for under every other generation of it.
- A root that is written again names the leaves that it named, if that can still be read; else those
  that the roots nearest to it name, of equal content; and only what none of them has under its own
  version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.index.checkpoint import decode_checkpoint, encode_root
from blockstore.index.state import State
from blockstore.index.tree.encoding import unpacked
from blockstore.index.tree.grow import Grown, block_leaves, source_leaves
from blockstore.index.tree.leaf import AnyLeaf, Leaf, Root
from blockstore.index.tree.loading import check_leaf
from blockstore.index.tree.open import base_of
from blockstore.index.tree.sums import BlockSums, SourceSums
from blockstore.index.tree.write import send
from blockstore.names import (
    CHECKPOINTS,
    LEAVES,
    checkpoint_key,
    parse_checkpoint,
    parse_leaf,
)

S = TypeVar("S", bound=BlockSums | SourceSums)


def replace_root(bucket: Bucket, state: State) -> bytes:
    """Write the root of a state, and each leaf of it that is missing or damaged; returns its
    bytes."""
    names = _names(bucket, state.version)
    blocks = tuple(_restored(bucket, block_leaves(state, alone=True), names))
    sources = tuple(_restored(bucket, source_leaves(state, alone=True), names))
    # Of the oldest generation: the root is whole as long as the boundary has not passed that.
    root = Root(version=state.version, base=state.version, blocks=blocks, sources=sources)
    oldest = min([state.version, *(leaf.generation for leaf in root.leaves)])
    root = replace(root, base=oldest)
    data = encode_root(state, root)
    bucket.put(checkpoint_key(state.version), data)
    return data


def restore_leaf(bucket: Bucket, key: str, others: Iterable[ReadBucket] = ()) -> bool:
    """Write a missing or damaged leaf again, with the content of another copy of it; whether one
    was found."""
    found = find_copy(bucket, key, others)
    named = parse_leaf(key)
    if found is None or named is None:
        return False
    send(bucket, key, named[0], found)
    return True


def find_copy(bucket: ReadBucket, key: str, others: Iterable[ReadBucket] = ()) -> bytes | None:
    """The canonical bytes of a leaf out of another generation of it, here or in ``others``, or out
    of its own there; None where none has its hash."""
    named = parse_leaf(key)
    if named is None:
        return None
    for source in (bucket, *others):
        for info in source.list(f"{LEAVES}{named[0]}"):
            if (source is bucket and info.key == key) or parse_leaf(info.key) is None:
                continue
            try:
                return unpacked(source.get(info.key).data, named[0], info.key)
            except (Corrupt, ObjectMissing):
                continue
    return None


def broken_leaves(bucket: ReadBucket, root: Root) -> dict[str, str]:
    """The leaves of a root that are missing, or are not what it says, and what is wrong."""
    problems: dict[str, str] = {}
    for leaf in root.leaves:
        problem = problem_of(bucket, leaf)
        if problem is not None:
            problems[leaf.key] = problem
    return problems


def problem_of(bucket: ReadBucket, leaf: AnyLeaf) -> str | None:
    """What is wrong with a leaf; None if it is there, with its hash and its sums."""
    try:
        check_leaf(leaf, bucket.get(leaf.key).data)
    except ObjectMissing:
        return f"{leaf.key} is missing, and a checkpoint names it"
    except Corrupt as error:
        return str(error)
    return None


def _names(bucket: ReadBucket, version: int) -> Mapping[str, int]:
    """The generations under which leaves are named, by hash: by the root of this version, and then
    by those nearest to it."""
    listed = (parse_checkpoint(info.key) for info in bucket.list(CHECKPOINTS, recursive=False))
    versions = [one for one in listed if one is not None]
    names: dict[str, int] = {}
    for near in sorted(versions, key=lambda one: (abs(one - version), one)):
        try:
            data = bucket.get(checkpoint_key(near)).data
            root = base_of(decode_checkpoint(data, version=near))
        except (Corrupt, ObjectMissing):
            continue
        for leaf in () if root is None else root.leaves:
            if leaf.generation <= version:
                names.setdefault(leaf.sha256, leaf.generation)
    return names


def _restored(
    bucket: Bucket, grown: Iterable[Grown[S]], names: Mapping[str, int]
) -> Iterator[Leaf[S]]:
    for one in grown:
        leaf = replace(one.leaf, generation=names.get(one.leaf.sha256, one.leaf.generation))
        assert one.canonical is not None, "all are made again"
        send(bucket, leaf.key, leaf.sha256, one.canonical)
        yield leaf
