"""How blocks of one stream are grouped: into runs between marks, by what fits into a block, and by
size. Pure.

Rules:
- Every function puts each block into at most one group and adds none.
- Blocks below ``SMALL_BYTES`` count as equal: reading one costs its requests, not its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from blockstore.compactor.plan.jobs import Candidate

SMALL_BYTES = 4 << 20

_MAX_INPUTS = 4096
"""More blocks than this are merged in two steps: the index entry of a merge names each of its
inputs."""


def fits(block: Candidate, range_ms: int) -> bool:
    """Whether one aligned window of this length holds the block."""
    return block.min_time // range_ms == (block.max_time - 1) // range_ms


def runs(blocks: Iterable[Candidate], *, by_time: bool) -> list[list[Candidate]]:
    """Blocks in order of time or of age, split where a block must not be merged."""
    ordered = sorted(blocks, key=lambda block: (block.min_time if by_time else 0, block.ulid))
    return [
        list(members)
        for marked, members in groupby(ordered, key=attrgetter("no_compact"))
        if not marked
    ]


def split(run: Iterable[Candidate], max_bytes: int) -> Iterator[list[Candidate]]:
    """Consecutive groups of at most ``max_bytes`` and ``_MAX_INPUTS`` each; a larger block
    alone."""
    group: list[Candidate] = []
    total = 0
    for block in run:
        if group and (total + block.bytes > max_bytes or len(group) == _MAX_INPUTS):
            yield group
            group, total = [], 0
        group.append(block)
        total += block.bytes
    if group:
        yield group


def tiers(run: Iterable[Candidate]) -> Iterator[list[Candidate]]:
    """Groups of blocks of about the same size: none is larger than twice the mean of the smaller
    ones; small blocks count as equal."""
    tier: list[Candidate] = []
    total = 0
    for block in sorted(run, key=lambda block: (block.bytes, block.ulid)):
        size = max(block.bytes, SMALL_BYTES)
        if tier and size * len(tier) > 2 * total:
            yield tier
            tier, total = [], 0
        tier.append(block)
        total += size
    if tier:
        yield tier


def worthwhile(group: Iterable[Candidate], tier_blocks: int) -> list[Candidate]:
    """The group without blocks that are too large to be rewritten for the rest: the rest must have
    at least a ``tier_blocks``-th of their size. Small blocks are always worth it."""
    by_size = sorted(group, key=lambda block: (block.bytes, block.ulid))
    while len(by_size) >= 2:
        largest = by_size[-1].bytes
        if largest <= SMALL_BYTES or total_bytes(by_size[:-1]) * tier_blocks >= largest:
            break
        by_size.pop()
    return by_size


def overlap(blocks: Iterable[Candidate]) -> bool:
    """Whether the times of any two overlap."""
    ordered = sorted(blocks, key=attrgetter("min_time"))
    reach = ordered[0].max_time
    for block in ordered[1:]:
        if block.min_time < reach:
            return True
        reach = max(reach, block.max_time)
    return False


def total_bytes(blocks: Sequence[Candidate]) -> int:
    return sum(block.bytes for block in blocks)
