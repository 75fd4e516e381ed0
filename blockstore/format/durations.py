"""Durations as people write them: ``15m``, ``1h30m``, ``500ms``; seconds inside the program.

Rules: a duration is never negative; a bare number is seconds; writing and reading again gives the
same value.
"""

from __future__ import annotations

import re

from blockstore.errors import Invalid

_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PART = re.compile(r"([0-9]{1,12})(ms|w|d|h|m|s)")
_LIMIT_MS = 1_000 * 365 * 86_400_000


def parse_duration(value: str | float, name: str) -> float:
    """The seconds of a duration such as ``"15m"`` or ``900``;

    ``name`` is what an error calls it.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not 0 <= value * 1000 <= _LIMIT_MS:
            raise Invalid(
                f"{name} is {value!r} seconds, expected 0 or more and at most 1,000 years"
            )
        return _whole(round(value * 1000))
    text = value.strip().lower() if isinstance(value, str) else ""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise Invalid(
            f'{name} is {value!r}, expected a duration such as "15m", "48h" or "500ms" (units w d '
            "h m s ms)"
        )
    total = sum(int(number) * _MS[unit] for number, unit in parts)
    if total > _LIMIT_MS:
        raise Invalid(f"{name} is {value!r}, expected at most 1,000 years")
    return _whole(total)


def format_duration(seconds: float) -> str:
    """The shortest exact text of a duration: ``900`` is ``15m``, ``172800`` is ``48h``."""
    left = round(seconds * 1000)
    for unit in ("h", "m", "s"):
        if left and left % _MS[unit] == 0:
            return f"{left // _MS[unit]}{unit}"
    return f"{left}ms" if left else "0s"


def _whole(milliseconds: int) -> float:
    return milliseconds // 1000 if milliseconds % 1000 == 0 else milliseconds / 1000
