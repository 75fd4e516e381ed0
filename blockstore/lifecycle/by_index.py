"""Which directories of a table with an index may go (R4, R6, R8, protocol 3.6).

Rules:
- What a version above the boundary or a tag names stays, whatever mark is on it.
- A ``visible_by: age`` block goes once the index accounts for all of its sources: its writer can no
  longer publish it.
- Everything else may still be published by a stalled writer, or finished by a stalled uploader,
  until the horizon has passed it: a directory without a meta.json, an ``index`` block, a block that
  a person marked and whose sources are not accounted for. It is condemned only at or below the
  horizon, and only if its upload is old by R4.
- An ``index`` block waits for the horizon also where its sources are accounted: a merge on its way
  to its entry holds nothing but accounted sources.
- A malformed block goes by a person's mark alone, and one marked malformed that can be read stays
  unless it is accounted.
"""

from __future__ import annotations

from blockstore.format.block import VisibleBy
from blockstore.format.marks import MarkReason
from blockstore.index.state import State
from blockstore.lifecycle.fate import READABLE, Fate, goes, quarantined, stays
from blockstore.lifecycle.listing import Found
from blockstore.lifecycle.sight import OWN_MARKS, Sight
from blockstore.lifecycle.standing import standing_of
from blockstore.lifecycle.states import Standing, classify

_UNNAMED = "no version above the boundary and no tag names it"


class ByIndex:
    """The fates in one sight.

    ``horizon`` is the state's, or a higher one, to see what that would condemn.
    """

    def __init__(self, sight: Sight, state: State, horizon: str | None = None) -> None:
        self._sight = sight
        self._state = state
        self._horizon = state.horizon if horizon is None else horizon

    def to_mark(self, one: Found) -> Fate:
        """What the compactor may mark by itself."""
        return self._fate(one)

    def to_remove(self, one: Found) -> Fate:
        """R6's condition must still hold when the mark is due.

        A block that became complete under a partial mark may have been listed until the index
        accounted for it: it waits ``delete_delay`` from a mark of its own, as all that readers have
        seen.
        """
        fate = self._fate(one)
        if fate.goes and one.mark is MarkReason.PARTIAL and _listed_by_readers(one):
            return stays(
                "it became complete since it was marked partial: its mark is to be withdrawn"
            )
        return fate

    def _fate(self, one: Found) -> Fate:
        ulid = one.directory.ulid
        namer = self._sight.named_by(ulid)
        if namer is not None:
            return stays(f"{namer} names it")
        by_person = one.mark is not None and one.mark not in OWN_MARKS
        if one.damage is not None:
            return self._damaged(one, by_person=by_person)
        if one.meta is None:
            return self._condemned(
                one, MarkReason.PARTIAL, "no meta.json for longer than partial_delay"
            )
        accounted = standing_of(ulid, one.meta, self._state) is Standing.ACCOUNTED
        if one.meta.visible_by is VisibleBy.INDEX:
            if accounted:
                return self._condemned(one, MarkReason.SUPERSEDED, "other blocks hold its rows")
            return self._condemned(one, MarkReason.PARTIAL, "its entry was never committed")
        if accounted:
            if not self._sight.is_aged(one):
                return stays("younger than sync_delay")
            return goes(f"the index accounts for its sources, and {_UNNAMED}")
        if one.mark is MarkReason.MALFORMED:
            return stays(READABLE)
        if by_person:
            return self._condemned(one, MarkReason.MANUAL, f"a person marked it {one.mark}")
        malformed = self._sight.quarantined(one)
        if malformed is not None:
            return quarantined(malformed)
        return stays(
            classify(self._sight.evidence(one), self._sight.now_ms, self._sight.properties).reason
        )

    def _damaged(self, one: Found, *, by_person: bool) -> Fate:
        malformed = self._sight.quarantined(one)
        if not by_person:
            return (
                stays(f"too young to judge: {one.damage}")
                if malformed is None
                else quarantined(malformed)
            )
        meta = one.meta
        by_age = meta is not None and meta.visible_by is VisibleBy.AGE
        if by_age and standing_of(one.directory.ulid, meta, self._state) is Standing.ACCOUNTED:
            return goes(f"a person marked it {one.mark}, and {_UNNAMED}")
        return self._condemned(one, MarkReason.MANUAL, f"a person marked it {one.mark}")

    def _condemned(self, one: Found, reason: MarkReason, why: str) -> Fate:
        """It goes if the horizon forbids publishing it."""
        if not self._sight.is_old_upload(one):
            return stays("an upload may still be going on: it is younger than partial_delay")
        if self._horizon is None or one.directory.ulid > self._horizon:
            return stays("the horizon has not passed it: its writer may still publish it")
        return goes(f"{why}, it is at or below the horizon, and {_UNNAMED}", reason)


def _listed_by_readers(one: Found) -> bool:
    """Whether a reader that lists may have shown the block."""
    return one.damage is None and one.meta is not None and one.meta.visible_by is VisibleBy.AGE
