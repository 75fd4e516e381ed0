"""What a statement of ``sql`` may say, and the texts of its expressions.

- sqlglot parses more than is carried out here. A part that nothing reads is refused by its name.
- Expressions and queries go to Spark as they were written: sqlglot would say some of them in
  another way, and with another meaning. A text is taken only where it reads as the parsed
  expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from blockstore.errors import Invalid

_NO_FILTER = "choose the rows with WHERE"
_TABLE = "a statement changes the newest version of a whole table: leave it out"
_QUERY = "write a query in parentheses, USING (SELECT …) AS s"
_OTHERS = "rows of other tables are named by MERGE … USING, not here"
_INSTEAD = {
    "with_": "put the WITH into the query, as INSERT INTO t WITH … SELECT … or MERGE INTO t USING "
    "(WITH … SELECT …) AS s",
    "limit": _NO_FILTER,
    "order": _NO_FILTER,
    "using": _OTHERS,
    "from": _OTHERS,
    "from_": _OTHERS,
    "using_cond": "write ON t.id = s.id",
    "tables": "write DELETE FROM",
    "conflict": "use MERGE … WHEN NOT MATCHED THEN INSERT *",
    "ignore": "use MERGE … WHEN NOT MATCHED THEN INSERT *",
    "alternative": "use MERGE … WHEN NOT MATCHED THEN INSERT *",
    "returning": "the result counts the rows; read them with blockstore.spark.read",
    "overwrite": "INSERT OVERWRITE is blockstore.spark.overwrite(df, url, where=…)",
    "replace": "it is blockstore.spark.overwrite(df, url, where=…)",
    "partition": "a table has no partitions",
    "where": "put the condition into the clause: WHEN MATCHED AND … THEN",
    "except_": "name the columns",
}
_NAMES = {
    "sample": "TABLESAMPLE",
    "version": "VERSION or TIMESTAMP AS OF",
    "order": "ORDER BY",
    "using_cond": "USING (column, …)",
    "tables": "DELETE without FROM",
    "conflict": "ON CONFLICT",
    "replace": "REPLACE WHERE",
    "alternative": "INSERT OR …",
    "except_": "* EXCEPT",
    "columns": "a list of columns after the name",
}
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_QUERIES = (
    TokenType.SELECT, TokenType.VALUES, TokenType.WITH, TokenType.TABLE, TokenType.FROM,
    TokenType.L_PAREN,
)  # fmt: skip


def check(statement: exp.Insert | exp.Merge | exp.Update | exp.Delete) -> None:
    """Raise Invalid for a part of the statement that is not carried out."""
    named = statement.this
    if isinstance(statement, exp.Insert):
        if statement.args.get("where"):
            raise _refused("INSERT", "replace")
        _only(statement, "INSERT", "this", "expression", "by_name", "source")
        if isinstance(named, exp.Schema):
            named = named.this
    elif isinstance(statement, exp.Update):
        _only(statement, "UPDATE", "this", "expressions", "where")
    elif isinstance(statement, exp.Delete):
        _only(statement, "DELETE", "this", "where")
    else:
        _only(statement, "MERGE", "this", "using", "on", "whens")
        _check_source(statement.args["using"])
        for when in statement.args["whens"].expressions:
            _check_when(when)
    if isinstance(named, exp.Table):
        _only(named, "changed table", "this", "db", "alias", instead=_TABLE)
        _only(named.args.get("alias"), "changed table", "this", instead=_TABLE)


def _check_source(using: exp.Expression) -> None:
    if isinstance(using, exp.Subquery):
        _only(using, "source", "this", "alias", instead=_QUERY)
    elif isinstance(using, exp.Values):
        _only(using, "source", "expressions", "alias", instead=_QUERY)
    elif isinstance(using, exp.Table) and isinstance(using.this, exp.Identifier):
        _only(using, "source", "this", "db", "catalog", "alias", instead=_QUERY)
    else:
        raise Invalid(f"the source of the merge is not the name of a table: {_QUERY}")
    _only(using.args.get("alias"), "source", "this", "columns", instead=_QUERY)


def _check_when(when: exp.When) -> None:
    _only(when, "WHEN", "matched", "source", "condition", "then")
    then = when.args["then"]
    if isinstance(then, exp.Insert):
        _only(then, "INSERT of a merge", "this", "expression")
        stars = [then.this]
    elif isinstance(then, exp.Update):
        _only(then, "UPDATE of a merge", "expressions")
        stars = then.expressions
    else:
        return
    for one in stars:
        if isinstance(one, exp.Star):
            _only(one, "merge")
            if len(stars) > 1:
                raise Invalid("UPDATE SET * sets all columns, so nothing else: name the columns")


def _only(node: exp.Expression | None, where: str, *allowed: str, instead: str = "") -> None:
    for name, value in ({} if node is None else node.args).items():
        if name not in allowed and value is not None and value is not False and value != []:
            raise _refused(where, name, instead)


def _refused(where: str, name: str, instead: str = "") -> Invalid:
    word = _NAMES.get(name, name.strip("_").replace("_", " ").upper())
    remedy = instead or _INSTEAD.get(name, "leave it out")
    return Invalid(f"the {where} has {word}, which is not carried out here: {remedy}")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a statement: some of its tokens."""

    text: str
    tokens: tuple[Token, ...]

    def written(self) -> str:
        return self.text[self.tokens[0].start : self.tokens[-1].end + 1] if self.tokens else ""

    def cut(self, first: int, end: int | None = None) -> _Part:
        return _Part(self.text, self.tokens[first:end])

    def after(self, kind: TokenType) -> _Part:
        """What follows the first such word; nothing, if there is none."""
        found = self.places(kind)
        return self.cut(found[0] + 1) if found else self.cut(0, 0)

    def until(self, kind: TokenType) -> _Part:
        found = self.places(kind)
        return self.cut(0, found[0]) if found else self

    def split(self, kind: TokenType) -> list[_Part]:
        ends = self.places(kind)
        starts = [0, *(place + 1 for place in ends)]
        return [
            self.cut(first, end)
            for first, end in zip(starts, [*ends, len(self.tokens)], strict=True)
        ]

    def inside(self) -> _Part:
        """What the parentheses enclose with which this begins."""
        return self.cut(1, self.places(TokenType.R_PAREN)[0])

    def places(self, kind: TokenType) -> list[int]:
        """Where such words are, outside of parentheses, of CASE … END, and of names with dots."""
        found: list[int] = []
        open_: list[TokenType] = []
        before: TokenType | None = None
        for place, token in enumerate(self.tokens):
            this = token.token_type
            name = before is TokenType.DOT
            if this in _CLOSING:
                while open_ and open_.pop() is TokenType.CASE:
                    pass
            elif this is TokenType.END and open_[-1:] == [TokenType.CASE] and not name:
                open_.pop()
            if this is kind and not open_ and not name:
                found.append(place)
            if this in _OPENING or (this is TokenType.CASE and not name):
                open_.append(this)
            before = this
        return found


