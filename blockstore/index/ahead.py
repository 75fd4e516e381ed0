"""The state that a commit would make, without the commit: what later parts of one operation read.

Rule: nothing is written, and no other process ever sees such a state. It follows from the same
rules as a commit, so what it shows is what the entry that is written in the end will show.
"""

from __future__ import annotations

from blockstore.format.document import sealed
from blockstore.index.assemble import assemble, followed
from blockstore.index.change import Change, Done
from blockstore.index.entry import encode_entry
from blockstore.index.rules import decide
from blockstore.index.state import State


def ahead(state: State, change: Change) -> State:
    """The state after a change that is not committed. Raises Conflict or Invalid, as its commit
    on this state would."""
    decided = decide(state, change)
    if isinstance(decided, Done):
        return state
    draft, _ = decided
    entry = assemble(state, change, draft, time_ms=state.time_ms, checkpoint=None, by="")
    return followed(state, entry, sealed(encode_entry(entry)))
