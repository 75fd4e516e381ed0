"""UUIDs that follow from a text: every process gives a table the same one."""

from __future__ import annotations

import hashlib


def own_id(text: str) -> str:
    """Return a UUID (of version 8) for a text."""
    digits = hashlib.sha256(text.encode()).hexdigest()
    return "-".join(
        (digits[:8], digits[8:12], "8" + digits[13:16], "8" + digits[17:20], digits[20:32])
    )
