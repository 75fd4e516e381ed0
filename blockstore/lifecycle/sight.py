"""What a cleaning decision rests on: one complete listing, what it says, and what the index names.

Rules:
- A decision is a pure function of a ``Sight``; every age in it goes by the store's clock, read
  before the listing.
- R4: an upload counts as old once the directory's ULID and the newest object that an uploader could
  have put there (marks are not) are both ``partial_delay`` old.
- R8: a mark is due once it is ``delete_delay`` old by its LastModified.
- With an index the boundary and the state were read *after* the listing (``Named``): a block that
  moved into the index in between is then known to the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.marks import MarkReason
from blockstore.format.properties import Properties
from blockstore.ids import ulid_time_ms
from blockstore.index.reachable import Named
from blockstore.index.state import State
from blockstore.lifecycle.listing import Found, Listing
from blockstore.lifecycle.states import BlockState, Evidence, aged, classify
from blockstore.names import DELETION_MARK, META, NO_COMPACT_MARK

OWN_MARKS = frozenset({MarkReason.SUPERSEDED, MarkReason.PARTIAL})
"""The reasons that are the compactor's own conclusion, and that it therefore withdraws; any other
is a person's word."""

Marks: TypeAlias = Mapping[str, MarkReason]

_MARKS = frozenset({DELETION_MARK, NO_COMPACT_MARK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One look at a table.

    ``found`` lacks directories that the index alone decides on: live and without a mark.
    """

    listing: Listing
    found: Mapping[str, Found]
    properties: Properties
    named: Named | None = None
    """What the index names; None on a table without an index."""

    @property
    def now_ms(self) -> int:
        """The store's clock."""
        return self.listing.now_ms

    @property
    def state(self) -> State | None:
        """The index's state, read after the listing."""
        return None if self.named is None else self.named.state

    def named_by(self, ulid: str) -> str | None:
        """Which version above the boundary, or which tag, names the block;

        None if none does, or there is no index.
        """
        return None if self.named is None else self.named.why(ulid)

    def evidence(self, one: Found) -> Evidence:
        """The evidence for the block's state."""
        return one.evidence(self.state)

    def is_ready(self, one: Found) -> bool:
        """Whether the block counts on the list path: complete, visible by age, and its wait over
        (R2)."""
        meta = complete_meta(one)
        return meta is not None and meta.visible_by is VisibleBy.AGE and self.is_aged(one)

    def is_aged(self, one: Found) -> bool:
        """Whether the wait of R2 is over."""
        return aged(self.evidence(one), self.now_ms, self.properties)

    def ready_for_ms(self, one: Found) -> int:
        """For how long the block has been ready."""
        assert one.meta is not None, "only what can be read is ready"
        put_ms = one.directory.objects[META].modified_ms
        youngest = max(ulid_time_ms(one.meta.ulid), one.meta.uploaded_time, put_ms)
        wait_ms = 0 if one.meta.ignore_delay else int(self.properties.sync_delay_s * 1000)
        return self.now_ms - youngest - wait_ms

    def is_old_upload(self, one: Found) -> bool:
        """R4's age: no upload that is still alive can be behind this directory."""
        return self.now_ms >= self.old_from_ms(one)

    def old_from_ms(self, one: Found) -> float:
        """From when on the upload counts as old."""
        uploads = (
            info.modified_ms for path, info in one.directory.objects.items() if path not in _MARKS
        )
        youngest = max(ulid_time_ms(one.directory.ulid), max(uploads, default=0))
        return youngest + self.properties.partial_delay_s * 1000

    def is_due(self, one: Found) -> bool:
        """R8's wait: whether the deletion mark is old enough for a removal."""
        mark = one.directory.objects.get(DELETION_MARK)
        return mark is not None and self.properties.is_due(mark.modified_ms, self.now_ms)

    def outlived_old_looks(self, one: Found) -> bool:
        """Whether meta.json is so old that no removal decided without it can still be in progress
        (R4)."""
        meta = one.directory.objects.get(META)
        return (
            meta is not None
            and self.now_ms - meta.modified_ms >= self.properties.delete_delay_s * 500
        )

    def quarantined(self, one: Found) -> str | None:
        """Why the block is malformed, as a clause; None if it is not, or too young to judge."""
        verdict = classify(self.evidence(one), self.now_ms, self.properties)
        return verdict.reason if verdict.state is BlockState.MALFORMED else None


def complete_meta(one: Found) -> BlockMeta | None:
    """The meta of a complete block; None for one that is damaged or has none."""
    return None if one.damage is not None else one.meta
