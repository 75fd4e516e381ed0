"""The chain of entries: every entry names the one below it, so that an entry of another history
cannot enter this one. Pure.

A bucket can be put back to an older state, and a table can be made again under its name, while
writers still hold the earlier state. Rules (protocol 3.3):
- An entry names its predecessor in ``prev``: its commit id, the SHA-256 of its bytes, and the
  digest of the entire chain up to it. The chain's digest covers every entry's bytes, void ones too:
  two stale entries on top of each other fit each other, and still not this history.
- An entry whose ``prev`` is not the entry below is void for every reader. It keeps its id: the next
  writer names it and continues above it.
- Entries of releases before 0.2 name nothing. They count until the first one that does, and never
  after it. That first one requires the feature ``chain``, so that an older release refuses the
  table instead of writing what would be void; and it names only the commit of the entry below,
  since older checkpoints hold no hash of it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

REQUIRED = "chain/0.2"
"""What the first chained entry requires of each reader and writer of the table."""

_START = "00" * 32


@dataclass(frozen=True, slots=True)
class Link:
    """An entry as the next one names it."""

    commit: str
    sha256: str = ""
    """Of the entry's bytes; empty where the entry is of an earlier release."""
    chain: str = ""
    """The digest of the chain up to this entry; empty before the chain begins."""


NO_LINK = Link("")
"""What is below entry 1, and below the first entry of an index that was rebuilt."""


def next_link(last: Link, *, commit: str, sha256: str, chained: bool) -> Link:
    """The link of an entry whose predecessor's is ``last``, void or not.

    ``chained``: the entry itself takes part in the chain.
    """
    if not (last.chain or chained):
        return Link(commit)
    both = bytes.fromhex(last.chain or _START) + bytes.fromhex(sha256)
    return Link(commit, sha256, hashlib.sha256(both).hexdigest())
