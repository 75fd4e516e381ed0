"""A client's SQL in the engine's: names without a schema, and catalogs as rows that come with it.

Rules:
- The engine's SQL is used as it is. Only what it cannot mean is translated: ``public.`` before a
  table's name, queries of PostgreSQL's catalogs, and what DuckDB's parser refuses; and two names of
  types that hold fewer digits in DuckDB, so that no digit of a PostgreSQL client is lost.
- What was translated is admitted like any other query: translation gives no access to anything.
- Rows of a catalog are those that the caller may know (``catalog.py``).
"""

from __future__ import annotations

import itertools
import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from blockstore.reader.doors.seen import names_seen
from blockstore.reader.errors import BadSql
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller
from blockstore.reader.postgres.backends import Backend, Backends, endings_of
from blockstore.reader.postgres.catalog import Known, known, rows_of
from blockstore.reader.postgres.catalog_columns import COLUMNS, PREFIX
from blockstore.reader.postgres.formats import FORMATTED, PostgresSql
from blockstore.reader.postgres.functions import FUNCTIONS, Translation
from blockstore.reader.postgres.naming import labels
from blockstore.reader.postgres.prepared import Spelled
from blockstore.reader.postgres.rewriting import RETURNED
from blockstore.reader.postgres.states import FEATURE, Refused
from blockstore.reader.postgres.texts import Kind, Part
from blockstore.reader.postgres.unnesting import beside
from blockstore.reader.postgres.variables import Variables
from blockstore.reader.statements.tokens import Token, tokens_of
from blockstore.reader.tables.names import folded

_SCHEMAS = frozenset({"pg_catalog", "information_schema"})
_BARE = frozenset(name for name in COLUMNS if "." not in name)
_WORDS = frozenset(
    {"current_user", "session_user", "current_role", "current_catalog", "current_schema", "user"}
)
"""Functions that are called without parentheses."""
_NUMBERED = frozenset({"REGCLASS", "REGTYPE", "REGNAMESPACE"})
"""Types that make a number of an object's name."""

_LISTED = frozenset({"OID", "REGTYPE", "REGCLASS", "REGPROC"})
"""Types of which sqlglot reads no list."""
_TYPES = {"FLOAT": "DOUBLE", "NUMERIC": "DECIMAL(38, 9)", "DECIMAL": "DECIMAL(38, 9)"}
"""Where no digits are given: FLOAT has 32 bits in DuckDB and 64 in PostgreSQL, NUMERIC three digits
after the point and as many as there are."""
_HEX, _PAIR = re.compile(r"\\x(?:[0-9a-fA-F]{2})*"), re.compile("..")
_LOCKS = frozenset({"UPDATE", "SHARE", "NO", "KEY"})
_CASTS = frozenset({"CAST", "TRY_CAST"})

LONGEST = 64 * 1024
"""Characters; sqlglot takes a second for so many."""


class Untranslated(BadSql):
    """A text that sqlglot cannot translate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the spelling of names depends on."""

    gateway: Gateway
    caller: Caller
    database: str
    user: str
    variables: Variables
    backends: Backends
    own: Backend
    """The session itself."""


def spelled(part: Part, scene: Scene) -> Spelled:
    """The statement in the engine's SQL. Raises BadSql for one that cannot be translated, and
    UnknownTable for a catalog that there is not."""
    part = beside(_typed(part))
    sql = _without_schema(part, scene)
    if part.kind is not Kind.QUERY:
        return Spelled(sql=sql)
    called = range(len(part.tokens))
    if _names_catalog(part) or any(_formats(part.tokens, at) for at in called):
        return _translated(part, scene)
    if json.loads(scene.gateway.engine.syntax(sql))["error"]:
        if any(before == "FOR" and word in _LOCKS for before, word in pairwise(part.words)):
            raise Refused(
                FEATURE,
                "there are no locks of rows here: leave FOR UPDATE out; a COMMIT fails where "
                "another writer has changed the same rows",
            )
        with suppress(Untranslated):
            return _translated(part, scene)
    return Spelled(sql=sql)  # the engine says what is wrong with it, if something is


