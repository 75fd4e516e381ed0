"""Appends with a condition: only as the table's first write, or with batches in any order.

Rules:
- Whether the table contains a write is decided inside the commit, on the state that the entry
  follows. Two first writes at once cannot both win, however early each of them looked.
- A table that was only created contains no write, also where another one was dropped before.
  So a first attempt that failed after it created the table never hides the job's rows from its
  retry.
- Such a block is visible by its entry only: if it is refused it is debris, and is never discovered.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.errors import Conflict
from blockstore.index.change import Append, Draft
from blockstore.index.state import State


@dataclass(kw_only=True)
class ConditionalAppend(Append):
    """One block, alone in its entry."""

    url: str
    first: bool = False
    """Whether it must be the table's first write."""

    def draft(self, state: State) -> Draft:
        if self.first and contains_a_write(state):
            raise Conflict(already_written(self.url, state.version))
        return super().draft(state)

    @property
    def shareable(self) -> bool:
        return False


def contains_a_write(state: State) -> bool:
    """Whether the table was ever written to, even if the rows were deleted since."""
    return (
        len(state.blocks) > 0
        or state.next_row_id > state.first_row_id
        or bool(state.batches)
        or (state.created == 1 and len(state.accounted) > 0)
    )


def already_written(url: str, version: int) -> str:
    """The message for a table that contains a write."""
    return (
        f"{url} already contains a write, at version {version}, and if_exists is 'error': append "
        "to it (if_exists='append'), leave it (if_exists='ignore'), or replace its rows (mode "
        "'overwrite')"
    )
