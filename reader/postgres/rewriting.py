"""What PostgreSQL's SQL has and the engine's does not, written as what both have.

Rules:
- The hidden columns of a catalog are constants. ``age`` finds every row of a catalog as old as
  every transaction, so that a client that reads only what is new reads everything.
- A text in braces is the list that it means where a list is needed.
- The places of an index's columns (``indkey``) are counted from 0, and a text of them has spaces.
- A function among tables that returns a catalog is that catalog.
- ``SIMILAR TO`` is a regular expression of PostgreSQL's; the engine's is another one.
"""

from __future__ import annotations

import re

from sqlglot import exp

from blockstore.reader.postgres.catalog_columns import COLUMNS
from blockstore.reader.postgres.formats import FORMATTED, formatted_calls
from blockstore.reader.postgres.states import FEATURE, Refused
from blockstore.reader.postgres.trees import arguments_of, type_name

CATALOGS = {
    "pg_default_acl": 826,
    "pg_tablespace": 1213,
    "pg_type": 1247,
    "pg_attribute": 1249,
    "pg_proc": 1255,
    "pg_class": 1259,
    "pg_authid": 1260,
    "pg_database": 1262,
    "pg_foreign_server": 1417,
    "pg_user_mapping": 1418,
    "pg_foreign_data_wrapper": 2328,
    "pg_am": 2601,
    "pg_attrdef": 2604,
    "pg_cast": 2605,
    "pg_constraint": 2606,
    "pg_conversion": 2607,
    "pg_index": 2610,
    "pg_language": 2612,
    "pg_namespace": 2615,
    "pg_opclass": 2616,
    "pg_operator": 2617,
    "pg_rewrite": 2618,
    "pg_trigger": 2620,
    "pg_opfamily": 2753,
    "pg_extension": 3079,
    "pg_foreign_table": 3118,
    "pg_policy": 3256,
    "pg_statistic_ext": 3381,
    "pg_collation": 3456,
    "pg_event_trigger": 3466,
    "pg_ts_dict": 3600,
    "pg_ts_parser": 3601,
    "pg_ts_config": 3602,
    "pg_ts_template": 3764,
    "pg_subscription": 6100,
    "pg_publication": 6104,
}
"""The numbers of the catalogs themselves."""

_HIDDEN = frozenset({"xmin", "tableoid"})
_OLDEST = 2_147_483_647
_VECTORS = frozenset({"indkey", "indoption"})
RETURNED = {
    "pg_show_all_settings": "pg_settings",
    "pg_lock_status": "pg_locks",
    "pg_cursor": "pg_cursors",
    "pg_prepared_statement": "pg_prepared_statements",
    "pg_prepared_xact": "pg_prepared_xacts",
    "pg_stat_get_activity": "pg_stat_activity",
}
_QUOTED = re.compile(r'\s*+(?:"((?:[^"\\]|\\.)*+)"\s*+|([^",{}]*+))(,|$)', re.DOTALL)
"""Possessive: its time is linear in a text of any spaces."""
_SIMILAR = re.compile(r"\\.|\[\^?+\]?+[^\]]*+(?:\]|\Z)|.", re.DOTALL)
_SIGNS = {"%": ".*", "_": ".", "(": "(?:", ".": "\\.", "^": "\\^", "$": "\\$"}
_GROUP = re.compile(r"(?<!\\)\((?!\?)")


def rewritten(tree: exp.Expression) -> exp.Expression:
    """The tree, of PostgreSQL's SQL, without what the engine does not have."""
    for column in list(tree.find_all(exp.Column)):
        if column.name.lower() in _HIDDEN and (catalog := _catalog_of(column)):
            _replace(column, _hidden(column.name.lower(), catalog))
    for node in list(tree.find_all(exp.Dot)):
        if isinstance(node.expression, exp.Anonymous) and node.this.name.lower() == "pg_catalog":
            call = node.expression
            if call.name.lower() in FORMATTED:
                node.replace(call)
                continue
            made = exp.func(call.name, *call.expressions, copy=False, dialect="postgres")
            node.set("expression", made)  # as it would be without its schema
    formatted_calls(tree)
    for node in list(tree.walk()):
        made = _made(node)
        if made is not None:
            if node is tree:
                return made
            node.replace(made)
    return tree


def _made(node: exp.Expression) -> exp.Expression | None:
    if isinstance(node, exp.Table):
        _return_catalog(node)
    elif isinstance(node, exp.Any | exp.All):
        node.set("this", listed(node.this))
    elif isinstance(node, exp.Cast):
        if node.to.is_type("array") and isinstance(node.this, exp.Literal):
            node.set("this", listed(node.this, has_type=True))
        elif _is_vector(node.this) and node.to.this in exp.DataType.TEXT_TYPES:
            spaced = [node.this, exp.Literal.string(" ")]
            return exp.Anonymous(this="array_to_string", expressions=spaced)
    elif isinstance(node, exp.Bracket) and _is_vector(node.this) and len(node.expressions) == 1:
        (place,) = node.expressions
        if not isinstance(place, exp.Slice):
            node.set("expressions", [_plus(exp.Paren(this=place), 1)])
    elif isinstance(node, exp.Substring):
        return _matched(node)
    elif isinstance(node, exp.Encode):
        return _encoded(node)
    elif isinstance(node, exp.SimilarTo):
        return _similar(node)
    elif isinstance(node, exp.Anonymous):
        return _called(node)
    return None


def _is_vector(node: exp.Expression | None) -> bool:
    own = node.unnest() if node is not None else None
    return isinstance(own, exp.Column) and own.name.lower() in _VECTORS


