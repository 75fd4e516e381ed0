"""What one index entry means to a stream that follows the table. Pure.

- An append and a discovery add rows. Their blocks are delivered as they were written, whatever
  merges them later.
- A merge moves rows, retention drops old ones, and the rest (tags, epochs, watermarks, a new
  definition) changes none. They deliver nothing and are not an error.
- Every other operation, those of later releases too, is judged by the entry's content. One that
  removes, hides or accounts for anything changes rows that were delivered before: the stream stops,
  unless it is set to ignore that. Its new rows (a block that is its ``own``) were never delivered.
- A restore and a rebuilt index always count as changes, since the rows that they bring back were in
  the table before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from blockstore.index.added import AddedBlock
from blockstore.index.entry import Entry, Operation
from blockstore.index.fold import void_commit
from blockstore.index.rows import LiveBlock

_ADDING = frozenset({Operation.APPEND, Operation.DISCOVER})
_SILENT = frozenset(
    {
        Operation.CREATE,
        Operation.ALTER,
        Operation.COMPACT,
        Operation.EXPIRE,
        Operation.TAG,
        Operation.UNTAG,
        Operation.EPOCH,
        Operation.HORIZON,
    }
)
_ALWAYS = frozenset({Operation.RESTORE, Operation.REBUILD})


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What a version means to a stream."""

    version: int
    commit: str
    operation: str
    blocks: tuple[LiveBlock, ...] = ()
    """New rows, in the order of the entry."""
    changes: bool = False
    """Whether it removes or changes rows that a stream may have delivered."""


def void_news(version: int) -> News:
    """The news of a version whose entry is void: a position may still end there."""
    return News(version=version, commit=void_commit(version), operation="void")


def news_of(entry: Entry) -> News:
    """The news of an entry."""
    if entry.operation in _SILENT and not _is_correction(entry):
        added: list[AddedBlock] = []
        changes = False
    else:
        changes = entry.operation in _ALWAYS or bool(entry.remove or entry.excepts or entry.account)
        adds_all = entry.operation in _ADDING and not changes
        added = [block for block in entry.add if adds_all or _is_new(block)]
    return News(
        version=entry.id,
        commit=entry.commit,
        operation=str(entry.operation),
        blocks=tuple(_live(entry, block) for block in added),
        changes=changes,
    )


def _is_correction(entry: Entry) -> bool:
    """Whether an ``expire`` entry is from a person (``mark --deletion``), not from retention."""
    return entry.operation == Operation.EXPIRE and entry.parameters.get("reason") != "retention"


def _is_new(block: AddedBlock) -> bool:
    """Whether the block's rows were in no block before.

    Its ``own`` rows were not, and those of a refused upload, whose source the entry then names.
    """
    return block.version is None and (block.meta.own or block.sources is not None)


def _live(entry: Entry, block: AddedBlock) -> LiveBlock:
    """The block in the state just after the entry; rows are numbered in the order of ``add``."""
    before = 0
    for other in entry.add:
        if other is block:
            break
        before += other.meta.rows if other.first_row_id is None else 0
    meta = (
        block.meta
        if not isinstance(block.sources, tuple)
        else replace(block.meta, sources=block.sources)
    )
    return LiveBlock(meta=meta, version=entry.id, first_row_id=(entry.first_row_id or 0) + before)
