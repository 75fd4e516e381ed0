"""CREATE TABLE: the definition of a table, as DuckDB understands it; its parts are those of ALTER
TABLE too (``altering.py``).

Rules:
- DuckDB makes an empty table of the same columns and says what it has made: the types, which
  columns refuse nulls, the defaults and the checks. Nothing of SQL's types is written down twice.
- A default is a constant: it is computed once, by an admitted query.
- What a table cannot promise is refused, not dropped: UNIQUE, references, generated columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.format.column import rules_of
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.reader.errors import BadSql, TooMuch
from blockstore.reader.query.admission import Budget
from blockstore.reader.query.engine import Engine
from blockstore.reader.query.sql.types import quoted, text
from blockstore.reader.statements.canonical import as_uuid, cast
from blockstore.reader.statements.tokens import Cursor, Piece, error_at, tokens_of

_TWIN = "blockstore_twin"
_OPTIONS = frozenset({"row_ids", "time_column", "sort_by", "labels"})
_COLUMNS = (
    "SELECT column_name, data_type, column_default, is_generated FROM duckdb_columns() "
    f"WHERE table_name = {text(_TWIN)} ORDER BY column_index"
)
_RULES = (
    "SELECT constraint_type, constraint_column_names FROM duckdb_constraints() "
    f"WHERE table_name = {text(_TWIN)} ORDER BY constraint_index"
)

NO_COMMENTS: Mapping[str, str] = {}
_MOST_BYTES = 64 * 1024
"""Of the value of an expression: a default is kept with every version of its table."""
Constant = Callable[[str], object]
"""The value of an expression that reads nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """``CREATE TABLE``."""

    source: str
    name: str
    at: int
    columns: Piece | None
    """The columns and the rules of the table; None: those of the query."""
    names: tuple[str, ...] = ()
    """The names of the first columns of the query, where it does not say them itself."""
    options: Mapping[str, object] = field(default_factory=dict)
    query: Piece | None = None
    with_rows: bool = True
    """Whether the table has the rows of the query too."""
    if_not_exists: bool = False
    or_replace: bool = False

    @property
    def rows(self) -> str | None:
        """The query of its rows, if it has one."""
        if self.query is None:
            return None
        if not self.names and self.with_rows:
            return self.query.text
        listed = f"({', '.join(map(quoted, self.names))})" if self.names else ""
        limit = "" if self.with_rows else " LIMIT 0"
        return f"SELECT * FROM (\n{self.query.text}\n) AS {quoted(_TWIN)}{listed}{limit}"


def constants(engine: Engine) -> Constant:
    """What computes expressions that read nothing, by admitted queries that may know no table."""

    def constant(expression: str) -> object:
        budget = Budget(rows=1, bytes=_MOST_BYTES)
        try:
            with engine.run(f"SELECT {expression} AS value", allowed=(), budget=budget) as answer:
                return answer.reader.read_all()["value"][0].as_py()
        except TooMuch:
            raise BadSql(
                f"the DEFAULT has a value of more than {_MOST_BYTES:,} bytes: write long values "
                "with the rows"
            ) from None

    return constant


def read_create(source: str) -> Create:
    """The clauses of a CREATE TABLE. Raises BadSql for another CREATE."""
    cursor = Cursor(source)
    cursor.need("CREATE")
    or_replace = cursor.take("OR", "REPLACE")
    if cursor.word() != "TABLE":
        raise cursor.wrong("only tables can be created: expected TABLE")
    cursor.take("TABLE")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    at = cursor.here
    name = table_name(cursor)
    columns = cursor.one().inside() if cursor.word() == "(" else None
    options: dict[str, object] = {}
    if cursor.take("WITH"):
        options = options_of(cursor)
    query, with_rows = _query(cursor) if cursor.take("AS") else (None, True)
    if not cursor.done:
        raise cursor.wrong("expected the end of the statement")
    if columns is None and query is None:
        raise cursor.wrong("expected columns in parentheses")
    names: tuple[str, ...] = ()
    if columns is not None and query is not None:
        names, columns = _names(columns), None
    return Create(
        source=source,
        name=name,
        at=at,
        columns=columns,
        names=names,
        with_rows=with_rows,
        options=options,
        query=query,
        if_not_exists=if_not_exists,
        or_replace=or_replace,
    )


