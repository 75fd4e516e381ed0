"""A person's marks: what may be marked, and what follows.

Rules:
- R6: with an index a block has a deletion mark only if no version above the boundary and no tag
  names it. A live block is taken out by an entry instead (``expire``); the compactor marks it when
  no version names it any more.
- Without an index the mark itself decides: readers hide the block at once, and it is removed
  ``delete_delay`` later. A merge that had begun would show its rows again, so the block is first
  kept out of merges, hidden when they are known, and watched for a while (``hiding.py``).
- Marking twice changes nothing. A withdrawal takes effect at once. A ULID whose directory is empty
  is refused.
- Nothing here removes a block: only the compactor does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from blockstore.bucket.api import Bucket
from blockstore.care.examine import Examined, examine, list_directory
from blockstore.care.marks.hiding import (
    OnWait,
    can_be_merged,
    keep_from_merges,
    look_again,
    merges_known_ms,
    shown_by,
    still_shown,
)
from blockstore.care.marks.quarantine import take_over
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
from blockstore.operations.access import Access
from blockstore.operations.expire import expire
from blockstore.rows.expire import expire_rows
from blockstore.world import World

_DETAILS = 1_000


class MarkKind(StrEnum):
    """The kind of a mark."""

    DELETION = "deletion"
    NO_COMPACT = "no-compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """The result of a person's mark."""

    ulid: str
    kind: MarkKind
    changed: bool
    """False if nothing had to be changed."""
    summary: str
    """What was done, and what follows, as a clause."""
    version: int | None = None
    """The entry that took a live block out of the table."""


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

    def delete(self, ulid: str, details: str = "", on_wait: OnWait = lambda _: None) -> Marked:
        """Have a block deleted.

        Raises NotFound for an unknown block, and Conflict for one that a version or a tag names,
        or, without an index, whose rows are read from another block.

        Without an index this waits twice for ``sync_delay``, and some minutes longer before the
        block is hidden if that is short or listings lag. ``on_wait`` is called before each wait. A
        call that was interrupted continues when it is repeated.
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
                self._look_after(found, hidden=mark.reason in HIDING, on_wait=on_wait)
            said = f"marked for deletion already, {mark.reason}" + (
                f": {mark.details}" if mark.details else ""
            )
            return self._unchanged(ulid, MarkKind.DELETION, said)
        if DELETION_MARK in found.directory.objects:
            return self._unchanged(
                ulid,
                MarkKind.DELETION,
                "it has a mark that cannot be read: withdraw it first, with --remove",
            )
        if self.log is not None:
            return self._place(ulid, details, "no version or tag names it")
        return self._hide(found, details, on_wait)

    def keep_from_merges(self, ulid: str, details: str = "") -> Marked:
        """Keep a block out of merges. Raises NotFound for an unknown one."""
        self._look(ulid, details)
        if take_over(self.bucket, self.world, ulid, details):
            return Marked(
                ulid=ulid,
                kind=MarkKind.NO_COMPACT,
                changed=True,
                summary="no merge takes it any more",
            )
        return self._unchanged(ulid, MarkKind.NO_COMPACT, "already kept out of merges")

    def withdraw(self, ulid: str, kind: MarkKind) -> Marked:
        """Withdraw a mark, at once. It is not an error if there is none."""
        found = self._look(ulid, "")
        kept = (
            "; a no-compact mark still keeps it out of merges until it is withdrawn "
            "(--no-compact --remove)"
            if kind is MarkKind.DELETION and NO_COMPACT_MARK in found.directory.objects
            else ""
        )
        if (
            DELETION_MARK if kind is MarkKind.DELETION else NO_COMPACT_MARK
        ) not in found.directory.objects:
            return self._unchanged(ulid, kind, f"it has no {kind} mark{kept}")
        if kind is MarkKind.NO_COMPACT:
            withdraw_no_compact(self.bucket, self.world, ulid)
            return Marked(ulid=ulid, kind=kind, changed=True, summary="merges may take it again")
        withdraw_deletion(self.bucket, self.world, ulid)
        if META not in list_directory(self.bucket, ulid).objects:
            summary = (
                "the mark is withdrawn, but meta.json is gone: the removal had begun, and the rest "
                "is no longer a block"
            )
        else:
            summary = f"the mark is withdrawn; the block stays{kept}"
        return Marked(ulid=ulid, kind=kind, changed=True, summary=summary)

    def marks_on(self, ulid: str) -> str:
        """Describe the marks of a block of a table without an index, as a clause."""
        inside = list_directory(self.bucket, ulid).objects
        if DELETION_MARK in inside:
            return (
                f"block {ulid} is hidden by its mark, but the watch for a late merge of it did not "
                "end"
            )
        if NO_COMPACT_MARK in inside:
            return f"block {ulid} is kept out of merges, and is not hidden yet"
        return f"block {ulid} has no mark"

    def hindrance(self, ulid: str) -> str | None:
        """Return why a block should not be removed at once, as a clause.

        None if no reader needs it (R7, R8), and no other block would show its rows again.
        """
        self._look(ulid, "")
        if self.log is not None:
            why = Kept(self.log).look().why(ulid)
            return (
                None if why is None else f"{why} names it, and readers of that version would fail"
            )
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
            return f"block {shown[0]} has some of its rows and would be read again: mark that first"
        known_ms = merges_known_ms(one.directory, self.properties)
        if can_be_merged(one) and (known_ms is None or known_ms > synced.listing.now_ms):
            return (
                "a running merge could show its rows again: run 'blockstore mark "
                f"{self.bucket.url} {ulid} --no-compact', then this command again "
                f"{format_duration(merges_settle_s(self.properties))} later"
            )
        return None

    def _look(self, ulid: str, details: str) -> Examined:
        if not is_ulid(ulid):
            raise Invalid(
                f"{ulid[:60]!r} is not a block name, expected a ULID such as "
                "01JD0000000000000000000000"
            )
        check_text("the details", details, limit=_DETAILS)
        found = examine(self.bucket, list_directory(self.bucket, ulid))
        if not found.directory.objects and (self.log is None or ulid not in self.log.poll().blocks):
            raise NotFound(
                f"there is no block {ulid} in {self.bucket.url}: its directory is empty and no "
                "index entry names it; list the blocks with 'blockstore inspect'"
            )
        return found

    def _expire(self, ulid: str, details: str) -> Marked:
        assert self.log is not None, "only an index has live blocks"
        if self.log.state.definition.identity is None:
            version = expire(self.log, self.world, [ulid], "manual", details).version
        else:
            access = Access(
                bucket=self.bucket, world=self.world, log=self.log, catalog=self.catalog
            )
            version = expire_rows(access, [ulid], "manual", details).version
        kept, wait = (
            format_duration(delay)
            for delay in (self.properties.history_retention_s, self.properties.delete_delay_s)
        )
        summary = (
            f"taken out of the table by version {version}; earlier versions keep it for {kept}, "
            f"and tags until they are removed; then the compactor marks it and removes it {wait} "
            "later; until then 'blockstore restore' brings it back"
        )
        return Marked(
            ulid=ulid, kind=MarkKind.DELETION, changed=True, summary=summary, version=version
        )

    def _hide(self, found: Examined, details: str, on_wait: OnWait) -> Marked:
        """Hide a block of a table without an index when no merge can show its rows, and watch
        it."""
        ulid = found.ulid
        if not can_be_merged(found.found):
            return self._place(ulid, details, "no reader sees it")
        keep_from_merges(
            self.bucket,
            self.world,
            ulid,
            self.properties,
            "it is going to be hidden",
            wait=True,
            on_wait=on_wait,
        )
        self._refuse_shown(found)
        done = self._place(ulid, details, "readers no longer see it")
        now = examine(self.bucket, list_directory(self.bucket, ulid))
        self._look_after(
            found, hidden=now.mark is not None and now.mark.reason in HIDING, on_wait=on_wait
        )
        return done

    def _look_after(self, found: Examined, *, hidden: bool, on_wait: OnWait) -> None:
        """Without an index: raise Conflict if rows of a marked block are still read, now or
        soon."""
        if not hidden or found.meta is None or not can_be_merged(found.found):
            self._refuse_shown(found)
        else:
            look_again(self.catalog, self.bucket, self.world, found.meta, self.properties, on_wait)

    def _refuse_shown(self, found: Examined) -> None:
        """Without an index: raise Conflict if another block shows the rows."""
        other = None if found.meta is None else shown_by(self.catalog.sync().found, found.meta)
        if other is not None:
            raise still_shown(self.bucket, found.ulid, other)

    def _refuse_named(self, ulid: str, named: Named) -> None:
        why = named.why(ulid)
        if why is not None:
            raise Conflict(
                f"block {ulid} is needed by {why}, which can still be read; a deletion mark "
                f"needs a block that no version above the boundary {named.boundary} and no tag "
                "names: wait until the version is collected, or remove the tag with untag"
            )

    def _place(self, ulid: str, details: str, said: str) -> Marked:
        if not place_deletion(self.bucket, self.world, ulid, MarkReason.MANUAL, details):
            return self._unchanged(ulid, MarkKind.DELETION, "marked for deletion already")
        wait = format_duration(self.properties.delete_delay_s)
        summary = (
            f"marked: {said}; the compactor removes it in {wait}, and until then the mark can be "
            "withdrawn"
        )
        return Marked(ulid=ulid, kind=MarkKind.DELETION, changed=True, summary=summary)

    def _unchanged(self, ulid: str, kind: MarkKind, said: str) -> Marked:
        return Marked(ulid=ulid, kind=kind, changed=False, summary=f"nothing changed: {said}")
