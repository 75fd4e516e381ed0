"""Constants that mean in PostgreSQL what the column beside them is: bytes in hex, lists in braces.

The engine reads ``'\\x00ff'`` as one byte and two letters, and refuses ``'{1,2}'`` as a list. A
client that writes values into its SQL (psqlODBC, ``postgres_fdw``) gives them no cast.

Rules:
- Such a constant has the type that a parameter in its place would have. It is written as the engine
  writes it only where that is bytes or a list; everywhere else it stays a text.
- To find types takes a second for each 64 KiB. In a longer statement braces alone are not asked
  about: most are JSON, and a list that stays a text is an error, while bytes would be other bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller
from blockstore.reader.postgres import types as t
from blockstore.reader.postgres.dml import dml_types
from blockstore.reader.postgres.rewriting import listed
from blockstore.reader.postgres.sampling import types_of
from blockstore.reader.postgres.spelling import LONGEST, bytes_of
from blockstore.reader.postgres.texts import Kind, Part
from blockstore.reader.statements.tokens import Token, tokens_of


def meant(part: Part, gateway: Gateway, caller: Caller) -> Part:
    """The statement with such constants as the engine writes them. A statement that has none, or
    in which their types do not show, stays as it is."""
    if part.kind not in (Kind.QUERY, Kind.CHANGE):
        return part
    places = [at for at, one in enumerate(part.tokens) if _may_be(part, at, one)]
    if not places:
        return part
    first = 1 + max((int(one.text[1:]) for one in part.tokens if _is_number(one)), default=0)
    sql = _text(part, {at: f"${first + place}" for place, at in enumerate(places)})
    if len(sql) > LONGEST and not any(bytes_of(part.tokens[at].text) for at in places):
        return part
    asked = _read(part, sql)
    types: Sequence[int] = ()
    if part.kind is Kind.QUERY:
        types = types_of(gateway, caller, asked.sql, ())
    if not types:  # a change, or a query that the engine's parser refuses: it will be translated
        types = dml_types(gateway, caller, asked, ())
    found = {}
    for place, at in enumerate(places, start=first - 1):
        oid = types[place] if place < len(types) else t.TEXT
        made = _written(part.tokens[at].text, oid)
        if made is not None:
            found[at] = made
    return _read(part, _text(part, found)) if found else part


def _is_number(token: Token) -> bool:
    digits = token.text[1:] if token.word.startswith("$") else ""
    return digits.isascii() and digits.isdigit() and len(digits) <= 18


def _may_be(part: Part, at: int, token: Token) -> bool:
    after = part.tokens[at + 1].text if at + 1 < len(part.tokens) else ""
    if not token.is_text or after == "::":  # a cast says what it is
        return False
    value = token.text
    braced = value.startswith("{") and value.endswith("}")
    return braced or bytes_of(value) is not None


def _written(value: str, oid: int) -> str | None:
    """A constant as the engine writes it; None where it means the same to both."""
    own = bytes_of(value)
    if oid == t.BYTEA and own is not None:
        return f"{own}::BLOB"
    kind = t.sql_of(oid) if oid in t.ELEMENTS else ""
    made = listed(exp.Literal.string(value), has_type=True) if kind else None
    return f"{made.sql(dialect='duckdb')}::{kind}" if isinstance(made, exp.Array) else None


def _text(part: Part, given: Mapping[int, str]) -> str:
    """The text of a statement with others at the places of some tokens."""
    pieces, end = [], 0
    for at in sorted(given):
        token = part.tokens[at]
        # With spaces: ``=$1`` and ``$1,$2`` would be read as other signs.
        pieces += [part.sql[end : token.start], f" {given[at]} "]
        end = token.end
    return "".join([*pieces, part.sql[end:]])


def _read(part: Part, sql: str) -> Part:
    return replace(part, sql=sql, tokens=tuple(tokens_of(sql)))
