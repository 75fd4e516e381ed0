"""How long a merge without an index may rest on its second look at the table, and how long is
waited for it (protocol 3.2).

Rules:
- A merge's meta.json is first sent within ``LASTS_S`` of the moment at which its second look began;
  whether it arrived is queried for some time more.
- A process that keeps a block from merges waits until each merge that had taken it is listed, or
  never will be. Where listings lag, both looks do: the second look may miss the mark, and the one
  after the wait the merge.
- ``LASTS_S`` is not a setting: without an index each process brings delays of its own, and these
  two must fit together.
"""

from __future__ import annotations

from blockstore.format.properties import Consistency, Properties

LASTS_S = 5 * 60.0
_ASKED_S = 2 * 60.0
"""Longer than an upload queries a PUT whose response was lost (``upload.py``)."""
_LAG_S = 5 * 60.0
"""What listings of an eventual store lag at most."""


def merges_settle_s(properties: Properties) -> float:
    """Seconds after a no-compact mark within which every merge that took the block is listed; at
    least ``sync_delay``."""
    lag_s = 2 * _LAG_S if properties.consistency is Consistency.EVENTUAL else 0.0
    return max(properties.sync_delay_s, LASTS_S + _ASKED_S + lag_s)
