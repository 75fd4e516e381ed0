"""Rows as texts that are equal where the rows are, whichever engine has read them."""

from __future__ import annotations

import datetime as dt
from typing import Any


def lines(rows: Any) -> list[str]:
    """The rows of an Arrow table, sorted."""
    return sorted(
        repr(sorted((name, _text(value)) for name, value in row.items()))
        for row in rows.to_pylist()
    )


def snapshots(table: Any) -> list[int]:
    """The snapshots of the tags of PyIceberg's table, the oldest first."""
    return sorted(ref.snapshot_id for name, ref in table.refs().items() if name != "main")


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return zoned.astimezone(dt.UTC).isoformat()
    if isinstance(value, dict):
        return repr(sorted((name, _text(part)) for name, part in value.items()))
    if isinstance(value, (list, tuple)):
        return repr([_text(part) for part in value])
    return repr(bytes(value) if isinstance(value, bytearray) else value)
