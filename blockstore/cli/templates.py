"""``--template``: a line a row, in the words of Python's format strings, over the values that
machines get.

Rules: a field is a plain name of the row's values, with a format if wanted (``{rows:,}``);
attributes and indexes are refused, so that a template can read nothing but the row. A width is a
number of at most four digits: it is said by the template, never by a value, and fills no memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from string import Formatter

import orjson

from blockstore.cli.failure import Usage
from blockstore.cli.output import Cell

__all__ = ["template"]

_UNBOUNDED = re.compile(r"[{}]|\d{5}")


def template(text: str, names: Sequence[str]) -> Callable[[Mapping[str, Cell]], str]:
    """A function from a row to its line. Raises Usage for a template that names something else."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise Usage(f"--template is {text!r}, which is no format string ({error})") from None
    fields = [field for _, field, _, _ in parts if field is not None]
    strange = next((field for field in fields if field not in names), None)
    if strange is not None:
        raise Usage(f"--template names {{{strange}}}, expected one of {', '.join(names)}")

    wide = next((form for _, _, form, _ in parts if form and _UNBOUNDED.search(form)), None)
    if wide is not None:
        raise Usage(
            f"--template has the format {wide!r}, expected widths of at most 9999 and no other "
            "field in it"
        )

    def line(row: Mapping[str, Cell]) -> str:
        try:
            return text.format_map({name: _value(row.get(name)) for name in names})
        except (ValueError, TypeError, KeyError) as error:
            raise Usage(
                f"--template {text!r} cannot be filled in for {row.get('ulid')} ({error})"
            ) from None

    return line


def _value(value: Cell) -> str | int | float:
    """Missing values are empty, nested ones JSON; numbers keep their formats."""
    if value is None:
        return _Nothing()
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str | int | float) else orjson.dumps(value).decode()


class _Nothing(str):
    """An empty text that takes any format."""

    def __format__(self, spec: str) -> str:
        return ""
