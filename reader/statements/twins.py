"""A statement is tried on empty tables in DuckDB before it is carried out.

DuckDB says what is wrong with it, and at which line and column: an unknown column, a type that does
not fit, a value that cannot be cast. So a statement means what it means in DuckDB, and one that is
wrong has changed nothing.

Rule: only a statement whose parts were admitted is tried; the tables have no rows, and nothing but
these tables is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from blockstore.format.identity import Key
from blockstore.reader.errors import BadSql
from blockstore.reader.query.engine import Engine
from blockstore.reader.query.sql.relations import RELATIONS
from blockstore.reader.query.sql.types import quoted, sql_type
from blockstore.reader.query.task import Step
from blockstore.reader.statements.shape import Shape
from blockstore.reader.statements.texts import Text
from blockstore.reader.statements.tokens import tokens_of
from blockstore.scan.chunk import HIDDEN

_NO_TRAVEL = "does not support time travel"


def check(
    engine: Engine,
    text: Text,
    own: Twin,
    others: Mapping[str, Shape],
    parameters: object,
) -> None:
    """Raise BadSql, with its line and column, for a statement that DuckDB would refuse on its table
    and on these others."""
    tokens = [token.text.lower() for token in tokens_of(text.sql)]
    if set(tokens) & set(HIDDEN.names):
        return  # DuckDB's own tables have none of these columns
    if any(one == "." and kind in RELATIONS for one, kind in pairwise(tokens)):
        return  # nor these relations
    steps = [own.step(), *(Twin(name, shape).step() for name, shape in others.items())]
    # The lines and columns are those of the complete text, one line further down.
    sql = "EXPLAIN" + "\n" * text.line + " " * (text.column - 1) + text.sql
    try:
        engine.apart(steps, sql, parameters)
    except BadSql as error:
        if _NO_TRAVEL in str(error):
            return  # they have one version
        raise _moved(error) from None


def _moved(error: BadSql) -> BadSql:
    if error.line is None or error.line < 2:
        return error
    message = str(error).replace(f", at line {error.line}", f", at line {error.line - 1}")
    return BadSql(f"{message}; nothing was changed", line=error.line - 1, column=error.column)


@dataclass(frozen=True)
class Twin:
    """An empty table of the columns of another."""

    name: str
    shape: Shape
    conflicts: Sequence[str] | None = None
    """The columns that ON CONFLICT names, whose values are those of one row; None: the key."""
    gives_labels: bool = True
    """Whether the statement gives values to labels. Where it does not, an INSERT that names no
    columns has no values for them."""

    def step(self) -> Step:
        """The statement that makes it."""
        columns = [_column(field) for field in self.shape.definition.schema]
        for label in self.shape.labels:
            plain = f"{quoted(label)} VARCHAR"
            computed = f"{plain} GENERATED ALWAYS AS (CAST(NULL AS VARCHAR))"
            columns.append(plain if self.gives_labels else computed)
        identity = self.shape.definition.identity
        if isinstance(identity, Key):
            key = map(quoted, self.conflicts or identity.columns)
            columns.append(f"PRIMARY KEY ({', '.join(key)})")
        return f"CREATE TEMP TABLE {quoted(self.name)} ({', '.join(columns)})", ()


def _column(field: pa.Field) -> str:
    return f"{quoted(field.name)} {sql_type(field.type)}"
