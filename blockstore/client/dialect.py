"""A dialect of SQLAlchemy: ``create_engine("blockstore://token@host:8080/lake")``.

Rules:
- The SQL is the gateway's, which is DuckDB's, and so are all of its rules: the dialect spells, and
  what a table cannot promise is refused by the gateway.
- All names are quoted, so no list of reserved words is kept here.
- What a table does not have and what promises nothing is left out: indexes that are not unique,
  which ``DataFrame.to_sql`` makes, and the comment of a table.
- ``blockstore://`` is HTTP on this machine and HTTPS elsewhere; ``blockstore+http://`` and
  ``blockstore+https://`` say which.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from sqlalchemy import URL, exc, types
from sqlalchemy import cast as sa_cast
from sqlalchemy.dialects.sqlite.json import JSONIndexType, JSONPathType
from sqlalchemy.engine import default, reflection
from sqlalchemy.engine.interfaces import IsolationLevel
from sqlalchemy.sql import compiler
from sqlalchemy.util import asbool

from blockstore.errors import NotFound

_PORT = 8080
_OPTIONS = ("autocommit", "timeout_s", "verify")
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_TYPES: dict[str, Callable[[], types.TypeEngine[Any]]] = {
    "bool": types.BOOLEAN,
    "int8": types.SMALLINT,
    "int16": types.SMALLINT,
    "int32": types.INTEGER,
    "int": types.BIGINT,
    "uint8": types.SMALLINT,
    "uint16": types.INTEGER,
    "uint32": types.BIGINT,
    "uint64": lambda: types.NUMERIC(20, 0),
    "float": types.REAL,
    "double": types.DOUBLE,
    "string": types.VARCHAR,
    "binary": types.BLOB,
    "date": types.DATE,
    "time": types.TIME,
}
"""The narrowest types of SQLAlchemy that hold all values of the gateway's."""


class _Compiler(compiler.SQLCompiler):
    """Queries and changes of rows."""

    def visit_empty_set_expr(self, element_types: list[Any], **kw: Any) -> str:
        kinds = [types.INTEGER() if one._isnull else one for one in element_types]
        nulls = (
            f"CAST(NULL AS {self.dialect.type_compiler_instance.process(one)})" for one in kinds
        )
        return f"SELECT {', '.join(nulls)} WHERE 1 != 1"

    def limit_clause(self, select: Any, **kw: Any) -> str:
        parts = (("LIMIT", select._limit_clause), ("OFFSET", select._offset_clause))
        given = ((word, one) for word, one in parts if one is not None)
        return "".join(f"\n {word} {self.process(one, **kw)}" for word, one in given)

    def visit_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._ilike("ILIKE", binary, kw)

    def visit_not_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._ilike("NOT ILIKE", binary, kw)

    def _ilike(self, word: str, binary: Any, kw: dict[str, Any]) -> str:
        found = f"{self.process(binary.left, **kw)} {word} {self.process(binary.right, **kw)}"
        escape = binary.modifiers.get("escape")
        if escape is None:
            return found
        return f"{found} ESCAPE {self.render_literal_value(escape, types.STRINGTYPE)}"

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        flags = binary.modifiers["flags"]
        more = "" if flags is None else f", {self.render_literal_value(flags, types.STRINGTYPE)}"
        left, right = self.process(binary.left, **kw), self.process(binary.right, **kw)
        return f"regexp_matches({left}, {right}{more})"

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"NOT {self.visit_regexp_match_op_binary(binary, operator, **kw)}"

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        flags = binary.modifiers["flags"]
        given = self.render_literal_value("g" if flags is None else flags, types.STRINGTYPE)
        left, right = self.process(binary.left, **kw), self.process(binary.right, **kw)
        return f"regexp_replace({left}, {right}, {given})"

    def visit_json_getitem_op_binary(
        self, binary: Any, operator: Any, _cast_applied: bool = False, **kw: Any
    ) -> str:
        kind = binary.type._type_affinity
        if not _cast_applied and kind not in (types.JSON, types.String):
            return self.process(sa_cast(binary, binary.type), _cast_applied=True, **kw)
        function = "json_extract" if kind is types.JSON else "json_extract_string"
        left, right = self.process(binary.left, **kw), self.process(binary.right, **kw)
        return f"{function}({left}, {right})"

    visit_json_path_getitem_op_binary = visit_json_getitem_op_binary

    def visit_char_length_func(self, fn: Any, **kw: Any) -> str:
        return f"length{self.function_argspec(fn, **kw)}"

    def update_from_clause(
        self, update_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **kw: Any
    ) -> str:
        kw["asfrom"] = True
        listed = (one._compiler_dispatch(self, fromhints=from_hints, **kw) for one in extra_froms)
        return f"FROM {', '.join(listed)}"

    def delete_extra_from_clause(
        self, delete_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **kw: Any
    ) -> str:
        kw["asfrom"] = True
        listed = (one._compiler_dispatch(self, fromhints=from_hints, **kw) for one in extra_froms)
        return f"USING {', '.join(listed)}"


