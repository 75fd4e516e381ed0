"""The output of the verbs that change rows by their identity, and the lines that they refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from blockstore.cli.changed import NOTHING_CHANGED
from blockstore.cli.failure import Usage
from blockstore.cli.files.bad_lines import BadLine, BadRow
from blockstore.cli.files.forms import Form
from blockstore.cli.files.source import sources
from blockstore.cli.files.writing import Change, change_by_files
from blockstore.cli.output import Cell, Column, counted, say, show_json, show_table
from blockstore.rows.results import RowsChanged
from blockstore.table import open_any

_LINES = (
    Column("line", "LINE", right=True),
    Column("column", "COLUMN"),
    Column("value", "VALUE", fold=True, least=10),
    Column("rule", "EXPECTED", fold=True, least=10),
)


def rows_json(did: RowsChanged) -> Mapping[str, Cell]:
    """Return the result as JSON."""
    return {
        "operation": did.operation,
        "version": did.version,
        "blocks": list(did.blocks),
        "already": did.already,
        "inserted": did.inserted,
        "updated": did.updated,
        "deleted": did.deleted,
        "unchanged": did.unchanged,
        **({} if did.cells is None else {"cells": dict(did.cells)}),
    }


def rows_summary(did: RowsChanged, url: str) -> str:
    """Return the result as one sentence."""
    if did.already:
        at = "" if did.version is None else f", in version {did.version}"
        return f"this batch was applied to {url} before{at}: {NOTHING_CHANGED}"
    if did.version is None:
        kept = f", and left {counted(did.unchanged, 'row')} as they were" if did.unchanged else ""
        return f"found no row to change in {url}{kept}: {NOTHING_CHANGED}"
    parts = [
        f"{counted(number, 'row')} {what}"
        for number, what in (
            (did.inserted, "inserted"),
            (did.updated, "updated"),
            (did.deleted, "deleted"),
            (did.unchanged, "left as they were"),
        )
        if number
    ]
    said = ", ".join(parts) or f"the {did.operation} is applied; it reads no row, so it counts none"
    cells = ", ".join(f"{name} in {number:,}" for name, number in (did.cells or {}).items())
    changed = f"; changed: {cells}" if cells else ""
    return f"{url}: {said}; version {did.version}{changed}"


@contextmanager
def listing_bad_lines(*, json: bool) -> Iterator[None]:
    """Print all wrong lines of a file that is refused, as JSON or, if there are several, as a
    table; the error goes on."""
    try:
        yield
    except BadRow as error:
        if json:
            show_json({"message": str(error), "lines": [bad_line(one) for one in error.lines]})
        elif len(error.lines) > 1:
            show_table(_LINES, [_cells(one) for one in error.lines])
        raise


def from_files(
    url: str,
    files: tuple[str, ...],
    form: Form | None,
    nulls: tuple[str, ...],
    change: Change,
    *,
    json: bool,
) -> None:
    """Change a table by the rows of files, which are read again where the change is planned again,
    and print what was done."""
    if not files:
        raise Usage(
            "no file was given: name Parquet, CSV, TSV, JSON lines or Arrow files, or - for "
            "standard input"
        )
    table = open_any(url)
    with sources(files, form) as named, listing_bad_lines(json=json):
        did = change_by_files(table, named, nulls, change, quiet=json)
    show_change(did, table.url, json=json)


def show_change(did: RowsChanged, url: str, *, json: bool) -> None:
    """Print what was done."""
    if json:
        show_json(rows_json(did))
    else:
        say(rows_summary(did, url))


def bad_line(line: BadLine) -> dict[str, Cell]:
    """Return a wrong line as JSON."""
    return {"line": line.line, "column": line.column, "value": line.value, "rule": line.rule}


def _cells(line: BadLine) -> dict[str, str]:
    return {
        "line": str(line.line),
        "column": line.column or "",
        "value": line.value or "",
        "rule": line.rule,
    }
