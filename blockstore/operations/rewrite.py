"""``rewrite``: live blocks replaced by fresh copies of their rows - one index entry.

What a repair does to a block whose chunks are damaged, with rows from elsewhere, and what brings
old blocks under the current definition.

Rules:
- A rewrite has the sources of the block that it replaces and ``revision`` + 1 (format, "sources"):
  wherever both are seen, it is the one that counts.
- Rows of excepted sources do not come along; a block of which no row is left is removed.
- If the block was merged or reverted meanwhile the rewrite conflicts: its caller looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from blockstore.errors import BlockCondemned, Invalid, NotFound
from blockstore.format.block import BlockMeta
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.conditions import check_said
from blockstore.operations.kept_rows import Rewriter
from blockstore.operations.matching import Fate
from blockstore.operations.replacement import Replace
from blockstore.operations.results import Changed
from blockstore.operations.staging import RENEWALS, renewed, uploading
from blockstore.predicate import Predicate

GoodRows = Callable[[LiveBlock], Iterable[pa.RecordBatch]]
"""The rows that a block is to have: the table's columns and ``_source``, in any order."""


def rewrite(
    access: Access,
    ulids: Iterable[str],
    *,
    rows: GoodRows | None = None,
    reason: str = "",
    message: str = "",
    dry_run: bool = False,
) -> Changed:
    """Replace live blocks by copies of their rows, or by the rows that ``rows`` gives for them.

    Raises NotFound for a block that is not live, Corrupt or ObjectMissing for one that cannot be
    read, Conflict if one was replaced meanwhile; then nothing is changed.
    """
    check_said(None, message)
    read, blocks = live_blocks(access.log, ulids)
    if dry_run:
        return _answer(blocks, {block.ulid: None for block in blocks}, version=None, dry_run=True)
    rewriter = Rewriter(access=access, state=read, producer=str(Operation.REWRITE))
    with uploading(str(Operation.REWRITE)):
        made = {block.ulid: _rewritten(rewriter, block, rows) for block in blocks}
    commit = access.world.ids.ulid()
    for left in reversed(range(RENEWALS + 1)):
        change = Replace(
            operation=Operation.REWRITE,
            commit=commit,
            read=read,
            add=tuple(meta for meta in made.values() if meta is not None),
            gone={block.ulid: block.excepted for block in blocks},
            parameters={"reason": reason} if reason else {},
            message=message,
        )
        try:
            version = access.log.commit(change).version
        except BlockCondemned:
            if not left:
                raise
            state = access.log.state
            with uploading(str(Operation.REWRITE)):
                made = {ulid: meta and renewed(access, state, meta) for ulid, meta in made.items()}
        else:
            break
    return _answer(blocks, made, version=version)


def live_blocks(log: Log, ulids: Iterable[str]) -> tuple[State, list[LiveBlock]]:
    """The newest state and its live blocks of these names.

    Raises Invalid for none, NotFound for one that is not live.
    """
    wanted = [ulids] if isinstance(ulids, str) else list(dict.fromkeys(ulids))
    if not wanted:
        raise Invalid("no block was named, expected the ULID of at least one live block")
    state = log.poll()
    found = []
    for ulid in wanted:
        block = state.blocks.get(ulid)
        if block is None:
            raise NotFound(
                f"block {ulid} is not live at version {state.version} of {log.bucket.url}: list "
                "the live blocks with inspect"
            )
        found.append(block)
    return state, found


def _rewritten(rewriter: Rewriter, block: LiveBlock, rows: GoodRows | None) -> BlockMeta | None:
    if rows is not None:
        return rewriter.of_rows(block, rows(block))
    return rewriter.without(
        block, {file.path: Fate.KEEP for file in block.meta.chunks}, Predicate()
    )


def _answer(
    blocks: Iterable[LiveBlock],
    made: Mapping[str, BlockMeta | None],
    *,
    version: int | None,
    dry_run: bool = False,
) -> Changed:
    metas = [meta for meta in made.values() if meta is not None]
    stay = {ulid for ulid, meta in made.items() if meta is not None or dry_run}
    listed = list(blocks)
    return Changed(
        operation=str(Operation.REWRITE),
        version=version,
        dry_run=dry_run,
        removed=tuple(block.ulid for block in listed if block.ulid not in stay),
        rewritten={
            ulid: None if meta is None else meta.ulid for ulid, meta in made.items() if ulid in stay
        },
        rows_removed=None if any(block.excepted for block in listed) else 0,
        bytes_removed=sum(block.meta.bytes for block in listed),
        bytes_added=sum(meta.bytes for meta in metas),
    )