def _query(cursor: Cursor) -> tuple[Piece, bool]:
    """The query after AS, and whether the table has its rows."""
    query = cursor.rest()
    words = [token.word for token in query.tokens[-3:]]
    for end, with_rows in ((["WITH", "NO", "DATA"], False), (["WITH", "DATA"], True)):
        if words[-len(end) :] == end:
            return Piece(query.source, query.tokens[: -len(end)]), with_rows
    return query, True


def _names(columns: Piece) -> tuple[str, ...]:
    """The names of the columns of a query. Raises BadSql for more than names."""
    found = []
    for one in columns.split():
        cursor = Cursor(one.source, one.tokens)
        found.append(cursor.name("a column"))
        if not cursor.done:
            raise error_at(
                columns.source,
                columns.start,
                "a table is made of columns or of a query: give the columns of a query no more "
                "than names",
            )
    return tuple(found)


def definition_of(
    create: Create,
    engine: Engine,
    constant: Constant,
    schema: pa.Schema | None = None,
    comments: Mapping[str, str] = NO_COMMENTS,
) -> Definition:
    """The definition of a new table; ``schema`` are the columns of its query, ``comments`` describe
    columns. Raises BadSql and Invalid."""
    key: tuple[str, ...] = ()
    if schema is None:
        assert create.columns is not None
        schema, key = schema_of(engine, create.columns.text, constant)
        schema = pa.schema([_described(one, comments.get(one.name)) for one in schema])
    options = dict(create.options)
    given = {name: options.pop(name) for name in _OPTIONS & options.keys()}
    return Definition.create(
        schema,
        time_column=_one(given, "time_column"),
        sort_by=_listed(given.get("sort_by", ())),
        labels=_labels(given.get("labels")),
        row_ids=_yes(given.get("row_ids", False)),
        key=key or _listed(options.pop("key", ())),
        properties=Properties.parse(options),
    )


def schema_of(
    engine: Engine, columns: str, constant: Constant
) -> tuple[pa.Schema, tuple[str, ...]]:
    """The columns as Arrow's, with their rules, and the key."""
    if any(one.word == "REFERENCES" for one in tokens_of(columns)):
        raise BadSql("REFERENCES is not a rule that a table can promise: leave it out")
    steps = [(f"CREATE TEMP TABLE {quoted(_TWIN)} (\n{columns}\n)", ())]
    made = engine.apart(steps, f"SELECT * FROM {quoted(_TWIN)}").schema
    found = engine.apart(steps, _COLUMNS).to_pylist()
    uuids = {one["column_name"] for one in found if one["data_type"] == "UUID"}
    rules: dict[str, dict[str, object]] = {field.name: {} for field in made}
    key: tuple[str, ...] = ()
    checks = _checks(columns)
    own = {name.lower(): name for name in made.names}
    for rule in engine.apart(steps, _RULES).to_pylist():
        # DuckDB has the names as the rule writes them.
        named = list(dict.fromkeys(own[one.lower()] for one in rule["constraint_column_names"]))
        match rule["constraint_type"]:
            case "PRIMARY KEY":
                key = tuple(named)
            case "NOT NULL":
                rules[named[0]]["not_null"] = True
            case "CHECK":
                _add_check(rules, named, _in_own_names(next(checks), own))
            case kind:
                raise BadSql(
                    f"{kind} is not a rule that a table can promise: use PRIMARY KEY for a key, or "
                    "leave it out"
                )
    for one in found:
        if one["is_generated"]:
            raise BadSql(
                f"column {one['column_name']} is generated, and a column holds what was written: "
                "leave it out, and compute it in queries"
            )
        if "ENUM(" in one["data_type"]:
            raise BadSql(
                f"column {one['column_name']} is an ENUM, which no column of a table is: make it "
                "VARCHAR, with CHECK (column IN ('one', 'other'))"
            )
        if one["column_default"] is not None:
            column = _column(made.field(one["column_name"]), uuids)
            value = constant(cast(f"({one['column_default']})", column))
            rules[one["column_name"]]["default"] = value
    fields = []
    for one in made:
        said = {name: value for name, value in rules[one.name].items() if value is not None}
        if one.name in key:
            said.pop("not_null", None)
        plain = _column(one, uuids)
        fields.append(rules_of(plain).changed(said, one.name).on(plain))
    return pa.schema(fields), key


