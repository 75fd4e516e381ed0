"""``restore``: the table as it was at a version - one index entry of references, and nothing is
copied.

Rules (protocol 3.3, "restore"):
- The version is pinned by a tag of its own first, so that nothing of it goes meanwhile:
  ``_restore_<commit id>``. It is removed at the end. Such a tag that is still there later was left
  by a restore that died; every restore to that version removes all of them, so does a cleaning pass
  once they are old, and an entry is only written while its own tag is set.
- The entry removes what was not live at the version and brings back what was, with the sources,
  version and first row id of that version. A block that hides other sources now is removed and
  brought back.
- What was appended or discovered after the restore had read the table stays.
- Every block that comes back is looked at: complete, and without a mark. Else the restore names it
  and changes nothing. So is, before the pin, whether it would hold: a version that only a young tag
  keeps is read and not restored yet. A dry run looks at both as well.
- Schema and properties stay the current ones: a definition only grows, so old blocks are read under
  it. So do jobs and tags.
- Rows that the index never showed (writes that were only accounted for) do not come back.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from blockstore.bucket.api import Bucket
from blockstore.errors import (
    BlockstoreError,
    Conflict,
    Fenced,
    HistoryReplaced,
    Invalid,
    NotFound,
    VersionExpired,
)
from blockstore.format.block import Job
from blockstore.index import tags, ulids
from blockstore.index.added import AddedBlock
from blockstore.index.change import Change, Done, Draft, Nothing, Untag, nothing
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from blockstore.index.rows import LiveBlock, visible_rows
from blockstore.index.rules import batch_done
from blockstore.index.state import State
from blockstore.index.tags import TEMPORARY, temporary
from blockstore.lifecycle.complete import CheckComplete, missing
from blockstore.operations.access import Access
from blockstore.operations.conditions import check_said
from blockstore.operations.instants import to_ms
from blockstore.operations.results import Restored
from blockstore.operations.scope import Moved
from blockstore.world import World

_logger = logging.getLogger(__name__)

_TRIES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What must leave and what must come for a state to be as it was."""

    back: tuple[LiveBlock, ...]
    """As they were at the version."""
    gone: tuple[LiveBlock, ...]
    """As they are now; those that come back otherwise are among them."""

    @property
    def rows(self) -> int | None:
        """Rows more than before, by metadata; None where that is not known."""
        more, less = visible_rows(self.back), visible_rows(self.gone)
        return None if more is None or less is None else more - less


@dataclass(kw_only=True)
class Restore(Change):
    """Bring the table back to ``target``, as planned on ``read``, while ``tag`` pins it."""

    operation: Operation = Operation.RESTORE
    commit: str
    target: State
    read: State
    tag: str
    message: str = ""
    job: Job | None = None
    differences: dict[int, Difference] = field(default_factory=dict)
    """What was decided on each state that it was tried on, by version."""

    def draft(self, state: State) -> Draft | Done:
        if state.tags.get(self.tag) != self.target.version:
            raise Moved(
                f"tag {self.tag!r}, which keeps version {self.target.version} while it is "
                "restored, was removed: restore again"
            )
        found = self.differences[state.version] = difference(state, self.target, self.read)
        if not found.back and not found.gone:
            return nothing(self)
        return Draft(
            add=tuple(_as_then(block) for block in found.back),
            remove=tuple(sorted(block.ulid for block in found.gone)),
            excepts={
                block.ulid: tuple(sorted(block.excepted)) for block in found.back if block.excepted
            },
            read={block.ulid: block.excepted for block in found.gone},
            read_version=self.read.version,
            parameters={"version": self.target.version},
            message=self.message,
        )


def restore(
    access: Access,
    *,
    version: int | None = None,
    tag: str | None = None,
    as_of: object = None,
    dry_run: bool = False,
    message: str = "",
    job: Job | None = None,
) -> Restored:
    """Make the newest version show what an earlier one did, named by its number, a tag, or a time.
    With a ``job`` it happens once.

    Raises NotFound for a version that never was, VersionExpired for one that was collected,
    Conflict where others changed blocks all the while.
    """
    check_said(job, message)
    target = target_of(access.log, version, tag, as_of)
    state = access.log.poll()
    if dry_run:
        planned = difference(state, target, state)
        if planned.back or planned.gone:
            check_kept(access.log, state, target.version)
            _check_whole(access.bucket, access.world, planned.back, state, target.version)
        return _answer(target, planned, None, dry_run=True)
    try:
        return _restored(access, target, message, job)
    finally:
        clear_pins(access, target.version)


def difference(now: State, then: State, read: State) -> Difference:
    """From ``now`` to ``then``; what was appended since ``read`` stays. Raises Moved where a block
    that is not an append holds writes that were not in the table when it was read. Pure."""
    here, there = (ulids.from_arrow(state.blocks.table()["ulid"]) for state in (now, then))
    gone = [
        block
        for block in now.blocks.take(np.flatnonzero(~ulids.holds(there, here)).tolist())
        if not _stays(block, read)
    ]
    back = then.blocks.take(np.flatnonzero(~ulids.holds(here, there)).tolist())
    hiding = {block.ulid for state in (now, then) for block in _hiding(state)}
    for ulid in sorted(hiding):
        is_now, was = now.blocks.get(ulid), then.blocks.get(ulid)
        if is_now is not None and was is not None and is_now.excepted != was.excepted:
            gone.append(is_now)
            back.append(was)
    return Difference(back=tuple(back), gone=tuple(gone))


