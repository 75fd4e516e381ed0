"""When time alone gives cleaning or retention something to do, where nothing else changes. Pure.

Rules:
- A time that is given is never later than the moment at which a pass would act; where this is not
  known, it is ``UNSURE_S``, an hour.
- A marked block is due when its mark is old enough; an upload that has not ended, or was never
  published, when it counts as aborted; a dropped table when it cannot come back.
- What a version or a tag names goes only after the boundary has moved, which is a change of its
  own. What a person must decide waits for that person.
- A block that waits to be published is work already, and so is everything on a table without an
  index, where the age of blocks decides what readers see.
"""

from __future__ import annotations

from blockstore.compactor.clean.versions import kept_until_ms
from blockstore.files.named import ever_had_files
from blockstore.format.block import VisibleBy
from blockstore.format.marks import MarkReason
from blockstore.index.state import State
from blockstore.index.tags import temporary
from blockstore.lifecycle.listing import Found
from blockstore.lifecycle.sight import Sight, complete_meta
from blockstore.names import DELETION_MARK, META

UNSURE_S = 3600.0


def cleaning_due_s(sight: Sight) -> float | None:
    """In how many seconds a pass has something to do that found nothing now: 0 if something waits
    already, None if time alone brings nothing."""
    state = sight.state
    if state is None:
        return 0.0
    dues = [_of_block(sight, one) for one in sight.found.values()]
    if state.dropped is not None and state.dropped.cleared is None:
        delay_ms = sight.properties.delete_delay_s * 1000
        dues.append(_in_s(state.dropped.time_ms + delay_ms, sight.now_ms))
    if temporary(state.tags) or ever_had_files(state.definition, state.required_before):
        dues.append(UNSURE_S)
    return min((due for due in dues if due is not None), default=None)


def retention_due_s(state: State, now_ms: int) -> float | None:
    """In how many seconds a block, or a former version of a row, is old enough to expire."""
    if state.dropped is not None:
        return None
    dues = []
    retention_s = state.definition.properties.retention_s
    if retention_s is not None and len(state.blocks):
        oldest_ms = state.blocks.totals().min_max_time
        dues.append(_in_s(oldest_ms + retention_s * 1000, now_ms))
    former_ms = kept_until_ms(state)
    if former_ms is not None:
        dues.append(_in_s(former_ms, now_ms))
    return min(dues, default=None)


def _of_block(sight: Sight, one: Found) -> float | None:
    ulid, objects = one.directory.ulid, one.directory.objects
    delay_ms = sight.properties.delete_delay_s * 1000
    mark = objects.get(DELETION_MARK)
    named = sight.named_by(ulid) is not None
    meta = complete_meta(one)
    if mark is not None:
        times = [mark.modified_ms + delay_ms]
        if one.mark is MarkReason.PARTIAL and meta is not None and META in objects:
            times.append(objects[META].modified_ms + delay_ms / 2)
        ahead = [time_ms for time_ms in times if time_ms > sight.now_ms]
        if ahead:
            return _in_s(min(ahead), sight.now_ms)
        return None if named else UNSURE_S
    if named or sight.quarantined(one) is not None:
        return None
    if meta is not None and meta.visible_by is VisibleBy.AGE:
        return UNSURE_S if sight.is_aged(one) else 0.0
    return _in_s(sight.old_from_ms(one), sight.now_ms)


def _in_s(time_ms: float, now_ms: int) -> float:
    """The seconds until then; unsure where a pass had its chance and left it."""
    return (time_ms - now_ms) / 1000 if time_ms > now_ms else UNSURE_S