def _typed(part: Part) -> Part:
    """The statement with the engine's names of types that mean something else there, and with
    bytes as the engine writes them: each with its own ``\\x``."""
    tokens, sql = part.tokens, part.sql
    columns = _columns(part)
    for at in reversed(range(1, len(tokens))):
        if tokens[at].word == "BYTEA" and _casts_to(tokens, at):
            given = tokens[at - 2] if at > 1 else tokens[at]
            own = bytes_of(given.text) if given.is_text else None
            if own is not None:
                sql = f"{sql[: given.start]}{own}{sql[given.end :]}"
        name = _TYPES.get(tokens[at].word)
        digits = at + 1 < len(tokens) and tokens[at + 1].text == "("
        if name is None or digits or not (at in columns or _casts_to(tokens, at)):
            continue
        sql = sql[: tokens[at].start] + name + sql[tokens[at].end :]
    return part if sql == part.sql else replace(part, sql=sql, tokens=tuple(tokens_of(sql)))


def bytes_of(text: str) -> str | None:
    """The constant of the engine for bytes that PostgreSQL's hex says; None for another text."""
    if _HEX.fullmatch(text) is None:
        return None
    return "'" + _PAIR.sub(r"\\x\g<0>", text.removeprefix("\\x")) + "'"


def _casts_to(tokens: tuple[Token, ...], at: int) -> bool:
    """Whether a token is the type of a cast: after ``::``, or before the end of a CAST."""
    if tokens[at - 1].text == "::":
        return True
    ends = tokens[at + 1].text if at + 1 < len(tokens) else ""
    if tokens[at - 1].word != "AS" or ends not in (")", "["):
        return False
    depth = 0
    for place in reversed(range(at)):
        depth += {")": 1, "(": -1}.get(tokens[place].text, 0) if not tokens[place].is_text else 0
        if depth < 0:
            return place > 0 and tokens[place - 1].word in _CASTS
    return False


def _columns(part: Part) -> frozenset[int]:
    """The places of a definition at which a type may be: not those of names, and none of a query
    that it ends with."""
    if part.kind is not Kind.DEFINE:
        return frozenset()
    words = part.words
    end = words.index("AS") if "AS" in words else len(words)
    named = {"(", ",", ".", "TABLE", "EXISTS", "COLUMN", "ADD", "ALTER", "DROP", "RENAME", "TO"}
    return frozenset(at for at in range(1, end) if words[at - 1] not in named)


def for_sqlglot(tokens: tuple[Token, ...], sql: str) -> str:
    """The text as sqlglot reads it: ``$1,$2`` would begin a text in ``$`` for it, ``oid[]`` is no
    type, and ``select`` no name of a column."""
    pieces, end = [], 0
    words = [one.word for one in tokens]
    for at, (token, after) in enumerate(zip(tokens, (*tokens[1:], None), strict=True)):
        if token.word.startswith("$"):
            pieces += [sql[end : token.end], " "]
            end = token.end
        elif token.word in _LISTED and after is not None and after.text == "[":
            pieces += [sql[end : token.start], "uinteger"]
            end = token.end
        elif labels(words, at):
            pieces += [sql[end : token.start], f'"{token.text}"']
            end = token.end
    return "".join([*pieces, sql[end:]])


def _names_catalog(part: Part) -> bool:
    tokens = part.tokens
    for at, token in enumerate(tokens):
        if token.is_text:
            if _is_braced(tokens, at):
                return True
            continue
        name = token.text.lower()
        if name in _SCHEMAS or name in _BARE or (token.word and name in _WORDS - {"user"}):
            return True
        if _is_called(tokens, at, FUNCTIONS) or _is_called(tokens, at, RETURNED):
            return True
        if at and token.word in _NUMBERED and tokens[at - 1].text in ("::", "AS", "as"):
            return True
    return False


