"""What the command line prints: tables for people, JSON for machines, CSV and TSV for other programs.

Rules: machine output carries whole numbers, ISO times and full names; only tables for people are rounded or shortened.
Times are UTC. A table is never wider than the terminal unless its output goes to a file or a pipe.
"""

from __future__ import annotations

import csv
import datetime as dt
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import orjson

__all__ = [
    "Cell",
    "Column",
    "count",
    "counted",
    "iso",
    "rows_as",
    "say",
    "show_json",
    "show_table",
    "size",
    "span",
]

Cell = str | int | float | bool | None | Sequence[object] | Mapping[str, object]
"""A value that machines get as it is; ``Column.text`` says how people see it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table for people: its key in the row, its title, and whether its values are numbers."""

    key: str
    title: str
    right: bool = False
    fold: bool = False
    """Long values may be broken over several lines."""


def say(text: str) -> None:
    """One line on standard output."""
    sys.stdout.write(text + "\n")


def show_json(value: object) -> None:
    """A value as indented JSON."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode() + "\n")


def show_table(columns: Sequence[Column], rows: Sequence[Mapping[str, str]]) -> None:
    """Rows of text as a table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.fold,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(row[column.key]) for column in columns))
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        wide = Console(file=sys.stdout, highlight=False, width=100_000)
        console = Console(file=sys.stdout, highlight=False, width=max(80, wide.measure(table).maximum))
    console.print(table)


def rows_as(form: Literal["csv", "tsv"], rows: Sequence[Mapping[str, Cell]], keys: Sequence[str]) -> None:
    """Rows as CSV or TSV with a header; nested values as JSON."""
    writer = csv.writer(sys.stdout, dialect="excel" if form == "csv" else "excel-tab", lineterminator="\n")
    writer.writerow(keys)
    for row in rows:
        writer.writerow([_plain(row[key]) for key in keys])


def _plain(value: Cell) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return value
    return orjson.dumps(value).decode()


def iso(time_ms: int | None) -> str:
    """A moment as ISO 8601 in UTC, with milliseconds only where there are some."""
    if time_ms is None:
        return ""
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return moment.isoformat(timespec="milliseconds" if time_ms % 1000 else "seconds").replace("+00:00", "Z")


def span(min_ms: int, max_ms: int) -> str:
    """A half-open range of time for people: to the minute, the second day left out where it is the first one's."""
    low, high = iso(min_ms // 1000 * 1000), iso(max_ms // 1000 * 1000)
    if len(low) != 20 or len(high) != 20:
        return f"{low} … {high}"
    first = f"{low[:10]} {low[11:16]}"
    return f"{first} … {high[11:16]}" if low[:10] == high[:10] else f"{first} … {high[:10]} {high[11:16]}"


def count(number: int) -> str:
    """A number for people: 336,776."""
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """A number of things for people: 1 block, 2 blocks."""
    return f"{number:,} {noun}" if abs(number) == 1 else f"{number:,} {noun}s"


def size(number: float) -> str:
    """Bytes for people: 7.0 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(number) < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} PiB"
