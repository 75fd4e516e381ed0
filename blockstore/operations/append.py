"""The append of one uploaded block: complete first, then visible.

Invariants (protocol, "What append returns"):
- Without a job an append succeeds once an entry names its block, or once R3's looks have shown that
  the block will stay; then the result says ``published = False``, and it becomes visible by age.
- With a job the block is visible by its entry only. The result is the commit, or an error after
  which the same job is retried; for a batch that is committed already it is the block that did it.
- A condemned block (at or below the horizon) is uploaded again under a new ULID that keeps its
  source, a few times.
- Once the block is complete a failure to publish is not an error of a write without a job: a caller
  that was refused would write the rows again, and discovery would show both. A damaged index
  (Corrupt) and a replaced history are raised, with the block's ULID and how to continue.
- Nor does discovery show a block whose write was refused because the table was dropped: a mark
  keeps it out.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from blockstore.bucket import Bucket
from blockstore.errors import (
    AccessDenied,
    BlockCondemned,
    Conflict,
    Corrupt,
    HistoryReplaced,
    Indeterminate,
    Invalid,
    NotFound,
    TableDropped,
    Unavailable,
)
from blockstore.format.block import BlockKind, BlockMeta, Job, VisibleBy
from blockstore.format.marks import MarkReason
from blockstore.ids import ulid_time_ms
from blockstore.index.change import Append, Committed, Left
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.lifecycle.mark import place_deletion
from blockstore.lifecycle.upload import (
    finish_for_entry,
    finish_upload,
    in_time,
    look_again,
    upload_again,
)
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.operations.access import Access
    from blockstore.operations.view import View

_logger = logging.getLogger(__name__)

_UPLOADS = 3
"""A fresh ULID is condemned only where the clocks are days apart: then copying once more cannot
help."""

_WHY_LEFT = {
    Left.DEFERRED: "it is at or below the horizon",
    Left.QUARANTINED: "it shares writes with other blocks",
}


AppendOf = Callable[..., Append]


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
"""The result of a write without rows."""


class Publisher(ABC):
    """How the blocks of one table become visible; chosen once for a handle (``publisher_of``)."""

    by_entry: bool
    """Whether by an entry of an index."""

    @abstractmethod
    def check_job(self, job: Job | None, url: str) -> None:
        """Raise Invalid if the table cannot write a job exactly once."""

    @abstractmethod
    def done_before(self, job: Job | None, resumed: str | None) -> AppendedBlock | None:
        """The block by which this job, or this resumed write, was committed before."""

    @abstractmethod
    def is_accounted(self, sources: Sequence[str]) -> bool:
        """Whether the index of this table accounts for all of these writes. Raises HistoryReplaced.

        Such a write is done, also where the chunks of its block are gone: its writer stalled, and
        the block was visible, and was replaced since. A caller that was refused would write again
        rows that others overwrote or deleted.
        """

    @abstractmethod
    def complete(self, bucket: Bucket, world: World, meta: BlockMeta) -> BlockMeta:
        """Write the meta.json of a block whose chunks are uploaded, with the looks that are owed
        before ``publish``; returns the block that holds the rows. Raises as ``finish_upload``."""

    @abstractmethod
    def own_looks(self) -> AbstractContextManager[None]:
        """A context whose early checks serve no later operation, however it ends."""

    @abstractmethod
    def publish(
        self,
        bucket: Bucket,
        world: World,
        meta: BlockMeta,
        message: str,
        append: AppendOf = Append,
    ) -> AppendedBlock:
        """Make a complete block visible. ``append`` makes the change that names the block."""


def publisher_of(log: Log | None) -> Publisher:
    """The publisher of a table with this index, or of one without an index."""
    return ByAge() if log is None else ByEntry(log)


class ByAge(Publisher):
    """A durable block becomes visible by its age, in a table without an index or on request."""

    by_entry = False

    def check_job(self, job: Job | None, url: str) -> None:
        if job is not None:
            raise Invalid(
                f"the table at {url} has no index, and a write with a job needs one to happen "
                "once: drop the job, or write to a table with an index"
            )

    def done_before(self, job: Job | None, resumed: str | None) -> AppendedBlock | None:
        return None

    def is_accounted(self, sources: Sequence[str]) -> bool:
        return False

    def complete(self, bucket: Bucket, world: World, meta: BlockMeta) -> BlockMeta:
        return finish_upload(bucket, world, meta)

    def own_looks(self) -> AbstractContextManager[None]:
        return nullcontext()

    def publish(
        self,
        bucket: Bucket,
        world: World,
        meta: BlockMeta,
        message: str,
        append: AppendOf = Append,
    ) -> AppendedBlock:
        return _result(meta, version=None, published=False)


class ByEntry(Publisher):
    """A block becomes visible by an entry of the table's index."""

    by_entry = True

    def __init__(self, log: Log) -> None:
        self._log = log

    def check_job(self, job: Job | None, url: str) -> None:
        """An entry holds the job."""

    def done_before(self, job: Job | None, resumed: str | None) -> AppendedBlock | None:
        if job is not None and (earlier := earlier_block(self._log.state, job)) is not None:
            self._log.confirm()
            return earlier
        if resumed is None or not self.is_accounted([resumed]):
            return None
        return known_block(self._log.state, resumed, None)

    def is_accounted(self, sources: Sequence[str]) -> bool:
        if len(self._log.poll().accounted.held(sources)) < len(sources):
            return False
        self._log.confirm()
        return True

    def complete(self, bucket: Bucket, world: World, meta: BlockMeta) -> BlockMeta:
        """The first look of the commit is made at the same time."""
        return finish_for_entry(
            bucket, world, meta, slow=self._log.is_slow, meanwhile=self._log.look_ahead()
        )

    def own_looks(self) -> AbstractContextManager[None]:
        return self._log.own_looks()

    def publish(
        self,
        bucket: Bucket,
        world: World,
        meta: BlockMeta,
        message: str,
        append: AppendOf = Append,
    ) -> AppendedBlock:
        for _ in range(_UPLOADS):
            change = append(commit=world.ids.ulid(), blocks=(meta,), job=meta.job, message=message)
            try:
                committed = self._log.commit(change)
            except BlockCondemned as error:
                condemned = error
                meta = self.complete(bucket, world, upload_again(bucket, world, meta))
            except (Unavailable, Indeterminate, AccessDenied) as error:
                if meta.visible_by is VisibleBy.INDEX:
                    raise
                _logger.warning("block %s is uploaded but not published: %s", meta.ulid, error)
                return self._left_to_its_age(bucket, world, meta)
            except TableDropped:
                self._give_up(bucket, world, meta)
                raise
            except HistoryReplaced as error:
                if error.dropped:
                    self._give_up(bucket, world, meta)
                    raise
                how = _how_to_go_on(meta, "the table is open again")
                raise HistoryReplaced(f"{error}; {how}") from error
            except Corrupt as error:
                how = _how_to_go_on(meta, "the index is repaired")
                raise type(error)(f"{error}; {how}") from error
            else:
                if committed.left.get(meta.ulid) in (Left.DEFERRED, Left.QUARANTINED):
                    # An entry without blocks has taken the batch of a job: the block stays unseen.
                    job = meta.job
                    taken = None if job is None else earlier_block(self._log.state, job)
                    return taken or self._left_to_its_age(bucket, world, meta)
                return _committed(self._log.state, meta, committed)
        raise BlockCondemned(
            f"{condemned}; the {_UPLOADS - 1} uploads before it were condemned too: compare this "
            "machine's clock with the store's"
        )

    def _give_up(self, bucket: Bucket, world: World, meta: BlockMeta) -> None:
        """Keep a block from being discovered later: its write is refused. Raises Indeterminate
        where that is not certain."""
        if meta.visible_by is VisibleBy.INDEX:
            return
        why = "its write was refused, because the table was dropped"
        try:
            place_deletion(bucket, world, meta.ulid, MarkReason.MANUAL, why)
        except NotFound:
            return  # it was removed since
        except (Unavailable, AccessDenied) as error:
            raise Indeterminate(
                f"the table was dropped, and block {meta.ulid} could not be marked for deletion "
                f"({error}): its rows are in the table if that is brought back; mark it yourself",
                ulid=meta.ulid,
            ) from error

    def _left_to_its_age(self, bucket: Bucket, world: World, meta: BlockMeta) -> AppendedBlock:
        """The result for a block that no entry names: R3's looks are owed."""
        try:
            meta = look_again(bucket, world, meta)
        except BlockCondemned:
            if not self.is_accounted(meta.sources):
                raise
            return known_block(self._log.state, meta.ulid, None)
        return _result(meta, version=None, published=False)