def _plus(node: exp.Expression, number: int) -> exp.Expression:
    return exp.Add(this=node, expression=exp.Literal.number(number))


def _replace(column: exp.Column, made: exp.Expression) -> None:
    is_result = isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
    column.replace(exp.alias_(made, column.name, quoted=True) if is_result else made)


def _hidden(name: str, catalog: str) -> exp.Expression:
    number = CATALOGS.get(catalog, 0) if name == "tableoid" else 1
    return exp.Cast(
        this=exp.Literal.number(number), to=exp.DataType.build("xid", dialect="postgres", udt=True)
    )


def _catalog_of(column: exp.Column) -> str:
    """The catalog whose hidden column this is; empty for a column of another table."""
    select = column.parent_select
    while select is not None:
        found = [one for one in select.find_all(exp.Table) if one.parent_select is select]
        if column.table:
            found = [one for one in found if one.alias_or_name.lower() == column.table.lower()]
        if found:
            return found[0].name.lower() if all(map(_is_catalog, found)) else ""
        select = select.parent_select
    return ""


def _is_catalog(table: exp.Table) -> bool:
    return table.db.lower() in ("", "pg_catalog") and table.name.lower() in COLUMNS


def _return_catalog(table: exp.Table) -> None:
    call = table.this.expression if isinstance(table.this, exp.Dot) else table.this
    if not isinstance(call, exp.Anonymous):
        return
    name = RETURNED.get(call.name.lower(), call.name.lower())
    if name in COLUMNS:
        if table.args.get("alias") is None:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(call.name)))
        table.set("this", exp.to_identifier(name))
        table.set("db", exp.to_identifier("pg_catalog"))


def listed(node: exp.Expression | None, *, has_type: bool = False) -> exp.Expression | None:
    """A list for a constant text in braces; another node as it is. Where a cast gives its type, the
    values are texts, of which the engine makes that type: ``007`` is a text of three letters."""
    inner = node.unnest() if node is not None else None
    if not isinstance(inner, exp.Literal) or not inner.is_string:
        return node
    text = inner.this.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return node
    values = _values(text[1:-1])
    if values is None:
        return node
    plain = [one.name for one in values if isinstance(one, exp.Literal)]
    if not has_type and all(re.fullmatch(r"-?\d+", one) for one in plain):
        values = [
            exp.Literal.number(one.name) if isinstance(one, exp.Literal) else one for one in values
        ]
    return exp.Array(expressions=values)


def _values(text: str) -> list[exp.Expression] | None:
    """The values of a text without its braces; None where it has lists within."""
    at, found = 0, list[exp.Expression]()
    while at < len(text):
        one = _QUOTED.match(text, at)
        if one is None:
            return None
        quoted, plain, at = one[1], one[2].strip() if one[2] else "", one.end()
        if quoted is None and plain.upper() == "NULL":
            found.append(exp.Null())
        else:
            own = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            found.append(exp.Literal.string(own))
    return found


def _matched(node: exp.Substring) -> exp.Expression | None:
    """``substring(text from pattern)``: what is in its parentheses, or all that matches."""
    pattern = node.args.get("start")
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or node.args.get("length"):
        return None
    group = exp.Literal.number(1 if _GROUP.search(pattern.this) else 0)
    found = exp.Anonymous(this="regexp_extract", expressions=[node.this, pattern, group])
    return exp.Nullif(this=found, expression=exp.Literal.string(""))


def _encoded(node: exp.Encode) -> exp.Expression | None:
    """``encode(bytes, format)``; None for another one."""
    form = node.args.get("charset")
    match form.name.lower() if isinstance(form, exp.Expression) else "":
        case "hex":
            return exp.Lower(this=exp.Hex(this=node.this))
        case "base64":
            return exp.ToBase64(this=node.this)
        case "escape":
            return exp.cast(node.this, "text")
    return None


def _similar(node: exp.SimilarTo) -> exp.Expression:
    """``SIMILAR TO`` a constant. Raises Refused for another pattern, and for ESCAPE."""
    pattern = node.expression
    if (
        isinstance(node.parent, exp.Escape)
        or not isinstance(pattern, exp.Literal)
        or not pattern.is_string
    ):
        raise Refused(
            FEATURE, "SIMILAR TO needs a text in the statement, without ESCAPE: use regexp_matches"
        )
    found = _SIMILAR.sub(lambda match: _SIGNS.get(match[0], match[0]), str(pattern.this))
    made = [node.this, exp.Literal.string(found), exp.Literal.string("s")]
    return exp.Anonymous(this="regexp_full_match", expressions=made)


def _called(node: exp.Anonymous) -> exp.Expression | None:
    name = node.name.lower()
    if name == "age":
        return _aged(node)
    if name == "generate_subscripts" and _is_vector(arguments_of(node)[0]):
        places = exp.Anonymous(this="range", expressions=[exp.func("len", arguments_of(node)[0])])
        return exp.Anonymous(this="unnest", expressions=[places])  # from 0
    if name in ("all", "any", "some"):  # with a space before its parenthesis it is a function
        node.set("expressions", [listed(one) for one in node.expressions])
    return None


def _aged(node: exp.Anonymous) -> exp.Expression | None:
    """``age`` of a transaction; None for one of times."""
    given = arguments_of(node)
    inner = given[0].unnest() if len(given) == 1 else None
    if isinstance(inner, exp.Cast) and type_name(inner.to) == "XID":
        return exp.cast(exp.Literal.number(_OLDEST), "int")  # a number alone would be a place
    if isinstance(inner, exp.Column) and inner.name.lower().endswith(("xid", "transactionid")):
        return exp.cast(exp.Literal.number(0), "int")
    return None
