"""Names within texts: PostgreSQL's functions that quote them and take them apart, its ``format``,
and functions among tables, in the engine's SQL.

Rules:
- A name is quoted only where it needs quotes, so that clients show it as it is.
- A function in FROM that returns one value is a table of one row, whose column has its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import cast

from sqlglot import exp

from blockstore.reader.postgres.catalog_columns import PREFIX
from blockstore.reader.query.sql.types import text

_PARTS = re.compile(r'"((?:[^"]|"")*)"|([^".]+)')
_SPECIFIERS = re.compile(r"%(?:([sIL])|%)")


def quoted_name(own: str) -> str:
    """``quote_ident``, of an expression of the engine."""
    own = f"CAST({own} AS VARCHAR)"
    return (
        f"CASE WHEN regexp_full_match({own}, '[a-z_][a-z0-9_]*') THEN {own} "
        f"ELSE chr(34) || replace({own}, chr(34), chr(34) || chr(34)) || chr(34) END"
    )


def quoted_text(own: str) -> str:
    """``quote_literal``, likewise."""
    own = f"CAST({own} AS VARCHAR)"
    return f"(chr(39) || replace({own}, chr(39), chr(39) || chr(39)) || chr(39))"


def parsed_name(own: str) -> str:
    """``parse_ident``: the parts of a name. What is no constant is taken apart at its points."""
    if not re.fullmatch(r"'(?:[^']|'')*'", own):
        return f"string_split(replace({own}, chr(34), ''), '.')"
    name = own[1:-1].replace("''", "'")
    parts = [
        quoted.replace('""', '"') if quoted or not plain else plain.strip().lower()
        for quoted, plain in _PARTS.findall(name)
    ]
    return f"[{', '.join(text(one) for one in parts)}]"


def class_by(own: str) -> str:
    """The number of a table by a text that is not known yet: a number, or a name."""
    own = f"CAST({own} AS VARCHAR)"
    return (
        f'COALESCE(TRY_CAST({own} AS UINTEGER), (SELECT MAX(n.oid) FROM "{PREFIX}pg_class" AS n '
        f"WHERE n.relname = {_last_of(own)}))"
    )


def type_named(own: str, shown: str) -> str:
    """``shown`` of the type that a text names."""
    return (
        f'(SELECT MAX({shown}) FROM "{PREFIX}pg_type" AS n WHERE n.typname = '
        f"{_last_of(f'CAST({own} AS VARCHAR)')})"
    )


def _last_of(own: str) -> str:
    """The name without its schema and its quotes."""
    return f"""regexp_extract({own}, '([^".]+)"?$', 1)"""


def formatted(node: exp.Format) -> str | None:
    """``format`` with a constant text, of arguments that are translated already; None for another
    one, as DuckDB's own."""
    pattern = node.this
    if not isinstance(pattern, exp.Literal) or not _SPECIFIERS.search(pattern.this):
        return None
    values = [one.sql(dialect="duckdb") for one in node.expressions]
    writes: dict[str, Callable[[str], str]]
    writes = {"I": quoted_name, "L": quoted_text, "s": lambda own: own}
    pieces, end = [], 0
    for found in _SPECIFIERS.finditer(pattern.this):
        pieces.append(text(pattern.this[end : found.start()]))
        end = found.end()
        if found[1] is None:
            pieces.append(text("%"))
        elif not values:
            return None
        else:
            value = values.pop(0)
            pieces.append(f"COALESCE(CAST({writes[found[1]](value)} AS VARCHAR), '')")
    pieces.append(text(pattern.this[end:]))
    return f"({' || '.join(one for one in pieces if one != text(''))})"


def among_tables(node: exp.Table, scalars: Collection[str]) -> exp.Expression:
    """A function in FROM, with the name of its column; ``scalars`` return one value."""
    call = node.this.expression if isinstance(node.this, exp.Dot) else node.this
    alias = node.args.get("alias")
    if isinstance(call, exp.Anonymous) and call.name.lower() in scalars:
        name = alias.this if alias is not None else exp.to_identifier(call.name.lower())
        row = exp.select(exp.alias_(call, name.copy())).subquery(name.copy())
        row.set("joins", node.args.get("joins"))
        return cast("exp.Expression", row)
    if alias is None or alias.this is None or alias.columns:
        return node
    if isinstance(node.this, exp.ExplodingGenerateSeries):
        alias.set("columns", [alias.this.copy()])
        return node
    if not isinstance(node.this, exp.StringToArray):
        return node
    row = exp.select(exp.alias_(node.this, alias.this.copy()))
    made = row.subquery(alias.this.copy())
    made.set("joins", node.args.get("joins"))
    return cast("exp.Expression", made)


def is_text(node: exp.Expression) -> bool:
    """Whether an expression is a text that is made there."""
    inner = node.unnest()
    if isinstance(inner, exp.Cast):
        return inner.to.this in exp.DataType.TEXT_TYPES
    return isinstance(inner, exp.DPipe | exp.Format | exp.Concat)


def labels(words: Sequence[str], at: int) -> bool:
    """Whether the word ``SELECT`` at a place is the name of a column, which sqlglot refuses."""
    after = words[at + 1] if at + 1 < len(words) else ""
    named = words[at] == "SELECT" and at > 0 and words[at - 1] == "AS"
    return named and after in ("", ",", ")", "FROM")
