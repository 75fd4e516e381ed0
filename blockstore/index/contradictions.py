"""What an index that contradicts itself means, as an error that says what to do.

Pure: what was listed and read is handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from blockstore.errors import BlockstoreError, Corrupt, NotFound
from blockstore.index.boundary import how_to_repair
from blockstore.names import checkpoint_key, entry_key


def no_entry(url: str, boundary: int, checkpoints: Sequence[int]) -> BlockstoreError:
    """There is a boundary, and no entry above it, nor a checkpoint that needs none."""
    if boundary:
        return Corrupt(
            f"the index of {url} is empty although its boundary is {boundary}, expected entry "
            f"{boundary + 1}: {how_to_repair(url)}"
        )
    if checkpoints:
        return NotFound(
            f"the index of {url} has checkpoint {checkpoints[-1]} and no entry: if it is a "
            "replica, let 'blockstore replicate' finish; if its entries were lost, "
            f"{how_to_repair(url)}"
        )
    return NotFound(
        f"the table at {url} was never finished: there is a boundary and no entry; create it again"
    )


def no_checkpoint(url: str, boundary: int) -> Corrupt:
    """There is no checkpoint to start from."""
    return Corrupt(
        f"no checkpoint at or above the boundary {boundary} is left in {url}, expected "
        f"{checkpoint_key(boundary)}: restore it from a copy"
    )


def hole_above(url: str, boundary: int, entries: Sequence[int]) -> Corrupt | None:
    """An entry is missing that no process may have deleted;

    None where none is. ``entries`` are sorted.
    """
    for before, entry in pairwise([boundary, *(one for one in entries if one > boundary)]):
        if entry != before + 1:
            return Corrupt(
                f"index entry {before + 1} ({entry_key(before + 1)}) of {url} is missing above the "
                f"boundary {boundary}, and entry {entry} exists: restore it from a copy; if the "
                f"table was put back from a copy while writers ran, 'blockstore repair {url} "
                f"--stale-entry {entry}' shows who wrote entry {entry}, and removes it with --yes"
            )
    return None
