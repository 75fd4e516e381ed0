"""A checkpoint and the entries after it, as they were in the bucket at one moment.

A table can be put back from a copy, or created again, while it is read. Entries that were read one
after the other may then be of two histories, and fit each other all the same: a writer that stalled
may have left in the second what it wrote on top of the first. Rules:
- Entries of one listing were there together, if each has the ETag of the listing.
- Where a listing has none (folders, Google), each is requested again once all were read, side by
  side with the boundary, with a response without bytes.
- A checkpoint above the boundary is of the history that is here if its own entry is: that is
  requested after it was read. That the entry after it fits does not show it: a writer that stalled
  may have left both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.bucket.api import Object
from blockstore.index.boundary import Boundary
from blockstore.index.requests import Requests
from blockstore.names import checkpoint_key, entry_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """What was there together."""

    checkpoint: bytes
    """Empty where the fold begins with entry 1."""
    entries: tuple[Object, ...]
    own: Object | None
    """The entry of the checkpoint's version; None if that is at or below the boundary."""


def read_together(
    requests: Requests, boundary: Boundary, base: int, last: int, etags: Mapping[int, str | None]
) -> Together | None:
    """The checkpoint ``base`` (0: none) and the entries after it up to ``last``; None if something
    is missing, if they were not there together, or if the boundary, read afterwards, has passed the
    checkpoint. ``etags`` are those of a listing, by entry."""
    ids = range(base + 1, last + 1)
    found = requests.get_all([*([checkpoint_key(base)] if base else []), *map(entry_key, ids)])
    stored = found.pop(0) if base else None
    entries = [one for one in found if one is not None]
    if (base and stored is None) or len(entries) < len(ids):
        return None
    listed = {entry_key(at): etags.get(at) for at in ids}
    read = {key: one.etag for key, one in zip(listed, entries, strict=True)}
    if any(listed[key] not in (None, etag) for key, etag in read.items()):
        return None
    needs_own = base > boundary.seen
    above, own, stand = requests.beside_looks(
        boundary.read,
        lambda: requests.get(entry_key(base)) if needs_own else None,
        {key: etag for key, etag in read.items() if listed[key] is None},
    )
    if above > base or not stand or (needs_own and own is None and above < base):
        return None
    return Together(
        checkpoint=b"" if stored is None else stored.data, entries=tuple(entries), own=own
    )
