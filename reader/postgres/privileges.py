"""What the user of a session may do, as PostgreSQL's ``has_…_privilege`` functions say it.

Rules:
- The answer is that of the token: its scopes, its tables and its policies. What a door refuses for
  want of a right is false here.
- A table that the caller does not see does not exist. An unknown name is an error, as in
  PostgreSQL, and an unknown number is null.
- No right can be granted on, and a session asks for the rights of its own user only.
- What is asked by columns or parameters is decided as the query runs, by the same expression as
  what is asked by constants.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from blockstore.reader.http.tokens import Scope
from blockstore.reader.postgres.catalog import (
    DATABASE,
    INFORMATION_SCHEMA,
    OWNER,
    PG_CATALOG,
    PUBLIC,
    READS,
    Known,
    oid_of,
    table_rights,
)
from blockstore.reader.postgres.catalog_columns import COLUMNS, PREFIX
from blockstore.reader.postgres.states import NO_FUNCTION, Refused
from blockstore.reader.query.sql.types import text

Arguments = Sequence[str]
Case = tuple[str, Sequence[str]]
"""A condition, and what the user may do where it holds."""

_OF_TABLE = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
_OF_COLUMN = ("SELECT", "INSERT", "UPDATE", "REFERENCES")
_PASSED_ON = (" WITH GRANT OPTION", " WITH ADMIN OPTION")
_NULL = "CAST(NULL AS BOOLEAN)"
_SHOWN = 100
"""So many characters of an unknown name are shown: the engine shortens a longer message at its end,
and there it says what is not there."""


def _table(what: Known, name: str, given: Arguments) -> str:
    every = _OF_COLUMN if name == "has_any_column_privilege" else _OF_TABLE
    user, (table, asked) = _taken(name, given, 2)
    key = _relation_key(what, table)
    keys = "[CAST(oid AS VARCHAR), lower(relname)]"
    place = _place(f'SELECT {keys}, {_restricted(what, "oid")} FROM "{PREFIX}pg_class"', key)
    cases = [(f"{place} = 1", table_rights(what)), (f"{place} = 2", READS), _catalogs(key)]
    return _answer(what, user, (table, asked), every, cases, _missing("relation", table))


def _column(what: Known, name: str, given: Arguments) -> str:
    user, (table, column, asked) = _taken(name, given, 3)
    relation = _relation_key(what, table)
    key = f"{relation} || chr(0) || CAST({column} AS VARCHAR)"
    keys = [
        f"{one} || chr(0) || {other}"
        for one in ("CAST(r.oid AS VARCHAR)", "lower(r.relname)")
        for other in ("CAST(c.attnum AS VARCHAR)", "c.attname")
    ]
    place = _place(
        f'SELECT [{", ".join(keys)}], {_restricted(what, "r.oid")} FROM "{PREFIX}pg_attribute" '
        f'AS c JOIN "{PREFIX}pg_class" AS r ON r.oid = c.attrelid',
        key,
    )
    cases = [(f"{place} = 1", table_rights(what)), (f"{place} = 2", READS), _catalogs(relation)]
    known = _place(
        f'SELECT [CAST(oid AS VARCHAR), lower(relname)], 1 FROM "{PREFIX}pg_class"', relation
    )
    of_relation = f""" || '" of relation "' || {_shown(table)}"""
    missing = (
        f"CASE WHEN {known} IS NULL THEN {_missing('relation', table)} "
        f"ELSE {_missing('column', column, of_relation)} END"
    )
    return _answer(what, user, (table, column, asked), _OF_COLUMN, cases, missing)


def _schema(what: Known, name: str, given: Arguments) -> str:
    user, (schema, asked) = _taken(name, given, 2)
    creates = ("CREATE",) if what.caller.may(Scope.DDL) else ()
    others = ("pg_catalog", str(PG_CATALOG), "information_schema", str(INFORMATION_SCHEMA))
    cases = [
        (_among(schema, "public", str(PUBLIC)), ("USAGE", *creates)),
        (_among(schema, *others), ("USAGE",)),
    ]
    missing = _missing("schema", schema)
    return _answer(what, user, (schema, asked), ("CREATE", "USAGE"), cases, missing)


def _database(what: Known, name: str, given: Arguments) -> str:
    user, (database, asked) = _taken(name, given, 2)
    cases = [(_among(database, what.database, str(DATABASE)), ("CONNECT",))]
    every = ("CREATE", "CONNECT", "TEMPORARY", "TEMP")
    return _answer(what, user, (database, asked), every, cases, _missing("database", database))


def _role(what: Known, name: str, given: Arguments) -> str:
    """There is one role, and it has the right to be itself; it is no
    member of those that PostgreSQL comes with."""
    user, (role, asked) = _taken(name, given, 2)
    cases: list[Case] = [
        (_among(role, what.user, str(OWNER)), ("MEMBER", "USAGE", "SET")),
        (f"starts_with(CAST({role} AS VARCHAR), 'pg_')", ()),
    ]
    every = ("MEMBER", "USAGE", "SET")
    return _answer(what, user, (role, asked), every, cases, _missing("role", role))


def _sequence(what: Known, name: str, given: Arguments) -> str:
    user, (sequence, asked) = _taken(name, given, 2)
    every = ("USAGE", "SELECT", "UPDATE")
    return _answer(what, user, (sequence, asked), every, [], _missing("relation", sequence))


def _all_may(right: str) -> Callable[[Known, str, Arguments], str]:
    """Of objects that everybody may use."""

    def written(what: Known, name: str, given: Arguments) -> str:
        user, (own, asked) = _taken(name, given, 2)
        return _answer(what, user, (own, asked), (right,), [("TRUE", (right,))], _NULL)

    return written


WRITES: Mapping[str, Callable[[Known, str, Arguments], str]] = {
    "has_any_column_privilege": _table,
    "has_column_privilege": _column,
    "has_database_privilege": _database,
    "has_function_privilege": _all_may("EXECUTE"),
    "has_language_privilege": _all_may("USAGE"),
    "has_schema_privilege": _schema,
    "has_sequence_privilege": _sequence,
    "has_table_privilege": _table,
    "has_type_privilege": _all_may("USAGE"),
    "pg_has_role": _role,
}
"""Each function in the engine's SQL, of its name and its arguments."""


