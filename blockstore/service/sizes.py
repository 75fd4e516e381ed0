"""Sizes as people write them: ``512MiB``, ``64GiB``, ``1500000``; bytes inside the program.

Rules: units are powers of 1024 (KiB, MiB, GiB, TiB) or of 1000 (kB, MB, GB, TB); a bare number is
bytes.
"""

from __future__ import annotations

import re
from decimal import Decimal

from blockstore.errors import Invalid

_UNITS = {
    "": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?)\s*([a-z]*)")


def parse_size(value: object, name: str) -> int:
    """The bytes of a size such as ``"512MiB"``;

    ``name`` is what an error calls it. Raises Invalid.
    """
    text = (
        str(value).strip().lower()
        if isinstance(value, (str, int)) and not isinstance(value, bool)
        else ""
    )
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise Invalid(
            f'{name} is {value!r}, expected a size such as "512MiB" (units KiB MiB GiB TiB kB MB '
            "GB TB)"
        )
    return int(Decimal(match[1]) * _UNITS[match[2]])


def format_size(size: int) -> str:
    """The shortest exact text of a size: 1073741824 is ``1GiB``."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)
