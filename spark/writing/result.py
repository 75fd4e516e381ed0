"""``Written``: what a Spark write did, returned to the driver and logged."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

_log = logging.getLogger("blockstore.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write did.

    ``ulid`` is None if there were no new rows, or if the job was committed too long ago to name its
    block. ``version`` is the index entry that made the block visible. If ``published`` is False
    there is none yet, and the block becomes visible by its age. ``already`` means that the job was
    committed before, by the block named here, and that nothing was written.
    """

    url: str
    operation: str = "append"
    ulid: str | None = None
    version: int | None = None
    published: bool = False
    already: bool = False
    ignored: bool = False
    """Whether ``if_exists="ignore"`` left the table as it was, since it contained a write."""
    rows: int = 0
    bytes: int = 0
    chunks: int = 0
    removed: tuple[str, ...] = ()
    """The blocks of which an overwrite left no row."""
    rewritten: Mapping[str, str] = field(default_factory=dict)
    """The blocks of which it left some rows, and the blocks that contain them now."""
    accounted: tuple[str, ...] = ()
    """Writes without an index entry so far whose rows were removed too."""
    rows_removed: int | None = 0
    """None if only reading the blocks would show the number."""
    inserted: int | None = None
    """The new rows of a merge."""
    updated: int | None = None
    """The rows that a merge changed."""
    deleted: int | None = None
    """The rows that a merge deleted."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase: ``plan`` on the driver, ``tasks`` (Spark's action: rows computed, sorted,
    encoded and uploaded) and ``commit``."""

    def log(self) -> Written:
        """Log the write; one that wrote no rows is a warning."""
        if self.already:
            _log.warning(
                "%s: this job was committed before (block %s, version %s), so nothing was written; "
                "a batch with other rows needs a number of its own",
                self.url, self.ulid, self.version,
            )  # fmt: skip
        elif self.ignored:
            _log.warning(
                "%s: the table already contains a write, so nothing was written "
                "(if_exists='ignore')",
                self.url,
            )
        elif self.ulid is None and self.version is None:
            _log.warning("%s: the DataFrame has no rows, so no block was written", self.url)
        else:
            _log.info("%s", self)
        return self

    def __str__(self) -> str:
        spent = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self.seconds.items())
        replaced = ""
        if self.operation == "overwrite":
            rows = "an unknown number of" if self.rows_removed is None else f"{self.rows_removed:,}"
            replaced = (
                f", replacing {rows} rows ({len(self.removed) + len(self.accounted)} blocks "
                f"removed, {len(self.rewritten)} rewritten)"
            )
        if self.inserted is not None:
            replaced = (
                f", {self.inserted:,} new, {self.updated or 0:,} changed and "
                f"{self.deleted or 0:,} deleted"
            )
        version = "not published yet" if self.version is None else f"version {self.version}"
        block = "no block" if self.ulid is None else f"block {self.ulid}"
        return (
            f"{self.url}: {self.operation}, {block}, {version}, {self.rows:,} rows in "
            f"{self.chunks} chunks of {self.bytes:,} bytes{replaced}; {spent}"
        )
