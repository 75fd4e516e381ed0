"""A person's marks: who may mark what, and what that comes to.

Rules:
- R6: with an index a deletion mark lies on a block only if no version above the boundary and no tag
  names it. A live block is taken out by an entry instead (``expire``); the compactor marks it once
  nobody names it any more.
- Without an index the mark itself decides: readers hide the block at once, and it goes
  ``delete_delay`` later. A merge that had begun would show its rows again, so it is kept from
  merges first, hidden once they are known, and looked after for a while (``hiding.py``).
- Who marks twice changes nothing; a mark is withdrawn at once. A ULID in whose directory there is
  nothing is refused.
- Nothing here removes: that is the compactor's alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from blockstore.bucket.api import Bucket
from blockstore.care.hiding import (
    Waits,
    can_be_merged,
    keep_from_merges,
    look_again,
    merges_known_ms,
    shown_by,
    still_shown,
)
from blockstore.care.quarantine import take_over
from blockstore.care.verify.examine import Examined, examine, list_directory
from blockstore.errors import Conflict, Invalid, NotFound
from blockstore.format.durations import format_duration
from blockstore.format.marks import MarkReason
from blockstore.format.properties import Properties
from blockstore.format.texts import check_text
from blockstore.index.log import Log
from blockstore.index.reachable import Kept, Named
from blockstore.lifecycle.catalog import Catalog
from blockstore.lifecycle.cover import HIDING
from blockstore.lifecycle.mark import (
    place_deletion,
    withdraw_deletion,
    withdraw_no_compact,
)
from blockstore.lifecycle.second_look import merges_settle_s
from blockstore.names import DELETION_MARK, META, NO_COMPACT_MARK, is_ulid
from blockstore.operations.expire import expire
from blockstore.world import World

__all__ = ["MarkKind", "Marked", "Marker"]

_DETAILS = 1_000


class MarkKind(StrEnum):
    """Which mark."""

    DELETION = "deletion"
    NO_COMPACT = "no-compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """What became of a person's mark."""

    ulid: str
    kind: MarkKind
    changed: bool
    """False if it was so before."""
    told: str
    """What was done, and what follows from it, as a clause."""
    version: int | None = None
    """The entry by which a live block was taken out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """Marks the blocks of one table, on behalf of a person.

    ``log`` is None for a table without an index.
    """

    bucket: Bucket
    world: World
    log: Log | None
    properties: Properties
    catalog: Catalog

    def delete(self, ulid: str, details: str = "", waits: Waits = lambda _: None) -> Marked:
        """Have a block deleted. Raises NotFound for an unknown one, Conflict for one that a version
        or a tag names, or, without an index, whose rows are read out of another.

        Without an index this waits twice, for ``sync_delay`` each time, and before the block is
        hidden some minutes more where that is short or listings lag; ``waits`` hears of it. Whoever
        was interrupted asks for the same again, and it goes on where it was.
        """
        found = self._look(ulid, details)
        if self.log is not None:
            named = Kept(self.log).look()
            if ulid in named.state.blocks:
                return self._expire(ulid, details)
            self._refuse_named(ulid, named)
        mark = found.mark
        if mark is not None:
            if self.log is None:
                self._look_after(found, hidden=mark.reason in HIDING, waits=waits)
            said = f"marked for deletion already, {mark.reason}" + (
                f": {mark.details}" if mark.details else ""
            )
            return self._unchanged(ulid, MarkKind.DELETION, said)
        if DELETION_MARK in found.directory.objects:
            return self._unchanged(
                ulid,
                MarkKind.DELETION,
                "a mark lies there that cannot be read: withdraw it first, with --remove",
            )
        if self.log is not None:
            return self._place(ulid, details, "no version and no tag names it")
        return self._hide(found, details, waits)

    def keep_from_merges(self, ulid: str, details: str = "") -> Marked:
        """Keep the compactor's merges away from a block. Raises NotFound for an unknown one."""
        self._look(ulid, details)
        if take_over(self.bucket, self.world, ulid, details):
            return Marked(
                ulid=ulid,
                kind=MarkKind.NO_COMPACT,
                changed=True,
                told="no merge takes it from now on",
            )
        return self._unchanged(ulid, MarkKind.NO_COMPACT, "kept from merges already")

    def withdraw(self, ulid: str, kind: MarkKind) -> Marked:
        """Take a mark away; it is honored at once. None there is no error."""
        found = self._look(ulid, "")
        kept = (
            "; a no-compact mark still keeps it from merges, until that is withdrawn "
            "(--no-compact --remove)"
            if kind is MarkKind.DELETION and NO_COMPACT_MARK in found.directory.objects
            else ""
        )
        if (
            DELETION_MARK if kind is MarkKind.DELETION else NO_COMPACT_MARK
        ) not in found.directory.objects:
            return self._unchanged(ulid, kind, f"no {kind} mark lay there{kept}")
        if kind is MarkKind.NO_COMPACT:
            withdraw_no_compact(self.bucket, self.world, ulid)
            return Marked(ulid=ulid, kind=kind, changed=True, told="merges may take it again")
        withdraw_deletion(self.bucket, self.world, ulid)
        if META not in list_directory(self.bucket, ulid).objects:
            told = (
                "the mark is withdrawn, but meta.json is gone: the removal had begun, and what is "
                "left is no block any more"
            )
        else:
            told = f"the mark is withdrawn; nothing removes the block{kept}"
        return Marked(ulid=ulid, kind=kind, changed=True, told=told)

    def marks_on(self, ulid: str) -> str:
        """Which marks lie on a block of a table without an index, and whether it is hidden, as a
        clause."""
        inside = list_directory(self.bucket, ulid).objects
        if DELETION_MARK in inside:
            return (
                f"block {ulid} is hidden by its mark, and whether a merge shows its rows again "
                "was not looked at to the end"
            )
        if NO_COMPACT_MARK in inside:
            return f"block {ulid} is kept from merges, and is not hidden yet"
        return f"no mark lies on block {ulid}"

    def hindrance(self, ulid: str) -> str | None:
        """Why a block should not be removed at once, as a clause; None if nobody would miss it (R7,
        R8), and nothing would show its rows again."""
        self._look(ulid, "")
        if self.log is not None:
            why = Kept(self.log).look().why(ulid)
            return None if why is None else f"{why} names it, and whoever reads that would fail"
        synced = self.catalog.sync()
        found = synced.found
        one = found.get(ulid)
        if one is None or one.meta is None:
            return None
        shown = [
            other
            for other, its in found.items()
            if other != ulid and its.meta is not None and its.mark not in HIDING
            if not set(its.meta.sources).isdisjoint(one.meta.sources)
        ]
        if shown:
            return (
                f"block {shown[0]} holds some of its rows and would be read again: mark that first"
            )
        known_ms = merges_known_ms(one.directory, self.properties)
        if can_be_merged(one) and (known_ms is None or known_ms > synced.listing.now_ms):
            return (
                "a merge that has begun could show its rows again: 'blockstore mark "
                f"{self.bucket.url} {ulid} --no-compact', "
                f"then this again {format_duration(merges_settle_s(self.properties))} later"
            )
        return None

    def _look(self, ulid: str, details: str) -> Examined:
        if not is_ulid(ulid):
            raise Invalid(
                f"{ulid[:60]!r} is no block's name, expected a ULID such as "
                "01JD0000000000000000000000"
            )
        check_text("the details", details, limit=_DETAILS)
        found = examine(self.bucket, list_directory(self.bucket, ulid))
        if not found.directory.objects and (self.log is None or ulid not in self.log.poll().blocks):
            raise NotFound(
                f"there is no block {ulid} in {self.bucket.url}: its directory is empty, and no "
                "index entry names it; "
                "'blockstore inspect' lists the blocks"
            )
        return found

    def _expire(self, ulid: str, details: str) -> Marked:
        assert self.log is not None, "only an index has live blocks"
        version = expire(self.log, self.world, [ulid], "manual", details).version
        kept, wait = (
            format_duration(delay)
            for delay in (self.properties.history_retention_s, self.properties.delete_delay_s)
        )
        told = (
            f"taken out of the table by version {version}; earlier versions keep it for {kept}, "
            "and a tag for as long as it "
            f"stands, then the compactor marks it and removes it {wait} later; until then restore "
            "brings it back"
        )
        return Marked(ulid=ulid, kind=MarkKind.DELETION, changed=True, told=told, version=version)

    def _hide(self, found: Examined, details: str, waits: Waits) -> Marked:
        """Hide a block of a table without an index, once no merge can show its rows again, and look
        after it."""
        ulid = found.ulid
        if not can_be_merged(found.found):
            return self._place(ulid, details, "readers do not see it")
        keep_from_merges(
            self.bucket,
            self.world,
            ulid,
            self.properties,
            "it is going to be hidden",
            wait=True,
            waits=waits,
        )
        self._refuse_shown(found)
        done = self._place(ulid, details, "readers do not see it any more")
        now = examine(self.bucket, list_directory(self.bucket, ulid))
        self._look_after(
            found, hidden=now.mark is not None and now.mark.reason in HIDING, waits=waits
        )
        return done

    def _look_after(self, found: Examined, *, hidden: bool, waits: Waits) -> None:
        """Without an index: raise Conflict where the rows of a marked block are read all the same,
        now or soon."""
        if not hidden or found.meta is None or not can_be_merged(found.found):
            self._refuse_shown(found)
        else:
            look_again(self.catalog, self.bucket, self.world, found.meta, self.properties, waits)

    def _refuse_shown(self, found: Examined) -> None:
        """Without an index: raise Conflict where another block shows the rows."""
        other = None if found.meta is None else shown_by(self.catalog.sync().found, found.meta)
        if other is not None:
            raise still_shown(self.bucket, found.ulid, other)

    def _refuse_named(self, ulid: str, named: Named) -> None:
        why = named.why(ulid)
        if why is not None:
            raise Conflict(
                f"block {ulid} is named by {why}, which can still be asked for, expected a block "
                "that no version above the "
                f"boundary {named.boundary} and no tag names: wait until that is collected, or "
                "untag it"
            )

    def _place(self, ulid: str, details: str, said: str) -> Marked:
        if not place_deletion(self.bucket, self.world, ulid, MarkReason.MANUAL, details):
            return self._unchanged(ulid, MarkKind.DELETION, "marked for deletion already")
        wait = format_duration(self.properties.delete_delay_s)
        told = (
            f"marked: {said}; the compactor removes it {wait} from now, and until then the mark "
            "can be withdrawn"
        )
        return Marked(ulid=ulid, kind=MarkKind.DELETION, changed=True, told=told)

    def _unchanged(self, ulid: str, kind: MarkKind, said: str) -> Marked:
        return Marked(ulid=ulid, kind=kind, changed=False, told=f"nothing changed: {said}")
