"""A query of PostgreSQL's catalogs, translated to the engine's SQL.

Catalogs become tables whose names have a prefix that no table has. Functions of PostgreSQL become
constants, or lookups in those tables; types that only PostgreSQL has become numbers and texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import sqlglot
from sqlglot import exp

from blockstore.reader.errors import UnknownTable
from blockstore.reader.postgres import types as t
from blockstore.reader.postgres.catalog import VERSION, Known, definition_of_index, oid_of
from blockstore.reader.postgres.catalog_columns import COLUMNS, PREFIX
from blockstore.reader.postgres.catalog_functions import index_property
from blockstore.reader.postgres.naming import (
    among_tables,
    class_by,
    formatted,
    is_text,
    parsed_name,
    quoted_name,
    quoted_text,
    type_named,
)
from blockstore.reader.postgres.privileges import WRITES
from blockstore.reader.postgres.result_names import name_results
from blockstore.reader.postgres.rewriting import CATALOGS, rewritten
from blockstore.reader.postgres.trees import arguments_of, is_domain, type_name
from blockstore.reader.query.sql.types import text

_SCHEMAS = {"public": 2200, "pg_catalog": 11, "information_schema": 13_000}
_NUMBERS = frozenset({"OID", "REGCLASS", "REGTYPE", "REGNAMESPACE", "XID", "REGROLE", "CID"})
_TEXTS = frozenset(
    {
        "NAME",
        "REGPROC",
        "REGPROCEDURE",
        "REGOPER",
        "REGOPERATOR",
        "CHAR",
        "BPCHAR",
        "ACLITEM",
        "PG_NODE_TREE",
    }
    | {"SQL_IDENTIFIER", "CHARACTER_DATA", "YES_OR_NO", "INT2VECTOR", "OIDVECTOR"}
)

_FUNCTION_COLUMNS = frozenset(
    {"typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze"}
)

Arguments = Sequence[str]
Write = Callable[["Translation", Arguments], str]


def _rights(name: str) -> Write:
    return lambda translation, arguments: WRITES[name](translation.what, name, arguments)


def _always(sql: str) -> Write:
    return lambda _translation, _arguments: sql


def _format_type(translation: Translation, arguments: Arguments) -> str:
    oid, modifier = arguments[0], arguments[1] if len(arguments) > 1 else "NULL"
    names = {kind.oid: kind.shown for kind in t.TYPES.values()}
    names |= {array: f"{t.TYPES[inner].shown}[]" for array, inner in t.ELEMENTS.items()}
    cases = " ".join(f"WHEN {number} THEN {text(name)}" for number, name in names.items())
    digits = f"({modifier} - 4)"
    decimal = f"'numeric(' || ({digits} >> 16) || ',' || ({digits} & 65535) || ')'"
    return (
        f"CASE WHEN {oid} = {t.NUMERIC} AND {modifier} > 4 THEN {decimal} "
        f"ELSE CASE {oid} {cases} END END"
    )


def _described(translation: Translation, arguments: Arguments) -> str:
    place = arguments[1] if len(arguments) > 1 and arguments[1].lstrip("-").isdigit() else None
    place = place or (arguments[1] if len(arguments) > 1 and "'" not in arguments[1] else "0")
    return (
        f'(SELECT MAX(d.description) FROM "{PREFIX}pg_description" AS d WHERE d.objoid = '
        f"{arguments[0]} AND d.objsubid = {place})"
    )


def _constraint(translation: Translation, arguments: Arguments) -> str:
    cases = " ".join(
        f"WHEN {oid_of('constraint', one.name)} THEN " + text(f"PRIMARY KEY ({', '.join(one.key)})")
        for one in translation.what.tables
        if one.key
    )
    return f"CASE {arguments[0]} {cases} END" if cases else "CAST(NULL AS VARCHAR)"


def _index(translation: Translation, arguments: Arguments) -> str:
    """The definition of an index; with a place, the column that is there."""
    place = arguments[1] if len(arguments) > 1 else "0"
    cases = " ".join(
        f"WHEN {oid_of('index', one.name)} THEN CASE {place} WHEN 0 THEN "
        + text(definition_of_index(one))
        + f" ELSE [{', '.join(text(name) for name in one.key)}][{place}] END"
        for one in translation.what.tables
        if one.key
    )
    return f"CASE {arguments[0]} {cases} END" if cases else "CAST(NULL AS VARCHAR)"


def _setting(translation: Translation, arguments: Arguments) -> str:
    name = arguments[0].strip("'")
    values = {key.lower(): value for key, value in translation.what.variables.all().items()}
    found = values.get(name.lower())
    return "CAST(NULL AS VARCHAR)" if found is None else text(found)


def _set(translation: Translation, arguments: Arguments) -> str:
    local = len(arguments) > 2 and arguments[2].strip("'").lower() in ("true", "t")
    translation.what.variables.set(arguments[0].strip("'"), arguments[1].strip("'"), local=local)
    return arguments[1]


def _schemas(translation: Translation, arguments: Arguments) -> str:
    implicit = arguments[0].upper() == "TRUE" if arguments else False
    return "['pg_catalog', 'public']" if implicit else "['public']"


def _expanded(translation: Translation, arguments: Arguments) -> str:
    own = arguments[0]
    return f"UNNEST(LIST_TRANSFORM(RANGE(1, LEN({own}) + 1), k -> {{'x': {own}[k], 'n': k}}))"


def _type_of(translation: Translation, arguments: Arguments) -> str:
    return f'(SELECT MAX(n.oid) FROM "{PREFIX}pg_type" AS n WHERE n.typname = {arguments[0]})'


def _database(translation: Translation, _: Arguments) -> str:
    return text(translation.what.database)


def _user(translation: Translation, _: Arguments) -> str:
    return text(translation.what.user)


_NULL_TEXT, _NULL_NUMBER = _always("CAST(NULL AS VARCHAR)"), _always("CAST(NULL AS BIGINT)")
_TRUE, _FALSE = _always("TRUE"), _always("FALSE")
FUNCTIONS: Mapping[str, Write] = {
    "array_upper": lambda _, arguments: f"LEN({arguments[0]})",
    "array_lower": _always("1"),
    "col_description": _described,
    "current_catalog": _database,
    "current_database": _database,
    "current_role": _user,
    "current_schema": _always("'public'"),
    "current_schemas": _schemas,
    "current_setting": _setting,
    "current_user": _user,
    "format_type": _format_type,
    "inet_client_addr": _NULL_TEXT,
    "inet_server_addr": _NULL_TEXT,
    "inet_server_port": _NULL_NUMBER,
    "obj_description": _described,
    "pg_advisory_lock": _NULL_TEXT,
    "pg_advisory_unlock": _FALSE,
    "pg_advisory_unlock_all": _NULL_TEXT,
    "pg_backend_pid": lambda translation, _: str(translation.what.process),
    "oidvectortypes": _NULL_TEXT,
    "pg_blocking_pids": _always("CAST([] AS INTEGER[])"),
    "pg_cancel_backend": _NULL_TEXT,
    "pg_database_size": _NULL_NUMBER,
    "pg_encoding_to_char": _always("'UTF8'"),
    "pg_get_constraintdef": _constraint,
    "pg_get_expr": _NULL_TEXT,
    "pg_get_function_arguments": _NULL_TEXT,
    "pg_get_function_identity_arguments": _NULL_TEXT,
    "pg_get_function_result": _NULL_TEXT,
    "pg_get_function_sqlbody": _NULL_TEXT,
    "pg_get_functiondef": _NULL_TEXT,
    "pg_get_indexdef": _index,
    "pg_get_partkeydef": _NULL_TEXT,
    "pg_get_ruledef": _NULL_TEXT,
    "pg_get_serial_sequence": _NULL_TEXT,
    "pg_get_statisticsobjdef_columns": _NULL_TEXT,
    "pg_get_triggerdef": _NULL_TEXT,
    "pg_get_userbyid": _user,
    "pg_get_viewdef": _NULL_TEXT,
    "pg_indexam_has_property": _TRUE,
    "pg_indexes_size": _NULL_NUMBER,
    "pg_is_in_recovery": _FALSE,
    "pg_is_other_temp_schema": _FALSE,
    "pg_my_temp_schema": _always("0"),
    "pg_postmaster_start_time": _always("CAST(NULL AS TIMESTAMPTZ)"),
    "pg_relation_is_publishable": _FALSE,
    "pg_relation_size": _NULL_NUMBER,
    "pg_size_pretty": _NULL_TEXT,
    "pg_stat_get_numscans": _always("0"),
    "pg_table_size": _NULL_NUMBER,
    "pg_tablespace_location": _always("''"),
    "pg_tablespace_size": _NULL_NUMBER,
    "pg_terminate_backend": _NULL_TEXT,
    "pg_total_relation_size": _NULL_NUMBER,
    "pg_index_column_has_property": lambda _, own: index_property(own[1], own[2]),
    "quote_literal": lambda _, arguments: quoted_text(arguments[0]),
    "quote_nullable": lambda _, arguments: quoted_text(arguments[0]),
    "parse_ident": lambda _, arguments: parsed_name(arguments[0]),
    "quote_ident": lambda _, arguments: quoted_name(arguments[0]),
    "session_user": _user,
    "set_config": _set,
    "shobj_description": _NULL_TEXT,
    "to_regclass": lambda own, arguments: own.class_named(arguments[0].strip("'")),
    "to_regtype": _type_of,
    "txid_current": _always("1"),
    "version": _always(text(VERSION)),
    "_pg_expandarray": _expanded,
    **{name: _rights(name) for name in WRITES},
    **{
        f"pg_{what}_is_visible": _TRUE
        for what in ("table", "type", "function", "operator", "opclass", "collation")
    },
    "pg_relation_is_updatable": _always("28"),
    "pg_column_is_updatable": _TRUE,
}
"""Functions of PostgreSQL, by their names; each is written by its arguments in the engine's SQL."""


