"""``--template``: a line a row, in the words of Python's format strings, over the values that machines get.

Rules: a field is a plain name of the row's values, with a format if wanted (``{rows:,}``); attributes and indexes are
refused, so that a template can read nothing but the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import Formatter

import orjson

from blockstore.cli.failure import Usage
from blockstore.cli.output import Cell

__all__ = ["template"]


def template(text: str, names: Sequence[str]) -> Callable[[Mapping[str, Cell]], str]:
    """A function from a row to its line. Raises Usage for a template that names something else."""
    try:
        fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    except ValueError as error:
        raise Usage(f"--template is {text!r}, which is no format string ({error})") from None
    strange = next((field for field in fields if field not in names), None)
    if strange is not None:
        raise Usage(f"--template names {{{strange}}}, expected one of {', '.join(names)}")

    def line(row: Mapping[str, Cell]) -> str:
        try:
            return text.format_map({name: _value(row.get(name)) for name in names})
        except (ValueError, TypeError, KeyError) as error:
            raise Usage(f"--template {text!r} cannot be filled in for {row.get('ulid')} ({error})") from None

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
