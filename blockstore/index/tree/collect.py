"""Collection of leaves: those that no root names go, after two looks a ``delete_delay`` apart.

Rules (decision 62, ``specs/tree.pml``):
- A look lists the leaves, reads the boundary, and then every root from it on and those that tags
  pin. A leaf may go if none of them names it and its generation is below the boundary: a newer one
  may belong to a root that is about to be written. A root that cannot be read ends the look;
  nothing goes.
- What the first look found is kept in ``gc/leaves.json``, with the store's time before it. A leaf
  goes only if a look at least a ``delete_delay`` later finds it so again: a reader may plan with
  the leaves of an old root that long. A leaf that is named again leaves the list.
- The list counts only while the boundary is not below the one that it was made at: else a copy of
  the table was put back.
- Just before each batch goes the history and the boundary are looked at again, and nothing goes
  once the look is half a ``delete_delay`` old.
- Looks are at least an eighth of a ``delete_delay`` apart: each reads every root.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from blockstore.bucket.api import Bucket, ReadBucket, writable
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.document import parse, sealed
from blockstore.format.features import FORMAT_VERSION, TREE
from blockstore.freshness import Freshness
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.index.tree.believed import proven_now
from blockstore.index.tree.leaf import Root
from blockstore.index.tree.loading import Leaves
from blockstore.index.tree.open import base_of
from blockstore.index.tree.repair import problem_of
from blockstore.names import (
    CHECKPOINTS,
    LEAVES,
    UNNAMED,
    checkpoint_key,
    parse_checkpoint,
    parse_leaf,
)
from blockstore.world import World

_logger = logging.getLogger(__name__)

_BATCH = 250
_LOOKS_A_DELAY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnamed:
    """Leaves that nothing named, and since when, in milliseconds of the store's clock."""

    boundary: int
    """The boundary at the last look."""
    looked_ms: int
    since: Mapping[str, int]


def still_unnamed(before: Unnamed | None, now: Unnamed) -> Unnamed:
    """What two looks have found: a leaf has been unnamed since the first of them. Pure."""
    if before is None or before.boundary > now.boundary or before.looked_ms > now.looked_ms:
        return now
    since = {key: min(before.since.get(key, at), at) for key, at in now.since.items()}
    return Unnamed(boundary=now.boundary, looked_ms=now.looked_ms, since=since)


def doomed_leaves(unnamed: Unnamed, delay_ms: int) -> list[str]:
    """The leaves that go: unnamed for a whole ``delete_delay``. Pure."""
    latest = unnamed.looked_ms - delay_ms
    return sorted(key for key, since in unnamed.since.items() if since <= latest)


def may_go(keys: list[str], boundary: int, named: frozenset[str]) -> list[str]:
    """The leaves that one look finds unnamed, of generations below the boundary. Pure."""
    found = [(key, parse_leaf(key)) for key in keys if key not in named]
    return sorted(key for key, leaf in found if leaf is not None and leaf[1] < boundary)


def collect_leaves(log: Log, world: World, state: State, look_again: Callable[[], None]) -> int:
    """One look, and the removal of what an earlier one has found too; how many leaves went."""
    bucket = writable(log.bucket)
    delay_s = state.definition.properties.delete_delay_s
    fresh = Freshness(world.clock, delay_s / 2)
    now_ms = bucket.now_ms()
    before = _read(bucket)
    if before is not None and 0 <= now_ms - before.looked_ms < delay_s * 1000 / _LOOKS_A_DELAY:
        return 0
    looked = _look(log, bucket, now_ms)
    if looked is None:
        return 0
    unnamed = still_unnamed(before, looked)
    doomed = doomed_leaves(unnamed, round(delay_s * 1000))
    gone: set[str] = set()
    for start in range(0, len(doomed), _BATCH):
        batch = doomed[start : start + _BATCH]
        look_again()
        if fresh.is_over:
            break
        bucket.delete(batch)
        gone.update(batch)
    _write(bucket, unnamed, gone)
    return len(gone)


def broken_leaf(bucket: ReadBucket, stored: State, leaves: Leaves) -> str | None:
    """What is wrong with a leaf of a state's root; None where all are there, proven by their
    hashes."""
    root = base_of(stored)
    assert root is not None, "the state is of a root"
    listed = {info.key: info for info in bucket.list(LEAVES)}
    for leaf in root.leaves:
        info = listed.get(leaf.key)
        # What this handle has proven, and is still the same object, is not got again.
        seen = None if info is None else (leaf.sums, info.size, info.modified_ms, info.etag)
        if seen is not None and leaves.proven.get(leaf.key) == seen:
            continue
        problem = problem_of(bucket, leaf)
        if problem is not None:
            return problem
        if seen is not None:
            leaves.proven[leaf.key] = seen
    leaves.proven = {key: seen for key, seen in leaves.proven.items() if key in listed}
    return None


def why_broken(bucket: ReadBucket, stored: State, leaves: Leaves) -> str | None:
    """Why the boundary may not move to the root of a state; None where all of its leaves are there,
    proven by their hashes, and may be relied on."""
    problem, root = broken_leaf(bucket, stored, leaves), base_of(stored)
    if problem is not None or root is None:
        return problem
    if not proven_now(bucket, root):
        return f"it shares leaves with checkpoint {root.base}, which is below the boundary"
    return None


def _look(log: Log, bucket: Bucket, now_ms: int) -> Unnamed | None:
    """The leaves that nothing names; None where that is not known."""
    keys = [info.key for info in bucket.list(LEAVES)]
    boundary = log.boundary.read()
    tagged = frozenset(log.poll().tags.values())
    listed = (parse_checkpoint(info.key) for info in bucket.list(CHECKPOINTS, recursive=False))
    versions = {one for one in listed if one is not None and (one >= boundary or one in tagged)}
    named: set[str] = set()
    for version in sorted(versions | ({boundary} if boundary else set())):
        try:
            root = _root(bucket, version)
        except (Corrupt, ObjectMissing) as error:
            _logger.warning(
                "leaves of %s are not collected: %s cannot be read (%s)",
                bucket.url,
                checkpoint_key(version),
                error,
            )
            return None
        if root is not None:
            named |= root.keys
    since = dict.fromkeys(may_go(keys, boundary, frozenset(named)), now_ms)
    return Unnamed(boundary=boundary, looked_ms=now_ms, since=since)


def _root(bucket: ReadBucket, version: int) -> Root | None:
    """The root of a version; None for a checkpoint of before the tree."""
    state = decode_checkpoint(
        bucket.get(checkpoint_key(version)).data, version=version, url=bucket.url
    )
    return base_of(state) if TREE in state.requires else None


def _read(bucket: ReadBucket) -> Unnamed | None:
    """What the last look has found; None where that cannot be read: then two more are needed."""
    try:
        held = parse(bucket.get(UNNAMED).data, UNNAMED)
        leaves = held.document("leaves")
        return Unnamed(
            boundary=held.integer("boundary"),
            looked_ms=held.integer("looked"),
            since={key: leaves.integer(key) for key in leaves.names()},
        )
    except (ObjectMissing, Corrupt):
        return None


def _write(bucket: Bucket, unnamed: Unnamed, gone: set[str]) -> None:
    held = {key: since for key, since in sorted(unnamed.since.items()) if key not in gone}
    value = {
        "format": FORMAT_VERSION,
        "boundary": unnamed.boundary,
        "looked": unnamed.looked_ms,
        "leaves": held,
    }
    bucket.put(UNNAMED, sealed(orjson.dumps(value)))
