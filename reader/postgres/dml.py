"""Statements that change rows: the types of their parameters, and what a client is sent at their
end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller
from blockstore.reader.jobs.store import Job
from blockstore.reader.postgres import types as t
from blockstore.reader.postgres.inference import parameter_types
from blockstore.reader.postgres.sampling import columns_of_tables, merged
from blockstore.reader.postgres.spelling import for_sqlglot
from blockstore.reader.postgres.texts import Part
from blockstore.reader.query.sql.types import quoted
from blockstore.reader.statements.clauses import Merge
from blockstore.reader.statements.merging import with_deed
from blockstore.reader.statements.reading import read_dml

_TAGS = {"INSERT": "INSERT 0", "TRUNCATE": "TRUNCATE TABLE"}
_COUNTS = ("inserted", "updated", "deleted")


def tag_of(part: Part, rows: int) -> str:
    """What a client is sent at the end of a statement that changed so many rows."""
    verb = part.words[0]
    return _TAGS[verb] if verb == "TRUNCATE" else f"{_TAGS.get(verb, verb)} {rows}"


def counted(counts: Mapping[str, object]) -> int:
    """How many rows a statement changed: not those that it met and left as they were."""
    found = (counts.get(name) for name in _COUNTS)
    return sum(count for count in found if isinstance(count, int) and count > 0)


def counted_by(job: Job) -> int:
    """How many rows a job changed."""
    return counted({} if job.outcome is None else job.outcome.written or {})


def returned_by(sql: str) -> str:
    """A query with the columns that a statement returns. Raises BadSql."""
    dml = read_dml(sql)
    assert dml.returning is not None, "the statement returns rows"
    shown = dml.returning.text
    if isinstance(dml, Merge):
        shown = with_deed(dml, "CAST(NULL AS VARCHAR)")
    return f"SELECT {shown} FROM {quoted(dml.target.name)} AS {quoted(dml.target.alias)}"


def dml_types(
    gateway: Gateway, caller: Caller, part: Part, given: Sequence[int]
) -> tuple[int, ...]:
    """The types of the parameters of a statement: those that the client gave, and those of the
    columns that they go to or are compared with."""
    try:
        tree = sqlglot.parse_one(for_sqlglot(part.tokens, part.sql), dialect="duckdb")
    except SqlglotError:
        names = {str(number): t.TEXT for number in range(1, len(given) + 1)}
        return merged(names, given)
    tables = sorted({table.name for table in tree.find_all(exp.Table)})
    columns = columns_of_tables(gateway, caller, tables)
    found = dict(_inserted(tree, gateway, caller))
    for name, oid in _compared(tree, columns):
        found.setdefault(name, oid)
    for name, oid in _within(tree, gateway, columns).items():
        found.setdefault(name, oid)
    for parameter in tree.find_all(exp.Parameter, exp.Placeholder):
        found.setdefault(parameter.name, t.TEXT)
    return merged(found, given)


def _inserted(tree: exp.Expression, gateway: Gateway, caller: Caller) -> Iterator[tuple[str, int]]:
    """The parameters in VALUES or of a SELECT, which have the types of their columns."""
    for named, rows in _into(tree):
        table = tree.this.find(exp.Table)
        if table is None:
            return
        types = columns_of_tables(gateway, caller, [table.name])
        names = named or list(types)
        for values in rows:
            for name, value in zip(names, values, strict=False):
                if _is_parameter(value) and name.lower() in types:
                    yield value.name, types[name.lower()]


def _into(
    tree: exp.Expression,
) -> Iterator[tuple[list[str], list[list[exp.Expression]]]]:
    """What a statement inserts: the columns that it names, and rows of values."""
    if isinstance(tree, exp.Merge):
        clauses = [one.args.get("then") for one in tree.find_all(exp.When)]
        for then in clauses:
            if isinstance(then, exp.Insert) and isinstance(then.expression, exp.Tuple):
                named = then.this.expressions if isinstance(then.this, exp.Tuple) else []
                yield [one.name for one in named], [then.expression.expressions]
    if not isinstance(tree, exp.Insert):
        return
    target, given = tree.this, tree.expression
    names = [one.name for one in target.expressions] if isinstance(target, exp.Schema) else []
    if isinstance(given, exp.Values):
        rows = given.expressions
        yield names, [one.expressions if isinstance(one, exp.Tuple) else [one] for one in rows]
    elif isinstance(given, exp.Select):
        yield names, [[one.unalias() for one in given.expressions]]


def _compared(tree: exp.Expression, columns: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for node in tree.find_all(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In):
        sides = [node.this, *([node.expression] if node.args.get("expression") else [])]
        sides += node.args.get("expressions") or []
        oid = next((columns.get(one.name.lower(), 0) for one in sides if _is_column(one)), 0)
        for one in sides:
            if oid and _is_parameter(one):
                yield one.name, oid


def _within(
    tree: exp.Expression, gateway: Gateway, columns: Mapping[str, int]
) -> Mapping[str, int]:
    """The parameters within its conditions and new values, with the types that they would have in a
    query: ``n = n + $1``, ``id = ANY($2)``."""
    shown = [one.sql(dialect="duckdb") for one in _expressions(tree)]
    if not shown:
        return {}
    answer = json.loads(gateway.engine.syntax(f"SELECT {', '.join(shown)}"))
    statements = answer.get("statements") or [{"node": {}}]
    return parameter_types(statements[0]["node"], columns)


def _expressions(node: exp.Expression) -> Iterator[exp.Expression]:
    """The expressions and queries of a statement that have parameters, each as a whole; not those
    that are only a parameter."""
    if isinstance(node, exp.Condition | exp.Query):
        if not _is_parameter(node) and node.find(exp.Parameter, exp.Placeholder):
            yield exp.Paren(this=node.copy()) if isinstance(node, exp.Query) else node
        return
    for child in node.iter_expressions():
        yield from _expressions(child)


def _is_column(node: exp.Expression) -> bool:
    return isinstance(node, exp.Column)


def _is_parameter(node: exp.Expression) -> bool:
    return isinstance(node, exp.Parameter | exp.Placeholder)
