"""A text with statements, split into them by DuckDB's own parser.

Rule: a text is split and each statement is recognized before any of them runs. A text with one
statement that is refused changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import duckdb

from blockstore.errors import Invalid
from blockstore.reader.errors import BadSql
from blockstore.reader.query.runners.failures import translated
from blockstore.reader.query.sql.depth import TooDeep
from blockstore.reader.query.sql.statement import check_characters
from blockstore.reader.query.sql.syntax import Syntax
from blockstore.reader.statements.calling import undrop_as_call
from blockstore.reader.statements.defining import without_comments
from blockstore.reader.statements.tokens import Misread, Token, error_at, position, tokens_of

_LONGEST = 1 << 20
_MOST = 1_000


_PLACE = re.compile(r", at line \d+(, column \d+)?")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


class Kind(StrEnum):
    """What a statement is."""

    SELECT = "SELECT"
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    MERGE = "MERGE"
    CREATE = "CREATE"
    ALTER = "ALTER"
    DROP = "DROP"
    EXPLAIN = "EXPLAIN"
    CALL = "CALL"
    COPY = "COPY"
    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


_CHANGES = frozenset({Kind.INSERT, Kind.UPDATE, Kind.DELETE, Kind.MERGE})
_DDL = frozenset({Kind.CREATE, Kind.ALTER, Kind.DROP})
_BOUNDS = {
    "BEGIN": Kind.BEGIN,
    "START": Kind.BEGIN,
    "COMMIT": Kind.COMMIT,
    "END": Kind.COMMIT,
    "ROLLBACK": Kind.ROLLBACK,
    "ABORT": Kind.ROLLBACK,
}
"""The first words of the statements around a transaction."""
_KINDS = {"MERGE_INTO": Kind.MERGE, **{kind.value: kind for kind in Kind}}
_SEVERAL = {"ALTER": Kind.ALTER}
"""The first words of statements of which DuckDB makes several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One statement of a text."""

    kind: Kind
    sql: str
    line: int = 1
    """Where it begins in the complete text."""
    column: int = 1
    comments: Mapping[str, str] = field(default_factory=dict)
    """What a CREATE TABLE says of its columns, by their names."""

    def placed(self, error: Misread) -> BadSql:
        """The error at its place in the complete text."""
        return self._at(error.at, error.what)

    def quoting(self, error: BadSql) -> BadSql:
        """The error of a query that the statement became, at the place of the statement that its
        message quotes; without a place if it quotes none."""
        message = _PLACE.sub("", str(error))
        quotes = [one or other for one, other in _QUOTED.findall(message)]
        tokens = tokens_of(self.sql)
        found = (one for quote in quotes for one in tokens if one.text == quote)
        own = next(found, None)
        if own is None:
            return BadSql(f"{message}; nothing was changed")
        return self._at(own.start, message, "; nothing was changed")

    def shifted(self, error: BadSql) -> BadSql:
        """The error of a query that is this statement as it was written, at its place in the
        complete text."""
        if error.line is None or error.column is None or (self.line, self.column) == (1, 1):
            return error
        column = error.column + (self.column - 1 if error.line == 1 else 0)
        line = error.line + self.line - 1
        own = f", at line {error.line}, column {error.column}"
        message = str(error).replace(own, f", at line {line}, column {column}")
        return BadSql(message, line=line, column=column)

    def within(self, whole: Text) -> Text:
        """This statement, which is a part of another, with its place in the complete text."""
        column = self.column + (whole.column - 1 if self.line == 1 else 0)
        return replace(self, line=self.line + whole.line - 1, column=column)

    def _at(self, at: int, what: str, more: str = "") -> BadSql:
        line, column = position(self.sql, at)
        if line == 1:
            column += self.column - 1
        line += self.line - 1
        where = f", at line {line}, column {column}"
        return BadSql(f"{what}{where}{more}", line=line, column=column)

    @property
    def changes(self) -> bool:
        """Whether it changes rows."""
        return self.kind in _CHANGES

    @property
    def defines(self) -> bool:
        """Whether it creates, alters or drops a table."""
        return self.kind in _DDL


def split(syntax: Syntax, text: str) -> list[Text]:
    """The statements of a text. Raises BadSql for one that cannot be parsed, with its line and
    column, and for one that Blockstore does not run."""
    if not isinstance(text, str):
        raise Invalid(f"the SQL is {type(text).__name__}, expected text")
    if len(text) > _LONGEST:
        raise BadSql(
            f"the SQL has {len(text):,} characters, expected at most {_LONGEST:,}: pass values as "
            "parameters, or load rows from a file"
        )
    check_characters(text)
    pieces = _pieces(text, tokens_of(text))
    if not pieces:
        raise BadSql("the SQL has no statement: write one")
    if len(pieces) > _MOST:
        raise BadSql(f"the SQL has {len(pieces):,} statements, expected at most {_MOST:,}")
    return [recognized(syntax, text, tokens) for tokens in pieces]


def numbered(text: str) -> str:
    """The text with ``$1``, ``$2``, … for the ``?`` of all of its statements, which drivers write.
    One with parameters of both kinds stays as it is, and is refused. Raises BadSql."""
    tokens = tokens_of(text)
    if any(text[one.start : one.end] == "$" or one.word.startswith("$") for one in tokens):
        return text
    pieces, end = [], 0
    for place, token in enumerate((one for one in tokens if one.word == "?"), start=1):
        pieces += [text[end : token.start], f"${place}"]
        end = token.end
    return "".join([*pieces, text[end:]])


def _pieces(text: str, tokens: Sequence[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == ";" and not token.is_text:
            found.append([])
        else:
            found[-1].append(token)
    return [one for one in found if one]


def recognized(syntax: Syntax, text: str, tokens: Sequence[Token], first: int = 0) -> Text:
    """The statement of some tokens, which begin at ``first`` of the text. Raises BadSql."""
    if not tokens:
        raise error_at(text, first, "a statement is missing")
    start, end = first + tokens[0].start, first + tokens[-1].end
    sql = text[start:end]
    before = text[:start]
    line, column = before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1
    comments: Mapping[str, str] = {}
    if [one.word for one in tokens[:3] if one.word != "ANALYZE"][:2] == ["EXPLAIN", "TRUNCATE"]:
        return Text(kind=Kind.EXPLAIN, sql=sql, line=line, column=column)  # DuckDB explains none
    if tokens[0].word == "CREATE":
        sql, comments = without_comments(sql)
    elif tokens[0].word == "UNDROP":
        try:
            sql = undrop_as_call(sql)
        except Misread as error:
            raise Text(kind=Kind.CALL, sql=sql, line=line, column=column).placed(error) from None
    try:
        found = syntax.split(sql)
    except duckdb.Error as error:
        raise _unparsed(syntax, text, start, sql, error) from None
    except TooDeep as error:
        raise error_at(text, start + error.at, error.what) from None
    if [name for name, _ in found] == ["TRANSACTION"]:
        return Text(kind=_bound(text, first, tokens), sql=sql, line=line, column=column)
    kind = _KINDS.get(found[0][0]) if len(found) == 1 else None
    if [name for name, _ in found] == ["MULTI"]:
        kind = _SEVERAL.get(tokens[0].word)
    if kind is None:
        raise error_at(
            text,
            start,
            f"{tokens[0].text.upper()} is not a statement of Blockstore, and nothing was run: it "
            "has SELECT, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, CREATE TABLE, ALTER TABLE, DROP "
            "TABLE, UNDROP, CALL, COPY, EXPLAIN, BEGIN, COMMIT and ROLLBACK",
        )
    return Text(kind=kind, sql=sql, line=line, column=column, comments=comments)


def _bound(text: str, first: int, tokens: Sequence[Token]) -> Kind:
    rest = [token for token in tokens[1:] if token.word not in ("TRANSACTION", "WORK")]
    if rest:
        raise error_at(
            text,
            first + rest[0].start,
            f"a transaction has no options here: write {tokens[0].text.upper()} alone",
        )
    return _BOUNDS[tokens[0].word]


def _unparsed(syntax: Syntax, text: str, start: int, sql: str, error: duckdb.Error) -> Exception:
    answer = json.loads(syntax(sql))
    place = answer.get("position")
    if place is None or answer.get("error_type") == "not implemented":
        return translated(error, placed=False)
    at = start + len(sql.encode()[: int(place)].decode(errors="replace"))
    message = str(answer.get("error_message", "")).splitlines()[0]
    return error_at(text, at, f"the SQL cannot be parsed, and nothing was run: {message[:300]}")
