"""Appends with a condition on the table: its first write only, or a job whose batches come in any
order.

Rules:
- Whether the table held a write is judged inside the commit, on the very state that the entry
  follows: two first writes at once cannot both win, however early each of them looked.
- A table that is only created holds no write. So a first attempt that failed after it had created
  the table never hides the job's rows from its retry.
- Such a block is visible by its entry only: refused, it is debris, and nobody discovers it.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.errors import Conflict
from blockstore.index.change import Append, Draft
from blockstore.index.state import State


@dataclass(kw_only=True)
class JobAppend(Append):
    """One block, alone in its entry."""

    url: str
    first: bool = False
    """Whether it must be the table's first write."""

    def draft(self, state: State) -> Draft:
        if self.first and holds_a_write(state):
            raise Conflict(there_already(self.url, state.version))
        return super().draft(state)

    @property
    def shareable(self) -> bool:
        return False


def holds_a_write(state: State) -> bool:
    """Whether anything was ever written to the table, also if it was deleted since."""
    return (
        len(state.blocks) > 0
        or state.next_row_id > 0
        or bool(state.batches)
        or len(state.accounted) > 0
    )


def there_already(url: str, version: int) -> str:
    """What to say of a table that holds a write."""
    return (
        f"{url} holds a write already, at version {version}, and if_exists is 'error': append to "
        "it "
        "(if_exists='append'), leave it (if_exists='ignore'), or replace its rows (mode "
        "'overwrite')"
    )
