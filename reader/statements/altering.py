"""ALTER TABLE and COMMENT ON COLUMN: what changes of a definition. What a column is, is understood
as in CREATE TABLE (``defining.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from blockstore.format.column import rules_of
from blockstore.format.definition import Definition
from blockstore.format.evolution import Alteration
from blockstore.reader.query.engine import Engine
from blockstore.reader.query.sql.types import quoted, sql_type
from blockstore.reader.statements.canonical import cast
from blockstore.reader.statements.defining import (
    Constant,
    constants,
    options_of,
    schema_of,
    table_name,
)
from blockstore.reader.statements.tokens import Cursor, Piece, error_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter:
    """``ALTER TABLE`` and ``COMMENT ON COLUMN``, one action."""

    source: str
    name: str
    at: int
    if_exists: bool = False
    action: Callable[[Engine, Definition, Constant], Alteration | None]
    """Makes the alteration; None where there is nothing to do."""

    def wanted(self, engine: Engine, now: Definition) -> Alteration | None:
        """Return what changes of a definition; None where it is so already. Raises Invalid."""
        wanted = self.action(engine, now, constants(engine))
        return None if wanted is None or wanted.applied(now) == now else wanted


def read_alter(source: str) -> Alter:
    """The clauses of an ALTER TABLE or a COMMENT ON COLUMN. Raises BadSql."""
    cursor = Cursor(source)
    if cursor.take("COMMENT", "ON"):
        return _comment(cursor, source)
    cursor.need("ALTER", "TABLE")
    if_exists = cursor.take("IF", "EXISTS")
    at = cursor.here
    name = table_name(cursor)
    action = _action(cursor)
    if not cursor.done:
        raise cursor.wrong("expected the end of the statement: one change in each ALTER TABLE")
    return Alter(source=source, name=name, at=at, if_exists=if_exists, action=action)


def _comment(cursor: Cursor, source: str) -> Alter:
    cursor.need("COLUMN")
    at = cursor.here
    table = cursor.name("a table")
    cursor.need(".")
    column = cursor.name("a column")
    cursor.need("IS")
    value = cursor.rest()
    said = None if value.word == "NULL" else value.tokens[0].text
    return Alter(
        source=source,
        name=table,
        at=at,
        action=lambda _, now, __: Alteration.of(columns={_own(now, column): {"description": said}}),
    )


_CONSTRAINTS = frozenset({"CHECK", "UNIQUE", "FOREIGN KEY"})

Action = Callable[[Engine, Definition, Constant], "Alteration | None"]


def _action(cursor: Cursor) -> Action:
    if cursor.take("ADD"):
        if cursor.word(2 if cursor.word() == "CONSTRAINT" else 0) == "PRIMARY KEY":
            raise cursor.wrong(
                "a table has its key from its creation on: create another one with PRIMARY KEY, "
                "and INSERT the rows of this one"
            )
        if cursor.word(2 if cursor.word() == "CONSTRAINT" else 0) in _CONSTRAINTS:
            # A rule of a column has no name.
            if cursor.take("CONSTRAINT"):
                cursor.name("a rule")
            return _rule(cursor)
        cursor.take("COLUMN")
        return _add(cursor.take("IF", "NOT", "EXISTS"), cursor.rest())
    if cursor.take("DROP"):
        cursor.take("COLUMN")
        return _drop(cursor.take("IF", "EXISTS"), _last_name(cursor))
    if cursor.take("RENAME"):
        if cursor.word() == "TO":
            raise cursor.wrong("a table is named by its place and cannot be renamed")
        cursor.take("COLUMN")
        old = cursor.name("a column")
        cursor.need("TO")
        new = cursor.name("a column")
        return lambda _, now, __: Alteration.of(rename={_own(now, old): new})
    if cursor.take("SET"):
        properties = options_of(cursor)
        return lambda _, __, ___: Alteration.of(properties=properties)
    if cursor.take("RESET"):
        names = options_of(cursor)
        return lambda _, __, ___: Alteration.of(properties=dict.fromkeys(names))
    cursor.need("ALTER")
    cursor.take("COLUMN")
    return _column(cursor, cursor.name("a column"))


def _rule(cursor: Cursor) -> Action:
    if not cursor.take("CHECK"):
        raise cursor.wrong(f"{cursor.word()} is not a rule that a table can promise: leave it out")
    condition = cursor.one().text

    def action(engine: Engine, now: Definition, constant: Constant) -> Alteration:
        columns = [f"{quoted(one.name)} {sql_type(one.type)}" for one in now.schema]
        schema, _ = schema_of(engine, ",\n".join([*columns, f"CHECK {condition}"]), constant)
        (name, check) = next(
            (one.name, check) for one in schema if (check := rules_of(one).check) is not None
        )
        before = rules_of(now.schema.field(name)).check
        both = check if before is None else f"({before}) AND {check}"
        return Alteration.of(columns={name: {"check": both}})

    return action


def _column(cursor: Cursor, name: str) -> Action:
    if cursor.take("TYPE") or cursor.take("SET", "DATA", "TYPE"):
        kind = cursor.until(("USING",)).text
        if cursor.word() == "USING":
            raise cursor.wrong(
                "a type is changed to a wider one, and values stay as they are: to compute others, "
                "add a column and UPDATE it"
            )
        return lambda engine, now, constant: Alteration.of(
            widen={
                _own(now, name): schema_of(engine, f"{quoted(name)} {kind}", constant)[0]
                .field(0)
                .type
            }
        )
    if cursor.take("SET", "NOT", "NULL"):
        return lambda _, now, __: Alteration.of(columns={_own(now, name): {"not_null": True}})
    if cursor.take("DROP", "NOT", "NULL"):
        return lambda _, now, __: Alteration.of(columns={_own(now, name): {"not_null": False}})
    if cursor.take("DROP", "DEFAULT"):
        return lambda _, now, __: Alteration.of(columns={_own(now, name): {"default": None}})
    if cursor.take("SET", "DEFAULT"):
        return _default(name, cursor.rest().text)
    raise cursor.wrong("expected TYPE, SET NOT NULL, DROP NOT NULL, SET DEFAULT or DROP DEFAULT")


def _default(name: str, value: str) -> Action:
    def action(_: Engine, now: Definition, constant: Constant) -> Alteration:
        own = _own(now, name)
        # A column that the table lacks is refused with the names of those that it has.
        known = own in now.schema.names
        column = now.schema.field(own) if known else pa.field(own, pa.string())
        return Alteration.of(columns={own: {"default": constant(cast(f"({value}\n)", column))}})

    return action


def _add(if_not_exists: bool, column: Piece) -> Action:
    if any(token.text == "." for token in column.tokens[1:2]):
        raise error_at(
            column.source,
            column.start,
            "a field of a struct is not added alone: add a column, and UPDATE it",
        )

    def action(engine: Engine, now: Definition, constant: Constant) -> Alteration | None:
        schema, key = schema_of(engine, column.text, constant)
        if key:
            raise error_at(
                column.source, column.start, "a key is named when a table is created, not later"
            )
        names = {name.lower() for name in now.schema.names}
        if if_not_exists and schema.names[0].lower() in names:
            return None
        return Alteration.of(add=list(schema))

    return action


def _drop(if_exists: bool, name: str) -> Action:
    def action(_: Engine, now: Definition, __: Constant) -> Alteration | None:
        if if_exists and name.lower() not in {one.lower() for one in now.schema.names}:
            return None
        return Alteration.of(drop=[_own(now, name)])

    return action


def _last_name(cursor: Cursor) -> str:
    name = cursor.name("a column")
    if cursor.take("CASCADE"):
        raise cursor.wrong("CASCADE has nothing to do here: leave it out")
    cursor.take("RESTRICT")
    return name


def _own(definition: Definition, name: str) -> str:
    """The table's own spelling of a column; the name itself where it has none."""
    names: Sequence[str] = definition.schema.names
    return next((one for one in names if one.lower() == name.lower()), name)
