"""``unnest`` of several arrays, side by side: PostgreSQL has it among tables, and the engine has it
of one list. Clients insert many rows by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from blockstore.reader.postgres.texts import Part
from blockstore.reader.statements.tokens import Token, tokens_of

_OPENS, _CLOSES = frozenset("(["), frozenset(")]")


def beside(part: Part) -> Part:
    """The statement with a query in place of each such call: a list that is shorter than the others
    has nulls at its end. ``WITH ORDINALITY`` is a column of it."""
    if "UNNEST" not in part.words:
        return part
    pieces, done, tokens = [], 0, part.tokens
    for signs in sorted(_calls(tokens)):
        begin, end = tokens[signs[0] - 1].start, signs[-1]
        if begin < done:
            continue  # within another one
        own = [part.sql[tokens[left].end : tokens[right].start] for left, right in pairwise(signs)]
        columns = [f"unnest({one})" for one in own]
        if [one.word for one in tokens[end + 1 : end + 3]] == ["WITH", "ORDINALITY"]:
            lengths = ", ".join(f"array_length({one}, 1)" for one in own)
            columns.append(f"unnest(range(1, greatest({lengths}) + 1))")
            end += 2
        pieces += [part.sql[done:begin], f"(SELECT {', '.join(columns)})"]
        done = tokens[end].end
    if not pieces:
        return part
    sql = "".join([*pieces, part.sql[done:]])
    return replace(part, sql=sql, tokens=tuple(tokens_of(sql)))


def _calls(tokens: Sequence[Token]) -> Iterator[list[int]]:
    """The calls of several arrays: the places of the parenthesis, of the commas between the arrays,
    and of the end."""
    opened: list[list[int]] = []
    for at, token in enumerate(tokens):
        sign = "" if token.is_text else token.text
        if sign in _OPENS:
            opened.append([at])
        elif sign == "," and opened:
            opened[-1].append(at)
        elif sign in _CLOSES and opened:
            signs = [*opened.pop(), at]
            called = signs[0] > 0 and tokens[signs[0] - 1].word == "UNNEST"
            if sign == ")" and len(signs) > 2 and called:
                yield signs
