"""The append of one uploaded block: durable first, then visible.

Invariants (protocol, "What append answers"):
- Without a job an append succeeds once the block is durable (R3). It is published, or the answer
  says ``published = False`` and the block becomes visible by age.
- With a job the block is visible by its entry only. The answer is the commit, or an error after
  which the same job is retried; a batch that is committed already answers with the block that did
  it.
- A condemned block (at or below the horizon) is uploaded again under a new ULID that keeps its
  source, a few times.
- Once the block is durable nothing that hinders publishing is an error of a write without a job:
  told "refused", its caller would write the rows again, and discovery would show both. A damaged
  index (Corrupt) and a replaced history are raised, with the block's ULID and how to go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from blockstore.bucket import Bucket
from blockstore.errors import (
    AccessDenied,
    BlockCondemned,
    Corrupt,
    HistoryReplaced,
    Indeterminate,
    Unavailable,
)
from blockstore.format.block import BlockMeta, Job, VisibleBy
from blockstore.ids import ulid_time_ms
from blockstore.index.change import Append, Committed, Left
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.lifecycle.upload import finish_upload, in_time, upload_again
from blockstore.world import World

__all__ = [
    "AppendedBlock",
    "append_block",
    "earlier_block",
    "is_accounted",
    "known_block",
    "looking_ahead",
    "own_looks",
    "publish",
]

_logger = logging.getLogger(__name__)

AppendOf = Callable[..., Append]
"""``Append``, or a kind of it that sets conditions."""

_UPLOADS = 3
"""A fresh ULID is condemned only where the clocks are days apart: then copying once more cannot
help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedBlock:
    """What became of a write.

    ``ulid`` is None if there were no rows, and then nothing was written, or for a job done too long
    ago to name it. ``version`` is the index entry that made the block visible; with ``published =
    False`` there is none yet. ``already`` says that the rows had been written before, by the block
    named here; its ``rows``, ``bytes`` and ``chunks`` are 0 if a merge has replaced it since.
    """

    ulid: str | None
    version: int | None
    published: bool
    rows: int = 0
    bytes: int = 0
    chunks: int = 0
    already: bool = False


NOTHING = AppendedBlock(ulid=None, version=None, published=False)
"""The answer to a write without rows."""


def append_block(
    bucket: Bucket,
    world: World,
    log: Log | None,
    meta: BlockMeta,
    *,
    message: str = "",
    append: AppendOf = Append,
) -> AppendedBlock:
    """Make a block whose chunks are uploaded durable and, given a log, visible.

    Its upload began when its ULID was drawn. ``append`` makes the change that names the block.
    """
    with own_looks(log):
        durable = _durable(bucket, world, log, meta)
        return publish(bucket, world, log, durable, message=message, append=append)


def _durable(bucket: Bucket, world: World, log: Log | None, meta: BlockMeta) -> BlockMeta:
    try:
        complete = in_time(bucket, world, meta, ulid_time_ms(meta.ulid))
        return finish_upload(bucket, world, complete, meanwhile=looking_ahead(log))
    except BlockCondemned:
        if not is_accounted(log, meta.sources):
            raise
        return meta


@contextmanager
def own_looks(log: Log | None) -> Iterator[None]:
    """What is looked at ahead in this block serves no later operation, however it ends."""
    try:
        yield
    finally:
        if log is not None:
            log.look_no_more()


def looking_ahead(log: Log | None) -> Callable[[], object] | None:
    """What a commit asks first, to be asked while the block is being completed;

    None where it costs no time to ask then.
    """
    return None if log is None else log.look_ahead()


def is_accounted(log: Log | None, sources: Sequence[str]) -> bool:
    """Whether the index of this table accounts for all of these writes. Raises HistoryReplaced.

    Such a write is done, also where the chunks of its block are gone: its writer stalled, and it
    was seen, and replaced since. Told "refused", its caller would bring back rows that others
    overwrote or deleted.
    """
    if log is None or len(log.poll().accounted.held(sources)) < len(sources):
        return False
    log.confirm()
    return True


def publish(
    bucket: Bucket,
    world: World,
    log: Log | None,
    meta: BlockMeta,
    *,
    message: str = "",
    append: AppendOf = Append,
) -> AppendedBlock:
    """Make a durable block visible; without a log it waits to be discovered."""
    if log is None:
        return _answer(meta, version=None, published=False)
    for _ in range(_UPLOADS):
        change = append(commit=world.ids.ulid(), blocks=(meta,), job=meta.job, message=message)
        try:
            committed = log.commit(change)
        except BlockCondemned as error:
            condemned = error
            meta = finish_upload(bucket, world, upload_again(bucket, world, meta))
        except (Unavailable, Indeterminate, AccessDenied) as error:
            if meta.visible_by is VisibleBy.INDEX:
                raise
            _logger.warning("block %s is durable, and not published: %s", meta.ulid, error)
            return _answer(meta, version=None, published=False)
        except HistoryReplaced as error:
            raise HistoryReplaced(f"{error}; {_how_to_go_on(meta, 'it is open again')}") from error
        except Corrupt as error:
            raise type(error)(f"{error}; {_how_to_go_on(meta, 'the index is mended')}") from error
        else:
            return _committed(log.state, meta, committed)
    raise BlockCondemned(
        f"{condemned}; so were the {_UPLOADS - 1} uploads before it: compare this machine's clock "
        "with the store's"
    )


def _how_to_go_on(meta: BlockMeta, then: str) -> str:
    """What to do about a durable block whose index is damaged, or another one, once that is
    over."""
    if meta.job is not None:
        return (
            f"the rows of job {meta.job.app!r}, batch {meta.job.batch}, were not published: once "
            f"{then}, run the same job again"
        )
    if meta.visible_by is VisibleBy.INDEX:
        return f"the rows of block {meta.sources[0]} were not published: once {then}, run it again"
    return (
        f"block {meta.sources[0]} was uploaded: do not write its rows under another name; once "
        f"{then}, "
        f"append(data, resume={meta.sources[0]!r}) publishes it, or it is discovered by its age"
    )


def earlier_block(state: State, job: Job) -> AppendedBlock | None:
    """The block by which the job's batch was committed, or None if it was not."""
    app = state.batches.get(job.app)
    if app is None or job.batch not in app:
        return None
    written = app.written(job.batch)
    if written is None or not written.blocks:
        return AppendedBlock(ulid=None, version=None, published=True, already=True)
    return known_block(state, written.blocks[0], written.version)


def known_block(state: State, ulid: str, version: int | None) -> AppendedBlock:
    """The answer for a block whose rows are in the table already, by ``version`` where that is
    known."""
    live = state.blocks.get(ulid)
    if live is None:
        return AppendedBlock(ulid=ulid, version=version, published=True, already=True)
    return _answer(live.meta, version=version or live.version, published=True, already=True)


def _committed(state: State, meta: BlockMeta, committed: Committed) -> AppendedBlock:
    if committed.left.get(meta.ulid) in (Left.DEFERRED, Left.QUARANTINED):
        return _answer(meta, version=None, published=False)
    if meta.job is not None and committed.already:
        earlier = earlier_block(state, meta.job)
        if earlier is not None and earlier.ulid != meta.ulid:
            return earlier
    return _answer(meta, version=committed.version, published=True, already=committed.already)


def _answer(
    meta: BlockMeta, *, version: int | None, published: bool, already: bool = False
) -> AppendedBlock:
    return AppendedBlock(
        ulid=meta.ulid,
        version=version,
        published=published,
        rows=meta.rows,
        bytes=meta.bytes,
        chunks=len(meta.chunks),
        already=already,
    )
