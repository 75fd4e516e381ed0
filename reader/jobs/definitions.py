"""Statements that define a table, as a job carries them out, one at a time: CREATE TABLE, ALTER
TABLE, DROP TABLE and UNDROP.

Rules:
- A job is one version, or nothing; CREATE TABLE … AS is two, the empty table and its rows, and the
  table goes again if its rows are refused. CREATE OR REPLACE drops a table before that, once all
  rows of its successor are computed.
- What a statement means is computed when it is sent, so that what is wrong with it is refused at
  once, and again when its job runs, over the table as it is then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from blockstore.format.definition import Definition
from blockstore.format.evolution import Alteration
from blockstore.reader.query.engine import Engine
from blockstore.reader.statements.altering import Alter, read_alter
from blockstore.reader.statements.calling import Call, read_call
from blockstore.reader.statements.defining import (
    Create,
    constants,
    definition_of,
    read_create,
)
from blockstore.reader.statements.dropping import Drop, read_drop
from blockstore.reader.statements.texts import Kind, Text, split
from blockstore.reader.statements.tokens import Misread


def parsed(text: Text) -> Create | Alter | Drop | Call:
    """The clauses of a statement that defines a table. Raises BadSql, with its place, for one that
    no job carries out."""
    try:
        match text.kind:
            case Kind.CREATE:
                return read_create(text.sql)
            case Kind.ALTER:
                return read_alter(text.sql)
            case Kind.CALL:
                return read_call(text.sql)
            case _:
                return read_drop(text.sql)
    except Misread as error:
        raise text.placed(error) from None


def of_body(engine: Engine, body: Mapping[str, Any]) -> Text:
    """The statement of a job."""
    (text,) = split(engine.syntax, str(body["sql"]))
    return text


def may_exist(text: Text) -> bool:
    """Whether a CREATE TABLE has nothing to do where there is a table of its name."""
    create = parsed(text)
    return isinstance(create, Create) and create.if_not_exists


def replaces(text: Text) -> bool:
    """Whether a CREATE TABLE takes the place of the table of its name."""
    create = parsed(text)
    return isinstance(create, Create) and create.or_replace


def query_of(text: Text) -> str | None:
    """The query whose rows a CREATE TABLE begins with; None without one."""
    create = parsed(text)
    return create.rows if isinstance(create, Create) else None


def created(engine: Engine, text: Text, schema: pa.Schema | None = None) -> Definition:
    """The definition of the table that a CREATE TABLE makes; with a query, of its columns. Raises
    BadSql and Invalid."""
    create = parsed(text)
    assert isinstance(create, Create), "the job is a creation"
    try:
        return definition_of(create, engine, constants(engine), schema, text.comments)
    except Misread as error:
        raise text.placed(error) from None


def altered(engine: Engine, text: Text, now: Definition) -> Alteration | None:
    """What an ALTER TABLE changes of a definition; None where there is nothing to do. Raises BadSql
    and Invalid."""
    alter = parsed(text)
    assert isinstance(alter, Alter), "the job is an alteration"
    try:
        return alter.wanted(engine, now)
    except Misread as error:
        raise text.placed(error) from None
