"""Lost leaves of roots, and where there is another copy of each.

Rule: a leaf is written again under its own name, for other roots have it too. Where no copy is
found, a root that the entries can still produce brings it back with its own step; else a person
must.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.care.repair.step import Step, StepKind
from blockstore.care.survey import Survey, broken_leaves_of
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.tree.repair import find_copy, restore_leaf
from blockstore.names import checkpoint_key


def leaf_steps(bucket: ReadBucket, index: Survey, replica: ReadBucket | None) -> Iterator[Step]:
    """Yield a step for each leaf that a root names and that is missing or damaged."""
    others = () if replica is None else (replica,)
    pinned = () if index.state is None else index.state.tags.values()
    broken: dict[str, tuple[str, bool]] = {}
    for version in sorted({*index.bad_checkpoints, *pinned}):
        for key, problem in _broken(bucket, version).items():
            made = version in index.folded or broken.get(key, ("", False))[1]
            broken[key] = problem, made
    for key, (problem, made) in sorted(broken.items()):
        if find_copy(bucket, key, others) is not None:
            what = f"write it again from another copy of its content: {problem}"
            yield Step(kind=StepKind.LEAF, object=key, what=what, copies=others)
        elif not made:
            yield Step(
                kind=StepKind.PERSON,
                object=key,
                what=f"{problem}; no other copy of its content was found, and the entries do not "
                "produce it: restore it from a copy of the table, or give a replica",
            )


def write_leaf(bucket: Bucket, key: str, others: Sequence[ReadBucket]) -> None:
    """Write a leaf again. Raises Corrupt where no copy is left."""
    if not restore_leaf(bucket, key, others):
        raise Corrupt(f"no other copy of {key} is left: restore it from a copy of the table")


def _broken(bucket: ReadBucket, version: int) -> dict[str, str]:
    try:
        data = bucket.get(checkpoint_key(version)).data
        return broken_leaves_of(bucket, decode_checkpoint(data, version=version))
    except (Corrupt, ObjectMissing):
        return {}  # the root itself is lost
