"""Writing checkpoints, and the hint that names one.

Rules:
- A checkpoint is written only from a state that a commit's step 5, or a reader's double look, has
  confirmed (protocol 3.4): a process that finds one may rely on it. A root is relied on after a
  look besides (``tree/write.py``).
- It is written with create-if-absent: its content is a function of the version.
- The hint only spares a listing and a proof: a stale, missing or garbled one costs requests and
  time, never correctness.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import orjson

from blockstore.bucket.api import Bucket
from blockstore.errors import AlreadyExists
from blockstore.format.document import sealed
from blockstore.format.features import FORMAT_VERSION, TREE
from blockstore.index.checkpoint import GetLeaves, encode_checkpoint
from blockstore.index.checkpoint_name import NamedCheckpoint, name_of, read_hint
from blockstore.index.state import State
from blockstore.names import HINT, checkpoint_key

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A checkpoint that was written."""

    name: NamedCheckpoint | None
    """None where there was one, whose bytes may be others of the same state."""
    state: State | None
    """The state as it may be held from now on: on the leaves of its root. None for a root that must
    not be relied on."""


def write_checkpoint(bucket: Bucket, state: State, leaves: GetLeaves | None = None) -> Written:
    """Make sure that the version has its checkpoint, and point the hint at it. The state must be a
    confirmed one."""
    written = _written(bucket, state, leaves)
    if written.name is not None and written.state is not None:
        _point_hint(bucket, written.name)
    return written


def try_write_checkpoint(
    bucket: Bucket, state: State, leaves: GetLeaves | None = None
) -> Written | None:
    """The same for a commit that has succeeded and been answered: whatever goes wrong is only
    logged."""
    try:
        return write_checkpoint(bucket, state, leaves)
    except Exception as error:  # noqa: BLE001 - the commit has succeeded, whatever it is
        _logger.warning("checkpoint %s of %s was not written: %s", state.version, bucket.url, error)
        return None


def ensure_checkpoint(bucket: Bucket, state: State) -> NamedCheckpoint | None:
    """The same for a version that need not be a new one: the hint stays. Returns the name of what
    it wrote."""
    return _written(bucket, state).name


def pin_checkpoint(bucket: Bucket, state: State) -> Written:
    """The same for a tag: a root that is not there yet gets leaves of its own."""
    return _written(bucket, state, alone=True)


def renew_checkpoint(bucket: Bucket, state: State) -> NamedCheckpoint | None:
    """The same for an index that is rebuilt, whose boundary cannot be read: no process relies on it
    before the boundary is moved there."""
    if TREE not in state.requires:
        return put_checkpoint(bucket, state.version, encode_checkpoint(state))
    from blockstore.index.tree.write import put_alone

    return put_alone(bucket, state)


def _written(
    bucket: Bucket, state: State, leaves: GetLeaves | None = None, *, alone: bool = False
) -> Written:
    if TREE not in state.requires:
        return Written(
            name=put_checkpoint(bucket, state.version, encode_checkpoint(state)), state=state
        )
    from blockstore.index.tree.loading import leaves_of
    from blockstore.index.tree.write import write_root

    loader = leaves_of(bucket) if leaves is None else leaves()
    root = write_root(bucket, state, loader, alone=alone)
    return Written(name=root.name, state=root.state)


def put_checkpoint(bucket: Bucket, version: int, data: bytes) -> NamedCheckpoint | None:
    """The same for bytes that were decoded before."""
    try:
        bucket.put_if_absent(checkpoint_key(version), data)
    except AlreadyExists:
        return None
    return name_of(version, data)


def replace_checkpoint(bucket: Bucket, state: State) -> None:
    """Write a checkpoint in the place of a missing or damaged one, from the entries. Its content is
    a function of the version alone, so another process that does the same meanwhile writes the
    same."""
    if TREE in state.requires:
        from blockstore.index.tree.repair import replace_root

        data = replace_root(bucket, state)
    else:
        data = encode_checkpoint(state)
        bucket.put(checkpoint_key(state.version), data)
    raise_hint(bucket, name_of(state.version, data))


def raise_hint(bucket: Bucket, name: NamedCheckpoint) -> None:
    """Point the hint at a checkpoint, unless it names one of a higher version."""
    hint = read_hint(bucket)
    if hint is None or hint.id <= name.id:
        _point_hint(bucket, name)


def _point_hint(bucket: Bucket, name: NamedCheckpoint) -> None:
    bucket.put(HINT, sealed(orjson.dumps({"format": FORMAT_VERSION, "checkpoint": name.to_json()})))