class _Ddl(compiler.DDLCompiler):
    """Definitions of tables."""

    def visit_create_index(
        self,
        create: Any,
        include_schema: bool = False,
        include_table_schema: bool = True,
        **kw: Any,
    ) -> str:
        if create.element.unique:
            raise exc.CompileError(
                f"the index {create.element.name} is unique, and the only thing that a table "
                "promises to have once is its key: declare a primary key"
            )
        return ""

    def visit_drop_index(self, drop: Any, **kw: Any) -> str:
        return ""

    def visit_set_table_comment(self, create: Any, **kw: Any) -> str:
        return ""

    def visit_drop_table_comment(self, drop: Any, **kw: Any) -> str:
        return ""


class _Types(compiler.GenericTypeCompiler):
    """Types as DuckDB names them."""

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        precision = getattr(type_, "precision", None)
        return "REAL" if precision is not None and precision <= 24 else "DOUBLE"

    def visit_DOUBLE_PRECISION(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMPTZ" if type_.timezone else "TIMESTAMP"

    visit_TIMESTAMP = visit_DATETIME

    def visit_TIME(self, type_: Any, **kw: Any) -> str:
        return "TIME"

    def visit_large_binary(self, type_: Any, **kw: Any) -> str:
        return "BLOB"

    visit_BINARY = visit_VARBINARY = visit_large_binary

    def visit_text(self, type_: Any, **kw: Any) -> str:
        return "VARCHAR"

    visit_TEXT = visit_CLOB = visit_NCLOB = visit_JSON = visit_text

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        return f"{self.process(type_.item_type, **kw)}{'[]' * (type_.dimensions or 1)}"


class _Preparer(compiler.IdentifierPreparer):
    """Quotes all names."""

    def _requires_quotes(self, value: str) -> bool:
        return True


class _Context(default.DefaultExecutionContext):
    """The execution of a statement."""

    def create_server_side_cursor(self) -> Any:
        return self._dbapi_connection.cursor()  # every cursor streams


class BlockstoreDialect(default.DefaultDialect):
    """The dialect; its driver is ``blockstore.client.dbapi``."""

    name = "blockstore"
    driver = "auto"
    statement_compiler = _Compiler
    ddl_compiler = _Ddl
    type_compiler_cls = _Types
    preparer = _Preparer
    execution_ctx_cls = _Context
    default_paramstyle = "qmark"
    colspecs = {  # SQLite's spelling of paths is DuckDB's too
        types.JSON.JSONIndexType: JSONIndexType,
        types.JSON.JSONPathType: JSONPathType,
    }
    supports_server_side_cursors = True
    supports_statement_cache = True
    supports_schemas = False
    supports_comments = True
    supports_default_values = True
    supports_default_metavalue = True
    supports_empty_insert = False
    supports_multivalues_insert = True
    supports_native_boolean = True
    supports_native_decimal = True
    returns_native_bytes = True
    postfetch_lastrowid = False
    div_is_floordiv = False

    def __init__(
        self,
        json_serializer: Callable[[Any], str] | None = None,
        json_deserializer: Callable[[str], Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._json_serializer = json_serializer
        self._json_deserializer = json_deserializer

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        from blockstore.client import dbapi

        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of ``dbapi.connect``. The database of the URL is a name for people: a
        gateway has one namespace."""
        host = url.host or "localhost"
        scheme = self.driver
        if scheme == "auto":
            scheme = "http" if host in _HERE else "https"
        shown = f"[{host}]" if ":" in host else host
        more: dict[str, Any] = dict(url.query)
        odd = [name for name in more if name not in _OPTIONS]
        if odd:
            raise exc.ArgumentError(
                f"the URL has the option {odd[0]!r}, expected only {', '.join(_OPTIONS)}"
            )
        if "autocommit" in more:
            more["autocommit"] = asbool(more["autocommit"])
        if "timeout_s" in more:
            more["timeout_s"] = float(more["timeout_s"])
        token = url.password or url.username
        return [f"{scheme}://{shown}:{url.port or _PORT}", token], more

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        if statement:  # an index has none
            cursor.execute(statement, parameters)

    def do_ping(self, dbapi_connection: Any) -> bool:
        dbapi_connection.cursor().execute("SELECT 1").close()
        return True

    # Isolation: each statement reads the newest snapshot, and is complete when it returns.

    def get_isolation_level_values(self, dbapi_conn: Any) -> list[IsolationLevel]:
        return ["READ COMMITTED", "AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: Any) -> IsolationLevel:
        return "AUTOCOMMIT" if dbapi_connection.autocommit else "READ COMMITTED"

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.autocommit)

    # Reflection

    @reflection.cache
    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        try:
            self._table(connection, table_name, schema)
        except exc.NoSuchTableError:
            return False
        return True

    def has_sequence(self, *_: Any, **__: Any) -> bool:
        return False

    @reflection.cache
    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        if schema is not None:
            return []
        return sorted(one["name"] for one in _client(connection).tables())

    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        return []

    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        return []

    def get_temp_table_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return []

    def get_temp_view_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return []

    def get_view_definition(
        self, connection: Any, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        raise exc.NoSuchTableError(view_name)

    @reflection.cache
    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        shown = self._table(connection, table_name, schema, **kw)
        return [
            {
                "name": one["name"],
                "type": _type(one["type"], one["max_length"]),
                "nullable": one["nullable"],
                "default": _constant(one["default"]),
                "comment": one["description"],
            }
            for one in shown["columns"]
        ]

    @reflection.cache
    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        key = self._table(connection, table_name, schema, **kw)["key"]
        return {"constrained_columns": key, "name": None}

    @reflection.cache
    def get_check_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        columns = self._table(connection, table_name, schema, **kw)["columns"]
        return [
            {"name": None, "sqltext": one["check"]} for one in columns if one["check"] is not None
        ]

    @reflection.cache
    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        self._table(connection, table_name, schema, **kw)
        return {"text": None}

    @reflection.cache
    def get_indexes(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        self._table(connection, table_name, schema, **kw)
        return []

    get_foreign_keys = get_unique_constraints = get_indexes

    @reflection.cache
    def _table(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        """What the gateway shows of a table."""
        if schema is not None:
            raise exc.NoSuchTableError(f"{schema}.{table_name}")
        try:
            return _client(connection).table(str(table_name))
        except NotFound as error:
            raise exc.NoSuchTableError(table_name) from error


class OverHttp(BlockstoreDialect):
    """``blockstore+http://``."""

    driver = "http"
    supports_statement_cache = True


class OverHttps(BlockstoreDialect):
    """``blockstore+https://``."""

    driver = "https"
    supports_statement_cache = True


def _client(connection: Any) -> Any:
    return connection.connection.dbapi_connection.client


def _type(name: str, length: int | None) -> types.TypeEngine[Any]:
    """The type for one of the gateway; NullType for structs, maps and durations."""
    if item := re.fullmatch(r"list<(.+)>", name):
        inner = _type(item[1], None)
        if isinstance(inner, types.ARRAY):
            return types.ARRAY(inner.item_type, dimensions=(inner.dimensions or 1) + 1)
        return types.NULLTYPE if inner is types.NULLTYPE else types.ARRAY(inner, dimensions=1)
    if digits := re.fullmatch(r"decimal\((\d+), (\d+)\)", name):
        return types.NUMERIC(int(digits[1]), int(digits[2]))
    if name.startswith("timestamp"):
        return types.TIMESTAMP(timezone="," in name)
    if name == "string" and length is not None:
        return types.VARCHAR(length)
    made = _TYPES.get(name.partition("[")[0])
    return types.NULLTYPE if made is None else made()


def _constant(value: object) -> str | None:
    """The default of a column, as SQL."""
    if value is None:
        return None
    if isinstance(value, str):
        escaped = value.replace("'", "''")
        return f"'{escaped}'"
    return str(value).lower() if isinstance(value, bool) else str(value)
