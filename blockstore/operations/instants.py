"""A point in time as people and programs write it, turned into milliseconds of UTC."""

from __future__ import annotations

import datetime as dt

from blockstore.errors import Invalid


def to_ms(instant: object) -> int:
    """Milliseconds since the epoch, rounded down; a datetime or text without a zone is UTC.

    Raises Invalid.
    """
    if isinstance(instant, int) and not isinstance(instant, bool):
        return instant
    if isinstance(instant, str):
        try:
            instant = dt.datetime.fromisoformat(instant.strip())
        except ValueError:
            raise Invalid(
                f"the time {instant!r} is not ISO 8601, expected for example '2024-01-31T12:00:00Z'"
            ) from None
    if not isinstance(instant, dt.datetime):
        raise Invalid(
            f"the time is {instant!r}, expected a datetime, ISO 8601 text or milliseconds since "
            "the epoch"
        )
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=dt.UTC)
    return (aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
