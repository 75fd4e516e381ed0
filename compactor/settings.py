"""The operator's settings for compaction: ``configs/compactor.toml`` and the environment.

Rules:
- What the table itself promises (delays, retention) is a property of the table and not in a file.
- ``[tables."name"]`` overrides settings for a table of a lake; the rest applies to the process.
- Planning and merging have the same defaults by themselves (a test checks it).
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from blockstore.errors import Invalid
from blockstore.format.chunk_size import LARGEST_CHUNK_BYTES
from blockstore.service import kinds
from blockstore.service.config import Key, Section
from blockstore.service.kinds import format_size

_MIB = 1 << 20
_LEAST_MEMORY = 64 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one table is planned and merged; each field is a key of the file, in program units."""

    ranges_ms: tuple[int, ...] = (7_200_000, 28_800_000, 172_800_000, 1_209_600_000)
    tier_blocks: int = 8
    max_block_bytes: int = 64 << 30
    skip: tuple[tuple[str, str], ...] = ()
    memory_bytes: int = 1 << 30
    chunk_bytes: int = 256 * _MIB
    export: tuple[str, ...] = ()
    concurrency: int = field(default_factory=lambda: os.cpu_count() or 1)
    work_dir: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    engine: str = "local"

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise Invalid("the compactor's settings are invalid: " + "; ".join(problems))


TABLE_KEYS = (
    Key(
        name="ranges",
        sets="ranges_ms",
        default=("2h", "8h", "2d", "14d"),
        read=kinds.items(kinds.duration_ms),
        sentence="Time windows, aligned to the epoch: once a window is closed, its blocks are "
        "merged into one. Ascending, each a multiple of the one before.",
    ),
    Key(
        name="tier_blocks",
        default=8,
        read=kinds.count,
        sentence="Blocks outside closed windows are merged as soon as there are this many of about "
        "the same size.",
    ),
    Key(
        name="max_block_size",
        sets="max_block_bytes",
        default="64GiB",
        read=kinds.size,
        sentence="No merge makes a larger block than this.",
    ),
    Key(
        name="skip",
        default=(),
        read=kinds.labels,
        sentence='Streams to leave alone, by label, while someone repairs them: ["cluster=eu1"] '
        "skips every block with this label. None of them is merged, expired, marked or removed; "
        "new blocks are published.",
    ),
    Key(
        name="chunk_size",
        sets="chunk_bytes",
        default="256MiB",
        read=kinds.size,
        sentence="The size at which a merged block starts its next Parquet file; at most 512MiB.",
    ),
    Key(
        name="export",
        default=(),
        read=kinds.items(kinds.one_of("iceberg", "delta")),
        sentence='Metadata for other engines that is kept up to date: "iceberg", "delta", or both.',
    ),
)
"""What a table of a lake may override."""

COMPACTION = Section(
    name="compactor",
    sentence="What is merged, and with how much of the machine.",
    build=Settings,
    keys=(
        *TABLE_KEYS,
        Key(
            name="memory",
            sets="memory_bytes",
            default="1GiB",
            read=kinds.size,
            sentence="The memory that one merge may take; inputs that need more are merged in "
            "passes over work_dir.",
        ),
        Key(
            name="concurrency",
            default="cores",
            read=kinds.cores,
            sentence="How many threads a merge uses to read, sort and encode: a number, or "
            '"cores"; at least 16 where the store is remote.',
        ),
        Key(
            name="work_dir",
            default="",
            read=kinds.folder,
            sentence="Where a merge puts what does not fit into memory; empty for the system's "
            "folder for temporary files.",
        ),
        Key(
            name="engine",
            default="local",
            read=kinds.text,
            sentence="What merges: local, in this process, or spark, as tasks of a Spark job.",
        ),
    ),
)


def overridden(settings: Settings, fields: Mapping[str, object]) -> Settings:
    """The settings of a table that overrides these fields. Raises Invalid if they conflict."""
    return replace(settings, **fields)  # type: ignore[arg-type]


def _problems(settings: Settings) -> list[str]:
    problems = []
    ranges = settings.ranges_ms
    if (
        not ranges
        or ranges[0] <= 0
        or any(after % before or after == before for before, after in itertools.pairwise(ranges))
    ):
        problems.append(
            "ranges must be one duration or more, ascending, each a multiple of the one before"
        )
    if settings.tier_blocks < 2:
        problems.append(f"tier_blocks is {settings.tier_blocks}, expected at least 2")
    if not _MIB <= settings.chunk_bytes <= LARGEST_CHUNK_BYTES:
        problems.append(
            f"chunk_size is {format_size(settings.chunk_bytes)}, expected 1MiB to 512MiB"
        )
    if settings.max_block_bytes < settings.chunk_bytes:
        problems.append(
            f"max_block_size is {format_size(settings.max_block_bytes)}, expected at least the "
            f"chunk_size of {format_size(settings.chunk_bytes)}"
        )
    if settings.memory_bytes < _LEAST_MEMORY:
        problems.append(
            f"memory is {format_size(settings.memory_bytes)}, expected at least "
            f"{format_size(_LEAST_MEMORY)}"
        )
    if settings.concurrency < 1:
        problems.append(f"concurrency is {settings.concurrency}, expected at least 1")
    return problems
