"""CALL: what is done to the versions of a table, by name: ``tag``, ``untag``, ``restore``,
``revert``; ``undrop``, which brings a dropped table back; and ``compact`` and ``expire``, which the
compactor does by itself.

Rules:
- An argument is a constant. What an operation does, and when it conflicts, is the business of
  ``blockstore.table``, and of the compactor.
- No room imports another one: the compactor's functions are loaded by name where they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blockstore import extras
from blockstore.reader.query.sql.types import text
from blockstore.reader.statements.tokens import Cursor, Piece, error_at
from blockstore.table import Table

_FORMS = {
    "compact": "CALL compact('t')",
    "expire": "CALL expire('t')",
    "tag": "CALL tag('t', 'name'), or with a version CALL tag('t', 'name', 3)",
    "untag": "CALL untag('t', 'name')",
    "restore": "CALL restore('t', 3), or with a tag CALL restore('t', 'name')",
    "undrop": "CALL undrop('t')",
    "revert": "CALL revert('t', 'ULID of a write', …); where rows have an identity also a version",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """``CALL name(table, …)``."""

    source: str
    name: str
    table: str
    rest: tuple[str | int, ...]

    @property
    def undrops(self) -> bool:
        """Whether it names a table that was dropped."""
        return self.name == "undrop"

    def run(self, table: Table, message: str) -> int | None:
        """Carry it out; return the version that it made, if it made one. Raises BadSql for other
        arguments, and what the operation raises."""
        match self.name, self.rest:
            case (("compact" | "expire"), ()):
                return _compactors(self.name)(table)
            case "tag", (str(tag),):
                return table.tag(tag, message=message)
            case "tag", (str(tag), int(version)):
                return table.tag(tag, version=version, message=message)
            case "untag", (str(tag),):
                table.untag(tag, message=message)
                return table.log.state.version
            case "restore", (int(version),):
                return table.restore(version=version, message=message).version
            case "restore", (str(tag),):
                return table.restore(tag=tag, message=message).version
            case "revert", (_, *_):
                return table.revert(*self.rest, message=message).version
        raise error_at(
            self.source, 0, f"{self.name} has other arguments: write {_FORMS[self.name]}"
        )


def _compactors(name: str) -> Callable[[Table], int | None]:
    """What the compactor does by hand. Raises MissingExtra."""
    function: Callable[[Table], int | None] = extras.load(
        "blockstore.compactor.called", name, f"CALL {name}"
    )
    return function


def read_call(source: str) -> Call:
    """The parts of a CALL. Raises BadSql for one that Blockstore does not have."""
    cursor = Cursor(source)
    cursor.need("CALL")
    at = cursor.here
    name = cursor.name("an operation").lower()
    if name not in _FORMS:
        raise error_at(
            source, at, f"there is no CALL {name[:60]}, expected one of {', '.join(_FORMS)}"
        )
    inner = cursor.one().inside()
    given = [] if inner is None else [_constant(one) for one in inner.split()]
    if not cursor.done or not given or not isinstance(given[0], str):
        raise error_at(source, at, f"{name} is not called so: write {_FORMS[name]}")
    if name == "undrop" and len(given) > 1:
        raise error_at(source, at, f"{name} is not called so: write {_FORMS[name]}")
    return Call(source=source, name=name, table=given[0], rest=tuple(given[1:]))


def undrop_as_call(source: str) -> str:
    """``UNDROP [TABLE] name`` as the CALL that it is. Raises BadSql."""
    cursor = Cursor(source)
    cursor.need("UNDROP")
    cursor.take("TABLE")
    name = cursor.name("a table")
    if not cursor.done:
        raise cursor.wrong("expected the end of the statement: one table in each UNDROP")
    return f"CALL undrop({text(name)})"


def _constant(piece: Piece) -> str | int:
    token = piece.tokens[0]
    if len(piece.tokens) == 1 and token.is_text:
        return token.text
    if len(piece.tokens) == 1 and token.text.isdigit():
        return int(token.text)
    raise error_at(piece.source, piece.start, "an argument is a text in quotes, or a whole number")