def append_block(
    bucket: Bucket,
    world: World,
    log: Log | None,
    meta: BlockMeta,
    *,
    message: str = "",
    append: AppendOf = Append,
) -> AppendedBlock:
    """Make a block whose chunks are uploaded durable and, with a log, visible.

    Its upload began when its ULID was drawn. ``append`` makes the change that names the block.
    """
    publisher = publisher_of(log)
    with publisher.own_looks():
        complete = _complete(bucket, world, publisher, meta)
        return publisher.publish(bucket, world, complete, message, append)


def publish(
    bucket: Bucket, world: World, log: Log | None, meta: BlockMeta, *, message: str = ""
) -> AppendedBlock:
    """Make a durable block visible; without a log it waits to be discovered."""
    return publisher_of(log).publish(bucket, world, meta, message)


def publish_first(access: Access, view: View, metas: Iterable[BlockMeta], what: str) -> bool:
    """Publish blocks of the view of which the transaction ``what`` needs a part, and return whether
    there were any.

    Rules (protocol 3.3 step 3, R4): at or below the horizon, and under a mark, only discovery may
    publish a block. There this raises Conflict until the compactor has discovered it. Raises
    Unavailable where it is not known whether a block was published; then nothing of ``what`` was.
    """
    some = False
    for meta in metas:
        if meta.ulid in view.marked:
            raise _waits(meta, what, "it is marked for deletion")
        try:
            committed = access.log.commit(Append(commit=access.world.ids.ulid(), blocks=(meta,)))
        except Indeterminate as error:
            raise Unavailable(f"nothing of this {what} is visible, try again: {error}") from error
        why = _WHY_LEFT.get(committed.left.get(meta.ulid, Left.ACCOUNTED))
        if why is not None:
            raise _waits(meta, what, why)
        some = True
    return some


