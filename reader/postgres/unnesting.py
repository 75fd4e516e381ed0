"""``unnest`` of several arrays, side by side: PostgreSQL has it among tables, and the engine has it
of one list. Clients insert many rows by it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from blockstore.reader.postgres.texts import Part
from blockstore.reader.statements.tokens import Token, tokens_of

_MOST = 20
"""Calls of one text that are written in another way."""


def beside(part: Part) -> Part:
    """The statement with a query in place of each such call: a list that is shorter than the others
    has nulls at its end. ``WITH ORDINALITY`` is a column of it."""
    for _ in range(_MOST if "UNNEST" in part.words else 0):
        sql = _once(part)
        if sql is None:
            break
        part = replace(part, sql=sql, tokens=tuple(tokens_of(sql)))
    return part


def _once(part: Part) -> str | None:
    """The text without the first of its calls that has several arrays; None without one."""
    tokens = part.tokens
    for at, token in enumerate(tokens[:-1]):
        if token.word != "UNNEST" or tokens[at + 1].text != "(":
            continue
        signs = _signs(tokens, at + 1)
        if len(signs) < 3:
            continue
        own = [part.sql[tokens[left].end : tokens[right].start] for left, right in pairwise(signs)]
        columns, end = [f"unnest({one})" for one in own], signs[-1]
        if [one.word for one in tokens[end + 1 : end + 3]] == ["WITH", "ORDINALITY"]:
            lengths = ", ".join(f"array_length({one}, 1)" for one in own)
            columns.append(f"unnest(range(1, greatest({lengths}) + 1))")
            end += 2
        made = f"(SELECT {', '.join(columns)})"
        return part.sql[: token.start] + made + part.sql[tokens[end].end :]
    return None


def _signs(tokens: tuple[Token, ...], opens: int) -> list[int]:
    """The places of a parenthesis, of the commas between its arguments, and of its end; nothing
    where it has no end."""
    found, depth = [opens], 0
    for at in range(opens, len(tokens)):
        sign = "" if tokens[at].is_text else tokens[at].text
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(sign, 0)
        if depth == 1 and sign == ",":
            found.append(at)
        if depth == 0:
            return [*found, at]
    return []