def _column(made: pa.Field, uuids: Collection[str]) -> pa.Field:
    plain = pa.field(made.name, made.type)
    return as_uuid(rules_of(plain)).on(plain) if made.name in uuids else plain


def _described(column: pa.Field, comment: str | None) -> pa.Field:
    if comment is None:
        return column
    return rules_of(column).changed({"description": comment}, column.name).on(column)


def _checks(columns: str) -> Iterator[str]:
    """The conditions of the CHECKs, as they were written and in their order."""
    cursor = Cursor(columns)
    while not cursor.done:
        if cursor.take("CHECK") and cursor.word() == "(":
            yield cursor.one().text
        else:
            cursor.one()


def _in_own_names(condition: str, own: Mapping[str, str]) -> str:
    """A condition with the columns as the table spells them."""
    pieces, end = [], 0
    for token in tokens_of(condition):
        name = None if token.is_text else own.get(token.text.lower())
        if name is not None and name != token.text:
            pieces += [condition[end : token.start], quoted(name)]
            end = token.end
    return "".join([*pieces, condition[end:]])


def _add_check(rules: dict[str, dict[str, object]], columns: Sequence[str], condition: str) -> None:
    if len(columns) != 1:
        raise BadSql(
            f"the check {condition} is about {len(columns)} columns, expected one: a rule belongs "
            "to a column"
        )
    own = rules[columns[0]]
    own["check"] = condition if "check" not in own else f"{own['check']} AND {condition}"


def table_name(cursor: Cursor) -> str:
    name = cursor.name("a table")
    if cursor.word() == ".":
        raise cursor.wrong(f"tables are named without a schema, and {name} has one: leave it out")
    return name


def options_of(cursor: Cursor) -> dict[str, object]:
    """``(name = value, …)``."""
    inner = cursor.one().inside()
    if inner is None:
        raise cursor.wrong("expected options in parentheses: (name = value)")
    found: dict[str, object] = {}
    for part in inner.split():
        one = Cursor(inner.source, part.tokens)
        name = one.name("an option").lower()
        if one.done:
            found[name] = True
            continue
        one.need("=")
        value = one.rest()
        if not value.tokens:
            raise one.wrong("expected a value")
        found[name] = _constant(value)
    return found


def _constant(value: Piece) -> object:
    """The value of an option, as people write properties."""
    if len(value.tokens) == 1 and value.word in ("TRUE", "FALSE"):
        return value.word == "TRUE"
    if len(value.tokens) == 1:
        return value.tokens[0].text
    inner = value.inside()
    return value.text if inner is None else [one.tokens[0].text for one in inner.split()]


def _one(given: Mapping[str, object], name: str) -> str | None:
    value = given.get(name)
    return None if value is None else str(value)


def _listed(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(one.strip() for one in value.split(",") if one.strip())
    return tuple(str(one) for one in value) if isinstance(value, (list, tuple)) else ()


def _labels(value: object) -> dict[str, str] | None:
    if value is None:
        return None
    pairs = [one.partition("=") for one in _listed(value)]
    return {name: label for name, _, label in pairs}


def _yes(value: object) -> bool:
    if str(value).lower() in ("true", "1", "yes"):
        return True
    if str(value).lower() in ("false", "0", "no"):
        return False
    raise Invalid(f"row_ids is {value!r}, expected true or false")


def without_comments(source: str) -> tuple[str, dict[str, str]]:
    """A CREATE TABLE without ``COMMENT 'text'`` in its columns, which DuckDB does not parse, and
    these texts by column. Every other token stays where it is."""
    tokens = tokens_of(source)
    said: dict[str, str] = {}
    text_ = source
    column = ""
    for place, token in enumerate(tokens[:-1]):
        before = tokens[place - 1] if place else None
        if token.depth == 1 and before is not None and before.text in ("(", ","):
            column = token.text
        following = tokens[place + 1]
        if token.depth == 1 and token.word == "COMMENT" and following.is_text:
            said[column] = following.text
            gap = " " * (following.end - token.start)
            text_ = text_[: token.start] + gap + text_[following.end :]
    return text_, said
