"""``sql``: MERGE, UPDATE, DELETE and INSERT as texts, in Spark's SQL.

Spark's own ``session.sql`` cannot change rows of a Python data source. Here sqlglot parses the
statement; Spark computes the rows, and the functions of ``writing`` write them. A table is named as
``blockstore.`URL` ``, or by a name of ``tables``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from blockstore.errors import Invalid
from blockstore.format import Job
from blockstore.format.casting import other_case
from blockstore.format.defaults import defaults_of
from blockstore.format.identity import Key
from blockstore.spark.options import checked_url
from blockstore.spark.reading.dataframe import read
from blockstore.spark.statement_texts import Texts, check
from blockstore.spark.types import quoted, spark_schema
from blockstore.spark.writing.dataframe import run
from blockstore.spark.writing.merge_into import MergeInto
from blockstore.spark.writing.options import WriteMode, WriteOptions
from blockstore.spark.writing.result import Written
from blockstore.table import open_any
from blockstore.world import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_FORMAT = "blockstore"
_TARGET = "target"
_SAID = "MERGE, UPDATE, DELETE or INSERT INTO"


def sql(
    session: Any,
    text: str,
    *,
    tables: Mapping[str, str] | None = None,
    job: Job | None = None,
    labels: Mapping[str, str] | None = None,
    message: str = "",
) -> Written:
    """Carry out one statement that changes a table, as one version.

    Args:
        session: the Spark session. Names of sources are its views and tables.
        text: ``MERGE INTO blockstore.`s3://lake/t` AS t USING updates AS s ON t.id = s.id WHEN …``,
            or an ``UPDATE``, a ``DELETE FROM`` or an ``INSERT INTO … SELECT``.
        tables: names of tables by which the statement may call them, with their URLs.
        job: counts once.
        labels: those of new rows; of a table with labels the rows with these are changed.
        message: a text for the table's history.

    Raises:
        Invalid: the statement is not one of these, or does not fit the table.
        RowConflict: others change the same rows all the while. Nothing was applied.
    """
    statement = _parsed(text)
    check(statement)
    named = statement.this.this if isinstance(statement.this, exp.Schema) else statement.this
    url, texts = _url(named, tables or {}), Texts(text, statement)
    if isinstance(statement, exp.Insert):
        return _insert(session, statement, texts, url, job, labels, message)
    options = WriteOptions(
        url=url, job=job, labels=dict(labels or {}), mode=WriteMode.MERGE, message=message
    )
    if isinstance(statement, exp.Merge):
        return _merge(session, statement, texts, options, tables or {})
    return _change(session, statement, texts, options)


def _parsed(text: str) -> exp.Insert | exp.Merge | exp.Update | exp.Delete:
    try:
        statements = sqlglot.parse(text, dialect="spark")
    except sqlglot.errors.ParseError as error:
        first = error.errors[0]
        raise Invalid(
            f"line {first['line']}, column {first['col']} of the statement: "
            f"{first['description']} near {first['highlight']!r}"
        ) from None
    found = [one for one in statements if one is not None]
    if len(found) != 1:
        raise Invalid(f"the text has {len(found)} statements, expected one")
    if not isinstance(found[0], (exp.Insert, exp.Merge, exp.Update, exp.Delete)):
        first_word = sqlglot.tokenize(text, dialect="spark")[0].text.upper()
        raise Invalid(
            f"the statement is {first_word}, expected {_SAID}; what only reads is for "
            "session.sql, with views of blockstore.spark.read, and what creates, alters, drops or "
            "calls is for blockstore.sql(url, …), which needs no Spark"
        )
    return found[0]


def _url(table: Any, tables: Mapping[str, str]) -> str:
    if isinstance(table, exp.Table):
        if table.text("db").lower() == _FORMAT:
            return checked_url(table.name)
        if not table.text("db") and table.name in tables:
            return checked_url(tables[table.name])
    raise Invalid(
        f"the statement changes {table.sql('spark')}, which is not the name of a table here: write "
        f"{_FORMAT}.`URL`, or pass tables={{{table.name!r}: URL}}"
    )


def _insert(
    session: Any,
    statement: exp.Insert,
    texts: Texts,
    url: str,
    job: Job | None,
    labels: Mapping[str, str] | None,
    message: str,
) -> Written:
    table = open_any(url, world=World.real())
    if isinstance(table.definition.identity, Key):
        raise Invalid(
            f"the table at {url} has a key, and an INSERT does not look for rows with the same "
            "one: use MERGE … WHEN NOT MATCHED THEN INSERT *, or blockstore.spark.upsert"
        )
    names = table.definition.schema.names
    if isinstance(statement.this, exp.Schema):
        names = _listed(statement.this)
    rows = session.sql(texts.of(statement))
    if statement.args.get("by_name"):
        if isinstance(statement.this, exp.Schema):
            raise Invalid("BY NAME takes the names of the query: leave out the list of columns")
        names = rows.columns
    _check_names(names, table.definition.schema.names)
    if len(rows.columns) != len(names):
        raise Invalid(
            f"the INSERT has {len(rows.columns)} columns, and names {len(names)}: "
            f"{', '.join(names)}"
        )
    options = WriteOptions(
        url=url, job=job, labels=dict(labels or {}), any_numbers=True, message=message
    )
    rows = _completed(rows.toDF(*names), table.definition.schema)
    return run(rows, options, tune=True, cluster=False)


def _listed(named: exp.Schema) -> list[str]:
    """The columns that an INSERT lists."""
    for one in named.expressions:
        if not isinstance(one, exp.Identifier):
            raise Invalid(
                f"the INSERT lists {one.sql('spark')}, which is not a column: write its name alone"
            )
    return [one.name for one in named.expressions]


def _check_names(names: list[str], columns: list[str]) -> None:
    """Raise Invalid for a name that the table does not have, or that occurs twice."""
    for name in names:
        if name not in columns:
            remedy = other_case(names, columns) or f"its columns are {', '.join(columns)}"
            raise Invalid(f"the INSERT names {name!r}, which the table does not have: {remedy}")
        if names.count(name) > 1:
            raise Invalid(f"the INSERT names {name!r} twice: give each column one value")


def _completed(rows: DataFrame, schema: pa.Schema) -> DataFrame:
    """The rows with nulls in the columns that the statement does not name; a default fills its own
    column when the rows are written. A NULL, and a time with a zone or without one, has its
    column's type, as in any INSERT of Spark's."""
    from pyspark.sql import functions as sf

    given, defaults = {field.name: field.dataType for field in rows.schema}, defaults_of(schema)
    columns = []
    for field in spark_schema(schema):
        if field.name in given:
            column = sf.col(quoted(field.name))
            cast = _is_cast(given[field.name], field.dataType)
            columns.append(column.cast(field.dataType).alias(field.name) if cast else column)
        elif field.name not in defaults:
            columns.append(sf.lit(None).cast(field.dataType).alias(field.name))
    return rows.select(*columns)


def _is_cast(found: DataType, wanted: DataType) -> bool:
    from pyspark.sql import types as st

    if isinstance(found, st.ArrayType) and isinstance(found.elementType, st.NullType):
        return isinstance(wanted, st.ArrayType)
    times = (st.TimestampType, st.TimestampNTZType)
    is_other_time = isinstance(found, times) and isinstance(wanted, times) and found != wanted
    return isinstance(found, st.NullType) or is_other_time


def _change(
    session: Any, statement: exp.Update | exp.Delete, texts: Texts, options: WriteOptions
) -> Written:
    """An UPDATE or a DELETE: a merge with no source, which no row matches."""
    where = statement.args.get("where")
    condition = None if where is None else texts.of(where.this)
    merge = MergeInto(
        None, options, None, tune=True, names=("", statement.this.alias or _TARGET), session=session
    )
    if isinstance(statement, exp.Delete):
        return merge.when_not_matched_by_source_delete(condition=condition).execute()
    values = _assigned(statement.expressions, statement.this, texts)
    if values is None:
        raise Invalid("SET * is for the source of a MERGE, and an UPDATE has none: name columns")
    return merge.when_not_matched_by_source_update(values, condition=condition).execute()


def _merge(
    session: Any,
    statement: exp.Merge,
    texts: Texts,
    options: WriteOptions,
    tables: Mapping[str, str],
) -> Written:
    from pyspark.sql import functions as sf

    using = statement.args["using"]
    source = _source(session, using, texts, tables)
    names = (using.alias_or_name or "source", statement.this.alias or _TARGET)
    merge = MergeInto(
        source,
        options,
        sf.expr(texts.of(statement.args["on"])),
        tune=True,
        names=names,
        session=session,
        equal=_equal(statement.args["on"], *names),
    )
    for when in statement.args["whens"].expressions:
        _add(merge, when, statement.this, texts)
    return merge.execute()


def _source(
    session: Any, using: exp.Expression, texts: Texts, tables: Mapping[str, str]
) -> DataFrame:
    bare = using.copy()
    bare.set("alias", None)
    if not isinstance(using, exp.Table):
        rows = session.sql(f"SELECT * FROM (\n{texts.of(using)}\n)")
    elif not using.text("catalog") and (
        using.text("db").lower() == _FORMAT or (not using.text("db") and using.name in tables)
    ):
        rows = read(session, _url(using, tables))
    else:
        rows = session.table(bare.sql("spark"))
    alias = using.args.get("alias")
    named = [one.name for one in (alias.args.get("columns") or () if alias else ())]
    if named and len(named) != len(rows.columns):
        raise Invalid(
            f"the source has {len(rows.columns)} columns, and its alias names {len(named)}: "
            f"{', '.join(named)}"
        )
    return rows.toDF(*named) if named else rows


def _add(merge: MergeInto, when: exp.When, target: exp.Table, texts: Texts) -> None:
    """Add a clause of the statement."""
    then = when.args["then"]
    found = when.args.get("condition")
    condition = None if found is None else texts.of(found)
    by_source = bool(when.args.get("source"))
    if isinstance(then, exp.Insert):
        merge.when_not_matched_insert(_inserted(then, target, texts), condition=condition)
    elif isinstance(then, exp.Update):
        values = _assigned(then.expressions, target, texts)
        if when.args["matched"]:
            merge.when_matched_update(values, condition=condition)
        elif values is not None and by_source:
            merge.when_not_matched_by_source_update(values, condition=condition)
        else:
            raise Invalid("WHEN NOT MATCHED BY SOURCE has no source row for UPDATE SET *")
    elif then.name.upper() == "DELETE" and when.args["matched"]:
        merge.when_matched_delete(condition=condition)
    elif then.name.upper() == "DELETE" and by_source:
        merge.when_not_matched_by_source_delete(condition=condition)
    else:
        raise Invalid(f"{when.sql('spark')} is not a clause that a merge can carry out")


def _assigned(
    pairs: list[exp.Expression], target: exp.Table, texts: Texts
) -> dict[str, str] | None:
    """The columns and values of ``SET``; None for ``*``."""
    if any(isinstance(pair, exp.Star) for pair in pairs):
        return None
    values: dict[str, str] = {}
    for pair in pairs:
        if not isinstance(pair, exp.EQ):
            raise Invalid(f"SET {pair.sql('spark')} is not a column and its value")
        _set(values, pair.this, texts.of(pair.expression), target)
    return values


def _inserted(then: exp.Insert, target: exp.Table, texts: Texts) -> dict[str, str] | None:
    """The columns and values of ``INSERT``; None for ``*``."""
    if isinstance(then.this, exp.Star):
        return None
    columns = then.this.expressions if isinstance(then.this, exp.Tuple) else []
    found = then.expression.expressions if isinstance(then.expression, exp.Tuple) else []
    if not found or len(columns) != len(found):
        raise Invalid(f"{then.sql('spark')} names other columns than it has values")
    values: dict[str, str] = {}
    for column, value in zip(columns, found, strict=True):
        _set(values, column, texts.of(value), target)
    return values


def _set(values: dict[str, str], column: exp.Expression, value: str, target: exp.Table) -> None:
    """Add a column of the target and its value. Raises Invalid for what names another one."""
    own = (target.alias,) if target.alias else (_TARGET, target.name)
    of_target = [name.lower() for name in ("", *own)]
    if (
        not isinstance(column, exp.Column)
        or not isinstance(column.this, exp.Identifier)
        or column.text("db")
        or column.text("table").lower() not in of_target
    ):
        raise Invalid(
            f"{column.sql('spark')} is set, which is not a column of the changed table: write its "
            f"name, or {own[0]}.name; a field of a struct is set with the whole struct"
        )
    if column.name in values:
        raise Invalid(f"the column {column.name!r} is set twice: give it one value")
    values[column.name] = value


def _equal(on: exp.Expression, source: str, target: str) -> dict[str, str] | None:
    """The source's column for each of the target where a condition says that these are equal, and
    nothing else; None for any other condition."""
    equal: dict[str, str] = {}
    for one in on.flatten() if isinstance(on, exp.And) else [on]:
        both = one.unnest()
        if not isinstance(both, exp.EQ):
            return None
        columns = [both.this, both.expression]
        if any(not isinstance(one, exp.Column) or one.text("db") for one in columns):
            return None
        sides = {one.text("table"): one.name for one in columns}
        if set(sides) != {source, target} or sides[target] in equal:
            return None
        equal[sides[target]] = sides[source]
    return equal
