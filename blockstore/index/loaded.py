"""What a reader of an index returns."""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.freshness import Freshness
from blockstore.index.checkpoint_name import NamedCheckpoint
from blockstore.index.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A checked state, and the newest checkpoint that was seen on the way."""

    state: State
    checkpoint: NamedCheckpoint | None = None
    asked_s: float | None = None
    """When the state's last entry was requested, if this poll has read it: for a commit, that was
    the look at it."""
    prompt: Freshness | None = None
    """Of a cold read: whether it was a quick one, as long as this lasts."""
