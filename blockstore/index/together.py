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
- What still has the ETag of the listing is as it was when that was answered. So a boundary that is
  requested after the listing was read after all of it, though side by side with the GETs: an open
  needs no round trip of its own for it. Where anything is not as listed, all is read in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from blockstore.bucket.api import Object
from blockstore.index.boundary import Boundary
from blockstore.index.requests import Requests
from blockstore.names import checkpoint_key, entry_key

Etags: TypeAlias = Mapping[int, str | None]

_NONE: Etags = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """What was there together."""

    checkpoint: bytes
    """Empty where the fold begins with entry 1."""
    entries: tuple[Object, ...]
    own: Object | None
    """The entry of the checkpoint's version; None if that is at or below the boundary."""


def read_together(
    requests: Requests,
    boundary: Boundary,
    base: int,
    last: int,
    entries: Etags = _NONE,
    checkpoints: Etags = _NONE,
) -> Together | None:
    """The checkpoint ``base`` (0: none) and the entries after it up to ``last``; None if something
    is missing, if they were not there together, or if the boundary, read afterwards, has passed the
    checkpoint.

    Args:
        entries: The ETags of a listing that was answered before this call, by entry.
        checkpoints: The same of checkpoints, by version.
    """
    found = _as_listed(requests, boundary, base, last, entries, checkpoints)
    return found or _in_turn(requests, boundary, base, last, entries)


def _as_listed(
    requests: Requests,
    boundary: Boundary,
    base: int,
    last: int,
    entries: Etags,
    checkpoints: Etags,
) -> Together | None:
    """All in one round, if a listing has the ETag of each; None unless all is as it was listed and
    the boundary has not passed the checkpoint."""
    own_key, needs_own = entry_key(base), base > boundary.seen
    listed = {entry_key(at): entries.get(at) for at in range(base + 1, last + 1)}
    if base:
        listed = {checkpoint_key(base): checkpoints.get(base)} | listed
    own_etag = entries.get(base) if needs_own else ""
    if own_etag is None or None in listed.values():
        return None
    above, own, _, found = requests.wave(
        boundary.read, lambda: requests.get(own_key) if needs_own else None, {}, list(listed)
    )
    objects = [one for one in found if one is not None]
    if above > base or [one.etag for one in objects] != list(listed.values()):
        return None
    if needs_own and (own is None or own.etag != own_etag):
        return None
    stored = objects.pop(0).data if base else b""
    return Together(checkpoint=stored, entries=tuple(objects), own=own)


def _in_turn(
    requests: Requests, boundary: Boundary, base: int, last: int, etags: Etags
) -> Together | None:
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
