"""Intervals as PostgreSQL writes them, in the two styles that a session may set."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

_DAY_S = 86_400


def interval_text(value: pa.MonthDayNano | dt.timedelta, *, iso: bool) -> str:
    """An interval: ``1 year 2 days 03:04:05``, or with ``iso`` ``P1Y2DT3H4M5S``. A duration has no
    days: its hours are counted on."""
    if isinstance(value, dt.timedelta):
        micros = (value.days * _DAY_S + value.seconds) * 1_000_000 + value.microseconds
        months = days = 0
    else:
        months, days = value.months, value.days
        micros = abs(value.nanoseconds) // 1_000 * (-1 if value.nanoseconds < 0 else 1)
    parts = [_split(months, 12)[0], _split(months, 12)[1], days]
    return _iso(parts, micros) if iso else _plain(parts, micros)


def _split(value: int, unit: int) -> tuple[int, int]:
    """A number in units and the rest, both with its sign."""
    whole, rest = divmod(abs(value), unit)
    return (whole, rest) if value >= 0 else (-whole, -rest)


def _plain(parts: list[int], micros: int) -> str:
    written, before = list[str](), False
    for count, unit in zip(parts, ("year", "mon", "day"), strict=True):
        if count:
            sign = "+" if before and count > 0 else ""
            written.append(f"{sign}{count} {unit}{'' if count == 1 else 's'}")
            before = count < 0
    if micros or not written:
        minutes, seconds = divmod(abs(micros), 60_000_000)
        sign = "-" if micros < 0 else "+" if before else ""
        clock = f"{sign}{minutes // 60:02}:{minutes % 60:02}:"
        written.append(clock + _seconds(seconds, 2))
    return " ".join(written)


def _iso(parts: list[int], micros: int) -> str:
    days = "".join(f"{count}{unit}" for count, unit in zip(parts, "YMD", strict=True) if count)
    minutes, rest = divmod(abs(micros), 60_000_000)
    hours, minutes = divmod(minutes, 60)
    sign = "-" if micros < 0 else ""
    clock = [f"{sign}{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count]
    if rest or not (days or clock):
        clock.append(f"{sign if rest else ''}{_seconds(rest, 1)}S")
    return f"P{days}" + ("T" + "".join(clock) if clock else "")


def _seconds(micros: int, width: int) -> str:
    whole, rest = divmod(micros, 1_000_000)
    return f"{whole:0{width}}" + (f".{rest:06}".rstrip("0") if rest else "")
