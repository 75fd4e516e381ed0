"""How many examples a test of a property tries: a quarter in the suite, all of them, or many times
as many, in ``scripts/prove``.

Examples that a test names (``@example``) are tried in every run.
"""

from __future__ import annotations

import math
import os

_SHARE = float(os.environ.get("BLOCKSTORE_EXAMPLES", "0.25"))
_LEAST = 5


def few(number: int) -> int:
    """How many of ``number`` examples this run tries: not fewer than five, if there are so many."""
    return max(min(number, _LEAST), math.ceil(number * _SHARE))
