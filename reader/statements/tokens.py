"""The clauses of a statement, found by its tokens: pieces of the text, as they were written.

DuckDB's parser has accepted the statement before (``texts.py``), so that here only its shape must
be found, and every expression reaches DuckDB as its author wrote it.

Rules:
- A keyword counts only outside of parentheses, quotes, comments and CASE … END.
- A name in double quotes is never a keyword.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot.errors import SqlglotError

from blockstore.predicate.syntax import Dialect
from blockstore.reader.errors import BadSql


class _Words(Dialect):
    """sqlglot makes one text of what follows EXPLAIN and the like; here these are words too."""

    class Tokenizer(Dialect.Tokenizer):
        COMMANDS: frozenset[Any] = frozenset()


_OPEN, _CLOSE = frozenset({"(", "[", "{"}), frozenset({")", "]", "}"})
_PLAIN, _NAME, _TEXT = "plain", "name", "text"
_PARAMETER = re.compile(r"(?<![$\w])\$(?=\d|[^\W\d]\w*+(?!\$))")
"""The sign of ``$1`` and ``$name``, and not that of ``$tag$``, which begins or ends a text."""
_STAND_IN = "\ue000"
"""A letter for this sign: sqlglot takes ``$1,$`` for the beginning of a text in ``$``."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text."""

    text: str
    """A keyword or a sign as it was written; a name or a text without its quotes."""
    start: int
    end: int
    kind: str
    depth: int
    """How many parentheses, brackets and CASEs are open around it."""

    @property
    def word(self) -> str:
        """The keyword, in capitals; empty for what is quoted."""
        return self.text.upper() if self.kind == _PLAIN else ""

    @property
    def is_text(self) -> bool:
        """Whether it is a text in quotes."""
        return self.kind == _TEXT


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a statement: its tokens, and where they are."""

    source: str
    tokens: Sequence[Token]

    @property
    def text(self) -> str:
        """The part as it was written; ends with a line if it ends with a comment."""
        if not self.tokens:
            return ""
        return self.source[self.tokens[0].start : self.tokens[-1].end]

    @property
    def word(self) -> str:
        """The only keyword of the part; empty if there are more tokens."""
        return self.tokens[0].word if len(self.tokens) == 1 else ""

    @property
    def start(self) -> int:
        """Where it begins in its statement."""
        return self.tokens[0].start if self.tokens else 0

    def split(self, sign: str = ",") -> list[Piece]:
        """The parts between signs that are in no parentheses of their own."""
        if not self.tokens:
            return []
        outer = self.tokens[0].depth
        found: list[list[Token]] = [[]]
        for token in self.tokens:
            if token.kind == _PLAIN and token.text == sign and token.depth == outer:
                found.append([])
            else:
                found[-1].append(token)
        return [Piece(self.source, tokens) for tokens in found]

    def inside(self) -> Piece | None:
        """What is in the parentheses that enclose the complete part; None if none do."""
        tokens = self.tokens
        if len(tokens) < 2 or tokens[0].text != "(" or tokens[-1].text != ")":
            return None
        if any(token.depth <= tokens[0].depth for token in tokens[1:-1]):
            return None
        return Piece(self.source, tokens[1:-1])


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text. Raises BadSql."""
    try:
        # With a last line of its own: after a $1, sqlglot cannot read an empty text at the end.
        read = sqlglot.tokenize(f"{_PARAMETER.sub(_STAND_IN, text)}\n", dialect=_Words)
    except SqlglotError as error:
        said = str(error).splitlines()[0].replace(_STAND_IN, "$")
        raise BadSql(f"the SQL cannot be read: {said}") from None
    return list(_with_depth(read, text))


def _with_depth(read: Sequence[Any], text: str) -> Iterator[Token]:
    depth = 0
    for token in read:
        start, end = token.start, token.end + 1
        raw = text[start:end]
        kind = _kind(raw)
        word = raw.upper() if kind == _PLAIN else ""
        if word in _CLOSE or word == "END":
            depth = max(0, depth - 1)
        yield Token(token.text.replace(_STAND_IN, "$"), start, end, kind, depth)
        if word in _OPEN or word == "CASE":
            depth += 1


