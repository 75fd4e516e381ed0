"""How a handle on a table finds its blocks, by name."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Discovery"]


class Discovery(StrEnum):
    """How a handle finds the blocks of its snapshots."""

    INDEX = "index"
    """By the index alone: a poll costs two small requests."""
    LIST = "list"
    """By the index and a listing: also blocks that no entry names yet, once they are ``sync_delay``
    old."""
