"""CALL: what is done to the versions of a table, by name: ``tag``, ``untag``, ``restore``,
``revert``; ``undrop``, which brings a dropped table back; and ``compact`` and ``expire``, which the
compactor does by itself.

Rules:
- An argument is a constant. What an operation does, and when it conflicts, is the business of
  ``blockstore.table``, and of the compactor.
- No room imports another one: the compactor's functions are loaded by name where they are called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from blockstore import extras
from blockstore.reader.query.sql.types import text
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.tokens import Cursor, Piece, error_at
from blockstore.table import Table

_NUMBER = re.compile(r"[0-9]{1,18}")
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
    """``CALL verb(table, …)``."""

    verb: str
    name: str
    """The table."""
    rest: tuple[str | int, ...]

    @property
    def undrops(self) -> bool:
        """Whether it names a table that was dropped."""
        return self.verb == "undrop"

    @property
    def changes(self) -> bool:
        """Whether the table shows other rows after it."""
        return self.verb in ("restore", "revert")

    def run(self, table: Table, doing: Doing) -> int | None:
        """Carry it out, unless it is an undrop; return the version that it made, if it made one.
        Raises what the operation raises."""
        message, job = doing.message, doing.job
        match self.verb, self.rest:
            case "tag", (str(tag), *given):
                version = next((one for one in given if isinstance(one, int)), None)
                return _newer(
                    table, lambda: table.tag(tag, version=version, message=message, job=job)
                )
            case "untag", (str(tag),):
                return _newer(table, lambda: table.untag(tag, message=message, job=job))
            case "restore", (int(version),):
                return table.restore(version=version, message=message, job=job).version
            case "restore", (str(tag),):
                return table.restore(tag=tag, message=message, job=job).version
            case "revert", _:
                return table.revert(*self.rest, message=message, job=job).version
            case "expire", _:
                return _compactors(self.verb)(table)
            case "compact", _ if doing.merging is None:
                return _compactors(self.verb)(table)
            case "compact", _ if doing.merging is not None:
                with doing.merging() as use:
                    return _compactors(self.verb)(table, use.memory_bytes, use.folder, use.merged)
        raise AssertionError(f"{self.verb} has no code")


def _newer(table: Table, operation: Callable[[], object]) -> int | None:
    """The version after an operation; None where it left the table as it was."""
    before = table.log.state.version
    operation()
    after = table.log.state.version
    return after if after > before else None


def _fits(verb: str, rest: tuple[str | int, ...]) -> bool:
    """Whether an operation has these arguments after the table."""
    match verb, rest:
        case (("compact" | "expire" | "undrop"), ()):
            return True
        case (("tag" | "untag"), (str(),)):
            return True
        case "tag", (str(), int()):
            return True
        case "restore", (_,):
            return True
        case "revert", (_, *_):
            return True
    return False


def _compactors(name: str) -> Callable[..., int | None]:
    """What the compactor does by hand. Raises MissingExtra."""
    function: Callable[..., int | None] = extras.load(
        "blockstore.compactor.called", name, f"CALL {name}"
    )
    return function


def read_call(source: str) -> Call:
    """The parts of a CALL. Raises BadSql for one that Blockstore does not have."""
    cursor = Cursor(source)
    cursor.need("CALL")
    at = cursor.here
    verb = cursor.name("an operation").lower()
    if verb not in _FORMS:
        raise error_at(
            source, at, f"there is no CALL {verb[:60]}, expected one of {', '.join(_FORMS)}"
        )
    inner = cursor.one().inside()
    given = [] if inner is None else [_constant(one) for one in inner.split()]
    name, rest = (given or [0])[0], tuple(given[1:])
    if not cursor.done or not isinstance(name, str) or not _fits(verb, rest):
        raise error_at(source, at, f"{verb} is not called so: write {_FORMS[verb]}")
    return Call(verb=verb, name=name, rest=rest)


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
    if len(piece.tokens) == 1 and _NUMBER.fullmatch(token.text):
        return int(token.text)
    raise error_at(piece.source, piece.start, "an argument is a text in quotes, or a whole number")
