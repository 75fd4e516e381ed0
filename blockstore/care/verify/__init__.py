"""``verify``: look at a whole table and say what is not as it should be. Nothing is changed.

Rules:
- LIST first, then the index (3.2); one damaged object hides no other, whatever it is.
- Fast: the listing against every meta.json and the index. Deep: every file's bytes besides, in
  bounded memory.
- Works on tables with and without an index, and where the index cannot be read.
"""

from __future__ import annotations

from blockstore.care.verify.noted import Noted
from blockstore.care.verify.table import verify

__all__ = ["Noted", "verify"]
