"""A block as values: the checked content of a meta.json, which ``meta.py`` encodes and decodes.

Invariants, checked when a value is built:
- ``sources`` is sorted, without doubles and never empty (a list too long for meta.json is loaded
  first).
- A level-1 block has exactly one source; every block with another number of sources has level 2 or
  more.
- A block of revision 0 lists itself or has level 2 or more.
- ``min_time`` < ``max_time``: inclusive, exclusive, in milliseconds.
- Every chunk has a path inside ``chunks/`` (``sources.parquet`` is the one other file), a size,
  rows and a hash; no path occurs twice. A file's tail is not longer than the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from blockstore.errors import Invalid
from blockstore.format.texts import check_text
from blockstore.names import chunk_path, is_chunk_path, segments_path, sources_path

StatValue = bool | int | float | str
"""A statistic as JSON holds it; ``statistics.py`` defines how each Arrow type is written."""

Serialized = bytes

MAX_APP = 1_000
"""Characters of a job's app."""


class VisibleBy(StrEnum):
    """The evidence by which a block may become visible."""

    AGE = "age"
    INDEX = "index"


class BlockKind(StrEnum):
    """What a block's rows are, in a table whose rows have an identity."""

    PLAIN = "plain"
    """Rows that hide no others."""
    CHANGES = "changes"
    """New versions of rows, and tombstones: each hides what is older."""
    HISTORY = "history"
    """Former versions, which no query sees."""


@dataclass(frozen=True, slots=True)
class Job:
    """The name of a write that must happen once: an application and its batch number, from 0."""

    app: str
    batch: int

    def __post_init__(self) -> None:
        check_text("the job's app", self.app, limit=MAX_APP)
        if not self.app:
            raise Invalid("the job's app is empty, expected the application's name")
        if (
            isinstance(self.batch, bool)
            or not isinstance(self.batch, int)
            or not 0 <= self.batch < 2**63
        ):
            raise Invalid(
                f"the job's batch is {self.batch!r}, expected an integer from 0, below 2**63"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A block that a merge replaces."""

    ulid: str
    min_time: int
    max_time: int


class ColumnStats(NamedTuple):
    """Bounds of one column in one chunk.

    None where nothing is known: the type has no order, no upper text of 64 characters exists, or
    every value is null or NaN. ``nans`` counts NaNs, which no bound covers. A named tuple, because
    a plan over a table makes one for each column of each chunk.
    """

    min: StatValue | None
    max: StatValue | None
    nulls: int
    nans: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFile:
    """One file of a block, as meta.json lists it."""

    path: str
    bytes: int
    rows: int
    sha256: str
    footer: int | None = None
    """The bytes of the file's tail, which begins with the page index and ends with the footer: all
    that says where rows are. None where it is not known: of a release before 0.2, or no chunk."""
    columns: Mapping[str, ColumnStats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SegmentsFile:
    """What meta.json says of the object with the hashes of the chunks' segments.

    Its path follows from its hash: ``names.segments_path``.
    """

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, order=True)
class StreamKey:
    """The identity of a stream: labels (sorted pairs) and resolution.

    Cover and merge never mix streams.
    """

    labels: tuple[tuple[str, str], ...]
    resolution: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMeta:
    """Everything that meta.json says of a block."""

    ulid: str
    min_time: int
    max_time: int
    rows: int
    bytes: int
    level: int
    sources: tuple[str, ...]
    parents: tuple[Parent, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    resolution: int = 0
    visible_by: VisibleBy = VisibleBy.AGE
    ignore_delay: bool = False
    revision: int = 0
    own: bool = True
    kind: BlockKind = BlockKind.PLAIN
    uploaded_time: int = 0
    producer: str = ""
    job: Job | None = None
    time_column: str | None = None
    sort_by: tuple[str, ...] = ()
    schema: Serialized = b""
    """The Arrow schema of the user's columns, IPC-serialized: reserved columns are implied, by
    level. Empty in an index entry, which names ``schema_id`` instead."""
    schema_id: int = 0
    """The schema's id in the table's definition; 0 until an entry names it (meta.json does not)."""
    files: tuple[ChunkFile, ...] = ()
    segments: SegmentsFile | None = None
    """The hashes of the chunks' segments; None where there are none: each file is then read whole.
    Not one of ``files``: a block whose segments are lost is complete (``segments.py``)."""
    unknown: Serialized = b""
    """Unknown fields of a meta.json of this version, as JSON, kept when the block is rewritten."""

    def __post_init__(self) -> None:
        _check_sources(self)
        if self.kind is not BlockKind.PLAIN and self.visible_by is not VisibleBy.INDEX:
            raise Invalid(
                f"block {self.ulid} holds {self.kind} and is visible by its {self.visible_by}, "
                "expected by the index: only an entry gives its rows their version"
            )
        if self.kind is BlockKind.HISTORY and self.level < 2:
            raise Invalid(f"block {self.ulid} holds history at level 1, expected level 2 or more")
        if self.min_time >= self.max_time:
            raise Invalid(
                f"block {self.ulid}: min_time is {self.min_time} and max_time {self.max_time}, "
                "expected min_time < max_time"
            )
        if len(self.files) > 1 and len({file.path for file in self.files}) != len(self.files):
            raise Invalid(f"block {self.ulid}: files names a path twice")
        for file in self.files:
            if not is_chunk_path(file.path) and file.path != sources_path():
                raise Invalid(
                    f"block {self.ulid}: files names {file.path[:120]!r}, expected a path such as "
                    f"{chunk_path(1)}"
                )
            if file.footer is not None and not 0 < file.footer <= file.bytes:
                raise Invalid(
                    f"block {self.ulid}: the footer of {file.path} has {file.footer:,} bytes, "
                    f"expected 1 to {file.bytes:,}, the size of the file"
                )

    @property
    def stream(self) -> StreamKey:
        """The block's stream."""
        return StreamKey(tuple(sorted(self.labels.items())) if self.labels else (), self.resolution)

    @property
    def chunks(self) -> tuple[ChunkFile, ...]:
        """The Parquet files that hold rows."""
        return tuple([file for file in self.files if file.path.startswith("chunks/")])

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the block's objects, without meta.json and marks."""
        named = tuple([file.path for file in self.files])
        return named if self.segments is None else (*named, segments_path(self.segments.sha256))


def _check_sources(meta: BlockMeta) -> None:
    sources = meta.sources
    if not sources:
        raise Invalid(f"block {meta.ulid}: sources is empty, expected at least one ULID")
    if len(sources) > 1:
        if meta.level < 2:
            raise Invalid(
                f"block {meta.ulid}: level is {meta.level} with {len(sources)} sources, expected "
                "2 or more"
            )
        if any(left >= right for left, right in pairwise(sources)):
            raise Invalid(f"block {meta.ulid}: sources is not sorted, or names one twice")
    elif meta.level < 2 and meta.revision == 0 and sources != (meta.ulid,):
        raise Invalid(
            f"block {meta.ulid}: the only source is {min(sources)}, expected the block itself at "
            "revision 0"
        )