def _is_braced(tokens: tuple[Token, ...], at: int) -> bool:
    """Whether a text in braces is a list: the engine's lists have brackets."""
    if not (tokens[at].text.startswith("{") and tokens[at].text.endswith("}")):
        return False
    before = [one.word or one.text for one in tokens[max(at - 2, 0) : at]]
    after = [one.text for one in tokens[at + 1 : at + 4]]
    every = len(before) == 2 and before[0] in ("ANY", "ALL", "SOME") and before[1] == "("
    return every or (after[:1] == ["::"] and after[2:] == ["["])


def _is_called(tokens: tuple[Token, ...], at: int, names: object) -> bool:
    after = tokens[at + 1].text if at + 1 < len(tokens) else ""
    assert hasattr(names, "__contains__"), "names are a set or a mapping"
    return after == "(" and not tokens[at].is_text and tokens[at].text.lower() in names


def _formats(tokens: tuple[Token, ...], at: int) -> bool:
    """Whether a function with a format is called; ``to_timestamp`` also has one value alone."""
    if not _is_called(tokens, at, FORMATTED):
        return False
    if tokens[at].text.lower() != "to_timestamp":
        return True
    outer = tokens[at].depth
    inside = itertools.takewhile(lambda one: one.depth > outer, tokens[at + 2 :])
    return any(one.text == "," and one.depth == outer + 1 for one in inside)


_BEFORE_TABLES = frozenset({"from", "join", "into", "update"})
"""Words that come before the name of a table."""


def _without_schema(part: Part, scene: Scene) -> str:
    """The text with spaces for ``public.`` before the name of a table, so that places stay."""
    tokens, sql = part.tokens, part.sql
    if not any(one.text.lower() == "public" and not one.is_text for one in tokens):
        return sql
    names = {folded(name) for name in names_seen(scene.gateway, scene.caller)}
    for at in range(len(tokens) - 2):
        schema, dot, table = tokens[at : at + 3]
        if schema.text.lower() != "public" or schema.is_text or dot.text != ".":
            continue
        first, before = at, tokens[at - 2 : at] if at >= 2 else ()
        if len(before) == 2 and before[1].text == "." and before[0].text == scene.database:
            first = at - 2
        # An unknown one is reported by its name. Elsewhere public may be an alias.
        is_named = first > 0 and tokens[first - 1].text.lower() in _BEFORE_TABLES
        if folded(table.text) not in names and part.kind is not Kind.DEFINE and not is_named:
            continue
        start = tokens[first].start
        sql = sql[:start] + " " * (table.start - start) + sql[table.start :]
    return sql


def _translated(part: Part, scene: Scene) -> Spelled:
    """The query by sqlglot, with the catalogs that it names. Raises Untranslated."""
    if len(part.sql) > LONGEST:
        raise Untranslated(
            f"the SQL has {len(part.sql):,} characters, and a query of PostgreSQL's catalogs or "
            f"functions at most {LONGEST:,}"
        )
    what = _known(scene)
    try:
        tree = sqlglot.parse_one(for_sqlglot(part.tokens, part.sql), read=PostgresSql)
        endings = endings_of(tree)
        made = Translation(what).of(tree)
        # What has no counterpart would be left out with a warning.
        text = made.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        reason = str(error).splitlines()[0][:200]
        raise Untranslated(f"the SQL cannot be translated for the engine: {reason}") from error
    except RecursionError:
        raise Untranslated("the SQL is nested too deeply: split it with WITH") from None
    named = sorted({one.name for one in made.find_all(exp.Table) if one.name.startswith(PREFIX)})
    return Spelled(sql=text, catalogs=tuple(named), translated=True, endings=endings)


def catalog_rows(spelled: Spelled, scene: Scene) -> dict[str, pa.Table]:
    """The rows of the catalogs that a query names, as they are now."""
    if not spelled.catalogs:
        return {}
    what = _known(scene)
    return {name: rows_of(name.removeprefix(PREFIX), what) for name in spelled.catalogs}


def _known(scene: Scene) -> Known:
    return known(
        scene.gateway,
        scene.caller,
        scene.database,
        scene.user,
        scene.variables,
        process=scene.own.process,
        sessions=tuple(scene.backends.of(scene.caller)),
    )
