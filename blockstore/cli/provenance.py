"""The origin of a block and what still needs it: its marks, the entry that committed it, the
versions and tags that name it, the rows of each of its sources."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow.compute as pc

from blockstore.care.examine import examine, list_directory
from blockstore.cli.blocks import Shown
from blockstore.cli.output import Cell
from blockstore.errors import NotFound
from blockstore.format.block import BlockMeta
from blockstore.format.chunk_reader import read_batches
from blockstore.format.marks import DeletionMark
from blockstore.index.entry import Entry
from blockstore.index.reachable import Kept
from blockstore.names import NO_COMPACT_MARK, object_key
from blockstore.table import Table

_SOURCE = "_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What is known of a block, apart from its meta."""

    mark: DeletionMark | None = None
    mark_problems: tuple[str, ...] = ()
    no_compact: bool = False
    committed: Entry | None = None
    """The entry that committed it, while it is kept."""
    named_by: str | None = None
    """The kept version or the tag that names the block; None if there is none."""
    debris: tuple[str, ...] = field(default=())
    """Objects in its directory that its meta.json does not list."""

    def json(self) -> dict[str, Cell]:
        """Return it as JSON."""
        mark: Cell = None
        if self.mark is not None:
            mark = {
                "reason": str(self.mark.reason),
                "details": self.mark.details,
                "time_s": self.mark.deletion_time_s,
                "superseded_by": self.mark.superseded_by,
            }
        entry = self.committed
        return {
            "deletion_mark": mark,
            "no_compact_mark": self.no_compact,
            "mark_problems": list(self.mark_problems),
            "named_by": self.named_by,
            "committed": None
            if entry is None
            else {
                "version": entry.id,
                "operation": str(entry.operation),
                "by": entry.by,
                "message": entry.message,
            },
            "debris": list(self.debris),
        }


def provenance(table: Table, block: Shown) -> Provenance:
    """Read the block's directory again, and the index."""
    found = examine(table.bucket, list_directory(table.bucket, block.ulid))
    files = () if block.meta is None else block.meta.paths
    return Provenance(
        mark=found.mark,
        mark_problems=tuple(f"{key}: {problem}" for key, problem in found.mark_problems),
        no_compact=NO_COMPACT_MARK in found.directory.objects,
        committed=_entry(table, block.version) if table.indexed and block.version else None,
        named_by=Kept(table.log).look().why(block.ulid) if table.indexed else None,
        debris=found.debris(files) if block.meta is not None else (),
    )


def rows_by_source(table: Table, meta: BlockMeta) -> dict[str, int]:
    """Count the rows of each source in the block; for a merged one this reads every chunk."""
    if meta.level == 1:
        return {meta.sources[0]: meta.rows}
    counted: Counter[str] = Counter(dict.fromkeys(meta.sources, 0))
    for file in meta.chunks:
        for batch in read_batches(table.bucket, object_key(meta.ulid, file.path), file, [_SOURCE]):
            for one in pc.value_counts(batch.column(0)).to_pylist():
                counted[one["values"]] += one["counts"]
    return dict(counted)


def _entry(table: Table, version: int) -> Entry | None:
    try:
        return next(iter(table.log.entries(version, version)), None)
    except NotFound:
        return None