class Texts:
    """The texts of the expressions and queries of one statement, as they were written."""

    def __init__(self, text: str, statement: exp.Expression) -> None:
        found = sqlglot.tokenize(text, dialect="spark")
        tokens = tuple(one for one in found if one.token_type is not TokenType.SEMICOLON)
        self._texts: dict[int, str] = {}
        try:
            self._take_all(_Part(text, tokens), statement)
        except (IndexError, ValueError):
            raise Invalid(
                "it is not clear where the parts of the statement begin and end: put names that "
                "are words of SQL in backticks"
            ) from None

    def of(self, node: Any) -> str:
        """The text of an expression, of the source in parentheses, or of an INSERT's query."""
        return self._texts[id(node)]

    def _take_all(self, whole: _Part, statement: exp.Expression) -> None:
        if isinstance(statement, exp.Insert):
            if isinstance(statement.expression, exp.Values):
                for row in statement.expression.expressions:
                    for value in row.expressions:
                        _refuse_default(value)
            self._texts[id(statement)] = _query(whole, statement)
        elif isinstance(statement, exp.Merge):
            self._take_merge(whole, statement)
        else:
            if isinstance(statement, exp.Update):
                self._take_set(whole.until(TokenType.WHERE), statement)
            where = statement.args.get("where")
            if where is not None:
                self._take(where.this, whole.after(TokenType.WHERE))

    def _take_merge(self, whole: _Part, statement: exp.Merge) -> None:
        using, on = statement.args["using"], statement.args["on"]
        rest = whole.after(TokenType.USING)
        if not isinstance(using, exp.Table):
            if not rest.tokens or rest.tokens[0].token_type is not TokenType.L_PAREN:
                raise Invalid(f"the source of the merge is not a name: {_QUERY}")
            self._texts[id(using)] = rest.inside().written()
        self._take(on, rest.after(TokenType.ON).until(TokenType.WHEN))
        clauses = rest.after(TokenType.ON).split(TokenType.WHEN)[1:]
        for when, part in zip(statement.args["whens"].expressions, clauses, strict=True):
            condition, then = when.args.get("condition"), when.args["then"]
            if condition is not None:
                self._take(condition, part.until(TokenType.THEN).after(TokenType.AND))
            if isinstance(then, exp.Update):
                self._take_set(part.after(TokenType.THEN), then)
            elif isinstance(then, exp.Insert) and isinstance(then.expression, exp.Tuple):
                values = part.after(TokenType.VALUES).inside().split(TokenType.COMMA)
                for value, written in zip(then.expression.expressions, values, strict=True):
                    self._take(value, written)

    def _take_set(self, part: _Part, update: exp.Update) -> None:
        pairs = part.after(TokenType.SET).split(TokenType.COMMA)
        for pair, written in zip(update.expressions, pairs, strict=True):
            if isinstance(pair, exp.EQ):
                self._take(pair.expression, written.after(TokenType.EQ))

    def _take(self, node: exp.Expression, part: _Part) -> None:
        _refuse_default(node)
        text = part.written()
        if not _reads_as(text, node):
            raise Invalid(
                f"it is not clear where the expression {node.sql('spark')} begins and ends: put it "
                "in parentheses, and names that are words of SQL in backticks"
            )
        self._texts[id(node)] = text