def _taken(name: str, given: Arguments, count: int) -> tuple[str | None, Arguments]:
    """The user that is asked about, None for one's own, and the other arguments."""
    if len(given) == count:
        return None, given
    if len(given) == count + 1:
        return given[0], given[1:]
    raise Refused(
        NO_FUNCTION,
        f"the function {name} with {len(given)} arguments does not exist: it takes {count}, or "
        f"{count + 1} with a user before them",
    )


def _answer(
    what: Known,
    user: str | None,
    given: Arguments,
    every: Sequence[str],
    cases: Sequence[Case],
    missing: str,
) -> str:
    """The whole expression. The last of ``given`` has the privileges that are asked, of which one
    is enough; ``missing`` is the value where no case holds."""
    asked = f"CAST({given[-1]} AS VARCHAR)"
    words = f"string_split(regexp_replace(upper(trim({asked})), '\\s*,\\s*', ',', 'g'), ',')"
    known = _list([*every, *(one + more for one in every for more in _PASSED_ON)])
    one_is_null = " OR ".join(f"{one} IS NULL" for one in (*given, *([user] if user else ())))
    branches = [f"WHEN {one_is_null} THEN {_NULL}"]
    if user is not None:
        why = text(
            f"a session learns the rights of its own user, {what.user}, and of no other: leave "
            "the user out"
        )
        branches.append(f"WHEN NOT {_among(user, what.user, str(OWNER))} THEN {_error(why)}")
    unknown = f"""'unrecognized privilege type: "' || {asked} || '"'"""
    branches.append(f"WHEN NOT list_has_all({known}, {words}) THEN {_error(unknown)}")
    for condition, rights in cases:
        has = f"list_has_any({_list(rights)}, {words})" if rights else "FALSE"
        branches.append(f"WHEN {condition} THEN {has}")
    return f"CASE {' '.join(branches)} ELSE {missing} END"


def _place(rows: str, key: str) -> str:
    """What rows of keys and numbers have for a key: the greatest number, null without one. No
    column of theirs has a name that the key could mean."""
    return (
        f'(SELECT MAX("its number") FROM (SELECT UNNEST("its keys") AS "its key", "its number" '
        f'FROM ({rows}) AS "its rows" ("its keys", "its number")) AS "its names" '
        f'WHERE "its key" = {key})'
    )


def _restricted(what: Known, oid: str) -> str:
    """2 for a table that a policy restricts, and its index; 1 for another."""
    numbers = [
        str(number)
        for table in what.tables
        if table.restricted
        for number in (table.oid, oid_of("index", table.name))
    ]
    return f"CASE WHEN {oid} IN ({', '.join(numbers)}) THEN 2 ELSE 1 END" if numbers else "1"


def _relation_key(what: Known, own: str) -> str:
    """The name of a table as it is compared: without its schema, its quotes and its case."""
    schema = rf'^("?{re.escape(what.database)}"?\.)?"?public"?\.'
    name = f"regexp_replace(trim(CAST({own} AS VARCHAR)), {text(schema)}, '', 'i')"
    inner = f"""regexp_replace({name}, '^"(.*)"$', '\\1')"""
    return f"""lower(replace(replace({inner}, '"."', '.'), '""', '"'))"""


def _catalogs(key: str) -> Case:
    """Catalogs may be read."""
    names = [one if "." in one else f"pg_catalog.{one}" for one in COLUMNS]
    return f"{key} IN ({', '.join(map(text, {*names, *COLUMNS}))})", READS


def _among(own: str, *names: str) -> str:
    return f"(CAST({own} AS VARCHAR) IN ({', '.join(map(text, names))}))"


def _missing(kind: str, own: str, more: str = "") -> str:
    """An unknown number is null, and an unknown name an error."""
    name = f"CAST({own} AS VARCHAR)"
    why = f"""'{kind} "' || {_shown(own)}{more} || '" does not exist'"""
    return f"CASE WHEN regexp_full_match({name}, '[0-9]+') THEN {_NULL} ELSE {_error(why)} END"


def _shown(own: str) -> str:
    """A name in a message: on one line, and shortened."""
    name = f"regexp_replace(CAST({own} AS VARCHAR), '\\s+', ' ', 'g')"
    cut = f"left({name}, {_SHOWN}) || '…'"
    return f"CASE WHEN length({name}) > {_SHOWN} THEN {cut} ELSE {name} END"


def _error(why: str) -> str:
    return f"CAST(error({why}) AS BOOLEAN)"


def _list(words: Sequence[str]) -> str:
    return f"[{', '.join(map(text, words))}]"