def _stays(block: LiveBlock, read: State) -> bool:
    """Whether a block that the version did not have came in between, and does not matter here."""
    if block.version <= read.version:
        return False
    if block.meta.level == 1:
        return True
    if len(read.accounted.held(block.meta.sources)) == len(block.meta.sources):
        return False  # a merge or a rewrite of what was there
    raise Moved(
        f"block {block.ulid} was added by version {block.version}, after version {read.version}, "
        "which this restore has read, and holds new writes: read the table again and plan again"
    )


def _restored(access: Access, target: State, message: str, job: Job | None) -> Restored:
    bucket, world, log = access.bucket, access.world, access.log
    commit = world.ids.ulid()
    name = f"{TEMPORARY}{commit}"
    problem: Conflict | None = None
    for _ in range(_TRIES):
        read = log.poll()
        if (done := batch_done(read, job, ordered=True)) is not None:
            log.confirm()
            return Restored(to=target.version, version=done.version, repeated=True)
        found = difference(read, target, read)
        if not found.back and not found.gone:
            if job is not None:
                log.commit(Nothing(operation=Operation.RESTORE, commit=commit, job=job))
            return _answer(target, found, None)
        check_kept(log, read, target.version)
        what = f"version {target.version} is being restored"
        tags.tag(log, world, name, target.version, what, look=CheckComplete(bucket, world))
        _check_whole(bucket, world, found.back, read, target.version)
        change = Restore(
            commit=commit, target=target, read=read, tag=name, message=message, job=job
        )
        try:
            committed = log.commit(change)
        except (Fenced, HistoryReplaced):
            raise
        except Conflict as error:
            problem = error
            continue
        version = committed.version
        before = max(change.differences, default=0) if version is None else version - 1
        return _answer(target, change.differences.get(before, found), version)
    raise Conflict(
        f"this restore was planned {_TRIES} times, and each time another process was faster; "
        "nothing of it is in the index, try again when fewer processes change the same "
        f"blocks: {problem}"
    )


def target_of(log: Log, version: int | None, tag: str | None, as_of: object) -> State:
    if sum(one is not None for one in (version, tag, as_of)) != 1:
        raise Invalid("restore takes exactly one of version=, tag= and as_of=")
    if tag is not None:
        return log.tagged(tag)
    if as_of is not None:
        return log.as_of(to_ms(as_of))
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise Invalid(f"version is {version!r}, expected an integer from 1")
    return log.at(version)


def check_kept(log: Log, now: State, version: int) -> None:
    """Raise VersionExpired, before anything is written, where a restore's pin would not keep the
    version yet (3.5)."""
    from_ms = tags.keeps_from(log, version)
    if log.bucket.now_ms() < from_ms:
        names = ", ".join(
            repr(name) for name, pinned in sorted(now.tags.items()) if pinned == version
        )
        moment = datetime.fromtimestamp(math.ceil(from_ms / 1000), UTC).isoformat()
        delays = now.definition.properties
        # A tag whose own entry was collected is proved by the oldest entry left, and that moves on.
        unless = (
            ", unless more of the history is collected by then: a history_retention of half the "
            "delete_delay keeps it"
            if delays.history_retention_s < delays.delete_delay_s / 2
            else ""
        )
        raise VersionExpired(
            f"version {version} of {log.bucket.url} is kept by the tag {names} alone, and that tag "
            "is younger than half a delete_delay, so a restore cannot hold the version yet: it can "
            f"be read now, and restored from {moment} on{unless}"
        )


def _check_whole(
    bucket: Bucket, world: World, back: Sequence[LiveBlock], now: State, version: int
) -> None:
    """Raise NotFound if a block that comes back is not there as its meta says, or is marked for
    deletion."""
    metas = [block.meta for block in back if block.ulid not in now.blocks]
    lost = missing(bucket, world, metas)
    if lost:
        named = "; ".join(f"{ulid}: {why}" for ulid, why in sorted(lost.items())[:5])
        raise NotFound(
            f"version {version} of {bucket.url} cannot be restored, {len(lost)} of its blocks are "
            f"not complete ({named}): nothing was changed; withdraw the marks, or restore the "
            "objects from a copy, and try again"
        )


def clear_pins(access: Access, version: int) -> None:
    """Take away every temporary tag of the version; that one stays behind is not an error of the
    restore."""
    log = access.log
    try:
        tags = log.state.tags
        for name in [name for name in temporary(tags) if tags[name] == version]:
            log.commit(Untag(commit=access.world.ids.ulid(), name=name, version=version))
    except BlockstoreError as error:
        _logger.warning(
            "a temporary tag of version %s of %s was left behind, the compactor removes it: %s",
            version, log.bucket.url, error,
        )  # fmt: skip


def _as_then(block: LiveBlock) -> AddedBlock:
    return AddedBlock(
        meta=replace(block.meta, schema=b""), version=block.version, first_row_id=block.first_row_id
    )


def _hiding(state: State) -> list[LiveBlock]:
    """The blocks that hide sources."""
    hides = (
        state.blocks.table()["excepted"].is_valid().combine_chunks().to_numpy(zero_copy_only=False)
    )
    return state.blocks.take(np.flatnonzero(hides).tolist())


def _answer(
    target: State, found: Difference, version: int | None, *, dry_run: bool = False
) -> Restored:
    back = {block.ulid for block in found.back}
    return Restored(
        to=target.version,
        version=version,
        dry_run=dry_run,
        brought_back=tuple(sorted(back)),
        removed=tuple(sorted(block.ulid for block in found.gone if block.ulid not in back)),
        rows=found.rows,
    )
