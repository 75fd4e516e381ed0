"""``blockstore inspect``: every block of a table with its state, from one listing and the index."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Annotated, Literal

import orjson
from cyclopts import Parameter

from blockstore.cli.blocks import LONG, WIDE, Shown, cells, examine
from blockstore.cli.failure import Usage
from blockstore.cli.options import Json, Many
from blockstore.cli.output import Cell, counted, rows_as, say, show_json, show_table, size
from blockstore.cli.values import pairs
from blockstore.lifecycle.states import BlockState
from blockstore.table import Table, open_any

_KEYS = (
    "ulid",
    "state",
    "min_time",
    "max_time",
    "rows",
    "bytes",
    "chunks",
    "level",
    "revision",
    "version",
    "labels",
    "sources",
    "job",
    "uploaded",
    "reason",
)


def inspect(
    url: str,
    /,
    *,
    output: Annotated[
        Literal["table", "wide", "json", "csv", "tsv"], Parameter(name=["--output", "-o"])
    ] = "table",
    selector: Annotated[Many, Parameter(negative="")] = (),
    state: Annotated[Many, Parameter(negative="")] = (),
    template: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    sort_by: Annotated[str, Parameter(allow_leading_hyphen=True)] = "min_time",
    json: Json = False,
) -> None:
    """Show a table's blocks with their state, labels and sources.

    Parameters
    ----------
    url
        The table.
    output
        The form of the output: a table, a wide table, or JSON, CSV, TSV.
    selector
        Show only blocks with this label, `name=value`, or in this state, `state=ready`.
    state
        Show only blocks in this state: fresh, ready, superseded, marked, deleting, partial,
        malformed. May be given several times.
    template
        Print one line for each block by this format string, such as '{ulid} {rows:,} {state}'.
    sort_by
        What to sort by: one of the columns of -o csv. A leading `-` reverses the order.
    json
        The same as -o json.
    """
    ordered = _order(sort_by)
    wanted = pairs(selector, "--selector")
    strange = [name for name in state if name not in set(BlockState)]
    if strange:
        raise Usage(f"--state is {strange[0]!r}, expected one of {', '.join(BlockState)}")
    line = None if template is None else _line_of(template)
    table = open_any(url)
    examined = examine(table)
    _check_state(examined, wanted)
    chosen = [block for block in examined if not state or str(block.state) in state]
    blocks = ordered([block for block in chosen if _selected(block, wanted)])
    if line is not None:
        for block in blocks:
            say(line(_row(block)))
    elif json or output == "json":
        show_json([block.json() for block in blocks])
    elif output in ("csv", "tsv"):
        rows_as("csv" if output == "csv" else "tsv", [_row(block) for block in blocks], _KEYS)
    else:
        show_table(WIDE if output == "wide" else LONG, [cells(block) for block in blocks])
        total = size(sum(block.bytes for block in blocks))
        say(f"{counted(len(blocks), 'block')}, {total}; {_rows(blocks, table)}")


def _rows(blocks: list[Shown], table: Table) -> str:
    """Return what readers see of these blocks, as the end of a sentence."""
    if not table.indexed:
        ready = sum(block.state is BlockState.READY for block in blocks)
        return f"{ready:,} ready; the table has no index"
    rows = sum(
        block.meta.rows for block in blocks if block.meta is not None and block.version is not None
    )
    return f"{counted(rows, 'live row')} at version {table.log.state.version}"


def _check_state(blocks: list[Shown], wanted: dict[str, str]) -> None:
    """Refuse a state that does not exist, unless a label has the name ``state``."""
    state = wanted.get("state")
    labelled = any(block.meta is not None and "state" in block.meta.labels for block in blocks)
    if state is not None and not labelled and state not in set(BlockState):
        raise Usage(
            f"--selector is 'state={state}', expected one of the states {', '.join(BlockState)}"
        )


def _selected(block: Shown, wanted: dict[str, str]) -> bool:
    labels = {} if block.meta is None else block.meta.labels
    return all(
        str(block.state) == value
        if name == "state" and name not in labels
        else labels.get(name) == value
        for name, value in wanted.items()
    )


def _row(block: Shown) -> dict[str, Cell]:
    return dict.fromkeys(_KEYS, None) | {
        key: value for key, value in block.json().items() if key in _KEYS
    }


def _order(text: str) -> Callable[[list[Shown]], list[Shown]]:
    name = text.removeprefix("-")
    if name not in _KEYS:
        raise Usage(
            f"--sort-by is {text!r}, expected one of {', '.join(_KEYS)}, or one of them with a "
            "leading - to reverse the order"
        )

    def key(block: Shown) -> tuple[bool, object]:
        value = _row(block)[name]
        return value is None, str(value) if isinstance(
            value, list | dict
        ) else value if value is not None else ""

    return lambda blocks: sorted(blocks, key=key, reverse=text.startswith("-"))


_UNBOUNDED = re.compile(r"[{}]|\d{5}")


def _line_of(text: str) -> Callable[[Mapping[str, Cell]], str]:
    """Return the function that formats a row by ``--template``. Raises Usage for a bad template.

    A field is a plain name of a row's value, with a format if wanted (``{rows:,}``). Attributes and
    indexes are refused, so that a template reads nothing but the row. A width comes from the
    template, never from a value, and has at most four digits, so that it fills no memory.
    """
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise Usage(f"--template is {text!r}, which is not a format string ({error})") from None
    fields = [field for _, field, _, _ in parts if field is not None]
    strange = next((field for field in fields if field not in _KEYS), None)
    if strange is not None:
        raise Usage(f"--template names {{{strange}}}, expected one of {', '.join(_KEYS)}")

    wide = next((form for _, _, form, _ in parts if form and _UNBOUNDED.search(form)), None)
    if wide is not None:
        raise Usage(
            f"--template has the format {wide!r}, expected a width of at most 9999 and no nested "
            "field"
        )

    def line(row: Mapping[str, Cell]) -> str:
        try:
            return text.format_map({name: _value(row.get(name)) for name in _KEYS})
        except (ValueError, TypeError, KeyError) as error:
            raise Usage(
                f"--template {text!r} cannot be used for {row.get('ulid')} ({error})"
            ) from None

    return line


def _value(value: Cell) -> str | int | float:
    """Return a value to format: missing ones are empty, nested ones JSON."""
    if value is None:
        return _Empty()
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str | int | float) else orjson.dumps(value).decode()


class _Empty(str):
    """An empty text that accepts any format."""

    def __format__(self, spec: str) -> str:
        return ""