def _refuse_default(node: exp.Expression) -> None:
    """Raise Invalid for the word DEFAULT as a value."""
    if isinstance(node, exp.Column) and (node.table or node.this.args.get("quoted")):
        return
    if isinstance(node, (exp.Column, exp.Var)) and node.name.upper() == "DEFAULT":
        raise Invalid(
            "DEFAULT as a value is not carried out here: an INSERT that does not name the column "
            "gives it its default, and elsewhere write the value"
        )


def _reads_as(text: str, node: exp.Expression) -> bool:
    try:
        (found,) = sqlglot.parse_one(f"SELECT ({text})", dialect="spark").expressions
    except (sqlglot.errors.ParseError, ValueError):
        return False
    return bool(found.this == node)


def _query(whole: _Part, statement: exp.Insert) -> str:
    """The query of an INSERT: what follows the table's name and the list of columns."""
    rest = whole.after(TokenType.INTO)
    if rest.tokens and rest.tokens[0].token_type is TokenType.TABLE:
        rest = rest.cut(1)
    table = statement.this.this if isinstance(statement.this, exp.Schema) else statement.this
    rest = rest.cut(1)
    while rest.tokens and rest.tokens[0].token_type is TokenType.DOT:
        rest = rest.cut(2)
    if table.args.get("alias"):
        rest = rest.cut(2 if rest.tokens[0].token_type is TokenType.ALIAS else 1)
    if isinstance(statement.this, exp.Schema):
        rest = rest.cut(rest.places(TokenType.R_PAREN)[0] + 1)
    if statement.args.get("by_name"):
        rest = rest.cut(2)
    if not rest.tokens or rest.tokens[0].token_type not in _QUERIES:
        raise Invalid("the INSERT has no query: write INSERT INTO t SELECT …, or VALUES (…)")
    return rest.written()
