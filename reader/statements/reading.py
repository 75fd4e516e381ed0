"""Statements that change rows, read: from the text to its clauses (``clauses.py``).

Rule: DuckDB's parser has accepted the text before, so that here only its shape is found. A form
that Blockstore does not have is refused, with its place.
"""

from __future__ import annotations

from blockstore.reader.statements.clauses import (
    Act,
    Assignment,
    Clause,
    Delete,
    Dml,
    Insert,
    Merge,
    OnConflict,
    Target,
    Update,
    When,
)
from blockstore.reader.statements.tokens import Cursor, Piece, error_at, tokens_of
from blockstore.reader.tables.names import folded

_VERBS = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"})
_QUERY = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "DESCRIBE", "SUMMARIZE", "PIVOT"})
_RETURNING = ("RETURNING",)


def read_dml(source: str) -> Dml:
    """The clauses of one statement, whose text DuckDB has accepted. Raises BadSql for a form that
    Blockstore does not have."""
    tokens = tokens_of(source)
    for token in tokens:
        if token.word == "?":
            # A statement becomes queries that name a value in another order, or twice.
            raise error_at(source, token.start, "a parameter has no name: write $1 or $name")
    cursor = Cursor(source, tokens)
    withs = ""
    if cursor.word() == "WITH":
        piece = cursor.until(*((verb,) for verb in _VERBS))
        withs = piece.text + "\n"
        found = _dml(cursor, source, withs)
        _refuse_hidden(piece, found.target)
    else:
        found = _dml(cursor, source, withs)
    if not cursor.done:
        raise cursor.wrong("expected the end of the statement")
    return found


def _refuse_hidden(withs: Piece, target: Target) -> None:
    """Where a WITH has the name of the target, expressions could mean either."""
    outer = withs.tokens[0].depth
    for token in withs.tokens:
        if token.depth == outer and folded(token.text) == folded(target.name):
            raise error_at(
                withs.source,
                token.start,
                f"a WITH is named {token.text}, like the table that the statement changes: give "
                "it another name",
            )


def _dml(cursor: Cursor, source: str, withs: str) -> Dml:
    match cursor.word():
        case "INSERT":
            return _insert(cursor, source, withs)
        case "UPDATE":
            return _update(cursor, source, withs)
        case "DELETE":
            return _delete(cursor, source, withs)
        case "MERGE":
            return _merge(cursor, source, withs)
        case "TRUNCATE":
            cursor.take("TRUNCATE")
            cursor.take("TABLE")
            target = _target(cursor, source, alias=False)
            return Delete(source=source, target=target, truncates=True)
    raise cursor.wrong("expected INSERT, UPDATE, DELETE, MERGE or TRUNCATE")


def _target(cursor: Cursor, source: str, *, alias: bool = True) -> Target:
    at = cursor.here
    name = cursor.name("a table")
    if cursor.word() == ".":
        raise error_at(
            source, at, f"tables are named without a schema, and {name} has one: leave it out"
        )
    own = name
    if alias and (
        cursor.take("AS")
        or cursor.word() not in ("", "SET", "FROM", "USING", "WHERE", "RETURNING")
        or (not cursor.done and not cursor.word())
    ):
        own = cursor.name("the table in this statement")
    return Target(name=name, alias=own, at=at)


def _returning(cursor: Cursor) -> Piece | None:
    if not cursor.take("RETURNING"):
        return None
    return cursor.rest()


def _update(cursor: Cursor, source: str, withs: str) -> Update:
    cursor.need("UPDATE")
    target = _target(cursor, source)
    cursor.need("SET")
    assignments = _assignments(cursor.until(("FROM",), ("WHERE",), _RETURNING), source)
    others = cursor.until(("WHERE",), _RETURNING) if cursor.take("FROM") else None
    where = cursor.until(_RETURNING) if cursor.take("WHERE") else None
    return Update(
        source=source,
        target=target,
        withs=withs,
        assignments=assignments,
        others=others,
        where=where,
        returning=_returning(cursor),
    )


def _delete(cursor: Cursor, source: str, withs: str) -> Delete:
    cursor.need("DELETE", "FROM")
    target = _target(cursor, source)
    others = cursor.until(("WHERE",), _RETURNING) if cursor.take("USING") else None
    where = cursor.until(_RETURNING) if cursor.take("WHERE") else None
    return Delete(
        source=source,
        target=target,
        withs=withs,
        others=others,
        where=where,
        returning=_returning(cursor),
    )


def _insert(cursor: Cursor, source: str, withs: str) -> Insert:
    cursor.need("INSERT")
    on_conflict, where, conflict_columns = OnConflict.FAIL, None, None
    assignments: tuple[Assignment, ...] = ()
    if cursor.take("OR", "REPLACE"):
        on_conflict = OnConflict.REPLACE
    elif cursor.take("OR", "IGNORE"):
        on_conflict = OnConflict.NOTHING
    cursor.need("INTO")
    target = _target(cursor, source, alias=False)
    if cursor.take("AS"):
        target = Target(name=target.name, alias=cursor.name("the table"), at=target.at)
    columns = _columns(cursor) if cursor.word() == "(" and cursor.word(1) not in _QUERY else None
    by_name = cursor.take("BY", "NAME")
    cursor.take("BY", "POSITION")
    rows = None
    if not cursor.take("DEFAULT", "VALUES"):
        rows = cursor.until(("ON", "CONFLICT"), _RETURNING)
    if cursor.take("ON", "CONFLICT"):
        if cursor.word() == "(":
            conflict_columns = _columns(cursor)
        if cursor.word() == "WHERE":
            raise cursor.wrong("ON CONFLICT has no WHERE of its own here")
        cursor.need("DO")
        if cursor.take("NOTHING"):
            on_conflict = OnConflict.NOTHING
        else:
            cursor.need("UPDATE", "SET")
            on_conflict = OnConflict.UPDATE
            assignments = _assignments(cursor.until(("WHERE",), _RETURNING), source)
            where = cursor.until(_RETURNING) if cursor.take("WHERE") else None
    return Insert(
        source=source,
        target=target,
        withs=withs,
        columns=columns,
        by_name=by_name,
        rows=rows,
        on_conflict=on_conflict,
        conflict_columns=conflict_columns,
        assignments=assignments,
        where=where,
        returning=_returning(cursor),
    )


