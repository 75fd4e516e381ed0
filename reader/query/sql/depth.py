"""How deep a text is nested, found before DuckDB parses it.

DuckDB's parser takes a time that grows faster than the square of what is open, and the process ends
where thousands of signs follow each other (``@ @ @ …``): its stack does not suffice. Its lexer is
linear, and decides here what is a sign and what is in quotes.

Where a text with WITH in WITH is no SQL, the parser tries each again for each that holds it:
eight levels take 18 s.
"""

from __future__ import annotations

import re

import duckdb

from blockstore.reader.errors import BadSql

MOST = 200
MOST_WITH = 4
_BEFORE_WITH = frozenset({"as", "materialized"})
"""The words before the parenthesis of a query of WITH."""
_WORD = re.compile(r"\w*")
_CLOSES = {")": "(", "]": "[", "}": "{"}
_OPENS = frozenset(_CLOSES.values())
_SIGNS = frozenset("+-*/<>=~!@#%^&|`")
_COUNTED = _OPENS | _SIGNS
_SPACES = re.compile("[\u00a0\u2000-\u200f\u202f\u205f\u2060\u3000\ufeff]")
"""What the parser takes for spaces, and the lexer alone for letters."""


class TooDeep(BadSql):
    """The SQL is nested too deeply, at the character ``at``."""

    def __init__(self, sql: str, at: int, *, by_with: bool) -> None:
        before = sql[:at]
        line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
        self.at = at
        self.what = (
            f"the SQL is nested too deeply: more than {MOST_WITH} WITH are in one another: name "
            "their queries in one WITH, one after the other"
            if by_with
            else f"the SQL is nested too deeply: more than {MOST} parentheses, brackets or signs "
            "are open: split it with WITH, or close them"
        )
        super().__init__(f"{self.what}, at line {line}, column {column}", line=line, column=column)


def check_depth(sql: str) -> None:
    """Raises TooDeep. To be called before DuckDB parses a text in whatever way."""
    many = len(sql) > MOST and sum(map(sql.count, _COUNTED)) > MOST
    if not many and sql.lower().count("with") <= MOST_WITH:
        return
    if (found := _too_deep(sql)) is not None:
        raise TooDeep(sql, found[0], by_with=found[1])


def _too_deep(sql: str) -> tuple[int, bool] | None:
    """The place of the first token that is in too many others, and whether these are WITH."""
    if sql.isascii():
        read = data = sql
    else:  # places are those of bytes: as many characters of one byte each
        data = sql.encode(errors="replace").decode("latin-1")
        read = _SPACES.sub(lambda found: " " * len(found[0].encode()), sql)
    opened: list[tuple[str, int, bool]] = []
    held = run = 0  # signs before open brackets, and signs that follow each other here
    within, word = 0, ""  # open queries of WITH, and the word before a token
    for at, kind in duckdb.tokenize(read):
        if kind == duckdb.token_type.comment:
            continue
        sign = data[at] if kind == duckdb.token_type.operator else ""
        if sign in _OPENS:
            more = max(0, run - 1)
            is_query = sign == "(" and word in _BEFORE_WITH
            opened.append((sign, more, is_query))
            held, run, within = held + more, 0, within + is_query
        elif sign in _SIGNS:
            run += 1
        else:
            run = 0
            if opened and _CLOSES.get(sign) == opened[-1][0]:
                _, more, is_query = opened.pop()
                held, within = held - more, within - is_query
        word = "" if sign else _WORD.match(data, at)[0].lower()  # type: ignore[index]
        if within > MOST_WITH or len(opened) + held + run > MOST:
            place = len(data[:at].encode("latin-1").decode(errors="replace"))
            return place, within > MOST_WITH
    return None
