"""What transactions return: what they did, or, as a dry run, what they would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What an overwrite, a delete, a rewrite or an expire did.

    ``version`` is the index entry that holds it; None for a dry run, and where nothing was to be
    done. ``already`` says that the job had been committed before, by ``version`` where that is
    known; then nothing else is reported.
    """

    operation: str
    version: int | None = None
    dry_run: bool = False
    already: bool = False
    added: tuple[str, ...] = ()
    """The block of the new rows."""
    removed: tuple[str, ...] = ()
    """Blocks of which no row in view was left."""
    rewritten: Mapping[str, str | None] = field(default_factory=dict)
    """Blocks of which some rows stay, and the block that holds those now; None in a dry run."""
    accounted: tuple[str, ...] = ()
    """Writes that no index entry named yet, and that none will ever name: their rows are gone as
    well."""
    rows_added: int = 0
    rows_removed: int | None = 0
    """None where it is not known without reading rows: of blocks of which a source was reverted
    before."""
    bytes_removed: int = 0
    """The size of the blocks that were removed, or replaced by a rewrite."""
    bytes_added: int = 0
    """The size of the blocks that were written; for a dry run it is not known, and 0."""

    @property
    def nothing(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.added or self.removed or self.rewritten or self.accounted or self.already)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverted:
    """What a revert did.

    The rows of each source are given where the block that holds them states them: a block of one
    write. In a merged block they would have to be read, which only a dry run does.
    """

    version: int | None = None
    dry_run: bool = False
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Sources that are hidden now, and the live block that holds them."""
    removed: tuple[str, ...] = ()
    """Blocks of which no row was left."""
    accounted: tuple[str, ...] = ()
    """Sources that no index entry named yet, and that none will ever name."""
    already: tuple[str, ...] = ()
    """Sources of which no row was visible any longer: reverted, deleted, replaced or expired
    before."""
    overwrites: tuple[str, ...] = ()
    """Those of ``hidden`` that were overwrites: the rows which they had replaced do not come back;
    a restore brings them."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Rows by source, as far as they are known."""
    undone: Mapping[str, int] = field(default_factory=dict)
    """Where rows have versions: how many rows of each source have their former state again. Nothing
    is hidden there."""
    left: Mapping[str, int] = field(default_factory=dict)
    """Where rows have versions: how many rows of each source were changed since, and stay."""
    left_rows: tuple[tuple[object, int, int | None], ...] = ()
    """Up to 1,000 of them: the row's identity, the version that was to be undone, and the row's
    version now (None: it was deleted)."""
    repeated: bool = False
    """Whether the job had done it before this call; then only ``version`` is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore did: the table is as it was at version ``to``, and appends that came in
    between stay."""

    to: int
    version: int | None = None
    dry_run: bool = False
    brought_back: tuple[str, ...] = ()
    """Blocks that are live again, or show other sources than before."""
    removed: tuple[str, ...] = ()
    """Blocks that are no longer live."""
    rows: int | None = 0
    """Rows more (or less) than before;

    None where sources are hidden in a merged block, so that only reading shows it.
    """
    rows_back: int = 0
    """Where rows have versions, and no block moves: rows that exist again,"""
    rows_changed: int = 0
    """rows that have their former state again,"""
    rows_gone: int = 0
    """and rows that are deleted, since they did not exist."""
    repeated: bool = False
    """Whether the job had done it before this call; then only ``version`` is known."""

    @property
    def nothing(self) -> bool:
        """Whether the table was as it should be."""
        rows = self.rows_back or self.rows_changed or self.rows_gone
        return not (self.brought_back or self.removed or rows or self.repeated)
