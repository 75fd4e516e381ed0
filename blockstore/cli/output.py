"""The output of the command line: tables for people; JSON, CSV and TSV for programs.

Rules: output for programs has complete numbers, ISO times and full names; only tables for people
are rounded. Times are UTC. A table that is wider than the terminal is shown row by row, so that no
digit and no column is missing (``layout.py``). A character that controls the terminal is never
printed (``printable.py``).
"""

from __future__ import annotations

import csv
import datetime as dt
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import orjson

from blockstore.cli.layout import Layout, layout
from blockstore.cli.printable import printable, printable_cell

Cell = str | int | float | bool | None | Sequence[object] | Mapping[str, object]
"""A value of the output for programs."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table for people: its key in the row, its title, its alignment."""

    key: str
    title: str
    right: bool = False
    fold: bool = False
    """Whether values may be broken over several lines; otherwise they keep their width."""
    least: int = 16
    """The smallest width of a text."""


def say(text: str) -> None:
    """Print a sentence as one line on standard output, and flush: long verbs show progress by
    it."""
    sys.stdout.write(printable(text) + "\n")
    sys.stdout.flush()


def show_json(value: object) -> None:
    """Print a value as indented JSON."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode() + "\n")


def show_table(columns: Sequence[Column], rows: Sequence[Mapping[str, str]]) -> None:
    """Print rows of text as a table, or as lists if the terminal is too narrow."""
    # A column with neither a title nor a value is left out.
    columns = [column for column in columns if column.title or any(row[column.key] for row in rows)]
    titles = [printable_cell(column.title) for column in columns]
    cells = [[printable_cell(row[column.key]) for column in columns] for row in rows]
    natural, least = [], []
    for place, (column, title) in enumerate(zip(columns, titles, strict=True)):
        widest = max((_width(row[place]) for row in cells), default=0)
        natural.append(max(widest, _width(title)))
        words = max((_width(word) for word in title.split()), default=0)
        least.append(max(words, min(widest, column.least) if column.fold else widest))
    if not sys.stdout.isatty():
        _write_grid(columns, titles, cells, natural)
        return
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    found = layout(natural, least, console.width if console.is_terminal else None)
    if found is None:
        _show_records([column.key for column in columns], titles, cells)
    else:
        _show_grid(columns, titles, cells, found)


def _width(text: str) -> int:
    """Return the width of a printable text on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _write_grid(
    columns: Sequence[Column],
    titles: Sequence[str],
    cells: Sequence[Sequence[str]],
    widths: Sequence[int],
) -> None:
    """Print what ``_show_grid`` prints at full width, without rich.

    Loading rich takes longer than a small query, so it is not loaded for a pipe.
    """
    if not columns:
        return
    found = Layout(tuple(widths))
    for place, row in enumerate((titles, *cells)):
        padded = []
        for column, text, width in zip(columns, row, widths, strict=True):
            room = " " * (width - _width(text))
            padded.append(room + text if column.right else text + room)
        sys.stdout.write((" " * found.gap).join(padded) + "\n")
        if place == 0:
            sys.stdout.write("─" * found.total + "\n")


def _show_grid(
    columns: Sequence[Column], titles: Sequence[str], cells: Sequence[Sequence[str]], found: Layout
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # The box has one character between two columns; the rest of the gap is padding.
    padding = (0, 1, 0, found.gap - 2)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=padding)
    for column, title, width in zip(columns, titles, found.widths, strict=True):
        justify: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(Text(title), justify=justify, overflow="fold", width=width)
    for row in cells:
        table.add_row(*map(Text, row))
    Console(file=sys.stdout, highlight=False, width=found.total + len(columns)).print(table)


def _show_records(
    keys: Sequence[str], titles: Sequence[str], cells: Sequence[Sequence[str]]
) -> None:
    """Print one line for each value, and an empty line between two rows."""
    from rich.cells import set_cell_size

    shown = [title or key for title, key in zip(titles, keys, strict=True)]
    width = max(map(_width, shown))
    for number, row in enumerate(cells):
        sys.stdout.write("\n" if number else "")
        for name, title, text in zip(shown, titles, row, strict=True):
            if title or text:
                sys.stdout.write(f"{set_cell_size(name, width)}  {text}".rstrip() + "\n")


def rows_as(
    form: Literal["csv", "tsv"], rows: Sequence[Mapping[str, Cell]], keys: Sequence[str]
) -> None:
    """Print rows as CSV or TSV with a header; nested values as JSON."""
    writer = csv.writer(
        sys.stdout, dialect="excel" if form == "csv" else "excel-tab", lineterminator="\n"
    )
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
    """Return a time as ISO 8601 in UTC, with milliseconds only if they are not zero."""
    if time_ms is None:
        return ""
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return moment.isoformat(timespec="milliseconds" if time_ms % 1000 else "seconds").replace(
        "+00:00", "Z"
    )


def span(min_ms: int, max_ms: int) -> str:
    """Return a half-open time range as text, to the minute; the second day only if it differs."""
    low, high = iso(min_ms // 1000 * 1000), iso(max_ms // 1000 * 1000)
    if len(low) != 20 or len(high) != 20:
        return f"{low} … {high}"
    first = f"{low[:10]} {low[11:16]}"
    return (
        f"{first} … {high[11:16]}"
        if low[:10] == high[:10]
        else f"{first} … {high[:10]} {high[11:16]}"
    )


def count(number: int) -> str:
    """Return a number as text: 336,776."""
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Return a number of things as text: 1 block, 2 blocks."""
    return f"{number:,} {noun}" if abs(number) == 1 else f"{number:,} {noun}s"


def size(number: float) -> str:
    """Return a number of bytes as text: 7.0 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(number) < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} PiB"