def _waits(meta: BlockMeta, what: str, why: str) -> Conflict:
    return Conflict(
        f"block {meta.ulid} holds rows that this {what} changes and rows that stay, no index entry "
        f"names it, and {why}: run this again once the compactor has discovered it"
    )


def _complete(bucket: Bucket, world: World, publisher: Publisher, meta: BlockMeta) -> BlockMeta:
    try:
        return publisher.complete(
            bucket, world, in_time(bucket, world, meta, ulid_time_ms(meta.ulid))
        )
    except BlockCondemned:
        if not publisher.is_accounted(meta.sources):
            raise
        return meta


def _how_to_go_on(meta: BlockMeta, then: str) -> str:
    """What to do about a durable block whose index is damaged, or another one, once that is
    over."""
    if meta.job is not None:
        return (
            f"the rows of job {meta.job.app!r}, batch {meta.job.batch}, were not published: once "
            f"{then}, run the same job again"
        )
    if meta.visible_by is VisibleBy.INDEX:
        return (
            f"the rows of block {meta.sources[0]} were not published: once {then}, write them again"
        )
    return (
        f"block {meta.sources[0]} was uploaded: do not write its rows under another name; once "
        f"{then}, append(data, resume={meta.sources[0]!r}) publishes it, or it is discovered by "
        "its age"
    )


def earlier_block(state: State, job: Job) -> AppendedBlock | None:
    """The block by which the job's batch was committed, or None if it was not. Where its rows are
    of several streams it is the first, with the rows of all."""
    app = state.batches.get(job.app)
    if app is None or job.batch not in app:
        return None
    written = app.written(job.batch)
    if written is None or not written.blocks:
        return AppendedBlock(ulid=None, version=None, published=True, already=True)
    first = known_block(state, written.blocks[0], written.version)
    if len(written.blocks) == 1:
        return first
    live = [block.meta for block in state.blocks.get_all(written.blocks).values()]
    own = [meta for meta in live if meta.kind is BlockKind.CHANGES or meta.job == job]
    if len(own) < len(written.blocks):
        return first
    return replace(
        first,
        rows=sum(meta.rows for meta in own),
        bytes=sum(meta.bytes for meta in own),
        chunks=sum(len(meta.chunks) for meta in own),
    )


def known_block(state: State, ulid: str, version: int | None) -> AppendedBlock:
    """The result for a block whose rows are in the table already, by ``version`` where that is
    known."""
    live = state.blocks.get(ulid)
    if live is None:
        return AppendedBlock(ulid=ulid, version=version, published=True, already=True)
    return _result(live.meta, version=version or live.version, published=True, already=True)


def _committed(state: State, meta: BlockMeta, committed: Committed) -> AppendedBlock:
    if meta.job is not None and committed.already:
        earlier = earlier_block(state, meta.job)
        if earlier is not None and earlier.ulid != meta.ulid:
            return earlier
    return _result(meta, version=committed.version, published=True, already=committed.already)


def _result(
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