def _columns(cursor: Cursor) -> tuple[str, ...]:
    inner = cursor.one().inside()
    if inner is None:
        raise cursor.wrong("expected names of columns in parentheses")
    names = []
    for part in inner.split():
        one = Cursor(inner.source, part.tokens)
        names.append(one.name("a column"))
        if not one.done:
            raise one.wrong("expected names of columns")
    return tuple(names)


def _assignments(piece: Piece, source: str) -> tuple[Assignment, ...]:
    found: list[Assignment] = []
    for part in piece.split():
        cursor = Cursor(source, part.tokens)
        at = part.start
        if cursor.word() == "(":
            names = _columns(cursor)
            cursor.need("=")
            inner = cursor.rest().inside()
            values = [] if inner is None else inner.split()
            if len(values) != len(names):
                raise error_at(
                    source,
                    at,
                    "several columns are set at once, expected as many values in "
                    "parentheses: write each as column = value",
                )
            pairs = list(zip(names, values, strict=True))
        else:
            name = cursor.name("a column")
            if cursor.word() == ".":
                cursor.take(".")
                name = cursor.name("a column")
            cursor.need("=")
            pairs = [(name, cursor.rest())]
        found += [Assignment(column=name, at=at, value=value) for name, value in pairs]
    return tuple(found)


def _merge(cursor: Cursor, source: str, withs: str) -> Merge:
    cursor.need("MERGE", "INTO")
    target = _target(cursor, source)
    cursor.need("USING")
    using = cursor.until(("ON",), ("USING",), ("WHEN",))
    condition: Piece | None = None
    columns: tuple[str, ...] = ()
    if cursor.take("ON"):
        condition = cursor.until(("WHEN",))
    elif cursor.take("USING"):
        columns = _columns(cursor)
    else:
        raise cursor.wrong("expected ON and a condition")
    clauses = []
    while cursor.take("WHEN"):
        clauses.append(_clause(cursor, source))
    return Merge(
        source=source,
        target=target,
        withs=withs,
        using=using,
        using_alias=_alias_of(using),
        condition=condition,
        columns=columns,
        clauses=clauses,
        returning=_returning(cursor),
    )


def _alias_of(using: Piece) -> str:
    """The name by which expressions name the source of a merge; empty if it has none."""
    outer = using.tokens[0].depth
    names = [token for token in using.tokens if token.depth == outer and token.text not in "()"]
    return names[-1].text if names else ""


def _clause(cursor: Cursor, source: str) -> Clause:
    at = cursor.here
    when = When.MATCHED
    if cursor.take("NOT", "MATCHED"):
        when = When.NOT_MATCHED
        if cursor.take("BY", "SOURCE"):
            when = When.BY_SOURCE
        else:
            cursor.take("BY", "TARGET")
    else:
        cursor.need("MATCHED")
    condition = cursor.until(("THEN",)) if cursor.take("AND") else None
    cursor.need("THEN")
    act = _act(cursor, source, when, condition, at)
    if when is When.NOT_MATCHED and act.act in (Act.UPDATE, Act.DELETE):
        raise error_at(source, at, "a row that is not matched can only be inserted")
    if when is not When.NOT_MATCHED and act.act is Act.INSERT:
        raise error_at(source, at, "only a row that is not matched can be inserted")
    return act


def _act(cursor: Cursor, source: str, when: When, condition: Piece | None, at: int) -> Clause:
    stops = (("WHEN",), _RETURNING)
    if cursor.take("DELETE"):
        return Clause(when=when, condition=condition, act=Act.DELETE, at=at)
    if cursor.take("DO", "NOTHING"):
        return Clause(when=when, condition=condition, act=Act.NOTHING, at=at)
    if cursor.take("ERROR"):
        message = cursor.until(*stops)
        return Clause(when=when, condition=condition, act=Act.ERROR, message=message or None, at=at)
    if cursor.take("UPDATE"):
        given: tuple[Assignment, ...] | None = None
        by_name = _by(cursor)
        if cursor.take("SET") and not cursor.take("*"):
            given = _assignments(cursor.until(*stops), source)
        return Clause(
            when=when,
            condition=condition,
            act=Act.UPDATE,
            assignments=given,
            by_name=by_name,
            at=at,
        )
    cursor.need("INSERT")
    by_name = _by(cursor)
    columns = _columns(cursor) if cursor.word() == "(" else None
    by_name = by_name or _by(cursor)
    defaults = cursor.take("DEFAULT", "VALUES")
    values: tuple[Piece, ...] | None = None
    if cursor.take("VALUES"):
        inner = cursor.one().inside()
        if inner is None:
            raise cursor.wrong("expected one row of values in parentheses")
        values = tuple(inner.split())
    elif not defaults:
        cursor.take("*")
    if cursor.word() not in ("", "WHEN", "RETURNING"):
        raise cursor.wrong("expected the next WHEN")
    return Clause(
        when=when,
        condition=condition,
        act=Act.INSERT,
        by_name=by_name,
        values=values,
        columns=columns,
        defaults=defaults,
        at=at,
    )


def _by(cursor: Cursor) -> bool:
    if cursor.take("BY", "NAME"):
        return True
    cursor.take("BY", "POSITION")
    return False
