"""Values in messages, as people write them: in CSV, in JSON, and where they name a row.

Rules:
- A text is in single quotes, so that its ends are seen. Times are ISO texts, bytes are base64,
  numbers are their digits, and a null is ``null``.
- A key of several columns is a JSON array, which is how such a row is named.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Mapping
from decimal import Decimal


def value_text(value: object) -> str:
    """Return a value of Python as people write it."""
    if isinstance(value, str):
        return repr(value)
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def row_text(key: object) -> str:
    """Return what identifies a row, as people write it; a tuple of one value is that value."""
    return value_text(key[0] if isinstance(key, tuple) and len(key) == 1 else key)


def _plain(value: object) -> object:
    """The value as JSON has it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value) if isinstance(value, Decimal | datetime.timedelta) else repr(value)