class Translation:
    """One translation, for what a caller may know."""

    def __init__(self, what: Known) -> None:
        self.what: Known = what

    def of(self, tree: exp.Expression) -> exp.Expression:
        """The tree of the engine's SQL. Raises UnknownTable for a catalog that there is not."""
        name_results(tree)
        return cast("exp.Expression", rewritten(tree).transform(self._node))

    def class_named(self, name: str) -> str:
        """The number of a table, by its name with or without a schema; NULL for another."""
        own = name.rpartition(".")[2].strip('"')
        if own in CATALOGS:
            return f"CAST({CATALOGS[own]} AS UINTEGER)"
        low = own.lower()
        found = (one.oid for one in self.what.tables if one.name.lower() == low)
        number = next(found, None)
        return f"CAST({'NULL' if number is None else number} AS UINTEGER)"

    def _node(self, node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Dot):
            return self._qualified(node)
        if isinstance(node, exp.Cast):
            return self._cast(node)
        if isinstance(node, exp.Case):
            return self._without_domains(node)
        if isinstance(node, exp.EQ | exp.NEQ):
            return self._compared(node)
        if isinstance(node, exp.Collate):
            return cast("exp.Expression", node.this.transform(self._node))
        if isinstance(node, exp.Operator):
            return self._operator(node)
        if isinstance(node, exp.Func):
            return self._function(node)
        return node

    def _table(self, node: exp.Table) -> exp.Expression:
        if not isinstance(node.this, exp.Identifier):
            return self._table_function(node)
        name, schema = node.name.lower(), node.db.lower()
        if schema == "public":
            node.set("db", None)
            node.set("catalog", None)
            return node
        own = name if schema != "information_schema" else f"{schema}.{name}"
        if schema not in ("", "pg_catalog", "information_schema"):
            return node
        if own not in COLUMNS:
            if schema:
                raise UnknownTable(
                    f"there is no catalog {schema}.{name[:60]} here: list tables with "
                    "information_schema.tables"
                )
            return node
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
        return exp.Table(
            this=exp.to_identifier(PREFIX + own, quoted=True),
            alias=alias,
            joins=[one.transform(self._node) for one in node.args.get("joins") or ()],
        )

    def _table_function(self, node: exp.Table) -> exp.Expression:
        if node.db.lower() in ("pg_catalog", "information_schema"):
            node.set("db", None)
        if (called := _SPELLED.get(type(node.this).__name__)) is not None:
            node.set("this", exp.Anonymous(this=called))
        made = among_tables(node, FUNCTIONS)
        return node if made is node else cast("exp.Expression", made.transform(self._node))

    def _column(self, node: exp.Column) -> exp.Expression:
        if node.args.get("db") is not None:
            node.set("db", None)
            node.set("catalog", None)
        low = node.name.lower()
        if not node.table and not node.this.quoted and low in ("user", "current_catalog"):
            return self._written(FUNCTIONS["current_user" if low == "user" else low], [])
        return node

    def _qualified(self, node: exp.Dot) -> exp.Expression:
        """``pg_catalog.f(x)`` → ``f(x)``."""
        schema = node.this
        if isinstance(schema, exp.Identifier | exp.Column) and schema.name.lower() in _SCHEMAS:
            return cast("exp.Expression", node.expression.transform(self._node))
        return node

    def _function(self, node: exp.Func) -> exp.Expression:
        name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
        name = _SPELLED.get(type(node).__name__, name)
        if name == "json_build_object":
            made = [cast("exp.Expression", one.transform(self._node)) for one in arguments_of(node)]
            return exp.Anonymous(this="json_object", expressions=made)
        if isinstance(node, exp.Format):
            return self._format(node)
        if name not in FUNCTIONS:
            return node
        arguments = [
            cast("exp.Expression", one.transform(self._node)).sql(dialect="duckdb")
            for one in arguments_of(node)
        ]
        return self._written(FUNCTIONS[name], arguments)

    def _format(self, node: exp.Format) -> exp.Expression:
        own = [cast("exp.Expression", one.transform(self._node)) for one in node.expressions]
        node.set("expressions", own)
        written = formatted(node)
        return node if written is None else sqlglot.parse_one(written, read="duckdb")

    def _written(self, write: Write, arguments: Arguments) -> exp.Expression:
        return sqlglot.parse_one(write(self, arguments), read="duckdb")

    def _operator(self, node: exp.Operator) -> exp.Expression:
        """``a OPERATOR(pg_catalog.~) b``."""
        sign = str(node.args.get("operator")).rpartition(".")[2].strip('"')
        kinds = {"~": exp.RegexpLike, "~*": exp.RegexpILike, "=": exp.EQ, "~~": exp.Like}
        if sign.lstrip("!") not in kinds:
            return node
        left, right = node.this, node.expression
        if isinstance(right, exp.Collate):
            right = right.this
        made: exp.Expression = kinds[sign.lstrip("!")](this=left, expression=right)
        return exp.Not(this=made) if sign.startswith("!") else made

    def _without_domains(self, node: exp.Case) -> exp.Expression:
        """A CASE without what holds for domains only, of which there are none: asyncpg looks for
        their base types by a recursion that takes DuckDB a minute."""
        kept = [one for one in node.args["ifs"] if not is_domain(one.this)]
        if not kept and node.this is None:
            return node.args.get("default") or exp.Null()
        node.set("ifs", kept)
        return node

    def _compared(self, node: exp.Binary) -> exp.Expression:
        """A column of functions is a text here, and ``-`` for none: ``typreceive <> 0``. So the
        number of a function is compared by its name: ``pg_proc.oid = typreceive``."""
        for side, other in (("this", "expression"), ("expression", "this")):
            column, against = node.args[side], node.args[other]
            if not isinstance(column, exp.Column) or column.name.lower() not in _FUNCTION_COLUMNS:
                continue
            if isinstance(against, exp.Literal) and not against.is_string:
                node.set(other, exp.Literal.string("-"))
            elif isinstance(against, exp.Column) and against.name.lower() == "oid":
                node.set(other, exp.column("proname", table=against.args.get("table")))
        return node

    def _cast(self, node: exp.Cast) -> exp.Expression:
        kind = type_name(node.to)
        inner = node.this
        if isinstance(inner, exp.Cast) and kind in ("TEXT", "VARCHAR", "NAME"):
            named = self._named(inner)
            if named is not None:
                return named
        if kind in _NUMBERS:
            return self._number(node, kind)
        if kind in _TEXTS:
            node.set("to", exp.DataType.build("VARCHAR"))
        return node

    def _number(self, node: exp.Cast, kind: str) -> exp.Expression:
        given = isinstance(node.this, exp.Parameter | exp.Placeholder)
        if kind == "REGCLASS" and (given or is_text(node.this)):
            own = cast("exp.Expression", node.this.transform(self._node))
            return self._written(lambda _, own: class_by(own[0]), [own.sql(dialect="duckdb")])
        literal = node.this if isinstance(node.this, exp.Literal) else None
        if literal is None or not literal.is_string or literal.this.isdigit():
            node.set("to", exp.DataType.build("UINTEGER", dialect="duckdb"))
            return node
        found = "CAST(NULL AS UINTEGER)"
        if kind == "REGCLASS":
            found = self.class_named(literal.this)
        elif kind == "REGNAMESPACE":
            found = str(_SCHEMAS.get(literal.this, found))
        elif kind == "REGTYPE":
            names = {one.name: one.oid for one in t.TYPES.values()}
            names |= {one.shown: one.oid for one in t.TYPES.values()}
            found = str(names.get(literal.this.rpartition(".")[2], found))
        return sqlglot.parse_one(found, read="duckdb")

    def _named(self, inner: exp.Cast) -> exp.Expression | None:
        """The name of what a number means: ``oid::regclass::text``."""
        kind = type_name(inner.to)
        constant = isinstance(inner.this, exp.Literal)
        if kind == "REGTYPE" and is_text(inner.this):
            own = cast("exp.Expression", inner.this.transform(self._node))
            shown = type_named(own.sql(dialect="duckdb"), _format_type(self, ["n.oid"]))
            return sqlglot.parse_one(shown, read="duckdb")
        if constant and kind in ("REGCLASS", "REGNAMESPACE", "REGTYPE"):
            number = self._number(inner, kind).sql(dialect="duckdb")
        else:
            own = cast("exp.Expression", inner.this.transform(self._node))
            number = own.sql(dialect="duckdb")
        lookups = {
            "REGCLASS": ("pg_class", "relname"),
            "REGNAMESPACE": ("pg_namespace", "nspname"),
        }
        if kind == "REGTYPE":
            return self._written(_format_type, [number])
        if kind not in lookups:
            return None
        table, column = lookups[kind]
        sql = f'(SELECT MAX(n.{column}) FROM "{PREFIX}{table}" AS n WHERE n.oid = {number})'
        return sqlglot.parse_one(sql, read="duckdb")


_SPELLED = {
    "CurrentSchema": "current_schema",
    "CurrentUser": "current_user",
    "SessionUser": "session_user",
    "CurrentCatalog": "current_catalog",
    "CurrentDatabase": "current_database",
    "CurrentRole": "current_role",
    "CurrentSchemas": "current_schemas",
    "CurrentVersion": "version",
    "Version": "version",
}
"""Functions that sqlglot has nodes for."""
