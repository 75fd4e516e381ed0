"""What a Spark write did: one value for appends and overwrites, answered to the driver and said in
the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

_log = logging.getLogger("blockstore.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of a write.

    ``ulid`` is None where there were no new rows, or the job was done too long ago to name its
    block. ``version`` is the index entry that made it visible; with ``published`` False there is
    none yet, and the block becomes visible by its age. ``already`` says that its job had been
    committed before, by the block named here; then nothing was written.
    """

    url: str
    operation: str = "append"
    ulid: str | None = None
    version: int | None = None
    published: bool = False
    already: bool = False
    ignored: bool = False
    """Whether the table held a write already, and ``if_exists="ignore"`` left it as it was."""
    rows: int = 0
    bytes: int = 0
    chunks: int = 0
    removed: tuple[str, ...] = ()
    """The blocks of which an overwrite left nothing."""
    rewritten: Mapping[str, str] = field(default_factory=dict)
    """The blocks of which it left some rows, and the blocks that hold those now."""
    accounted: tuple[str, ...] = ()
    """Writes that no index entry had named yet, whose rows are gone as well."""
    rows_removed: int | None = 0
    """None where reading alone would tell."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By phase:

    ``plan`` on the driver, ``tasks`` (Spark's action: rows computed, sorted, encoded and uploaded),
    ``commit``.
    """

    def say(self) -> Written:
        """Tell the log; a write that left rows out, for whatever reason, is a warning."""
        if self.already:
            _log.warning(
                "%s: its job was committed before (block %s, version %s), so nothing was written; "
                "a batch with other rows "
                "needs a number of its own",
                self.url, self.ulid, self.version,
            )  # fmt: skip
        elif self.ignored:
            _log.warning(
                "%s: it holds a write already, so nothing was written (if_exists='ignore')",
                self.url,
            )
        elif self.ulid is None and self.version is None:
            _log.warning("%s: the DataFrame has no rows, so no block was written", self.url)
        else:
            _log.info("%s", self)
        return self

    def __str__(self) -> str:
        spent = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self.seconds.items())
        gone = ""
        if self.operation != "append":
            rows = "an unknown number of" if self.rows_removed is None else f"{self.rows_removed:,}"
            gone = (
                f", in the place of {rows} rows ({len(self.removed) + len(self.accounted)} blocks "
                "gone, "
                f"{len(self.rewritten)} rewritten)"
            )
        version = "not published yet" if self.version is None else f"version {self.version}"
        block = "no block" if self.ulid is None else f"block {self.ulid}"
        return (
            f"{self.url}: {self.operation}, {block}, {version}, {self.rows:,} rows in "
            f"{self.chunks} chunks of "
            f"{self.bytes:,} bytes{gone}; {spent}"
        )
