"""What one index entry means to a stream that follows the table. Pure.

- An append and a discovery add rows: their blocks are delivered as they were written, whatever
  merges them later.
- A merge moves rows, retention drops old ones, and the rest (tags, epochs, watermarks, a new
  definition) touches none: nothing is delivered and nothing is wrong.
- Every other operation, those of later releases too, is judged by what it says. One that removes,
  hides or accounts for anything changes rows that were delivered before: the stream stops, unless
  it was told to ignore that. Its new rows (a block that is its ``own``) are rows that were never
  delivered.
- A restore and a rebuilt index always count as changes: what they bring back was there before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from blockstore.index.added import AddedBlock
from blockstore.index.entry import Entry, Operation
from blockstore.index.fold import void_commit
from blockstore.index.rows import LiveBlock

__all__ = ["News", "news_of", "nothing_at"]

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
    """What a version brings to a stream."""

    version: int
    commit: str
    operation: str
    blocks: tuple[LiveBlock, ...] = ()
    """New rows, in the order of the entry."""
    changes: bool = False
    """Whether rows were removed or changed that a stream may have delivered."""


def nothing_at(version: int) -> News:
    """What a version brings whose entry is void: a position may end there all the same."""
    return News(version=version, commit=void_commit(version), operation="void")


def news_of(entry: Entry) -> News:
    """What the entry brings."""
    if entry.operation in _SILENT and not _is_correction(entry):
        added: list[AddedBlock] = []
        changes = False
    else:
        changes = entry.operation in _ALWAYS or bool(entry.remove or entry.excepts or entry.account)
        whole = entry.operation in _ADDING and not changes
        added = [block for block in entry.add if whole or _is_new(block)]
    return News(
        version=entry.id,
        commit=entry.commit,
        operation=str(entry.operation),
        blocks=tuple(_live(entry, block) for block in added),
        changes=changes,
    )


def _is_correction(entry: Entry) -> bool:
    """Whether an ``expire`` is a person's, who takes a block out (``mark --deletion``), and not
    retention's."""
    return entry.operation == Operation.EXPIRE and entry.parameters.get("reason") != "retention"


def _is_new(block: AddedBlock) -> bool:
    """Whether the block's rows were in no block before: its ``own``, or those of a refused upload,
    whose source the entry must then name."""
    return block.version is None and (block.meta.own or block.sources is not None)


def _live(entry: Entry, block: AddedBlock) -> LiveBlock:
    """The block as the fold has it just after the entry; rows are numbered in the order of
    ``add``."""
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
