"""A room of its own, for tests."""

from __future__ import annotations

from blockstore.cli.output import say


def works(what: str, /) -> None:
    """Does something."""
    say(f"works on {what}")