def _kind(raw: str) -> str:
    if raw.startswith('"'):
        return _NAME
    if raw[:1] == "'" or (raw[:1] == "$" and raw[-1:] == "$") or raw[-1:] == "'":
        return _TEXT
    return _PLAIN


class Cursor:
    """Reads the tokens of one statement from its beginning."""

    def __init__(self, source: str, tokens: Sequence[Token] | None = None) -> None:
        self._source = source
        self._tokens = list(tokens_of(source) if tokens is None else tokens)
        self._at = 0

    @property
    def done(self) -> bool:
        """Whether all tokens are read."""
        return self._at >= len(self._tokens)

    @property
    def here(self) -> int:
        """Where the next token is in the text."""
        return len(self._source) if self.done else self._tokens[self._at].start

    def word(self, ahead: int = 0) -> str:
        """The keyword that comes next; empty at the end, and for what is quoted."""
        at = self._at + ahead
        return self._tokens[at].word if at < len(self._tokens) else ""

    def take(self, *words: str) -> bool:
        """Read these keywords if they come next."""
        if all(self.word(ahead) == word for ahead, word in enumerate(words)):
            self._at += len(words)
            return True
        return False

    def need(self, *words: str) -> None:
        """Read these keywords. Raises BadSql if others come."""
        if not self.take(*words):
            raise self.wrong(f"expected {' '.join(words)}")

    def name(self, what: str) -> str:
        """Read a name."""
        if self.done or self._tokens[self._at].is_text:
            raise self.wrong(f"expected the name of {what}")
        token = self._tokens[self._at]
        if token.kind == _PLAIN and not (token.text[:1].isalpha() or token.text[:1] == "_"):
            raise self.wrong(f"expected the name of {what}")
        self._at += 1
        return token.text

    def one(self) -> Piece:
        """Read one token, or all in its parentheses."""
        if self.done:
            raise self.wrong("something is missing")
        begin, depth = self._at, self._tokens[self._at].depth
        self._at += 1
        if self._tokens[begin].text in _OPEN:
            while not self.done and self._tokens[self._at].depth > depth:
                self._at += 1
            self._at += 1
        return Piece(self._source, self._tokens[begin : self._at])

    def until(self, *stops: tuple[str, ...]) -> Piece:
        """Read up to the first of these sequences of keywords, or to the end."""
        begin = self._at
        depth = self._tokens[begin].depth if begin < len(self._tokens) else 0
        while not self.done:
            token = self._tokens[self._at]
            if token.depth == depth and any(self._comes(stop) for stop in stops):
                break
            self._at += 1
        return Piece(self._source, self._tokens[begin : self._at])

    def rest(self) -> Piece:
        """Read all that is left."""
        return self.until()

    def wrong(self, what: str) -> BadSql:
        """An error at the next token."""
        at = self._tokens[self._at].start if not self.done else len(self._source.rstrip())
        found = self._tokens[self._at].text if not self.done else "the end"
        return error_at(self._source, at, f"the statement cannot be read: {what}, found {found}")

    def _comes(self, stop: tuple[str, ...]) -> bool:
        if not all(self.word(ahead) == word for ahead, word in enumerate(stop)):
            return False
        # The FROM of IS [NOT] DISTINCT FROM is none of the statement.
        before = self._tokens[self._at - 1].word if self._at else ""
        return not (stop == ("FROM",) and before == "DISTINCT")


def position(source: str, at: int) -> tuple[int, int]:
    """The line and the column of a place in a text, from 1."""
    before = source[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


class Misread(BadSql):
    """What is wrong with one statement, at a place ``at`` of its own text."""

    def __init__(self, source: str, at: int, what: str) -> None:
        line, column = position(source, at)
        super().__init__(f"{what}, at line {line}, column {column}", line=line, column=column)
        self.what = what
        self.at = at


def error_at(source: str, at: int, what: str) -> Misread:
    """The error that names its place in the text."""
    return Misread(source, at, what)
