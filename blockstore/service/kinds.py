"""How the values of a configuration are read: one function a kind, from TOML or the environment to
the program's own.

Rules: each takes the value and what an error calls it, and raises Invalid that names both, and what
was expected. A list may stand in the environment as a text separated by commas; a number and a
switch as text.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from blockstore.errors import Invalid
from blockstore.format.durations import parse_duration
from blockstore.service.config import Reader

_SWITCHES = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


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


def text(value: Any, name: str) -> str:
    """A text, as it is."""
    if not isinstance(value, str):
        raise Invalid(f"{name} is {value!r}, expected a text")
    return value.strip()


def count(value: Any, name: str) -> int:
    """A whole number."""
    try:
        if isinstance(value, (bool, float)):
            raise ValueError
        return int(value)
    except (TypeError, ValueError):
        raise Invalid(f"{name} is {value!r}, expected a whole number") from None


def number(value: Any, name: str) -> float:
    """A number."""
    try:
        if isinstance(value, bool) or not math.isfinite(float(value)):
            raise ValueError
        return float(value)
    except (TypeError, ValueError):
        raise Invalid(f"{name} is {value!r}, expected a number") from None


def switch(value: Any, name: str) -> bool:
    """True or false."""
    found = (
        value
        if isinstance(value, bool)
        else _SWITCHES.get(value.strip().lower())
        if isinstance(value, str)
        else None
    )
    if found is None:
        raise Invalid(f"{name} is {value!r}, expected true or false")
    return found


def duration_s(value: Any, name: str) -> float:
    """A duration such as ``15m``, in seconds."""
    return parse_duration(value, name)


def duration_ms(value: Any, name: str) -> int:
    """A duration such as ``15m``, in milliseconds."""
    return round(parse_duration(value, name) * 1000)


def size(value: Any, name: str) -> int:
    """A size such as ``512MiB``, in bytes. Units are powers of 1024 (KiB, MiB, GiB, TiB) or of 1000
    (kB, MB, GB, TB); a bare number is bytes."""
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


def cores(value: Any, name: str) -> int:
    """A whole number, or ``cores``: as many as the machine has."""
    return (os.cpu_count() or 1) if value == "cores" else count(value, name)


def folder(value: Any, name: str) -> Path:
    """A folder; empty for the system's folder for temporary files."""
    return path(value, name) or Path(tempfile.gettempdir())


def path(value: Any, name: str) -> Path | None:
    """The path of a file or folder; None where it is empty."""
    if not isinstance(value, str):
        raise Invalid(f"{name} is {value!r}, expected a path")
    return Path(value).expanduser() if value else None


def labels(value: Any, name: str) -> tuple[tuple[str, str], ...]:
    """Labels such as ``cluster=eu1``."""
    found = []
    for item in _items(value, name):
        label, equals, rest = item.partition("=") if isinstance(item, str) else ("", "", "")
        if not label or not equals:
            raise Invalid(f'{name} has {item!r}, expected labels such as "cluster=eu1"')
        found.append((label, rest))
    return tuple(found)


def items(read: Reader) -> Callable[[Any, str], tuple[Any, ...]]:
    """A list of what ``read`` reads."""
    return lambda value, name: tuple(read(item, name) for item in _items(value, name))


def one_of(*choices: str) -> Callable[[Any, str], str]:
    """One of these texts."""

    def read(value: Any, name: str) -> str:
        if value not in choices:
            raise Invalid(f"{name} is {value!r}, expected {' or '.join(choices)}")
        return str(value)

    return read


def optional(read: Reader, none: str = "") -> Reader:
    """What ``read`` reads; None where the value is ``none``."""
    return lambda value, name: None if value == none else read(value, name)


def between(read: Reader, low: float, high: float = math.inf) -> Reader:
    """What ``read`` reads, from ``low`` to ``high``."""

    def checked(value: Any, name: str) -> Any:
        found = read(value, name)
        if not low <= found <= high:
            limit = f"at least {low:g}" if high == math.inf else f"{low:g} to {high:g}"
            raise Invalid(f"{name} is {value!r}, expected {limit}")
        return found

    return checked


def _items(value: Any, name: str) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise Invalid(f"{name} is {value!r}, expected a list")
    return list(value)
